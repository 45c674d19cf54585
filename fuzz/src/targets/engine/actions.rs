//! The calls of an engine, one function each. Each also updates the expected contents of the engine.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use gleed::cache::SnapshotOptions;
use gleed::{Budget, Deadline, EngineError, Logits, Pooling, SeqId, Step};

use super::oracle::hash;
use super::texts;
use super::world::{Saved, Timeline, World};
use crate::support::{Bytes, expected, forbidden, is_shown, tried};

/// The sequence that a call works on: its handle, and its index in [`World::open`] if it is open.
#[derive(Clone, Copy)]
struct Of {
    seq: SeqId,
    index: Option<usize>,
}

type Call = fn(&mut World<'_, '_, '_>, &mut Bytes<'_>, Of) -> Result<(), EngineError>;

/// What must be the same after a refused call as before it.
#[derive(Clone, Copy, PartialEq)]
enum Leaves {
    /// Every byte of the memory.
    Bytes,
    /// What the engine reports: the call writes to scratch, or to free blocks, before it knows that it is refused.
    Words,
    /// The lengths of sequences: the call also counts its search for a prefix.
    Lengths,
}

/// The calls: name, frequency, what a refused call leaves, and function.
const CALLS: [(&str, u8, Leaves, Call); 23] = [
    ("open", 2, Leaves::Bytes, open),
    ("close", 1, Leaves::Bytes, close),
    ("fork", 2, Leaves::Bytes, fork),
    ("rewind", 2, Leaves::Bytes, rewind),
    ("queue", 4, Leaves::Bytes, queue),
    ("step", 6, Leaves::Bytes, step),
    ("cancel", 1, Leaves::Bytes, cancel),
    ("prefill", 2, Leaves::Words, prefill),
    ("prefill_prompt", 1, Leaves::Lengths, prefill_prompt),
    ("reuse", 1, Leaves::Bytes, reuse),
    ("pin", 1, Leaves::Bytes, pin),
    ("unpin", 1, Leaves::Bytes, unpin),
    ("make_room", 1, Leaves::Bytes, make_room),
    ("snapshot", 1, Leaves::Bytes, snapshot),
    ("restore", 2, Leaves::Words, restore),
    ("embed", 1, Leaves::Words, embed),
    ("log_probs", 1, Leaves::Words, log_probs),
    ("set_adapter", 1, Leaves::Bytes, set_adapter),
    ("load_adapter", 1, Leaves::Bytes, load_adapter),
    ("push_row", 1, Leaves::Bytes, push_row),
    ("checkpoint", 1, Leaves::Bytes, checkpoint),
    ("text", 2, Leaves::Bytes, text),
    ("hidden", 1, Leaves::Bytes, hidden),
];

/// Makes one call, and checks what must hold after it.
pub fn call(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>) {
    let total: usize = CALLS.iter().map(|call| usize::from(call.1)).sum();
    let mut at = bytes.below(total);
    let found = CALLS.iter().find(|call| {
        let is_this = at < usize::from(call.1);
        at = at.wrapping_sub(call.1.into());
        is_this
    });
    let (name, _, leaves, run) = found.expect("one of them");
    let of = handle(world, bytes);
    tried();
    let before = world.see();
    let result = run(world, bytes, of);
    texts::follow_cut(world);
    if let Err(error) = result {
        let error = expected(error);
        assert!(!matches!(error, EngineError::NonFinite { .. }), "{name}: {error:?}");
        let after = world.see();
        let says_same = before.says == after.says || *leaves == Leaves::Lengths;
        assert!(says_same, "{name}: {error:?} changed\n{:?}\nto\n{:?}", before.says, after.says);
        assert!(before == after || *leaves != Leaves::Bytes, "{name}: {error:?} changed the memory");
    }
    if is_shown() {
        eprintln!("{name} {:?} {:?}: {result:?}", of.seq, of.index);
    }
    world.check(name);
}

