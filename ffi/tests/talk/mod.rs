//! The conversations of `tests/mistakes/conversation.c`, held with the Rust API: they print the same lines.

use std::fmt::Write;

use gleed::conversation::{Conversation, ConversationLimits, Desk, DeskLimits, Entry, Keep, New, Script, Summary};
use gleed::sample::argmax;
use gleed::token::{DecodeOptions, Tokenizer};
use gleed::tools::Tools;
use gleed::turns::{Message, Role, ToolFormat, ToolResult, TurnFormat};
use gleed::{Engine, Limits, Model, Plan};
use gleed_testing::Memory;

const DESK: DeskLimits = DeskLimits { context: 4096, text: 16_384, word: 256, replies: 64 };

type Said = (Role, String);

fn entries(messages: &[Said]) -> Vec<Entry<'_>> {
    messages.iter().map(|(role, text)| Entry::Message(Message { role: *role, text })).collect()
}

fn user(messages: &mut Vec<Said>, text: &str) {
    messages.push((Role::User, text.to_owned()));
}

/// An engine, the desk and script of its conversations, and the lines that were printed.
struct Host<'m, 'a> {
    engine: Engine<'m, 'a>,
    desk: Desk<'a>,
    script: Script<'a>,
    lines: String,
}

impl Host<'_, '_> {
    fn sizes(&self) -> ConversationLimits {
        ConversationLimits::of(self.engine.cache().geometry(), &DESK)
    }

    fn memory(&self) -> Memory {
        Memory::new(Conversation::plan(&self.sizes()).unwrap())
    }

    fn turn(&mut self, talk: &mut Conversation<'_>, messages: &mut Vec<Said>, keep: &Keep<'_>) {
        let entries = entries(messages);
        let New { position, tokens, left_out } =
            talk.update(&mut self.engine, &self.script, keep, &entries, &mut self.desk).unwrap();
        write!(self.lines, "{position}:").unwrap();
        tokens.iter().for_each(|token| write!(self.lines, " {token}").unwrap());
        let mut next = argmax(self.engine.prefill(talk.seq(), tokens).unwrap()).unwrap();
        let mut reply = Vec::new();
        self.lines.push_str(" |");
        while reply.len() < 12 {
            write!(self.lines, " {next}").unwrap();
            reply.push(next);
            next = argmax(self.engine.decode_step(talk.seq(), next).unwrap()).unwrap();
        }
        writeln!(self.lines, " | {} {}", left_out.start, left_out.len()).unwrap();
        let options = DecodeOptions { starts_text: false, ..DecodeOptions::default() };
        let text = self.script.tokenizer.decode(&reply, options, &mut [0; 1000]).unwrap().to_owned();
        messages.push((Role::Assistant, text));
    }

    fn three_turns(&mut self) {
        let mut memory: [Memory; 3] = std::array::from_fn(|_| self.memory());
        let [memory, forked, loaded] = &mut memory;
        let (sizes, seq) = (self.sizes(), self.engine.open().unwrap());
        let mut talk = Conversation::new(seq, &sizes, memory.bytes()).unwrap();
        let mut messages = Vec::new();
        for text in ["Tell me of a dog.", "And then?", "Who was it?"] {
            user(&mut messages, text);
            self.turn(&mut talk, &mut messages, &Keep::ALL);
        }
        messages.pop();
        self.turn(&mut talk, &mut messages, &Keep::ALL);
        messages.truncate(2);
        user(&mut messages, "Tell me of a cat.");
        self.turn(&mut talk, &mut messages, &Keep::ALL);
        let mut fork = talk.fork(&mut self.engine, forked.bytes()).unwrap();
        let mut other = messages.clone();
        user(&mut other, "Was it a big cat?");
        self.turn(&mut fork, &mut other, &Keep::ALL);
        user(&mut messages, "Where is it now?");
        self.turn(&mut talk, &mut messages, &Keep::ALL);
        self.engine.close(fork.seq()).unwrap();

        let mut file = vec![0; talk.saved_len(&self.engine, &entries(&messages)).unwrap()];
        talk.save(&self.engine, &entries(&messages), &mut file).unwrap();
        self.engine.close(talk.seq()).unwrap();
        let (mut talk, _) = Conversation::load(&mut self.engine, &file, &sizes, loaded.bytes()).unwrap();
        user(&mut messages, "Good night.");
        self.turn(&mut talk, &mut messages, &Keep::ALL);
        self.engine.close(talk.seq()).unwrap();
    }

    fn full_context(&mut self) {
        let (mut memory, sizes, seq) = (self.memory(), self.sizes(), self.engine.open().unwrap());
        let mut talk = Conversation::new(seq, &sizes, memory.bytes()).unwrap();
        let summary: &Summary<'_> = &|_| Ok(Some(Message { role: Role::User, text: "Some time passed." }));
        let keep = Keep { room: 40, first: 1, last: 1, target: 140, summary: Some(summary) };
        let mut messages = Vec::new();
        for _ in 0..12 {
            user(&mut messages, "Once upon a time there was a little girl. What did she do?");
            self.turn(&mut talk, &mut messages, &keep);
        }
        self.engine.close(talk.seq()).unwrap();
    }

    fn tools(&mut self) {
        let (mut memory, sizes, seq) = (self.memory(), self.sizes(), self.engine.open().unwrap());
        let mut talk = Conversation::new(seq, &sizes, memory.bytes()).unwrap();
        let list = r#"[{"name": "roll", "parameters": {"type": "object", "properties": {}}}]"#;
        let tools = Some((ToolFormat::named("hermes").unwrap(), Tools::new(list).unwrap()));
        let format = TurnFormat::named("chatml");
        let script = Script { tools, think: Some(false), ..Script::new(format, self.script.tokenizer) };
        let call = "<tool_call>\n{\"name\": \"roll\", \"arguments\": {}}\n</tool_call>";
        let entries = [
            Entry::Message(Message { role: Role::User, text: "Hi." }),
            Entry::Message(Message { role: Role::Assistant, text: call }),
            Entry::Result(ToolResult { name: "roll", id: Some("a1"), text: "6" }),
        ];
        let new = talk.update(&mut self.engine, &script, &Keep::ALL, &entries, &mut self.desk).unwrap();
        new.tokens.iter().for_each(|token| write!(self.lines, " {token}").unwrap());
        self.lines.push('\n');
    }
}

/// Returns the lines that the conversations print with the model of a file.
pub(crate) fn lines(file: &[u8]) -> String {
    let model = Model::open(file).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let mut lines = String::new();
    for context in [300, 1000] {
        let plan = Plan::new(&model, &Limits { context, sequences: 3, ..Limits::default() }).unwrap();
        let mut memory = [plan.bytes(), Desk::plan(&tokenizer, &DESK).unwrap()].map(Memory::new);
        let [memory, desk] = &mut memory;
        let engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
        let desk = Desk::new(&tokenizer, &DESK, desk.bytes()).unwrap();
        let script = Script::new(TurnFormat::named("vicuna"), &tokenizer);
        let mut host = Host { engine, desk, script, lines: String::new() };
        if context == 300 {
            host.three_turns();
            host.full_context();
        } else {
            host.tools();
        }
        lines += &host.lines;
    }
    lines
}
