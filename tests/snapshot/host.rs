//! Failing callbacks, wrong options and small buffers of the host.

use std::panic::{AssertUnwindSafe, catch_unwind};

use gleed::cache::{SnapshotError, SnapshotOptions};
use gleed::{EngineError, Model, SeqId, StreamError};

use crate::{delta, each_limits, each_refused, refusal, snapshot, snapshot_of, tiny, tokens};

#[test]
fn a_source_that_fails() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        let good = snapshot_of(&model, limits, &tokens(2, 37), &delta(0));
        // The callback fails at call `failing`, and gives at most `most` bytes at a time.
        for most in [usize::MAX, 100, 7, 1] {
            let source = |failing: usize, failure: fn() -> Result<usize, &'static str>| {
                let (mut rest, mut call) = (&good[..], 0);
                move |place: &mut [u8]| {
                    if call == failing {
                        return failure();
                    }
                    call += 1;
                    let (given, after) = rest.split_at(place.len().min(most).min(rest.len()));
                    place[..given.len()].copy_from_slice(given);
                    rest = after;
                    Ok(given.len())
                }
            };
            each_refused(&model, limits, |engine, failing| {
                match engine.read_snapshot(None, source(failing, || Err("the card is out"))) {
                    Err(StreamError::Host("the card is out")) => {}
                    Ok((seq, _)) => {
                        engine.close(seq).unwrap();
                        return false;
                    }
                    result => panic!("{result:?}"),
                }
                let lied = engine.read_snapshot(None, source(failing, || Ok(usize::MAX)));
                assert!(matches!(lied, Err(StreamError::Engine(EngineError::Snapshot(SnapshotError::Source { .. })))));
                if failing % 16 == 0 {
                    let restore = || engine.read_snapshot(None, source(failing, || panic!("a bug in the host")));
                    assert!(quietly(restore).is_none());
                }
                true
            });
        }
    }
}

/// Returns the result of `f`, or `None` if it panics.
fn quietly<R>(f: impl FnOnce() -> R) -> Option<R> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let result = catch_unwind(AssertUnwindSafe(f)).ok();
    std::panic::set_hook(hook);
    result
}

#[test]
fn a_sink_that_fails() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        each_refused(&model, limits, |engine, failing| {
            let seq = SeqId::from_bits(1 << 16);
            let good = snapshot(engine, seq, &delta(0));
            let mut taken = Vec::new();
            let mut calls = 0;
            let result = engine.write_snapshot(seq, &delta(0), |piece| {
                if calls == failing {
                    return Err("the disk is full");
                }
                calls += 1;
                taken.extend_from_slice(piece);
                Ok(())
            });
            assert!(good.starts_with(&taken));
            match result {
                Err(error) => assert_eq!(error, StreamError::Host("the disk is full")),
                Ok(written) => assert_eq!((written, taken.len()), (good.len() as u64, good.len())),
            }
            result.is_err()
        });
    }
}

#[test]
fn wrong_options_and_small_buffers() {
    let file = tiny().bytes();
    let model = Model::open(&file).unwrap();
    for limits in each_limits() {
        each_refused(&model, limits, |engine, _| {
            let seq = SeqId::from_bits(1 << 16);
            let mut untouched = [7; 4000];
            for base in [1, 15, 17, 32, 1 << 20, usize::MAX] {
                let error = SnapshotError::BasePosition { base, tokens: 20 };
                assert_eq!(refusal(engine.snapshot_with(seq, &delta(base), &mut untouched)), error);
                assert_eq!(refusal(engine.snapshot_len_with(seq, &delta(base))), error);
                let streamed = engine.write_snapshot(seq, &delta(base), |_| Err(()));
                assert_eq!(streamed, Err(StreamError::Engine(EngineError::Snapshot(error))));
            }
            let state = [1; 257];
            let long = SnapshotOptions { state: &state, ..SnapshotOptions::default() };
            let error = SnapshotError::StateTooLong { given: 257 };
            assert_eq!(refusal(engine.snapshot_with(seq, &long, &mut untouched)), error);
            let longest = SnapshotOptions { state: &state[..256], ..SnapshotOptions::default() };
            let bytes = snapshot(engine, seq, &longest);
            let (restored, header) = engine.restore_with(None, &bytes).unwrap();
            assert_eq!(header.state(), &state[..256]);
            engine.close(restored).unwrap();
            let needed = engine.snapshot_len(seq).unwrap();
            for given in [0, 1, 96, needed - 1] {
                let error = SnapshotError::BufferTooSmall { needed, given };
                assert_eq!(refusal(engine.snapshot(seq, &mut untouched[..given])), error);
            }
            assert!(untouched.iter().all(|&byte| byte == 7));
            assert_eq!(engine.snapshot(seq, &mut untouched), Ok(needed));
            false
        });
    }
}
