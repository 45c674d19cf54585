//!include tree.wgsl
//!include kv.wgsl
// Attention of a head over a chunk of 256 positions. An invocation has a position of the chunk, then an element of the head. The kernel
// says what its POOL is: `fn pool_word(at: u32) -> u32`.

// Parts of `docs/arithmetic.md`, section 7; where V has slopes of linear biases, of a head each, NONE without; where the buffer of
// heads has rotated queries, and the sums of chunks, of which a head of a row has at most `chunks`.
struct Scores {
    scale: u32, cap: u32, window: u32, sinks: u32,
    reach: u32, slopes: u32, queries: u32, parts: u32,
    chunks: u32, unused_0: u32, unused_1: u32, unused_2: u32,
}
// The largest score, the sum of the weights, and of an element the values times weights.
struct Chunk { peak: f32, total: f32, value: f32 }

const CHUNK = 256u;
const LEAST = -2147483647;

var<workgroup> QUERY: array<f32, 256>;
var<workgroup> WEIGHTS: array<f32, 256>;
var<workgroup> ORDER: array<i32, 256>;

// How many chunks end before the first row of the batch that is of the same sequence as this one: their keys and values are known
// before any of the batch are stored, so they are added up beside that.
fn ready(row: u32) -> u32 {
    if (B[PARALLEL] == 0u) { return 0u; }
    let table = B[ROWS + 4u * row + 2u + P.shape.group];
    var first = position_of(row);
    for (var other = 0u; other < B[0]; other++) {
        if (B[ROWS + 4u * other + 2u + P.shape.group] == table) { first = min(first, position_of(other)); }
    }
    let count = first / CHUNK;
    return select(0u, count, count <= P.scores.chunks);
}

// Where the sums of a chunk are: the largest score, the sum of weights, the values.
fn part_at(row: u32, head: u32, chunk: u32) -> u32 {
    return P.scores.parts + ((row * P.shape.heads + head) * P.scores.chunks + chunk) * (P.shape.dim + 2u);
}

fn query_at(row: u32, head: u32) -> u32 { return P.scores.queries + (row * P.shape.heads + head) * P.shape.dim; }

fn put_query(i: u32, q: f32) {
    if (P.shape.k_type == F16) { QUERY[i] = short(q); } else { QUERY[i] = settle(q); }
}

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

fn score(row: u32, query: u32, position: u32, head: u32, kv_head: u32) -> f32 {
    let word = tile_at(row, position, kv_head);
    let slot = position % 16u;
    var sum = number(0u);
    for (var i = 0u; i < P.shape.dim; i++) {
        sum = add(sum, mul(QUERY[i], stored(P.shape.k_type, word, i, slot, false)));
    }
    var scaled = mul(sum, number(P.scores.scale));
    if (P.scores.cap != 0u) { scaled = soft_cap(number(P.scores.cap), scaled); }
    if (P.scores.slopes == NONE) { return scaled; }
    return add(scaled, mul(V[P.scores.slopes + head], of_i32(bitcast<i32>(position) - bitcast<i32>(query))));
}

// The largest of the ORDER of all invocations.
fn largest(invocation: u32) -> i32 {
    for (var half = 128u; half > 0u; half >>= 1u) {
        if (invocation < half) { ORDER[invocation] = max(ORDER[invocation], ORDER[invocation + half]); }
        workgroupBarrier();
    }
    return ORDER[0];
}

fn of_order(order: i32) -> f32 {
    return number(select(bitcast<u32>(order), bitcast<u32>(-order) | 0x80000000u, order < 0));
}

// What is added to the chunk's element: weights times values, in order of the positions that are seen.
fn values_of(row: u32, query: u32, first: u32, count: u32, kv_head: u32, i: u32) -> f32 {
    var sum = number(0u);
    for (var k = 0u; k < count; k++) {
        let position = first + k;
        if (!sees(query, position)) { continue; }
        let word = tile_at(row, position, kv_head) + P.shape.k_words;
        let slot = position % 16u;
        sum = add(sum, mul(WEIGHTS[k], stored(P.shape.v_type, word, i, slot, true)));
    }
    return sum;
}

// A chunk, as the query in QUERY sees it. All invocations call it.
fn attended(row: u32, head: u32, chunk: u32, invocation: u32) -> Chunk {
    let query = position_of(row);
    let kv_head = head / (P.shape.heads / P.shape.kv_heads);
    let first = chunk * CHUNK;
    let position = first + invocation;
    let seen = sees(query, position);
    var mine = number(0u);
    workgroupBarrier();
    if (seen) { mine = score(row, query, position, head, kv_head); }
    ORDER[invocation] = select(LEAST, order(mine), seen && !is_nan(mine));
    workgroupBarrier();
    let top = largest(invocation);
    // Nothing to be seen, or nothing but what is not a number: that shows in the weights.
    let peak = of_order(select(top, -0x7f800000, top == LEAST));
    var weight = number(0u);
    if (seen) {
        weight = weight_of(sub(mine, peak));
        if (P.shape.v_type == F16) { weight = short(weight); }
    }
    WEIGHTS[invocation] = weight;
    workgroupBarrier();
    let count = select(0u, min(CHUNK, query + 1u - first), query >= first);
    if (invocation < 16u) {
        var sum = number(0u);
        for (var k = invocation; k < CHUNK; k += 16u) { sum = add(sum, WEIGHTS[k]); }
        LANES[invocation] = sum;
    }
    var value = number(0u);
    if (invocation < P.shape.dim) { value = values_of(row, query, first, count, kv_head, invocation); }
    workgroupBarrier();
    if (invocation == 0u) { tree16(); }
    workgroupBarrier();
    return Chunk(peak, LANES[0], value);
}

const PARALLEL = 6u; // the word of a batch that says whether chunks are added up beside the store of keys and values
