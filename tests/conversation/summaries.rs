//! Summaries that fail.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use gleed::conversation::{Conversation, ConversationError, Entry, Keep, Script};
use gleed::host::AlignedBytes;
use gleed::turns::{Message, Role, TurnFormat};

use super::{Host, SMALL, Said, entries, with_host};

/// For every n, the n-th call of the summary fails or panics. The conversation and its sequence are as before, and the
/// next update works.
#[test]
fn summaries_that_fail_at_every_call() {
    with_host(|host| {
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        let mut messages = Vec::new();
        for turn in 0..12 {
            messages.push((Role::User, format!("Why does the dog run to the house, and who was there, {turn}?")));
            messages.push((Role::Assistant, "Nobody knows.".to_owned()));
        }
        messages.pop();
        for dies in [false, true] {
            let mut at = 0;
            while fails_at(host, &script, &messages, (at, dies)) {
                at += 1;
            }
            assert!(at > 0, "the summary is asked for");
        }
    });
}

/// Makes call number `at` of the summary fail or panic. Returns whether the update has failed.
fn fails_at(host: &mut Host<'_, '_>, script: &Script<'_>, messages: &[Said], (at, dies): (usize, bool)) -> bool {
    let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
    let mut talk = host.talk(&mut memory);
    host.read(&mut talk, script, &Keep::ALL, &messages[..1]);
    let before = host.ids(talk.seq());
    let left = Cell::new(Some(at));
    let summary = |_: &[Entry<'_>]| {
        let is_this = left.get() == Some(0);
        left.set(left.get().and_then(|left| left.checked_sub(1)));
        assert!(!(is_this && dies), "the host dies");
        if is_this {
            Err(ConversationError::Summary)
        } else {
            Ok(Some(Message { role: Role::User, text: "Time passed." }))
        }
    };
    let keep = Keep { room: 40, first: 0, last: 1, target: 140, summary: Some(&summary) };
    let entries = entries(messages);
    let update = |host: &mut Host<'_, '_>, talk: &mut Conversation<'_>| {
        talk.update(&mut host.engine, script, &keep, &entries, &mut host.desk).map(|new| new.left_out)
    };
    let first = catch_unwind(AssertUnwindSafe(|| update(host, &mut talk)));
    let failed = !matches!(first, Ok(Ok(_)));
    left.set(None);
    if failed {
        assert!(matches!(first, Err(_) | Ok(Err(ConversationError::Summary))));
        assert_eq!(host.ids(talk.seq()), before, "the sequence is as before");
        assert_eq!(host.engine.cache().check(), Ok(()));
    }
    // An update of the same conversation works if the summary works.
    let (_, left_out) = host.read(&mut talk, script, &keep, messages);
    assert!(!left_out.is_empty());
    host.engine.close(talk.seq()).unwrap();
    failed
}
