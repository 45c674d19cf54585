//!include tree.wgsl
//!include keys.wgsl
// Attention of a head over a chunk. An invocation first has a position of the chunk, then an element of the head, or two that are 256 apart.

var<workgroup> QUERY: array<f32, 512>;
// One entry for the position of each invocation: first the score as an ordered integer, then the bits of the weight.
var<workgroup> OWN: array<i32, 256>;
var<workgroup> TOP: array<i32, 16>;
// The weights, those of four positions in one entry: one read brings four.
var<workgroup> WEIGHTS: array<vec4<f32>, 64>;
// Values of some positions, those of four positions in one entry: words with a pair of elements in f16, or bits of the products of weights and an element. A
// column has a pair, or an element. The columns of four positions lie side by side, then those of the next four.
var<workgroup> VALUES: array<vec4<u32>, 512>;

// Returns the number of ready chunks: those that end before the first row of the batch that is of this row's sequence. Their keys and values are in the pool
// before the batch stores any, so they are added up beside the store.
fn ready(row: u32) -> u32 {
    if (B[PARALLEL] == 0u) { return 0u; }
    let table = B[ROWS + ROW * row + 2u + P.shape.group];
    var first = position_of(row);
    for (var other = 0u; other < B[0]; other++) {
        if (B[ROWS + ROW * other + 2u + P.shape.group] == table) { first = min(first, position_of(other)); }
    }
    let count = first / CHUNK;
    return select(0u, count, count <= P.scores.chunks);
}

// The index of the sums of a chunk: the largest score, the sum of weights, then the sums of values.
fn part_at(row: u32, head: u32, chunk: u32) -> u32 {
    return P.scores.parts + ((row * P.shape.heads + head) * P.scores.chunks + chunk) * (P.shape.dim + 2u);
}

fn put_query(i: u32, q: f32) {
    QUERY[i] = as_factor(q);
}

// A sum with the products of 8 elements of the query from `i` on and 8 numbers, in order.
fn with_eight(sum: f32, i: u32, a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32) -> f32 {
    let low = add(add(add(add(sum, mul(QUERY[i], a)), mul(QUERY[i + 1u], b)), mul(QUERY[i + 2u], c)), mul(QUERY[i + 3u], d));
    return add(add(add(add(low, mul(QUERY[i + 4u], e)), mul(QUERY[i + 5u], f)), mul(QUERY[i + 6u], g)), mul(QUERY[i + 7u], h));
}

// A sum with the product of an element of a key in f16. Products with f16 are exact.
fn with_exact(sum: f32, i: u32, word: u32, shift: u32) -> f32 { return add_exact(sum, QUERY[i], half_in(word, shift)); }

// A sum with the products of 8 elements of a key in f16, which are in `w`.
fn with_halves(sum: f32, i: u32, w: Eight, slot: u32) -> f32 {
    let shift = (slot & 1u) * 16u;
    let low = with_exact(with_exact(with_exact(with_exact(sum, i, w.a, shift), i + 1u, w.b, shift), i + 2u, w.c, shift), i + 3u, w.d, shift);
    return with_exact(with_exact(with_exact(with_exact(low, i + 4u, w.e, shift), i + 5u, w.f, shift), i + 6u, w.g, shift), i + 7u, w.h, shift);
}

// A sum with the products of 8 elements of a key in q8_0, whose codes are in `w`.
fn with_codes(sum: f32, i: u32, w: Eight, scale: f32, slot: u32) -> f32 {
    let shift = (slot & 3u) * 8u;
    return with_eight(sum, i, mul(scale, code_in(w.a, shift)), mul(scale, code_in(w.b, shift)), mul(scale, code_in(w.c, shift)),
        mul(scale, code_in(w.d, shift)), mul(scale, code_in(w.e, shift)), mul(scale, code_in(w.f, shift)),
        mul(scale, code_in(w.g, shift)), mul(scale, code_in(w.h, shift)));
}

// 16 elements at a time: reads of the next ones are under way while these are computed.
fn product_of_halves(word: u32, slot: u32, count: u32) -> f32 {
    let at = word + slot / 2u;
    var sum = number(0u);
    var low = eight_words(at, 8u);
    var high = eight_words(at + 64u, 8u);
    for (var i = 0u; i < count; i += 16u) {
        let next = at + 8u * min(i + 16u, count - 16u);
        let next_low = eight_words(next, 8u);
        let next_high = eight_words(next + 64u, 8u);
        sum = with_halves(with_halves(sum, i, low, slot), i + 8u, high, slot);
        low = next_low;
        high = next_high;
    }
    return sum;
}

fn product_of_codes(word: u32, slot: u32, count: u32) -> f32 {
    let at = word + slot / 4u;
    let scales = word + code_words(Q8_0, false);
    var sum = number(0u);
    for (var i = 0u; i < count; i += 16u) {
        let low = eight_words(at + 4u * i, 4u);
        let high = eight_words(at + 4u * i + 32u, 4u);
        let scale = half_of(scales, i / 32u * 16u + slot);
        sum = with_codes(with_codes(sum, i, low, scale, slot), i + 8u, high, scale, slot);
    }
    return sum;
}

