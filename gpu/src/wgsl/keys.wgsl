//!include kv.wgsl
// Keys and values of a chunk of 256 positions. The kernel defines how its POOL is read: `fn pool_word(at: u32) -> u32`.

// Numbers of `docs/arithmetic.md`, section 7. `slopes`: index in V of the slopes of linear biases, one for each head, or NONE. `queries` and `parts`: words of
// the buffer of heads at which rotated queries and sums of chunks begin. `chunks`: largest number of chunks of a head of a row there.
struct Scores {
    scale: u32, cap: u32, window: u32, sinks: u32,
    reach: u32, slopes: u32, queries: u32, parts: u32,
    chunks: u32, unused_0: u32, unused_1: u32, unused_2: u32,
}
// The largest score, the sum of the weights, and for an element the sum of values times weights. `other` is this sum for the element 256 behind it.
struct Chunk { peak: f32, total: f32, value: f32, other: f32 }

const CHUNK = 256u;
const LEAST = -2147483647;

// Words at which the tiles of a chunk begin.
var<workgroup> TILES: array<u32, 16>;

fn query_at(row: u32, head: u32) -> u32 { return P.scores.queries + (row * P.shape.heads + head) * P.shape.dim; }

fn sees(query: u32, position: u32) -> bool {
    if (position > query) { return false; }
    let back = query - position;
    return back < P.scores.window || (position < P.scores.sinks && back < P.scores.reach);
}

fn half_of(word: u32, half: u32) -> f32 { return f16_to_f32((pool_word(word + (half >> 1u)) >> ((half & 1u) * 16u)) & 0xffffu); }

fn stored(element_type: u32, word: u32, i: u32, slot: u32, is_value: bool) -> f32 {
    let at = index(i, slot, is_value);
    if (element_type == F16) { return half_of(word, at); }
    if (element_type == F32) { return number(pool_word(word + at)); }
    var code = extractBits(bitcast<i32>(pool_word(word + (at >> 2u))), (at & 3u) * 8u, 8u);
    if (element_type == Q4_0) {
        let half = nibble(i, slot, is_value);
        code = extractBits(bitcast<i32>(pool_word(word + (half >> 3u))), (half & 7u) * 4u, 4u);
    }
    return mul(half_of(word + code_words(element_type, is_value), (i / 32u) * 16u + slot), of_i32(code));
}

// Eight words of the pool.
struct Eight { a: u32, b: u32, c: u32, d: u32, e: u32, f: u32, g: u32, h: u32 }

// 8 words that are `step` apart. All are read before the first one is needed, so an invocation waits once.
fn eight_words(at: u32, step: u32) -> Eight {
    return Eight(pool_word(at), pool_word(at + step), pool_word(at + 2u * step), pool_word(at + 3u * step),
        pool_word(at + 4u * step), pool_word(at + 5u * step), pool_word(at + 6u * step), pool_word(at + 7u * step));
}

fn half_in(word: u32, shift: u32) -> f32 { return f16_to_f32((word >> shift) & 0xffffu); }

fn code_in(word: u32, shift: u32) -> f32 { return of_i32(extractBits(bitcast<i32>(word), shift, 8u)); }

fn of_order(order: i32) -> f32 {
    return number(select(bitcast<u32>(order), bitcast<u32>(-order) | 0x80000000u, order < 0));
}

// The word at which the values of the tile of position `k` begin; and the words of 8 positions from `k` on that have element `i` in f16.
fn values_at(k: u32) -> u32 { return TILES[k / 16u] + P.shape.k_words; }

fn halves_of(k: u32, i: u32) -> Eight {
    let dim = P.shape.dim;
    return eight_words(values_at(k) + (k % 16u * dim + i) / 2u, dim / 2u);
}

// A position of the tile that begins at position `first`, or the query's own where it sees none of the tile's: such a tile need not exist.
fn position_in(query: u32, first: u32) -> u32 {
    let last = min(first + 15u, query);
    let seen = sees(query, last) || (first < P.scores.sinks && sees(query, min(last, P.scores.sinks - 1u)));
    return select(query, first, seen && first <= query);
}

// An element of a query, as it multiplies keys.
fn as_factor(q: f32) -> f32 {
    if (P.shape.k_type == F16) { return short(q); }
    return settle(q);
}

// The score of a position, from the product of its key and a query.
fn score_of(product: f32, query: u32, position: u32, head: u32) -> f32 {
    var scaled = mul(product, number(P.scores.scale));
    if (P.scores.cap != 0u) { scaled = soft_cap(number(P.scores.cap), scaled); }
    if (P.scores.slopes == NONE) { return scaled; }
    return add(scaled, mul(V[P.scores.slopes + head], of_i32(bitcast<i32>(position) - bitcast<i32>(query))));
}

// A score as an integer in the order of scores: LEAST where the position is not seen, or the score is NaN.
fn order_of(score: f32, seen: bool) -> i32 { return select(LEAST, order(score), seen && !is_nan(score)); }

// The largest score. Where no position is seen, or all scores are NaN, the weights show that.
fn peak_of(top: i32) -> f32 { return of_order(select(top, -0x7f800000, top == LEAST)); }

// The weight of a position, as it multiplies values. It is computed even if the position is not seen: that is faster than a branch.
fn weight_from(score: f32, peak: f32, seen: bool) -> f32 {
    var weight = weight_of(sub(score, peak));
    if (P.shape.v_type == F16) { weight = short(weight); }
    return number(select(0u, bitcast<u32>(weight), seen));
}
