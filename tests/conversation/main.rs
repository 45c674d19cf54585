//! Conversations: the contents of the sequence after every change of the messages, and the tokens that are read for it.

mod full;
mod models;
mod saved;
mod summaries;
mod wander;

use std::ops::Range;

use common::random::Rng;
use common::synthetic::SyntheticModel;
use gleed::conversation::{
    Conversation, ConversationError, ConversationLimits, Desk, DeskLimits, Entry, Keep, Put, Script, Summary, Template,
};
use gleed::host::AlignedBytes;
use gleed::token::{DecodeOptions, TokenKind, Tokenizer};
use gleed::turns::{Message, Piece, Role, ToolResult, TurnFormat, TurnText, Turns};
use gleed::{Engine, EngineError, Limits, Model, Plan, SeqId};

const FILE: &[u8] = include_bytes!("../../examples/assets/gleed-tales-q8_0.gguf");
const CONTEXT: usize = 300;
/// Most tokens of a conversation with a model that forgets tokens.
const LONGEST: usize = 1000;
const REPLIES: usize = 40;
const SMALL: ConversationLimits = ConversationLimits { replies: REPLIES, tokens: 0 };
const DESK: DeskLimits = DeskLimits { context: LONGEST, text: 8000, word: 200, replies: REPLIES };

type Said = (Role, String);

/// An engine with four sequences.
struct Host<'m, 'a> {
    engine: Engine<'m, 'a>,
    /// Another engine, which reads everything again.
    other: Engine<'m, 'a>,
    tokenizer: &'a Tokenizer<'a, 'a>,
    desk: Desk<'a>,
    limits: ConversationLimits,
}

/// Calls `test` with an engine of the demo model.
fn with_host(test: impl FnOnce(&mut Host<'_, '_>)) {
    with_model(FILE, Limits { context: CONTEXT, sequences: 4, rows: 64, ..Limits::default() }, test);
}

/// Calls `test` with an engine of a model that takes the tokens of the demo model.
fn with_model(file: &[u8], limits: Limits, test: impl FnOnce(&mut Host<'_, '_>)) {
    let demo = Model::open(FILE).unwrap();
    let mut tables = AlignedBytes::new(Tokenizer::plan(demo.gguf()).unwrap());
    let tokenizer = Tokenizer::new(demo.gguf(), tables.bytes()).unwrap();
    let model = Model::open(file).unwrap();
    let plan = Plan::new(&model, &limits).unwrap();
    let mut desk = AlignedBytes::new(Desk::plan(&tokenizer, &DESK).unwrap());
    let desk = Desk::new(&tokenizer, &DESK, desk.bytes()).unwrap();
    let mut memory = [plan.bytes(), plan.bytes()].map(AlignedBytes::new);
    let [engine, other] = memory.each_mut().map(|memory| Engine::new(&model, &plan, memory.bytes()).unwrap());
    let limits = ConversationLimits::of(engine.cache().geometry(), &DESK);
    test(&mut Host { engine, other, tokenizer: &tokenizer, desk, limits });
}

fn entries(messages: &[Said]) -> Vec<Entry<'_>> {
    messages.iter().map(|(role, text)| Entry::Message(Message { role: *role, text })).collect()
}