/// Returns an open sequence, or now and then a handle that is none.
fn handle(world: &World<'_, '_, '_>, bytes: &mut Bytes<'_>) -> Of {
    let is_wrong = bytes.once_in(24) || world.open.is_empty();
    let seq = if is_wrong { *bytes.pick(&world.closed) } else { bytes.pick(&world.open).seq };
    Of { seq, index: world.position_of(seq) }
}

/// Returns at most `most` tokens: often the same ones, so that prefixes repeat, and seldom ones that the model does not
/// have.
fn tokens(bytes: &mut Bytes<'_>, most: usize) -> Vec<u32> {
    let (len, kind) = (bytes.below(most + 1), bytes.u8());
    let one = |at: usize| match kind % 16 {
        15 => u32::from(bytes.u8() % 13),
        0 | 4 | 8 | 12 => u32::from(bytes.u8()) % 3,
        _ => ((at as u32).wrapping_mul(kind.into()) >> 2) % 3,
    };
    (0..len).map(one).collect()
}

fn open(world: &mut World<'_, '_, '_>, _: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    let seq = forbidden(|| world.engine.open())?;
    world.open.push(Timeline::new(seq));
    Ok(())
}

fn close(world: &mut World<'_, '_, '_>, _: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    forbidden(|| world.engine.close(of.seq))?;
    world.open.remove(of.index.expect("an open sequence"));
    world.closed.push(of.seq);
    if world.closed.len() > 8 {
        world.closed.remove(2);
    }
    Ok(())
}

