//! A full context: which turns stay, and which are left out.

use gleed::conversation::{Conversation, Keep, Script};
use gleed::host::AlignedBytes;
use gleed::turns::{Role, TurnFormat};

use super::{CONTEXT, SMALL, Said, with_host};
use common::random::Rng;

/// Messages before the first one of the user, the first turns and the last turns stay. Between them the fewest whole
/// turns are left out with which the text fits into the target. After that, no more turns are left out until the
/// context is full again.
#[test]
fn whole_turns_are_left_out_between_the_first_and_the_last() {
    with_host(|host| {
        let script = Script::new(TurnFormat::named("llama2"), host.tokenizer);
        for (first, last, target) in [(0, 1, 140), (2, 1, 160), (0, 3, 200), (1, 2, 0), (2, 3, 1)] {
            let keep = Keep { room: 20, first, last, target, summary: None };
            let target = if target == 0 { CONTEXT / 2 } else { target };
            let mut memory = AlignedBytes::new(Conversation::plan(&SMALL).unwrap());
            let (mut talk, mut rng) = (host.talk(&mut memory), Rng::new(3));
            let mut messages: Vec<Said> = vec![(Role::System, "Be kind to all.".to_owned())];
            let (mut before, mut times) = (0..0, 0);
            for turn in 0..24 {
                messages.push((Role::User, format!("Why does the dog run, {turn}?")));
                let (_, left_out) = host.read(&mut talk, &script, &keep, &messages);
                let ids = host.ids(talk.seq());
                let text = host.decode(&ids, true);
                for (index, (role, said)) in messages.iter().enumerate() {
                    assert!(
                        *role == Role::Assistant || text.contains(said) != left_out.contains(&index),
                        "{index} {text}"
                    );
                }
                let turns: Vec<usize> = (0..messages.len()).filter(|&at| messages[at].0 == Role::User).collect();
                if left_out != before {
                    let end = turns.iter().position(|&at| at == left_out.end).expect("whole turns");
                    assert!(left_out.start == turns[first] && end + last <= turns.len(), "{left_out:?}");
                    // The new text fits into the target, or no more turns may be left out.
                    assert!(ids.len() + keep.room <= target || end + last == turns.len(), "{} {left_out:?}", ids.len());
                    (before, times) = (left_out, times + 1);
                }
                let reply = host.reply(&talk, &mut rng, 4);
                messages.push((Role::Assistant, reply));
            }
            // Unless the target is far below the context, turns are left out seldom.
            assert!(times > 1 && (target < 100 || times < 8), "{times}");
            host.engine.close(talk.seq()).unwrap();
        }
    });
}