impl Host<'_, '_> {
    fn talk<'t>(&mut self, memory: &'t mut AlignedBytes) -> Conversation<'t> {
        Conversation::new(self.engine.open().unwrap(), &self.limits, memory.bytes()).unwrap()
    }

    /// Saves a conversation, closes its sequence, and returns the conversation that is loaded from the bytes.
    fn reload<'t>(
        &mut self,
        talk: &Conversation<'_>,
        messages: &[Said],
        memory: &'t mut AlignedBytes,
    ) -> Conversation<'t> {
        let entries = entries(messages);
        let mut file = vec![0; talk.saved_len(&self.engine, &entries).unwrap()];
        assert_eq!(talk.save(&self.engine, &entries, &mut file), Ok(file.len()));
        self.engine.close(talk.seq()).unwrap();
        let (loaded, saved) = Conversation::load(&mut self.engine, &file, &self.limits, memory.bytes()).unwrap();
        assert!(saved.entries().eq(entries));
        // Without room for tokens or for a snapshot, they are gone.
        if self.limits.tokens > 0 || self.engine.seq_len(loaded.seq()).unwrap() > 0 {
            let mut again = vec![0; file.len()];
            let entries: Vec<Entry<'_>> = saved.entries().collect();
            assert_eq!(loaded.save(&self.engine, &entries, &mut again), Ok(file.len()));
            assert!(file == again);
        }
        loaded
    }

    fn ids(&self, seq: SeqId) -> Vec<u32> {
        (0..self.engine.seq_len(seq).unwrap()).map(|at| self.engine.cache().token(seq, at).unwrap()).collect()
    }

    /// Updates the conversation, reads its new tokens, and compares the logits with those of an engine that reads
    /// everything. Returns the number of tokens read, and the entries that were left out.
    fn read(
        &mut self,
        talk: &mut Conversation<'_>,
        script: &Script<'_>,
        keep: &Keep<'_>,
        messages: &[Said],
    ) -> (usize, Range<usize>) {
        let before = self.engine.metrics().saved;
        let new = talk.update(&mut self.engine, script, keep, &entries(messages), &mut self.desk).unwrap();
        assert_eq!(new.position, self.engine.seq_len(talk.seq()).unwrap());
        let (saved, kept) = (self.engine.metrics().saved, self.engine.cache().computed(talk.seq()).unwrap());
        assert_eq!(saved.conversation - before.conversation, kept as u64);
        assert_eq!(saved.checkpoint, before.checkpoint);
        let logits = self.engine.prefill(talk.seq(), new.tokens).unwrap().to_vec();
        let (read, left_out) = (new.tokens.len(), new.left_out);
        let seq = self.other.open().unwrap();
        assert!(self.other.prefill(seq, &self.ids(talk.seq())).unwrap() == logits);
        self.other.close(seq).unwrap();
        (read, left_out)
    }

    /// Feeds `len` random tokens as a reply, and returns its text, whose encoding may be other tokens.
    fn reply(&mut self, talk: &Conversation<'_>, rng: &mut Rng, len: usize) -> String {
        self.reply_ids(talk, rng, len).0
    }

    /// Feeds `len` random tokens as a reply, and returns its text and the tokens.
    fn reply_ids(&mut self, talk: &Conversation<'_>, rng: &mut Rng, len: usize) -> (String, Vec<u32>) {
        let mut ids = Vec::new();
        while ids.len() < len {
            let id = rng.below(1024) as u32;
            if self.tokenizer.kind(id) == TokenKind::Normal {
                ids.push(id);
                self.engine.decode_step(talk.seq(), id).unwrap();
            }
        }
        (self.decode(&ids, false), ids)
    }

    fn decode(&self, ids: &[u32], starts_text: bool) -> String {
        let options = DecodeOptions { render_special: true, starts_text };
        self.tokenizer.decode(ids, options, &mut [0; 20_000]).unwrap().to_owned()
    }
}

/// A template that writes each message as a line with its role.
#[derive(Debug)]
struct Lines;

impl Template for Lines {
    fn write(&self, entries: &mut dyn Iterator<Item = Entry<'_>>, put: &mut Put<'_>) -> Result<(), ConversationError> {
        for (number, entry) in entries.enumerate() {
            let Entry::Message(message) = entry else { return Err(ConversationError::Template) };
            put(Piece::Frame(message.role.name()), None)?;
            put(Piece::Frame(": "), None)?;
            put(Piece::Text(message.text.trim()), Some(number))?;
            put(Piece::Frame("\n"), None)?;
        }
        put(Piece::Frame("assistant: "), None)
    }
}

