//! Every kernel of every level of this machine against the scalar one, on numbers and bytes that an attacker would
//! choose. Also whole models of strange shapes, and models with numbers that are not finite.
//!
//! A case is one compared output. `GLEED_CASES` says how many cases a kernel has for each level and each format or
//! element type: 3,000 if it is not set. `GLEED_SEED` (0) decides which cases, so that a long run does not repeat the
//! last one. `GLEED_FORMATS` names the formats of the tests of products, with commas between them: all if it is not
//! set. `scripts/campaign.sh` sets the first two.

mod cache;
mod products;
mod rows;
mod shapes;

use std::sync::LazyLock;

use common::random::Rng;
use gleed::kernels::Level;

fn cases() -> u64 {
    static CASES: LazyLock<u64> = LazyLock::new(|| number("GLEED_CASES", 3000));
    *CASES
}

/// Returns the random numbers of a test. They differ for each stream and for each `GLEED_SEED`.
fn random(stream: u64) -> Rng {
    static SEED: LazyLock<u64> = LazyLock::new(|| number("GLEED_SEED", 0));
    Rng::new(stream ^ SEED.wrapping_mul(0xd134_2543_de82_ef95))
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name)
        .map_or(default, |value| value.parse().unwrap_or_else(|_| panic!("{name} is no number: {value}")))
}

/// Returns all levels except the scalar one. Asking the processor takes a millisecond on a virtual machine, longer than
/// a case.
fn levels() -> &'static [Level] {
    static LEVELS: LazyLock<Vec<Level>> =
        LazyLock::new(|| Level::available().filter(|&level| level != Level::SCALAR).collect());
    &LEVELS
}

/// Prints how many outputs were compared.
fn tell(kernel: &str, of: &str, cases: u64) {
    let levels = levels();
    let names: Vec<&str> = levels.iter().map(|level| level.name()).collect();
    println!("attack: {kernel}, {of}: {} outputs ({cases} of each of {names:?})", cases * levels.len() as u64);
}

/// Returns whether two numbers have the same bits. All NaN count as the same, because machines make different ones.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan()
}

fn all_same(a: &[f32], b: &[f32]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(&a, &b)| same(a, b))
}

/// Returns a finite number of any size, most often between 2^-7 and 4. One random word makes a number, because making
/// numbers takes longer than most kernels.
fn finite(rng: &mut Rng) -> f32 {
    const EDGES: [f32; 12] =
        [0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, f32::MIN_POSITIVE, 8.88e-16, -8.88e-16, 65504.0, 1e30, -1e30];
    let bits = rng.u64();
    let (kind, pick) = (bits & 7, (bits >> 3) as usize & 0xffff);
    let usual = f32::from_bits((bits >> 32) as u32 & 0x807f_ffff | (120 + (pick % 9) as u32) << 23);
    match kind {
        0 => EDGES[pick % EDGES.len()],
        1 => usual * 1e-40,
        2 => usual * 1e4,
        3 => (pick % 255) as f32 * 0.5 - 63.5,
        _ => usual,
    }
}

/// Returns a finite number, or sometimes any bits, an infinity or NaN.
fn any(rng: &mut Rng) -> f32 {
    let bits = rng.u64();
    match bits & 15 {
        0 => f32::from_bits((bits >> 32) as u32),
        1 => [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX][(bits >> 4) as usize & 3],
        _ => finite(rng),
    }
}

fn row(rng: &mut Rng, len: usize, one: fn(&mut Rng) -> f32) -> Vec<f32> {
    (0..len).map(|_| one(rng)).collect()
}
