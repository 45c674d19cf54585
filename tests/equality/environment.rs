//! The host's floating-point environment.

use std::arch::asm;
use std::hint::black_box;
use std::thread;

use gleed::par::{Parallel, Serial};
use gleed::{KvKind, KvType, Limits, Model};

use crate::threads::Body;
use crate::{limits, models, tokens};
use common::playback::{Plain, Player, Stage};

/// Flush-to-zero, denormals-are-zero, and rounding toward zero, down, or up.
const HOSTILE: [u32; 3] = [0x1f80 | 0x8040 | 0x6000, 0x1f80 | 0x8040 | 0x2000, 0x1f80 | 0x8040 | 0x4000];

fn read() -> u32 {
    let mut bits = 0_u32;
    // SAFETY: every x86_64 has SSE. The instruction stores 4 bytes to `bits`, a live u32.
    unsafe { asm!("stmxcsr [{}]", in(reg) &raw mut bits, options(nostack, preserves_flags)) };
    bits
}

fn write(bits: u32) {
    // SAFETY: every x86_64 has SSE. `bits` is the default with control bits set, or a value that `read` returned, so no
    // reserved bit is set.
    unsafe { asm!("ldmxcsr [{}]", in(reg) &raw const bits, options(nostack)) };
}

/// Runs `f` with these bits in the register, and checks that they are still there afterwards.
fn with<R>(bits: u32, f: impl FnOnce() -> R) -> R {
    let host = read();
    write(bits);
    let result = black_box(black_box(f)());
    let after = read();
    write(host);
    assert_eq!(after & !0x3f, bits, "the host's environment is not what it was");
    result
}

/// Workers whose floating-point environments differ from the caller's and from each other's.
struct Workers;

impl Parallel for Workers {
    fn run(&self, _slots: usize, body: Body<'_>) {
        thread::scope(|scope| {
            for bits in HOSTILE {
                scope.spawn(move || with(bits, || body(0)));
            }
        });
        body(0);
    }

    fn slots(&self) -> usize {
        4
    }
}

#[test]
fn the_hosts_floating_point_environment() {
    let [x, y, tiny] = black_box([1.0_f32, 3.0, f32::MIN_POSITIVE]);
    assert_ne!(with(HOSTILE[0], || x / y).to_bits(), with(0x1f80, || x / y).to_bits());
    assert_eq!(with(HOSTILE[0], || tiny / y), 0.0);

    for synthetic in models() {
        // A number in the metadata that would be read as another one in another environment.
        let mut writer = synthetic.writer();
        let find = |end: &str| writer.metadata.iter().map(|(key, _)| key.clone()).find(|key| key.ends_with(end));
        let (key, value) = match find("rope.freq_base") {
            Some(key) => (key, 10_000.1_f64),
            None => (find("_epsilon").unwrap(), 1.01e-5),
        };
        let file = writer.set(&key, value).finish();
        for kv_type in KvType::ALL {
            let mut plain = Plain::new(&Model::open(&file).unwrap(), kv_type);
            for (bits, kind) in HOSTILE.into_iter().zip(KvKind::ALL) {
                let limits = Limits { workers: 4, ..limits(kind, kv_type, 16) };
                for parallel in [&Serial as &dyn Parallel, &Workers] {
                    let recorded = with(bits, || {
                        let model = Model::open(&file).unwrap();
                        Stage { parallel, ..Stage::new(limits) }.play(&model, story)
                    });
                    plain.assert_same(&recorded, &(bits, kind, kv_type));
                }
            }
        }
    }
}

/// Makes every call that computes or moves keys and values.
fn story(player: &mut Player<'_, '_>) {
    let seq = player.open();
    player.append(seq, &tokens(90, 20));
    let fork = player.fork(seq, 17);
    player.append(fork, &tokens(91, 1));
    let snapshot = player.snapshot(fork);
    let tokens = player.tokens(fork).clone();
    let restored = player.try_restore(&snapshot, &tokens).unwrap();
    player.append(restored, &self::tokens(92, 2));
}