// The product of the query and the key of a position.
fn product_of(word: u32, slot: u32) -> f32 {
    let dim = P.shape.dim;
    let element_type = P.shape.k_type;
    var count = dim / 16u * 16u;
    var sum = number(0u);
    if (element_type == F16 && count > 0u) { sum = product_of_halves(word, slot, count); }
    else if (element_type == Q8_0) { sum = product_of_codes(word, slot, count); }
    else { count = 0u; }
    for (var i = count; i < dim; i++) { sum = add(sum, mul(QUERY[i], stored(element_type, word, i, slot, false))); }
    return sum;
}

fn score(query: u32, position: u32, head: u32) -> f32 {
    let slot = position % 16u;
    return score_of(product_of(TILES[position % CHUNK / 16u], slot), query, position, head);
}

// The largest integer in OWN.
fn largest(invocation: u32) -> i32 {
    if (invocation < 16u) {
        var top = OWN[invocation];
        for (var i = invocation + 16u; i < 256u; i += 16u) { top = max(top, OWN[i]); }
        TOP[invocation] = top;
    }
    workgroupBarrier();
    var top = TOP[0];
    for (var i = 1u; i < 16u; i++) { top = max(top, TOP[i]); }
    return top;
}

// Returns whether a word of the pool has a pair of values.
fn has_pairs() -> bool { return P.shape.v_type == F16 && P.shape.dim % 2u == 0u; }

// The number of elements of a head that are added up at a time, from `start` on, and of their columns.
fn span_from(start: u32) -> u32 { return min(P.shape.dim - start, 256u); }
fn columns_from(start: u32) -> u32 { return select(span_from(start), span_from(start) / 2u, has_pairs()); }

// The words of 8 positions from `k` on that have element `i`. Behind the last positions: the words of the last ones.
fn words_from(k: u32, count: u32, i: u32) -> Eight {
    return halves_of(min(k, (max(count, 1u) - 1u) / 8u * 8u), i);
}

// The words that an invocation reads first, if words have pairs of values.
fn first_words(count: u32, start: u32, invocation: u32) -> Eight {
    if (!has_pairs()) { return Eight(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u); }
    let columns = columns_from(start);
    return words_from(8u * (invocation / columns), count, start + 2u * (invocation % columns));
}

// A position without weight adds nothing, whatever its value is.
fn weighing(bits: u32, weight: f32) -> u32 { return select(bits, 0u, bitcast<u32>(weight) == 0u); }

// Puts words of 8 positions from `k` on into VALUES.
fn put_words(at: u32, k: u32, w: Eight, columns: u32) {
    let low = WEIGHTS[k / 4u];
    let high = WEIGHTS[k / 4u + 1u];
    VALUES[at] = vec4<u32>(weighing(w.a, low.x), weighing(w.b, low.y), weighing(w.c, low.z), weighing(w.d, low.w));
    VALUES[at + columns] = vec4<u32>(weighing(w.e, high.x), weighing(w.f, high.y), weighing(w.g, high.z), weighing(w.h, high.w));
}

fn product_bits(k: u32, i: u32, weight: f32) -> u32 {
    return weighing(bitcast<u32>(mul(weight, stored(P.shape.v_type, values_at(k), i, k % 16u, true))), weight);
}

// Puts products of 8 positions from `k` on into VALUES.
fn put_products(at: u32, k: u32, i: u32, columns: u32) {
    for (var j = 0u; j < 2u; j++) {
        let four = k + 4u * j;
        let w = WEIGHTS[four / 4u];
        VALUES[at + j * columns] = vec4<u32>(product_bits(four, i, w.x), product_bits(four + 1u, i, w.y),
            product_bits(four + 2u, i, w.z), product_bits(four + 3u, i, w.w));
    }
}

// A sum with the weights of four positions times one element of their words, in order. Products with f16 are exact.
fn with_words(sum: f32, words: vec4<u32>, w: vec4<f32>, shift: u32) -> f32 {
    let low = add_exact(add_exact(sum, w.x, half_in(words.x, shift)), w.y, half_in(words.y, shift));
    return add_exact(add_exact(low, w.z, half_in(words.z, shift)), w.w, half_in(words.w, shift));
}