/// Returns the text of a conversation as its format writes it.
fn rendered(script: &Script<'_>, messages: &[Said]) -> String {
    let (mut bytes, mut plain) = ([0; 20_000], [const { 0..0 }; 400]);
    let mut text = TurnText::new(&mut bytes, &mut plain);
    if script.bos {
        text.push(script.tokenizer, Piece::Bos).unwrap();
    }
    match (script.template, script.format) {
        (Some(template), _) => {
            let put = &mut |piece: Piece<'_>, _| Ok(text.push(script.tokenizer, piece)?);
            template.write(&mut entries(messages).into_iter(), put).unwrap();
        }
        (None, None) => messages.iter().for_each(|(_, said)| text.push(script.tokenizer, Piece::Text(said)).unwrap()),
        (None, Some(format)) => {
            let mut turns = Turns::new(format);
            for (role, said) in messages {
                turns
                    .add(Message { role: *role, text: said })
                    .for_each(|piece| text.push(script.tokenizer, piece).unwrap());
            }
            turns.reply().for_each(|piece| text.push(script.tokenizer, piece).unwrap());
        }
    }
    text.as_str().to_owned()
}

fn said(messages: &[(Role, &str)]) -> Vec<Said> {
    messages.iter().map(|(role, text)| (*role, (*text).to_owned())).collect()
}

/// Feeds the tokens of a text to the sequence, as if the model had written the text.
fn write(host: &mut Host<'_, '_>, talk: &Conversation<'_>, text: &str) {
    let (mut scratch, mut ids) = (vec![0; host.tokenizer.scratch_len(text.len())], [0; 200]);
    let count = host.tokenizer.encode(text, Default::default(), &mut scratch, &mut ids).unwrap().ids;
    for &id in &ids[..count] {
        host.engine.decode_step(talk.seq(), id).unwrap();
    }
}

#[test]
fn thoughts_of_earlier_turns_are_left_out_where_the_template_does_so() {
    with_host(|host| {
        let thought = "<think>\nA dog, maybe.\n</think>\n\nIt was a dog.";
        for keeps_thoughts in [false, true] {
            let format = TurnFormat::named("qwen3");
            let script = Script { keeps_thoughts, ..Script::new(format, host.tokenizer) };
            let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
            let mut talk = host.talk(&mut memory);
            let mut messages = said(&[(Role::User, "Who?")]);
            host.read(&mut talk, &script, &Keep::ALL, &messages);
            let start = host.ids(talk.seq()).len();
            write(host, &talk, thought);
            let end = host.ids(talk.seq()).len();
            messages.extend(said(&[(Role::Assistant, thought), (Role::User, "Why?")]));
            let read = host.read(&mut talk, &script, &Keep::ALL, &messages).0;
            let ids = host.ids(talk.seq());
            assert_eq!(ids.len() - read, if keeps_thoughts { end } else { start });
            assert_eq!(host.decode(&ids, true).contains("maybe"), keeps_thoughts);
            assert!(host.decode(&ids, true).contains("It was a dog."));
            host.engine.close(talk.seq()).unwrap();
        }
    });
}

#[test]
fn a_turn_reads_its_own_tokens_only() {
    with_host(|host| {
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
        let (mut talk, mut rng) = (host.talk(&mut memory), Rng::new(7));
        let mut messages = Vec::new();
        for turn in 0..8 {
            messages.push((Role::User, format!("Why, {turn}?")));
            let before = host.ids(talk.seq()).len();
            let read = host.read(&mut talk, &script, &Keep::ALL, &messages).0;
            assert_eq!(before + read, host.ids(talk.seq()).len());
            let reply = host.reply(&talk, &mut rng, 9);
            // A host may cut white space at both ends of a reply.
            messages.push((Role::Assistant, reply.trim().to_owned()));
        }
    });
}