/// Returns a length to keep. It is seldom longer than the sequence.
fn keep(world: &World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> usize {
    bytes.below(of.index.map_or(3, |index| world.open[index].tokens.len() + 2))
}

fn fork(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let keep = keep(world, bytes, of);
    let seq = forbidden(|| world.engine.fork(of.seq, keep))?;
    let mut fork = Timeline { seq, ..world.open[of.index.expect("an open sequence")].clone() };
    fork.tokens.truncate(keep);
    fork.is_strange &= keep > 0;
    world.open.push(fork);
    Ok(())
}

fn rewind(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let keep = keep(world, bytes, of);
    forbidden(|| world.engine.rewind(of.seq, keep))?;
    world.truncate(of.index.expect("an open sequence"), keep);
    Ok(())
}

fn queue(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let new = tokens(bytes, 40);
    let wanted = *bytes.pick(&[Logits::All, Logits::Last, Logits::All, Logits::Hidden, Logits::LastHidden]);
    let position = world.engine.seq_len(of.seq).unwrap_or(0) + usize::from(bytes.once_in(32));
    let fits = world.engine.can_extend(of.seq, new.len());
    forbidden(|| world.engine.queue(of.seq, position, &new, wanted))?;
    assert_eq!(fits, Ok(()), "what is queued fits");
    let index = of.index.expect("an open sequence");
    world.append(index, &new);
    world.open[index].pending = new.len();
    Ok(())
}

fn step(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    let (cancel, ticks) = (AtomicBool::new(bytes.once_in(16)), AtomicU64::new(0));
    let clock = || ticks.fetch_add(1, Ordering::Relaxed);
    let budget = match bytes.u8() % 4 {
        0 => Budget::from(1 + bytes.below(20)),
        1 => Budget::from(Deadline { clock: &clock, at: bytes.u8().into() }),
        2 => Budget { units: 1 + bytes.below(200), until: None, cancel: Some(&cancel) },
        _ => Budget::default(),
    };
    let step = forbidden(|| world.engine.step(budget))?;
    for timeline in &mut world.open {
        let length = world.engine.seq_len(timeline.seq)?;
        let pending = timeline.tokens.len().checked_sub(length).expect("no more tokens than were queued");
        assert!(pending <= timeline.pending, "a step commits");
        timeline.pending = pending;
    }
    assert!(step != Step::Idle || !world.engine.is_busy());
    if step == Step::Ready {
        for (seq, position, logits) in world.engine.results() {
            let index = world.position_of(seq).expect("results of open sequences");
            world.compare(&world.open[index], position, hash(logits), "step");
        }
    }
    Ok(())
}

fn cancel(world: &mut World<'_, '_, '_>, _: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    forbidden(|| world.engine.cancel(of.seq))?;
    let (index, length) = (of.index.expect("an open sequence"), world.engine.seq_len(of.seq)?);
    world.truncate(index, length);
    Ok(())
}

fn prefill(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let most = if bytes.bool() { 1 } else { 40 };
    let new = tokens(bytes, most);
    forbidden(|| world.engine.prefill(of.seq, &new).map(drop))?;
    let index = of.index.expect("an open sequence");
    world.append(index, &new);
    world.compare_last(index, "prefill");
    Ok(())
}

fn prefill_prompt(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let prompt = tokens(bytes, 70);
    let is_empty = of.index.is_some_and(|index| world.open[index].tokens.is_empty());
    forbidden(|| world.engine.prefill_prompt(of.seq, &prompt).map(drop))?;
    assert!(is_empty, "a prompt of a sequence that is empty");
    let index = of.index.expect("an open sequence");
    world.append(index, &prompt);
    world.compare_last(index, "prefill_prompt");
    Ok(())
}

fn reuse(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let prompt = tokens(bytes, 70);
    let known = forbidden(|| world.engine.reuse(of.seq, &prompt))?;
    assert!(known < prompt.len().max(1), "one token at least is left");
    world.append(of.index.expect("an open sequence"), &prompt[..known]);
    Ok(())
}

fn pin(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    let prompt = tokens(bytes, 70);
    let pinned = forbidden(|| world.engine.pin(&prompt))?;
    world.pins.push(prompt[..pinned].to_vec());
    Ok(())
}

fn unpin(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    if !world.pins.is_empty() {
        let pin = world.pins.swap_remove(bytes.below(world.pins.len()));
        assert_eq!(forbidden(|| world.engine.unpin(&pin)), Ok(pin.len()));
    }
    Ok(())
}

fn make_room(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let (tokens, consents, mut asked) = (bytes.below(60), bytes.u8(), 0);
    let consent = |_, _: &_| {
        asked += 1;
        consents >> (asked % 8) & 1 == 1
    };
    let closed = forbidden(|| world.engine.make_room(of.seq, tokens, consent))?;
    let before = world.open.len();
    let engine = &world.engine;
    world.open.retain(|timeline| engine.seq_len(timeline.seq).is_ok());
    assert_eq!(before - world.open.len(), closed, "sequences that were closed");
    assert_eq!(world.engine.can_extend(of.seq, tokens), Ok(()));
    Ok(())
}

fn snapshot(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let length = of.index.map_or(0, |index| world.open[index].tokens.len());
    let (base, state) = (16 * bytes.below(length / 16 + 2), bytes.below(10));
    let options = SnapshotOptions { base, state: &[7; 9][..state], checkpoints: state % 3 };
    let mut out = vec![0; world.engine.snapshot_len_with(of.seq, &options)?];
    assert_eq!(forbidden(|| world.engine.snapshot_with(of.seq, &options, &mut out)), Ok(out.len()));
    let of = world.open[of.index.expect("an open sequence")].clone();
    if world.saved.len() > 4 {
        world.saved.remove(0);
    }
    world.saved.push(Saved { bytes: out, of, base, state });
    Ok(())
}

fn restore(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    if world.saved.is_empty() {
        return Ok(());
    }
    let which = bytes.below(world.saved.len());
    let saved = &world.saved[which];
    let base = (saved.base > 0 || bytes.once_in(4)).then_some(of.seq);
    let (seq, header) = forbidden(|| world.engine.restore_with(base, &saved.bytes))?;
    assert_eq!(
        (header.tokens(), header.base(), header.state().len()),
        (saved.of.tokens.len(), saved.base, saved.state)
    );
    if saved.base == 0 && saved.state == 0 {
        let mut again = vec![0; world.engine.snapshot_len(seq)?];
        world.engine.snapshot(seq, &mut again)?;
        assert!(again == saved.bytes, "what was restored is saved as it was");
    }
    let mut restored = Timeline { seq, scale: 0, pending: 0, ..saved.of.clone() };
    if let Some(index) = of.index.filter(|_| saved.base > 0) {
        restored.scale = world.open[index].scale;
        restored.is_strange |= world.open[index].is_strange;
    }
    world.open.push(restored);
    // Its next tokens may have another scale than its first ones.
    world.append(world.open.len() - 1, &[]);
    Ok(())
}

fn embed(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let new = tokens(bytes, 20);
    let pooling = if bytes.bool() { Pooling::Mean } else { Pooling::Last };
    let width = world.engine.model().config().embedding_len(pooling);
    let mut out =
        vec![0.0; if bytes.once_in(8) { 3 } else { width.expect("a model without matrices behind the pooling") }];
    forbidden(|| world.engine.embed(of.seq, &new, pooling, &mut out))?;
    assert!(out.iter().all(|x| x.is_finite()));
    world.append(of.index.expect("an open sequence"), &new);
    Ok(())
}

fn log_probs(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let new = tokens(bytes, 20);
    let mut out = vec![0.0; if bytes.once_in(8) { 3 } else { new.len().saturating_sub(1) }];
    forbidden(|| world.engine.log_probs(of.seq, &new, &mut out))?;
    assert!(out.iter().all(|x| *x <= 0.0));
    world.append(of.index.expect("an open sequence"), &new);
    Ok(())
}

fn set_adapter(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let (scale, number) = (*bytes.pick(&[0f32, 1.0, -0.5, f32::NAN]), usize::from(bytes.once_in(8)));
    forbidden(|| world.engine.set_adapter(of.seq, number, scale))?;
    assert!(world.is_loaded && number == 0 && scale.is_finite());
    world.open[of.index.expect("an open sequence")].scale = scale.to_bits();
    Ok(())
}

fn load_adapter(world: &mut World<'_, '_, '_>, _: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    let Some(adapter) = &world.oracle.adapter else { return Ok(()) };
    let number = forbidden(|| world.engine.load_adapter(adapter))?;
    assert!(!world.is_loaded && number == 0);
    world.is_loaded = true;
    Ok(())
}

fn push_row(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let Some(index) = of.index else { return Ok(()) };
    let value = f32::from(bytes.u8() as i8) / 64.0;
    let config = world.engine.model().config();
    let rows: Vec<Vec<f32>> = (0..config.layers).map(|layer| vec![value; config.layer(layer).kv.width()]).collect();
    let cache = world.engine.cache_mut()?;
    for (layer, row) in rows.iter().enumerate() {
        let pushed = forbidden(|| cache.push_row(of.seq, layer, row, row));
        assert!(pushed.is_ok() || layer == 0, "all layers take the row that the first one took: {pushed:?}");
        pushed?;
    }
    world.open[index].tokens.push((u32::MAX, 0));
    world.open[index].is_strange = true;
    Ok(())
}

fn checkpoint(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    if bytes.bool() {
        forbidden(|| world.engine.checkpoint(of.seq).map(drop))
    } else {
        forbidden(|| world.engine.checkpoint_at(of.seq, bytes.below(90)))
    }
}

/// Begins a text of a sequence, moves one to the position of its sequence, or rewinds both.
fn text(world: &mut World<'_, '_, '_>, bytes: &mut Bytes<'_>, of: Of) -> Result<(), EngineError> {
    let index = bytes.below(world.texts.len());
    let result = match bytes.u8() % 4 {
        0 => texts::begin(world, of.seq),
        _ if world.texts.is_empty() => Ok(()),
        1 => texts::rewind(world, index, bytes.below(40)),
        _ => texts::follow(world, index),
    };
    result.map_or_else(texts::reason, |()| Ok(()))
}

fn hidden(world: &mut World<'_, '_, '_>, _: &mut Bytes<'_>, _: Of) -> Result<(), EngineError> {
    let (width, mut rows) = (world.engine.model().config().hidden, 0);
    world.engine.hidden(|_, _, row| {
        assert!(row.len() == width && row.iter().all(|x| x.is_finite()));
        rows += 1;
    });
    assert_eq!(rows, world.engine.hidden_rows());
    Ok(())
}
