//! Turn formats and split files through the functions of the C ABI, which give the same results as the Rust API.

mod common;

use std::ffi::CStr;
use std::ptr::{null, null_mut};

use common::manifest;
use common::variants::{demo, rename, split};
use gleed::token::Tokenizer;
use gleed::turns::{Message, Piece, Role, TurnFormat, TurnText, Turns};
use gleed::{Engine, Limits, Model, Plan};
use gleed_ffi::error::gleed_error;
use gleed_ffi::*;
use gleed_testing::Memory;
use gleed_testing::gguf_writer::GgufWriter;

/// A model and its tokenizer, opened through C.
struct Opened {
    model: *const gleed_model,
    tokenizer: *const gleed_tokenizer,
    _memory: [Memory; 2],
}

fn open(parts: &[Vec<u8>]) -> Opened {
    let parts: Vec<gleed_part> =
        parts.iter().map(|part| gleed_part { bytes: part.as_ptr(), len: part.len() }).collect();
    let (mut size, mut align, mut model, mut tokenizer) = (0, 0, null(), null());
    // SAFETY: references, and memory of the size that was asked for.
    unsafe {
        assert_eq!(gleed_model_split_size(parts.len(), &mut size, &mut align, null_mut()), 0);
        let (mut memory, count) = (Memory::new(size), parts.len());
        let place = memory.bytes().as_mut_ptr().cast();
        assert_eq!(gleed_model_open_split(parts.as_ptr(), count, place, size, &mut model, null_mut()), 0);
        assert_eq!(gleed_tokenizer_size(model, &mut size, &mut align, null_mut()), 0);
        let mut tables = Memory::new(size);
        assert_eq!(
            gleed_tokenizer_init(model, tables.bytes().as_mut_ptr().cast(), size, &mut tokenizer, null_mut()),
            0
        );
        Opened { model, tokenizer, _memory: [memory, tables] }
    }
}

impl Opened {
    fn format(&self) -> Option<String> {
        let mut format = 0;
        // SAFETY: objects that were opened, and a reference.
        assert_eq!(unsafe { gleed_turns_find(self.model, self.tokenizer, &mut format, null_mut()) }, 0);
        let mut info = gleed_turns_info { struct_size: 40, writes_bos: 7, name: [7; 32] };
        // SAFETY: a reference to a whole struct.
        let status = unsafe { gleed_turns_describe(format, &mut info, null_mut()) };
        if format == GLEED_NO_TURNS {
            assert_eq!((status, info.writes_bos), (status::E_VALUE, 7));
            return None;
        }
        // SAFETY: a text that ends with 0.
        let name = unsafe { CStr::from_ptr(info.name.as_ptr()) }.to_str().unwrap().to_owned();
        assert_eq!((status, info.writes_bos), (0, TurnFormat::named(&name).unwrap().writes_bos().into()));
        Some(name)
    }

    fn encode(&self, format: usize, after: u32, messages: &[(u32, &str)], flags: u32) -> Vec<u32> {
        let messages: Vec<gleed_message> = messages
            .iter()
            .map(|(role, text)| gleed_message {
                role: *role,
                reserved: 0,
                text: text.as_ptr().cast(),
                text_len: text.len(),
            })
            .collect();
        let mut error = gleed_error { struct_size: 128, status: 0, at: 0, needed: 0, given: 0, text: [0; 96] };
        let (mut scratch, mut ids) = (Vec::new(), Vec::new());
        let mut count = 77;
        loop {
            // SAFETY: vectors and references.
            let status = unsafe {
                gleed_turns_encode(
                    self.tokenizer,
                    format as u32,
                    after,
                    messages.as_ptr(),
                    messages.len(),
                    flags,
                    scratch.as_mut_ptr(),
                    scratch.len(),
                    ids.as_mut_ptr(),
                    ids.len(),
                    &mut count,
                    &mut error,
                )
            };
            // A call that is refused says what it needs, and writes nothing.
            match status {
                status::OK => return ids,
                status::E_SCRATCH_TOO_SMALL => scratch = vec![7; error.needed as usize],
                status::E_OUTPUT_TOO_SMALL => ids = vec![u32::MAX; error.needed as usize],
                _ => panic!("{status}"),
            }
            assert!(count == 77 && ids.iter().all(|&id| id == u32::MAX));
        }
    }
}

/// Returns the demo model with a vocabulary that has the special tokens of the formats.
fn with_names() -> GgufWriter {
    let mut names: Vec<&str> = TurnFormat::ALL.iter().flat_map(|format| format.stops()).copied().collect();
    names.extend(["<|im_start|>", "<start_of_turn>", "<|start_header_id|>", "<|end_header_id|>", "[INST]", "[/INST]"]);
    names.retain(|name| *name != "</s>");
    names.sort_unstable();
    names.dedup();
    let mut writer = demo();
    rename(&mut writer, &(600..).zip(names).collect::<Vec<_>>());
    writer
}

