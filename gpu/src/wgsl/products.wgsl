// Sums of products with elements of queries, and later with weights, in attention for many rows.

// ELEMENTS elements of the queries of each group. Behind them POSITIONS entries of each group: first the orders of scores, then weights.
var<workgroup> SHARED: array<vec4<i32>, 768>;
// The index in SHARED at which the weights of a group begin.
fn place_of(g: u32) -> u32 { return GROUPS * ELEMENTS + g * POSITIONS; }

// Two numbers: of two successive positions, or of two successive elements.
struct Pair { a: f32, b: f32 }
// Two: floats of four queries for each number of a pair. Sums: those of all groups.
struct Two { a: vec4<f32>, b: vec4<f32> }
struct Sums { a: Two, b: Two, c: Two, d: Two }

fn no_sums() -> Two {
    let zero = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    return Two(zero, zero);
}

// The sums turned by one group: the next group comes first, `last` comes last. So a loop over groups always uses the first one, and its code is there once.
fn turned(s: Sums, last: Two) -> Sums {
    if (GROUPS == 1u) { return Sums(last, s.b, s.c, s.d); }
    if (GROUPS == 2u) { return Sums(s.b, last, s.c, s.d); }
    return Sums(s.b, s.c, s.d, last);
}

fn shared_floats(at: u32) -> vec4<f32> {
    let x = SHARED[at];
    return vec4<f32>(bitcast<f32>(x.x), bitcast<f32>(x.y), bitcast<f32>(x.z), bitcast<f32>(x.w));
}

fn add_four(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return vec4<f32>(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)); }
fn mul_four(a: vec4<f32>, b: f32) -> vec4<f32> { return vec4<f32>(mul(a.x, b), mul(a.y, b), mul(a.z, b), mul(a.w, b)); }
fn add_four_exact(s: vec4<f32>, a: vec4<f32>, b: f32) -> vec4<f32> {
    return vec4<f32>(add_exact(s.x, a.x, b), add_exact(s.y, a.y, b), add_exact(s.z, a.z, b), add_exact(s.w, a.w, b));
}

// Sums with products of the four floats at an index of SHARED. `with_exact` is for exact products, such as those with f16.
fn with_one(s: Two, at: u32, x: Pair) -> Two {
    let y = shared_floats(at);
    return Two(add_four(s.a, mul_four(y, x.a)), add_four(s.b, mul_four(y, x.b)));
}

fn with_exact(s: Two, at: u32, x: Pair) -> Two {
    let y = shared_floats(at);
    return Two(add_four_exact(s.a, y, x.a), add_four_exact(s.b, y, x.b));
}

// Both f16 numbers of a word; the values of two codes.
fn halves(word: u32) -> Pair { return Pair(half_in(word, 0u), half_in(word, 16u)); }
fn coded(word: u32, shift: u32, scales: Pair) -> Pair {
    return Pair(mul(scales.a, code_in(word, shift)), mul(scales.b, code_in(word, shift + 8u)));
}

// Sums with the products of 8 elements or positions, in order.
fn with_halves(s: Two, at: u32, w: Eight) -> Two {
    let t = with_exact(with_exact(with_exact(with_exact(s, at, halves(w.a)), at + 1u, halves(w.b)), at + 2u, halves(w.c)), at + 3u, halves(w.d));
    return with_exact(with_exact(with_exact(with_exact(t, at + 4u, halves(w.e)), at + 5u, halves(w.f)), at + 6u, halves(w.g)), at + 7u, halves(w.h));
}

fn with_codes(s: Two, at: u32, w: Eight, shift: u32, x: Pair) -> Two {
    let low = with_one(with_one(s, at, coded(w.a, shift, x)), at + 1u, coded(w.b, shift, x));
    let half = with_one(with_one(low, at + 2u, coded(w.c, shift, x)), at + 3u, coded(w.d, shift, x));
    let more = with_one(with_one(half, at + 4u, coded(w.e, shift, x)), at + 5u, coded(w.f, shift, x));
    return with_one(with_one(more, at + 6u, coded(w.g, shift, x)), at + 7u, coded(w.h, shift, x));
}

// The products of the queries and the first `count` elements of two keys. Reads of the next words are under way while these are computed.
fn products_of_halves(word: u32, slot: u32, count: u32) -> Sums {
    let at = word + slot / 2u;
    var s = Sums(no_sums(), no_sums(), no_sums(), no_sums());
    var words = eight_words(at, 8u);
    for (var i = 0u; i < count; i += 8u) {
        let next = eight_words(at + 8u * min(i + 8u, count - 8u), 8u);
        s.a = with_halves(s.a, i, words);
        if (GROUPS > 1u) { s.b = with_halves(s.b, ELEMENTS + i, words); }
        if (GROUPS > 2u) {
            s.c = with_halves(s.c, 2u * ELEMENTS + i, words);
            s.d = with_halves(s.d, 3u * ELEMENTS + i, words);
        }
        words = next;
    }
    return s;
}

fn products_of_codes(word: u32, slot: u32, count: u32) -> Sums {
    let scales = word + code_words(Q8_0, false) + slot / 2u;
    let shift = (slot & 3u) * 8u;
    var s = Sums(no_sums(), no_sums(), no_sums(), no_sums());
    for (var i = 0u; i < count; i += 8u) {
        let words = eight_words(word + slot / 4u + 4u * i, 4u);
        let scale = halves(pool_word(scales + i / 32u * 8u));
        s.a = with_codes(s.a, i, words, shift, scale);
        if (GROUPS > 1u) { s.b = with_codes(s.b, ELEMENTS + i, words, shift, scale); }
        if (GROUPS > 2u) {
            s.c = with_codes(s.c, 2u * ELEMENTS + i, words, shift, scale);
            s.d = with_codes(s.d, 3u * ELEMENTS + i, words, shift, scale);
        }
    }
    return s;
}

fn with_key(sums: Sums, i: u32, key: Pair) -> Sums {
    var s = sums;
    s.a = with_one(s.a, i, key);
    if (GROUPS > 1u) { s.b = with_one(s.b, ELEMENTS + i, key); }
    if (GROUPS > 2u) {
        s.c = with_one(s.c, 2u * ELEMENTS + i, key);
        s.d = with_one(s.d, 3u * ELEMENTS + i, key);
    }
    return s;
}

// The products of the queries and the keys of two positions.
fn products_of(word: u32, slot: u32) -> Sums {
    let dim = P.shape.dim;
    var count = dim / 8u * 8u;
    var s = Sums(no_sums(), no_sums(), no_sums(), no_sums());
    if (P.shape.k_type == F16 && count > 0u) { s = products_of_halves(word, slot, count); }
    else if (P.shape.k_type == Q8_0) { s = products_of_codes(word, slot, count); }
    else { count = 0u; }
    for (var i = count; i < dim; i++) {
        s = with_key(s, i, Pair(stored(P.shape.k_type, word, i, slot, false), stored(P.shape.k_type, word, i, slot + 1u, false)));
    }
    return s;
}
