//!include num.wgsl
//!include wide.wgsl
//!include next.wgsl
// Draws a token by the logits of the first row: top-k, top-p, min-p, temperature and a generator, as gleed::sample defines them by integer masses. One
// workgroup. Nothing is sorted. The order is by logit, and of equal logits by number. Each step keeps the tokens down to a last one in this order. Masses are
// added as integers, in any order.

struct Params { zero: u32, n: u32, angles: u32, runs: u32 }
// `top_p` is a share times 2^32. Bits of `steps` say whether tokens are left out by count (TOP_K), by mass (TOP_P), by probability (MIN_P).
struct Draws {
    temperature: u32, top_k: u32, top_p: u32, min_p: u32,
    state_low: u32, state_high: u32, steps: u32, unused: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> X: array<f32>;
@group(0) @binding(5) var<storage, read> D: Draws;

const TOP_K = 1u;
const TOP_P = 2u;
const MIN_P = 4u;

// The key of a token in the order; a larger key is earlier. It has the logit, then the complement of the token's number.
struct Key { logit: u32, id: u32 }

var<workgroup> FIRST: array<Key, 256>;
// LOW and HIGH: masses in bins by a byte of the key. SUMS: the sums from each of 256 parts to the last one.
var<workgroup> LOW: array<atomic<u32>, 256>;
var<workgroup> HIGH: array<atomic<u32>, 256>;
var<workgroup> SUMS: array<Wide, 256>;
// The bytes of the last kept token's key that are known so far; the mass that is still to be found; the token that is drawn.
var<workgroup> LAST_KEY: Key;
var<workgroup> NEEDED: Wide;
var<workgroup> TOKEN: u32;

fn key_of(i: u32) -> Key {
    let bits = select(bitcast<u32>(X[i]), 0u, magnitude(X[i]) == 0u);
    return Key(select(bits | 0x80000000u, ~bits, bits >= 0x80000000u), ~i);
}

fn is_before(a: Key, b: Key) -> bool { return a.logit > b.logit || (a.logit == b.logit && a.id > b.id); }

// Puts the first key of the order into FIRST[0].
fn find_first(invocation: u32) {
    var best = Key(0u, 0u);
    for (var i = invocation; i < P.n; i += 256u) {
        let key = key_of(i);
        if (is_before(key, best)) { best = key; }
    }
    FIRST[invocation] = best;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) {
            let other = FIRST[invocation + half];
            if (is_before(other, FIRST[invocation])) { FIRST[invocation] = other; }
        }
        workgroupBarrier();
    }
}

fn largest() -> f32 { return X[min(~FIRST[0].id, P.n - 1u)]; }

// 2^32 e^x, rounded down, for an x that is not above 0.
fn mass_of(x: f32) -> Wide {
    let bits = bitcast<u32>(exp_of(x));
    let mantissa = (bits & 0x7fffffu) | 0x800000u;
    let shift = 127u - (bits >> 23u);
    if (shift == 0u) { return Wide(mantissa << 9u, mantissa >> 23u); }
    return Wide(select((mantissa << 8u) >> ((shift - 1u) & 31u), 0u, shift > 32u), 0u);
}

// Returns whether a token is kept so far.
fn is_kept(i: u32, cut: Key) -> bool { return !is_before(cut, key_of(i)); }

// Replaces SUMS[i] by the sum of parts i to the last one.
fn add_up(invocation: u32) {
    for (var width = 1u; width < 256u; width <<= 1u) {
        workgroupBarrier();
        var sum = SUMS[invocation];
        if (invocation + width < 256u) { sum = plus(sum, SUMS[invocation + width]); }
        workgroupBarrier();
        SUMS[invocation] = sum;
    }
    workgroupBarrier();
}

fn byte_of(key: Key, round: u32) -> u32 {
    return (select(key.logit, key.id, round >= 4u) >> (24u - 8u * (round & 3u))) & 0xffu;
}

// Returns whether a key has the first `round` bytes of LAST_KEY.
fn begins_alike(key: Key, round: u32) -> bool {
    let mask = ~(0xffffffffu >> (8u * (round & 3u)));
    if (round < 4u) { return ((key.logit ^ LAST_KEY.logit) & mask) == 0u; }
    return key.logit == LAST_KEY.logit && ((key.id ^ LAST_KEY.id) & mask) == 0u;
}

fn put_in_bin(bin: u32, mass: Wide) {
    let before = atomicAdd(&LOW[bin], mass.low);
    let carry = select(0u, 1u, before + mass.low < before);
    if (mass.high + carry != 0u) { atomicAdd(&HIGH[bin], mass.high + carry); }
}