#[test]
fn tokens_are_those_of_the_rust_api() {
    let file = with_names().finish();
    let model = Model::open(&file).unwrap();
    let mut tables = Memory::new(Tokenizer::plan(model.gguf()).unwrap());
    let tokenizer = Tokenizer::new(model.gguf(), tables.bytes()).unwrap();
    let encode = |pieces: &[Piece<'_>]| {
        let (mut text, mut plain) = (vec![0; 10_000], vec![0..0; 10]);
        let mut text = TurnText::new(&mut text, &mut plain);
        pieces.iter().for_each(|&piece| text.push(&tokenizer, piece).unwrap());
        let (mut scratch, mut ids) = (vec![0; tokenizer.scratch_len(10_000)], vec![0; 5000]);
        let count = text.encode(&tokenizer, &mut scratch, &mut ids).unwrap().ids;
        ids[..count].to_vec()
    };
    let opened = open(std::slice::from_ref(&file));
    let said = |role: Role, text| Message { role, text };
    let long = "<|im_end|>[INST] äöü ".repeat(100);
    let (system, hi, hello) = ("Be brief.", "Hi <|im_end|><end_of_turn></s>", "<think>\nno</think>\n\nHello! ");
    for (number, format) in TurnFormat::ALL.iter().enumerate() {
        let talk = |turns: &mut Turns, messages: &[Message<'static>], reply: bool| {
            let mut pieces: Vec<_> = messages.iter().flat_map(|&message| turns.add(message)).collect();
            if reply {
                pieces.extend(turns.reply());
            }
            pieces
        };
        // The beginning of a conversation, and the next turn after a reply that the model wrote.
        let mut turns = Turns::new(format);
        let beginning = talk(&mut turns, &[said(Role::System, system), said(Role::User, hi)], true);
        let both = [(GLEED_ROLE_SYSTEM, system), (GLEED_ROLE_USER, hi)];
        let ids = opened.encode(number, GLEED_AFTER_NOTHING, &both, GLEED_TURNS_REPLY);
        assert_eq!(ids, encode(&beginning), "{format}");
        let next = encode(&talk(&mut turns, &[said(Role::User, hi)], true));
        assert_eq!(opened.encode(number, GLEED_AFTER_REPLY, &both[1..], GLEED_TURNS_REPLY), next, "{format}");
        // The tokens have no stops but those that the format itself has written.
        let stops = |ids: &[u32]| ids.iter().filter(|&&id| format.is_stop(&tokenizer, id)).count();
        let other = opened.encode(number, GLEED_AFTER_NOTHING, &[(GLEED_ROLE_SYSTEM, system), (2, "Hi")], 2);
        assert_eq!(stops(&ids), stops(&other), "{format}");
        for id in 0..model.config().vocab as u32 {
            let mut is_stop = 7;
            // SAFETY: an object, and a reference.
            let status = unsafe { gleed_turns_is_stop(opened.tokenizer, number as u32, id, &mut is_stop, null_mut()) };
            assert_eq!((status, is_stop), (0, format.is_stop(&tokenizer, id).into()), "{format} {id}");
        }

        // Messages are encoded one by one, among them replies of the model that the host knows.
        let mut turns = Turns::new(format);
        let mut after = GLEED_AFTER_NOTHING;
        let roles = [(1, Role::System), (2, Role::User), (3, Role::Assistant), (2, Role::User), (3, Role::Assistant)];
        for (role, said_by) in roles {
            let text = if role == GLEED_ROLE_ASSISTANT { hello } else { hi };
            let expected = encode(&talk(&mut turns, &[said(said_by, text)], false));
            assert_eq!(opened.encode(number, after, &[(role, text)], 0), expected, "{format} {role} after {after}");
            after = role;
        }
        // A reply that the host knows, in the turn that was opened.
        let mut turns = Turns::after_reply(format);
        let given = encode(&talk(&mut turns, &[said(Role::Assistant, hello)], false));
        assert_eq!(opened.encode(number, GLEED_AFTER_REPLY, &[(GLEED_ROLE_ASSISTANT, hello)], 0), given, "{format}");

        // BOS is written once, if the vocabulary asks for it.
        let plain = opened.encode(number, GLEED_AFTER_NOTHING, &[(GLEED_ROLE_USER, &long)], 0);
        let begun = opened.encode(number, GLEED_AFTER_NOTHING, &[(GLEED_ROLE_USER, &long)], GLEED_TURNS_ADD_BOS);
        let bos: &[u32] = if format.writes_bos() { &[] } else { &[1] };
        assert!(begun.starts_with(&[1]) && !begun[1..].starts_with(&[1]), "{format}");
        assert_eq!(begun.len(), plain.len() + bos.len(), "{format}");
        let later = opened.encode(number, GLEED_ROLE_USER, &[(GLEED_ROLE_USER, "a")], GLEED_TURNS_ADD_BOS);
        assert_eq!(later, opened.encode(number, GLEED_ROLE_USER, &[(GLEED_ROLE_USER, "a")], 0), "{format}");
    }
}

