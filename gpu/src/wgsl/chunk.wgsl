//!include tree.wgsl
//!include keys.wgsl
// Attention of a head over a chunk. An invocation has a position of the chunk, then an element of the head, or two with 256 between them.

var<workgroup> QUERY: array<f32, 512>;
var<workgroup> WEIGHTS: array<f32, 256>;
var<workgroup> ORDER: array<i32, 256>;
var<workgroup> TOP: array<i32, 16>;
// Weights times values, of so many positions at once: elements of one, then of the next.
var<workgroup> PRODUCTS: array<f32, 2048>;

// How many chunks end before the first row of the batch that is of the same sequence as this one: their keys and values are known
// before any of the batch are stored, so they are added up beside that.
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

// Where the sums of a chunk are: the largest score, the sum of weights, the values.
fn part_at(row: u32, head: u32, chunk: u32) -> u32 {
    return P.scores.parts + ((row * P.shape.heads + head) * P.scores.chunks + chunk) * (P.shape.dim + 2u);
}

fn put_query(i: u32, q: f32) {
    QUERY[i] = as_factor(q);
}

// A sum with the products of 8 elements of the query from `i` on, in order.
fn with_eight(sum: f32, i: u32, a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32) -> f32 {
    let low = add(add(add(add(sum, mul(QUERY[i], a)), mul(QUERY[i + 1u], b)), mul(QUERY[i + 2u], c)), mul(QUERY[i + 3u], d));
    return add(add(add(add(low, mul(QUERY[i + 4u], e)), mul(QUERY[i + 5u], f)), mul(QUERY[i + 6u], g)), mul(QUERY[i + 7u], h));
}

// A sum with an element of a key in f16: products with f16 are exact.
fn with_exact(sum: f32, i: u32, word: u32, shift: u32) -> f32 { return add_exact(sum, QUERY[i], half_in(word, shift)); }

// A sum with 8 elements of a key in f16, which `w` has.
fn with_halves(sum: f32, i: u32, w: Eight, slot: u32) -> f32 {
    let shift = (slot & 1u) * 16u;
    let low = with_exact(with_exact(with_exact(with_exact(sum, i, w.a, shift), i + 1u, w.b, shift), i + 2u, w.c, shift), i + 3u, w.d, shift);
    return with_exact(with_exact(with_exact(with_exact(low, i + 4u, w.e, shift), i + 5u, w.f, shift), i + 6u, w.g, shift), i + 7u, w.h, shift);
}

// The same of one in q8_0.
fn with_codes(sum: f32, i: u32, w: Eight, scale: f32, slot: u32) -> f32 {
    let shift = (slot & 3u) * 8u;
    return with_eight(sum, i, mul(scale, code_in(w.a, shift)), mul(scale, code_in(w.b, shift)), mul(scale, code_in(w.c, shift)),
        mul(scale, code_in(w.d, shift)), mul(scale, code_in(w.e, shift)), mul(scale, code_in(w.f, shift)),
        mul(scale, code_in(w.g, shift)), mul(scale, code_in(w.h, shift)));
}

// 16 elements at a time: the next ones are under way while these are computed.
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

// The largest of the ORDER of all invocations.
fn largest(invocation: u32) -> i32 {
    if (invocation < 16u) {
        var top = ORDER[invocation];
        for (var i = invocation + 16u; i < 256u; i += 16u) { top = max(top, ORDER[i]); }
        TOP[invocation] = top;
    }
    workgroupBarrier();
    var top = TOP[0];
    for (var i = 1u; i < 16u; i++) { top = max(top, TOP[i]); }
    return top;
}

// What position `k` of the chunk gives. It has no weight where it is not seen, whatever the value is.
fn put_weighted(at: u32, k: u32, value: f32) {
    let weight = WEIGHTS[k];
    PRODUCTS[at] = number(select(bitcast<u32>(mul(weight, value)), 0u, bitcast<u32>(weight) == 0u));
}

