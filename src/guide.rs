//! The guide: five journeys through the library, each a program that runs.
//!
//! 1. [Generate](#generate): a model, its engine, a text.
//! 2. [Chat](#chat): a conversation in the turn format of the model's file.
//! 3. [A crowd](#a-crowd): many characters that share one prompt, a little work in each frame.
//! 4. [Save and load](#save-and-load): a sequence as bytes.
//! 5. [No heap](#no-heap): everything in static memory.
//!
//! The programs run from the root of the repository, with the model that is part of the examples. Larger programs are
//! in the repository's folder `examples`.
//!
//! # Generate
//!
//! A [`Model`] borrows the bytes of a GGUF file. A [`Plan`] says how much memory an engine needs for given [`Limits`].
//! The [`Engine`] lives in that memory. A [`Tokenizer`] turns text into tokens, a [`Sampler`] chooses the next token
//! from the logits, and a [`Detokenizer`] turns tokens into text.
//!
//! ```
//! use gleed::mem::ALIGN;
//! use gleed::sample::{Sampler, SamplerParams, scratch_len};
//! use gleed::token::{DecodeOptions, Detokenizer, EncodeOptions, TokenKind, Tokenizer};
//! use gleed::{Engine, Limits, Model, Plan};
//!
//! /// The part of a vector that begins where Gleed's memory may begin.
//! fn aligned(memory: &mut [u8]) -> &mut [u8] {
//!     let start = memory.as_ptr().align_offset(ALIGN);
//!     &mut memory[start..]
//! }
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! let model = Model::open(&file)?;
//! let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
//! let mut memory = vec![0; plan.bytes() + ALIGN];
//! let mut engine = Engine::new(&model, &plan, aligned(&mut memory))?;
//! let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! let tokenizer = Tokenizer::new(model.gguf(), aligned(&mut tables))?;
//!
//! // Text becomes tokens, BOS in front.
//! let text = "Once upon a time";
//! let (mut scratch, mut prompt) = (vec![0; tokenizer.scratch_len(text.len())], [0; 32]);
//! let options = EncodeOptions { add_special: true, ..EncodeOptions::default() };
//! let count = tokenizer.encode(text, options, &mut scratch, &mut prompt)?.ids;
//! assert_eq!(tokenizer.kind(prompt[0]), TokenKind::Control);
//!
//! // The prompt goes into a sequence. Its last row gives the logits of the next token.
//! let seq = engine.open()?;
//! let mut logits = engine.prefill(seq, &prompt[..count])?;
//!
//! // Each token is chosen, written, and fed back.
//! let mut sampler = Sampler::new(SamplerParams { temperature: 0.6, seed: 1, ..SamplerParams::default() })?;
//! let mut masses = vec![0; scratch_len(model.config().vocab)];
//! let continues = DecodeOptions { starts_text: false, ..DecodeOptions::default() };
//! let mut detokenizer = Detokenizer::new(&tokenizer, continues);
//! let mut piece = [0; 64];
//! let mut story = text.to_owned();
//! for _ in 0..20 {
//!     let token = sampler.sample(logits, &mut masses)?.token;
//!     if tokenizer.is_end(token) {
//!         break;
//!     }
//!     story.push_str(detokenizer.push(&tokenizer, token, &mut piece)?);
//!     sampler.accept(token);
//!     logits = engine.decode_step(seq, token)?;
//! }
//! println!("{story}{}", detokenizer.finish());
//! # assert!(story.len() > 40 && story.starts_with(text));
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `std`, `host::OwnedEngine` maps the file, owns the memory and has a thread pool.
//!
//! # Chat
//!
//! A model that was trained on conversations expects them in its own [`TurnFormat`]. [`TurnFormat::of`] recognises it
//! from the file. [`Turns`] writes a message as pieces, which are appended to what came before, so the sequence only
//! grows. [`TurnText`] collects the pieces. It keeps frame and message apart, so no message can contain a special
//! token.
//!
//! ```
//! use gleed::sample::argmax;
//! use gleed::token::Tokenizer;
//! use gleed::turns::{Message, Role, TurnFormat, TurnText, Turns};
//! use gleed::{Engine, SeqId};
//!
//! /// Says something to the model and returns its reply as tokens, at most `most` of them.
//! fn say(
//!     engine: &mut Engine<'_, '_>,
//!     tokenizer: &Tokenizer<'_, '_>,
//!     (seq, turns): (SeqId, &mut Turns),
//!     text: &str,
//!     most: usize,
//! ) -> Result<Vec<u32>, Box<dyn std::error::Error>> {
//!     // What closes the model's last turn, the message, and what opens the model's next turn.
//!     let (mut bytes, mut ranges) = (vec![0; text.len() + 400], [0..0]);
//!     let mut turn = TurnText::new(&mut bytes, &mut ranges);
//!     for piece in turns.add(Message { role: Role::User, text }) {
//!         turn.push(tokenizer, piece)?;
//!     }
//!     for piece in turns.reply() {
//!         turn.push(tokenizer, piece)?;
//!     }
//!     let length = turn.as_str().len();
//!     let (mut scratch, mut tokens) = (vec![0; tokenizer.scratch_len(length)], vec![0; length + 1]);
//!     let count = turn.encode(tokenizer, &mut scratch, &mut tokens)?.ids;
//!
//!     let mut token = argmax(engine.prefill(seq, &tokens[..count])?)?;
//!     let mut reply = Vec::new();
//!     while reply.len() < most && !turns.format().is_stop(tokenizer, token) {
//!         reply.push(token);
//!         token = argmax(engine.decode_step(seq, token)?)?;
//!     }
//!     Ok(reply)
//! }
//! # use gleed::{Limits, Model, Plan, mem::ALIGN};
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { context: 256, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//! # let mut tables = vec![0; Tokenizer::plan(model.gguf())? + ALIGN];
//! # let start = tables.as_ptr().align_offset(ALIGN);
//! # let tokenizer = Tokenizer::new(model.gguf(), &mut tables[start..])?;
//!
//! // The demo model tells stories: its file has no format, so this program names one.
//! let format = TurnFormat::of(model.gguf(), &tokenizer).or(TurnFormat::named("vicuna")).ok_or("no format")?;
//! let (seq, mut turns) = (engine.open()?, Turns::new(format));
//! say(&mut engine, &tokenizer, (seq, &mut turns), "Who are you?", 8)?;
//! let before = engine.seq_len(seq)?;
//! say(&mut engine, &tokenizer, (seq, &mut turns), "And who am I?", 8)?;
//! # assert!(engine.seq_len(seq)? > before);
//! # Ok(())
//! # }
//! ```
//!
//! With the feature `jinja`, `host::ChatTemplate` renders any other template.
//!
//! # A crowd
//!
//! Many sequences share one pool of blocks. [`Engine::fork`] continues a sequence in another one and copies nothing.
//! [`Engine::queue`] says what to compute; [`Engine::step`] computes a part of it, as much as its [`Budget`] allows.
//! The rows of all sequences run together.
//!
//! ```
//! use gleed::sample::argmax;
//! use gleed::{Engine, Limits, Logits, Model, Plan, Step, mem::ALIGN};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! // Room for the world and eight characters; a row with logits for each of them.
//! let limits = Limits { sequences: 9, context: 128, rows: 64, logit_rows: 8, kv_blocks: 40, ..Limits::default() };
//! let plan = Plan::new(&model, &limits)?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//!
//! // The world is computed once. Each character continues it, with a token of its own.
//! let world = engine.open()?;
//! engine.prefill(world, &[1, 414, 435, 261, 385])?;
//! let mut characters = Vec::new();
//! for index in 0..8 {
//!     let character = engine.fork(world, engine.seq_len(world)?)?;
//!     engine.queue(character, engine.seq_len(character)?, &[300 + index], Logits::Last)?;
//!     characters.push(character);
//! }
//!
//! // A few units of work in each frame. The text does not depend on how many.
//! let mut said = 0;
//! while said < 40 {
//!     if engine.step(100)? == Step::Ready {
//!         let chosen = engine.results().map(|(seq, _, logits)| argmax(logits).map(|token| (seq, token)));
//!         let chosen = chosen.collect::<Result<Vec<_>, _>>()?;
//!         for (seq, token) in chosen {
//!             said += 1;
//!             engine.queue(seq, engine.seq_len(seq)?, &[token], Logits::Last)?;
//!         }
//!     }
//!     // The rest of the frame is the game's.
//! }
//! # assert!(engine.stats().pools.iter().all(|pool| pool.used < 40));
//! # Ok(())
//! # }
//! ```
//!
//! [`Engine::set_parallel`] lends the host's threads, through the trait [`Parallel`]. A [`Deadline`] ends a step by the
//! host's clock. [`Engine::progress`] says how far a sequence is. [`Engine::make_room`] closes idle sequences when the
//! pool is full.
//!
//! # Save and load
//!
//! A snapshot is a sequence as bytes, with checksums. [`Engine::restore`] verifies the whole snapshot before the
//! sequence exists. The host may add state of its own, for example that of a sampler.
//!
//! ```
//! use gleed::cache::SnapshotOptions;
//! use gleed::sample::{Sampler, SamplerParams};
//! # use gleed::{Engine, Limits, Model, Plan, mem::ALIGN};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let file = std::fs::read("examples/assets/gleed-tales-q8_0.gguf")?;
//! # let model = Model::open(&file)?;
//! # let plan = Plan::new(&model, &Limits { sequences: 2, context: 128, ..Limits::default() })?;
//! # let mut memory = vec![0; plan.bytes() + ALIGN];
//! # let start = memory.as_ptr().align_offset(ALIGN);
//! # let mut engine = Engine::new(&model, &plan, &mut memory[start..])?;
//! let seq = engine.open()?;
//! let logits = engine.prefill(seq, &[1, 414, 435, 261, 385])?.to_vec();
//! let mut sampler = Sampler::new(SamplerParams { seed: 7, ..SamplerParams::default() })?;
//!
//! // Save: the tokens, their keys and values, and the sampler's state.
//! let state = sampler.state().to_le_bytes();
//! let mut saved = Vec::new();
//! engine.write_snapshot(seq, &SnapshotOptions { state: &state, ..Default::default() }, |bytes| {
//!     saved.extend_from_slice(bytes);
//!     Ok::<(), std::io::Error>(())
//! })?;
//! engine.close(seq)?;
//!
//! // Load: the sequence continues with the same bits, on any machine.
//! let (seq, header) = engine.restore_with(None, &saved)?;
//! sampler.set_state(u64::from_le_bytes(header.state().try_into()?));
//! assert_eq!(engine.seq_len(seq)?, 5);
//! engine.rewind(seq, 4)?;
//! assert_eq!(engine.decode_step(seq, 385)?, logits);
//!
//! // A damaged snapshot is refused.
//! let middle = saved.len() / 2;
//! saved[middle] ^= 1;
//! assert!(engine.restore(&saved).is_err());
//! # Ok(())
//! # }
//! ```
//!
//! # No heap
//!
//! Nothing in the library allocates. The model can be part of the program, and everything else can lie in memory that
//! is laid out when the program is linked. `inspect --emit-header` prints the sizes.
//!
//! ```
//! use gleed::sample::argmax;
//! use gleed::{Engine, Limits, Model, Plan};
//!
//! /// Memory that is aligned as Gleed wants it.
//! #[repr(C, align(64))]
//! struct Aligned<const N: usize>([u8; N]);
//!
//! /// The bytes of the file: in flash, on a microcontroller.
//! static MODEL: &[u8] = include_bytes!(concat!(env!("CARGO_MANIFEST_DIR"), "/examples/assets/gleed-tales-q8_0.gguf"));
//!
//! /// Writes the most probable tokens after a prompt.
//! fn generate(memory: &mut Aligned<704_000>, tokens: &mut [u32]) -> Option<()> {
//!     let model = Model::open(MODEL).ok()?;
//!     let plan = Plan::new(&model, &Limits { context: 128, rows: 16, ..Limits::default() }).ok()?;
//!     let mut engine = Engine::new(&model, &plan, &mut memory.0).ok()?;
//!     let seq = engine.open().ok()?;
//!     let mut logits = engine.prefill(seq, &[1, 414, 435, 261, 385]).ok()?;
//!     for token in tokens {
//!         *token = argmax(logits).ok()?;
//!         logits = engine.decode_step(seq, *token).ok()?;
//!     }
//!     Some(())
//! }
//!
//! # static MEMORY: std::sync::Mutex<Aligned<704_000>> = std::sync::Mutex::new(Aligned([0; 704_000]));
//! # let mut tokens = [0; 20];
//! # generate(&mut MEMORY.lock().unwrap(), &mut tokens).unwrap();
//! # assert!(tokens.iter().all(|token| *token > 0));
//! ```
//!
//! [`EngineError`] and the other errors are small enums with the number that was wrong. A call that fails changes
//! nothing. The example `static_arena` is a whole program of this kind.
//!
//! [`Budget`]: crate::Budget
//! [`Deadline`]: crate::Deadline
//! [`Detokenizer`]: crate::token::Detokenizer
//! [`Engine::fork`]: crate::Engine::fork
//! [`Engine::make_room`]: crate::Engine::make_room
//! [`Engine::progress`]: crate::Engine::progress
//! [`Engine::queue`]: crate::Engine::queue
//! [`Engine::restore`]: crate::Engine::restore
//! [`Engine::set_parallel`]: crate::Engine::set_parallel
//! [`Engine::step`]: crate::Engine::step
//! [`EngineError`]: crate::EngineError
//! [`Engine`]: crate::Engine
//! [`Limits`]: crate::Limits
//! [`Model`]: crate::Model
//! [`Parallel`]: crate::par::Parallel
//! [`Plan`]: crate::Plan
//! [`Sampler`]: crate::sample::Sampler
//! [`Tokenizer`]: crate::token::Tokenizer
//! [`TurnFormat::of`]: crate::turns::TurnFormat::of
//! [`TurnFormat`]: crate::turns::TurnFormat
//! [`TurnText`]: crate::turns::TurnText
//! [`Turns`]: crate::turns::Turns