// A sum with `count` positions from `k` on, whose words are in VALUES. Reads of the next 8 are under way while 8 are added.
fn with_pairs(first: f32, k: u32, count: u32, columns: u32, invocation: u32) -> f32 {
    let shift = (invocation & 1u) * 16u;
    let last = (count - 1u) / 8u * 2u;
    var sum = first;
    var at = invocation / 2u;
    var low = VALUES[at];
    var high = VALUES[at + columns];
    var low_weights = WEIGHTS[k / 4u];
    var high_weights = WEIGHTS[k / 4u + 1u];
    for (var j = 0u; j <= last; j += 2u) {
        let next = min(j + 2u, last);
        at = next * columns + invocation / 2u;
        let next_low = VALUES[at];
        let next_high = VALUES[at + columns];
        let next_low_weights = WEIGHTS[k / 4u + next];
        let next_high_weights = WEIGHTS[k / 4u + next + 1u];
        sum = with_words(with_words(sum, low, low_weights, shift), high, high_weights, shift);
        low = next_low;
        high = next_high;
        low_weights = next_low_weights;
        high_weights = next_high_weights;
    }
    return sum;
}

// A sum with four products, in order.
fn with_four(sum: f32, p: vec4<u32>) -> f32 { return add(add(add(add(sum, number(p.x)), number(p.y)), number(p.z)), number(p.w)); }

// A sum with `count` positions, whose products are in VALUES.
fn with_products(first: f32, count: u32, columns: u32, invocation: u32) -> f32 {
    var sum = first;
    for (var j = 0u; j < count; j += 8u) {
        let at = j / 4u * columns + invocation;
        let low = VALUES[at];
        let high = VALUES[at + columns];
        sum = with_four(with_four(sum, low), high);
    }
    return sum;
}

// The sum of weights times values of one of up to 256 elements from `start` on, in the order of the positions. Groups of invocations bring 8 positions each;
// `first` has their first words. Then each element has an invocation that adds. All invocations call it.
fn values_of(count: u32, start: u32, first: Eight, invocation: u32) -> f32 {
    let pairs = has_pairs();
    let span = span_from(start);
    let columns = columns_from(start);
    let groups = 256u / columns;
    let member = invocation / columns;
    let column = invocation % columns;
    let at = 2u * member * columns + column;
    var words = first;
    var sum = number(0u);
    for (var k = 0u; k < count; k += 8u * groups) {
        let mine = k + 8u * member;
        if (member < groups && mine < count) {
            if (pairs) { put_words(at, mine, words, columns); } else { put_products(at, mine, start + column, columns); }
        }
        workgroupBarrier();
        // Reads of the next positions are under way while these are added.
        if (pairs) { words = words_from(mine + 8u * groups, count, start + 2u * column); }
        let here = min(8u * groups, count - k);
        if (invocation < span) {
            if (pairs) { sum = with_pairs(sum, k, here, columns, invocation); }
            else { sum = with_products(sum, here, columns, invocation); }
        }
        workgroupBarrier();
    }
    return sum;
}

fn own_weight(k: u32) -> f32 { return number(bitcast<u32>(OWN[k])); }

// The sum of the weights, in 16 lanes. Other invocations copy the weights to WEIGHTS. All invocations call it.
fn total_of(invocation: u32) -> f32 {
    if (invocation < 16u) {
        var sum = number(0u);
        for (var k = invocation; k < CHUNK; k += 64u) {
            let a = own_weight(k);
            let b = own_weight(k + 16u);
            let c = own_weight(k + 32u);
            let d = own_weight(k + 48u);
            sum = add(add(add(add(sum, a), b), c), d);
        }
        LANES[invocation] = sum;
    }
    if (invocation >= 192u) {
        let k = 4u * (invocation - 192u);
        WEIGHTS[k / 4u] = vec4<f32>(own_weight(k), own_weight(k + 1u), own_weight(k + 2u), own_weight(k + 3u));
    }
    workgroupBarrier();
    return tree16();
}

// The sums of a chunk, as the query in QUERY sees it. All invocations call it.
fn attended(row: u32, head: u32, chunk: u32, invocation: u32) -> Chunk {
    let query = position_of(row);
    let kv_head = head / (P.shape.heads / P.shape.kv_heads);
    let first = chunk * CHUNK;
    let position = first + invocation;
    let seen = sees(query, position);
    var mine = number(0u);
    workgroupBarrier();
    if (invocation < 16u) { TILES[invocation] = tile_at(row, position_in(query, first + 16u * invocation), kv_head); }
    workgroupBarrier();
    let count = select(0u, min(CHUNK, query + 1u - first), query >= first);
    // Reads of the first values are under way while scores and weights are computed.
    let words = first_words(count, 0u, invocation);
    if (seen) { mine = score(query, position, head); }
    OWN[invocation] = order_of(mine, seen);
    workgroupBarrier();
    let peak = peak_of(largest(invocation));
    OWN[invocation] = bitcast<i32>(weight_from(mine, peak, seen));
    workgroupBarrier();
    let total = total_of(invocation);
    let value = values_of(count, 0u, words, invocation);
    var other = number(0u);
    if (P.shape.dim > 256u) { other = values_of(count, 256u, first_words(count, 256u, invocation), invocation); }
    return Chunk(peak, total, value, other);
}

const PARALLEL = 6u; // word of a batch: whether chunks are added up beside the store of keys and values