#[test]
fn what_is_refused_changes_nothing() {
    with_host(|host| {
        let script = Script::new(TurnFormat::named("vicuna"), host.tokenizer);
        let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
        let mut talk = host.talk(&mut memory);
        let good = said(&[(Role::User, "Who?")]);
        host.read(&mut talk, &script, &Keep::ALL, &good);
        write(host, &talk, "It was a dog.");
        let before = host.ids(talk.seq());
        let mut refused = |entries: &[Entry<'_>], keep: &Keep<'_>, script: &Script<'_>| {
            let error = talk.update(&mut host.engine, script, keep, entries, &mut host.desk).unwrap_err();
            let after: Vec<u32> =
                (0..before.len()).map(|at| host.engine.cache().token(talk.seq(), at).unwrap()).collect();
            assert_eq!((after, host.engine.seq_len(talk.seq())), (before.clone(), Ok(before.len())));
            error
        };
        let long = said(&[(Role::User, &"A dog. ".repeat(200))]);
        let error = refused(&entries(&long), &Keep::ALL, &script);
        assert!(matches!(error, ConversationError::ContextFull { needed: 301.., context: CONTEXT }), "{error}");
        let keep = Keep { room: CONTEXT, ..Keep::ALL };
        let error = refused(&entries(&good), &keep, &script);
        assert!(matches!(error, ConversationError::ContextFull { needed: 301.., context: CONTEXT }), "{error}");
        let longer = said(&[(Role::User, &"A dog. ".repeat(2000))]);
        assert!(matches!(refused(&entries(&longer), &Keep::ALL, &script), ConversationError::Text(_)));
        let result = [Entry::Result(ToolResult { name: "roll", id: None, text: "4" })];
        assert_eq!(refused(&result, &Keep::ALL, &script), ConversationError::NoTools { entry: 0 });
        let nothing = Script { format: None, bos: false, ..script };
        assert_eq!(refused(&[], &Keep::ALL, &nothing), ConversationError::Empty);

        // The conversation goes on as if the question had not been asked.
        let more = said(&[(Role::User, "Who?"), (Role::Assistant, "It was a dog."), (Role::User, "Why?")]);
        let read = host.read(&mut talk, &script, &Keep::ALL, &more).0;
        assert_eq!(host.ids(talk.seq()).len(), before.len() + read);

        host.engine.close(talk.seq()).unwrap();
        let closed = talk.update(&mut host.engine, &script, &Keep::ALL, &entries(&more), &mut host.desk);
        assert!(matches!(closed, Err(ConversationError::Engine(EngineError::Cache(_)))));
    });
}

/// Memory of a conversation besides keys and values, for an engine with one more of them, with 64 replies and a context
/// of 4,096.
#[test]
fn a_conversation_takes_less_than_two_kilobytes() {
    let file = SyntheticModel { context: 4096, ..SyntheticModel::llama() }.bytes();
    let model = Model::open(&file).unwrap();
    // The pool, which holds all keys and values, has the same size in both plans.
    let with = |sequences| Limits { sequences, context: 4096, kv_blocks: 512, ..Limits::default() };
    let [few, many] = [4, 20].map(|sequences| Plan::new(&model, &with(sequences)).unwrap().bytes());
    let parts =
        [(many - few).div_ceil(16), Conversation::plan(&ConversationLimits { replies: 64, tokens: 0 }).unwrap()];
    println!("{parts:?} and {} bytes", size_of::<Conversation<'_>>());
    assert!(parts.iter().sum::<usize>() + size_of::<Conversation<'_>>() <= 2048, "{parts:?}");
}

#[test]
fn memory_is_small_and_checked() {
    let limits = ConversationLimits { replies: 64, tokens: 0 };
    assert_eq!(Conversation::plan(&limits), Ok(768));
    assert!(Conversation::plan(&ConversationLimits { replies: usize::MAX, ..limits }).is_err());
    assert!(Conversation::plan(&ConversationLimits { tokens: usize::MAX, ..limits }).is_err());
    with_host(|host| {
        assert_eq!(host.limits, SMALL);
        let seq = host.engine.open().unwrap();
        let mut memory = AlignedBytes::new(768);
        assert!(Conversation::new(seq, &ConversationLimits { replies: 65, ..limits }, memory.bytes()).is_err());
        assert!(Conversation::new(seq, &SMALL, &mut memory.bytes()[1..]).is_err());
        assert!(Desk::plan(host.tokenizer, &DeskLimits { context: usize::MAX, ..DESK }).is_err());
    });
}
