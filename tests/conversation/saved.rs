//! Saved conversations. Bytes that are wrong give a specific error and change nothing.

use super::*;
use common::synthetic::Architecture;
use gleed::cache::SnapshotError;
use xxhash_rust::xxh64::xxh64;

/// Returns the bytes of a conversation that contains a result of a tool.
fn file(host: &mut Host<'_, '_>) -> Vec<u8> {
    let script = Script::new(TurnFormat::named("vicuna"), host.tokenizer);
    let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
    let mut talk = host.talk(&mut memory);
    let mut messages = said(&[(Role::System, "Be kind."), (Role::User, "Who?")]);
    host.read(&mut talk, &script, &Keep::ALL, &messages);
    write(host, &talk, "It was a dog.");
    messages.extend(said(&[(Role::Assistant, "It was a dog."), (Role::User, "Why?")]));
    host.read(&mut talk, &script, &Keep::ALL, &messages);
    let result = |id| Entry::Result(ToolResult { name: "roll", id, text: "4" });
    let mut entries = entries(&messages);
    entries.extend([result(None), result(Some("7"))]);
    let needed = talk.saved_len(&host.engine, &entries).unwrap();
    let mut file = vec![7; needed + 5];
    let short = talk.save(&host.engine, &entries, &mut file[..needed - 1]);
    assert_eq!(short, Err(ConversationError::Buffer { needed, given: needed - 1 }));
    assert!(file.iter().all(|&byte| byte == 7));
    assert_eq!(talk.save(&host.engine, &entries, &mut file), Ok(needed));
    assert!(file.drain(needed..).all(|byte| byte == 7));
    host.engine.queue(talk.seq(), host.engine.seq_len(talk.seq()).unwrap(), &[300], Default::default()).unwrap();
    assert!(matches!(talk.saved_len(&host.engine, &entries), Err(ConversationError::Engine(_))));
    host.engine.cancel(talk.seq()).unwrap();
    host.engine.close(talk.seq()).unwrap();
    assert!(matches!(talk.save(&host.engine, &entries, &mut file), Err(ConversationError::Engine(_))));

    let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
    let (talk, saved) = Conversation::load(&mut host.engine, &file, &SMALL, memory.bytes()).unwrap();
    assert!(saved.entries().eq(entries));
    host.engine.close(talk.seq()).unwrap();
    file
}

/// Returns the error with which these bytes are refused. Checks that nothing has changed.
fn refused(host: &mut Host<'_, '_>, bytes: &[u8]) -> ConversationError {
    let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
    let before = host.engine.stats();
    let error = Conversation::load(&mut host.engine, bytes, &SMALL, memory.bytes()).map(drop).unwrap_err();
    assert_eq!(host.engine.stats(), before);
    error
}

#[test]
fn damaged_bytes_are_refused() {
    with_host(|host| {
        let mut file = file(host);
        let head = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
        // Every byte of the head, and some bytes of the snapshot. `tests/snapshot` tries all bytes of a snapshot.
        for at in (0..head).chain((head..file.len()).step_by(997)) {
            let error = refused(host, &file[..at]);
            assert!(matches!(error, ConversationError::NoConversation | ConversationError::Damaged { .. }), "{error}");
            let bit = 1 << (at % 8);
            file[at] ^= bit;
            let error = refused(host, &file);
            file[at] ^= bit;
            let expected = match at {
                0..8 => matches!(error, ConversationError::NoConversation),
                8..12 => matches!(error, ConversationError::Version { known: 1, .. }),
                _ if at < head => matches!(error, ConversationError::Damaged { .. }),
                _ => matches!(error, ConversationError::Engine(EngineError::Snapshot(_))),
            };
            assert!(expected, "byte {at}, bit {bit}: {error}");
        }
        file.push(0);
        assert!(matches!(refused(host, &file), ConversationError::Damaged { .. }));
    });
}

#[test]
fn forged_bytes_do_no_harm() {
    with_host(|host| {
        let mut file = file(host);
        let head = u64::from_le_bytes(file[16..24].try_into().unwrap()) as usize;
        let script = Script::new(TurnFormat::named("vicuna"), host.tokenizer);
        let mut rng = Rng::new(9);
        for at in (12..16).chain(32..head - 8) {
            let was = file[at];
            file[at] = rng.below(256) as u8;
            let sum = xxh64(&file[..head - 8], 0);
            file[head - 8..head].copy_from_slice(&sum.to_le_bytes());
            let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
            if let Ok((mut talk, saved)) = Conversation::load(&mut host.engine, &file, &SMALL, memory.bytes()) {
                let messages: Vec<Entry<'_>> =
                    saved.entries().filter(|entry| matches!(entry, Entry::Message(_))).collect();
                let new = talk.update(&mut host.engine, &script, &Keep::ALL, &messages, &mut host.desk).unwrap();
                assert!(!new.tokens.is_empty());
                host.engine.close(talk.seq()).unwrap();
            }
            file[at] = was;
        }
    });
}

#[test]
fn another_model_refuses_them() {
    let other = SyntheticModel { vocab: 1024, ..SyntheticModel::of(Architecture::Llama) }.bytes();
    let mut bytes = Vec::new();
    with_host(|host| bytes = file(host));
    with_model(&other, Limits { context: CONTEXT, ..Limits::default() }, |host| {
        let error = refused(host, &bytes);
        assert!(matches!(error, ConversationError::Engine(EngineError::Snapshot(SnapshotError::Model { .. }))));
    });
}

#[test]
fn a_place_must_be_free() {
    with_host(|host| {
        let bytes = file(host);
        while host.engine.open().is_ok() {}
        assert!(matches!(refused(host, &bytes), ConversationError::Engine(EngineError::Cache(_))));
        let small = Conversation::load(&mut host.engine, &bytes, &SMALL, &mut []);
        assert!(matches!(small, Err(ConversationError::Memory(_))));
    });
}