// Finds LAST_KEY, byte by byte from the first one on: the last key of the shortest beginning of the order whose mass is NEEDED or more. Tokens have a mass of 1
// each, or their own.
fn find_last(cut: Key, by_mass: bool, invocation: u32) {
    if (invocation == 0u) { LAST_KEY = Key(0u, 0u); }
    for (var round = 0u; round < 8u; round++) {
        atomicStore(&LOW[invocation], 0u);
        atomicStore(&HIGH[invocation], 0u);
        workgroupBarrier();
        for (var i = invocation; i < P.n; i += 256u) {
            let key = key_of(i);
            if (!begins_alike(key, round) || is_before(cut, key)) { continue; }
            var mass = Wide(1u, 0u);
            if (by_mass) { mass = mass_of(sub(X[i], largest())); }
            put_in_bin(byte_of(key, round), mass);
        }
        workgroupBarrier();
        SUMS[invocation] = Wide(atomicLoad(&LOW[invocation]), atomicLoad(&HIGH[invocation]));
        add_up(invocation);
        let needed = NEEDED;
        var above = Wide(0u, 0u);
        if (invocation < 255u) { above = SUMS[invocation + 1u]; }
        workgroupBarrier();
        if (is_below(above, needed) && !is_below(SUMS[invocation], needed)) {
            let byte = invocation << (24u - 8u * (round & 3u));
            if (round < 4u) { LAST_KEY.logit |= byte; } else { LAST_KEY.id |= byte; }
            NEEDED = minus(needed, above);
        }
        workgroupBarrier();
    }
}

// A token's mass: at temperature 1, or at the temperature of the draw, where min-p leaves some tokens out.
fn mass_at(i: u32, cut: Key, is_draw: bool) -> Wide {
    if (!is_kept(i, cut)) { return Wide(0u, 0u); }
    let x = sub(X[i], largest());
    if (!is_draw) { return mass_of(x); }
    if ((D.steps & MIN_P) != 0u && bitcast<u32>(exp_of(x)) < D.min_p) { return Wide(0u, 0u); }
    return mass_of(div(x, number(D.temperature)));
}

// The tokens of one of 256 parts. SUMS has the parts from the last one to the first.
fn part_len() -> u32 { return (P.n + 255u) / 256u; }
fn part_start(invocation: u32) -> u32 { return min((255u - invocation) * part_len(), P.n); }

// Sets SUMS[i] to the mass of all tokens up to the end of part 255 - i, so that SUMS[0] is the mass of all.
fn add_masses(cut: Key, is_draw: bool, invocation: u32) {
    let first = part_start(invocation);
    var sum = Wide(0u, 0u);
    for (var i = first; i < min(first + part_len(), P.n); i++) { sum = plus(sum, mass_at(i, cut, is_draw)); }
    SUMS[invocation] = sum;
    add_up(invocation);
}

// The upper 24 bits of the next number of SplitMix64.
fn random24() -> u32 {
    let golden = Wide(0x7f4a7c15u, 0x9e3779b9u);
    let state = plus(Wide(D.state_low, D.state_high), wrapped(golden, Wide(B[DONE] + 1u, 0u)));
    let z = wrapped(folded(state, 30u), Wide(0x1ce4e5b9u, 0xbf58476du));
    let y = wrapped(folded(z, 27u), Wide(0x133111ebu, 0x94d049bbu));
    return folded(y, 31u).high >> 8u;
}

// Finds the first token, by number, at which the running sum is above the threshold.
fn draw(cut: Key, invocation: u32) {
    add_masses(cut, true, invocation);
    let scaled = product(SUMS[0], random24());
    let threshold = Wide((scaled.low >> 24u) | (scaled.upper.low << 8u), (scaled.upper.low >> 24u) | (scaled.upper.high << 8u));
    var running = Wide(0u, 0u);
    if (invocation < 255u) { running = SUMS[invocation + 1u]; }
    if (is_below(threshold, running) || !is_below(threshold, SUMS[invocation])) { return; }
    let first = part_start(invocation);
    for (var i = first; i < min(first + part_len(), P.n); i++) {
        running = plus(running, mass_at(i, cut, true));
        if (is_below(threshold, running)) {
            TOKEN = i;
            return;
        }
    }
}

@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    if (invocation == 0u) { TOKEN = 0u; }
    find_first(invocation);
    var cut = Key(0u, 0u);
    if ((D.steps & TOP_K) != 0u) {
        if (invocation == 0u) { NEEDED = Wide(D.top_k, 0u); }
        find_last(cut, false, invocation);
        cut = LAST_KEY;
    }
    if ((D.steps & TOP_P) != 0u) {
        add_masses(cut, false, invocation);
        let share = product(SUMS[0], D.top_p);
        workgroupBarrier();
        if (invocation == 0u) {
            NEEDED = plus(share.upper, Wide(select(0u, 1u, share.low != 0u), 0u));
            if (NEEDED.low == 0u && NEEDED.high == 0u) { NEEDED.low = 1u; }
        }
        find_last(cut, true, invocation);
        cut = LAST_KEY;
    }
    draw(cut, invocation);
    workgroupBarrier();
    next_row(TOKEN, invocation);
}