#[test]
fn formats_are_found_by_template_and_by_vocabulary() {
    let mut writer = demo();
    assert_eq!(open(&[writer.finish()]).format(), None);
    for file in std::fs::read_dir(manifest("../tests/data/templates")).unwrap() {
        let path = file.unwrap().path();
        if path.extension().is_some_and(|extension| extension == "jinja") {
            let template = std::fs::read_to_string(&path).unwrap();
            let expected = TurnFormat::of_template(&template).map(|format| format.name().to_owned());
            writer.set("tokenizer.chat_template", template.as_str());
            assert_eq!(open(&[writer.finish()]).format(), expected, "{}", path.display());
        }
    }
    // If the file has a template that is not known, the vocabulary does not decide.
    rename(&mut writer, &[(1000, "<start_of_turn>"), (1001, "<end_of_turn>")]);
    writer.set("tokenizer.chat_template", "{{ messages }}");
    assert_eq!(open(&[writer.finish()]).format(), None);
    writer.remove("tokenizer.chat_template");
    assert_eq!(open(&[writer.finish()]).format().as_deref(), Some("gemma"));
}

#[test]
fn parts_compute_what_the_whole_does() {
    let whole = demo();
    let file = whole.finish();
    let model = Model::open(&file).unwrap();
    let plan = Plan::new(&model, &Limits::default()).unwrap();
    let mut memory = Memory::new(plan.bytes());
    let mut engine = Engine::new(&model, &plan, memory.bytes()).unwrap();
    let seq = engine.open().unwrap();
    let expected = engine.prefill(seq, &[1, 414, 435, 261, 385]).unwrap();
    for count in [1, 2, 5] {
        let parts = split(&whole, count);
        let opened = open(&parts);
        let (mut size, mut align, mut engine, mut seq) = (0, 0, null_mut(), 0);
        let (mut logits, mut len) = (null(), 0);
        let ids = [1, 414, 435, 261, 385];
        // SAFETY: integers, for which 0 is a value.
        let mut info: gleed_model_info = unsafe { std::mem::zeroed() };
        info.struct_size = size_of::<gleed_model_info>() as u32;
        // SAFETY: references, and memory of the size that was asked for.
        unsafe {
            assert_eq!(gleed_model_describe(opened.model, &mut info, null_mut()), 0);
            assert_eq!(gleed_plan(opened.model, null(), &mut size, &mut align, null_mut()), 0);
            let mut memory = Memory::new(size);
            let place = memory.bytes().as_mut_ptr().cast();
            assert_eq!(gleed_engine_init(opened.model, null(), place, size, &mut engine, null_mut()), 0);
            assert_eq!(gleed_seq_open(engine, &mut seq, null_mut()), 0);
            assert_eq!(gleed_prefill(engine, seq, ids.as_ptr(), 5, &mut logits, &mut len, null_mut()), 0);
            assert_eq!(std::slice::from_raw_parts(logits, len), expected);
        }
        assert_eq!(info.file_bytes as usize, parts.iter().map(Vec::len).sum::<usize>());
    }
}

#[test]
fn missing_and_misplaced_parts_are_refused() {
    let parts = split(&demo(), 3);
    let refused = |order: &[usize]| {
        let parts: Vec<_> =
            order.iter().map(|&part| gleed_part { bytes: parts[part].as_ptr(), len: parts[part].len() }).collect();
        let mut error = gleed_error { struct_size: 128, status: 0, at: 0, needed: 0, given: 0, text: [0; 96] };
        let (mut memory, mut model) = (Memory::new(4000), null());
        let place = memory.bytes().as_mut_ptr().cast();
        // SAFETY: a vector, memory and references.
        let status =
            unsafe { gleed_model_open_split(parts.as_ptr(), parts.len(), place, 4000, &mut model, &mut error) };
        assert!(model.is_null() && error.status == status && error.text[0] != 0);
        (status, error.at, error.needed, error.given)
    };
    assert_eq!(refused(&[]), (status::E_FILE_PARTS, 0, 1, 0));
    assert_eq!(refused(&[0, 1]), (status::E_FILE_PARTS, 0, 3, 2));
    assert_eq!(refused(&[0, 2, 1]), (status::E_FILE_PART_ORDER, 1, 1, 2));
    assert_eq!(refused(&[1, 0, 2]), (status::E_FILE_PART_ORDER, 1, 1, 0));
    assert_eq!(refused(&[0, 1, 1]), (status::E_FILE_PART_ORDER, 2, 2, 1));
}