// Products of 8 positions from `k` on: those of element `i` go to `at` and behind it, `span` apart.
fn put_halves(at: u32, k: u32, w: Eight, i: u32, span: u32) {
    let shift = (i & 1u) * 16u;
    put_weighted(at, k, half_in(w.a, shift));
    put_weighted(at + span, k + 1u, half_in(w.b, shift));
    put_weighted(at + 2u * span, k + 2u, half_in(w.c, shift));
    put_weighted(at + 3u * span, k + 3u, half_in(w.d, shift));
    put_weighted(at + 4u * span, k + 4u, half_in(w.e, shift));
    put_weighted(at + 5u * span, k + 5u, half_in(w.f, shift));
    put_weighted(at + 6u * span, k + 6u, half_in(w.g, shift));
    put_weighted(at + 7u * span, k + 7u, half_in(w.h, shift));
}

// The same of other element types.
fn put_others(at: u32, k: u32, i: u32, span: u32) {
    for (var j = 0u; j < 8u; j++) {
        put_weighted(at + j * span, k + j, stored(P.shape.v_type, values_at(k), i, k % 16u + j, true));
    }
}

// A sum with 8 products, in order.
fn with_products(sum: f32, at: u32, span: u32) -> f32 {
    let a = PRODUCTS[at];
    let b = PRODUCTS[at + span];
    let c = PRODUCTS[at + 2u * span];
    let d = PRODUCTS[at + 3u * span];
    let e = PRODUCTS[at + 4u * span];
    let f = PRODUCTS[at + 5u * span];
    let g = PRODUCTS[at + 6u * span];
    let h = PRODUCTS[at + 7u * span];
    return add(add(add(add(add(add(add(add(sum, a), b), c), d), e), f), g), h);
}

// What is added to an element of the chunk, of the up to 256 from `start` on: weights times values, in order of the positions. Groups of
// invocations multiply 8 positions each, the first group adds the products of all. All invocations call it.
fn values_of(count: u32, start: u32, invocation: u32) -> f32 {
    let dim = P.shape.dim;
    let span = min(dim - start, 256u);
    let groups = 256u / span;
    let member = invocation / span;
    let i = start + invocation % span;
    let halves = P.shape.v_type == F16 && dim % 2u == 0u;
    // Of what is not there, the last of the chunk.
    let last = (max(count, 1u) - 1u) / 8u * 8u;
    var words = Eight(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u);
    if (halves) { words = halves_of(min(8u * member, last), i); }
    var sum = number(0u);
    for (var k = 0u; k < count; k += 8u * groups) {
        let mine = k + 8u * member;
        let at = 8u * member * span + invocation % span;
        if (member < groups && mine < count) {
            if (halves) { put_halves(at, mine, words, i, span); } else { put_others(at, mine, i, span); }
        }
        workgroupBarrier();
        // The next ones are under way while these are added.
        if (halves) { words = halves_of(min(mine + 8u * groups, last), i); }
        if (invocation < span) {
            for (var j = 0u; j < 8u * groups && k + j < count; j += 8u) { sum = with_products(sum, j * span + invocation, span); }
        }
        workgroupBarrier();
    }
    return sum;
}

// The sum of the weights, in 16 lanes. All invocations call it.
fn total_of(invocation: u32) -> f32 {
    if (invocation < 16u) {
        var sum = number(0u);
        for (var k = invocation; k < CHUNK; k += 64u) {
            let a = WEIGHTS[k];
            let b = WEIGHTS[k + 16u];
            let c = WEIGHTS[k + 32u];
            let d = WEIGHTS[k + 48u];
            sum = add(add(add(add(sum, a), b), c), d);
        }
        LANES[invocation] = sum;
    }
    workgroupBarrier();
    return tree16();
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
    if (invocation < 16u) { TILES[invocation] = tile_at(row, position_in(query, first + 16u * invocation), kv_head); }
    workgroupBarrier();
    if (seen) { mine = score(query, position, head); }
    ORDER[invocation] = order_of(mine, seen);
    workgroupBarrier();
    let peak = peak_of(largest(invocation));
    WEIGHTS[invocation] = weight_from(mine, peak, seen);
    workgroupBarrier();
    let count = select(0u, min(CHUNK, query + 1u - first), query >= first);
    let total = total_of(invocation);
    let value = values_of(count, 0u, invocation);
    var other = number(0u);
    if (P.shape.dim > 256u) { other = values_of(count, 256u, invocation); }
    return Chunk(peak, total, value, other);
}

const PARALLEL = 6u; // the word of a batch that says whether chunks are added up beside the store of keys and values
