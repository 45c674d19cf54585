//!include num.wgsl
//!include keys.wgsl
//!include attention.wgsl
//!include groups.wgsl
// Attention for many rows. A group has four queries that share a head of keys and values: four heads of a row, or, where one or two heads share one,
// those of some rows that follow each other. A workgroup has up to four groups, whose rows follow each other. So keys are read once for up to 16
// queries. An invocation has a position of a chunk, then an element of the heads of a group, or two with 256 between them.

// Elements of four queries each; behind them, of some positions, the order of scores or the weights of four queries.
var<workgroup> SHARED: array<vec4<i32>, 768>;
// Of 16 lanes of each group: largest scores, then sums of weights.
var<workgroup> TOP: array<vec4<i32>, 64>;
var<workgroup> LANES: array<vec4<f32>, 64>;
// Of the queries of each group: the position behind the last one that they see, 0 where they do not count.
var<workgroup> ENDS: array<vec4<u32>, 4>;
// Where the tiles of a chunk begin, if any query sees one of their positions; else any tile. All who store one store the same.
var<workgroup> PLACES: array<atomic<u32>, 16>;
// Of 8 positions and a group each: the last turn in which there was one without weights.
var<workgroup> HOLES: array<atomic<u32>, 64>;

// Bits of the queries that see a position: the first query has the lowest one.
fn seen_bits(position: u32) -> u32 {
    var bits = 0u;
    for (var g = 0u; g < groups(); g++) {
        let end = ENDS[g];
        let low = select(0u, 1u, sees_to(end.x, position)) | select(0u, 2u, sees_to(end.y, position));
        let high = select(0u, 4u, sees_to(end.z, position)) | select(0u, 8u, sees_to(end.w, position));
        bits |= (low | high) << (4u * g);
    }
    return bits;
}

// Four floats of each group.
struct Sums { a: vec4<f32>, b: vec4<f32>, c: vec4<f32>, d: vec4<f32> }

fn part_of(s: Sums, g: u32) -> vec4<f32> {
    if (g == 0u) { return s.a; }
    if (g == 1u) { return s.b; }
    if (g == 2u) { return s.c; }
    return s.d;
}

fn with_part(s: Sums, g: u32, part: vec4<f32>) -> Sums {
    if (g == 0u) { return Sums(part, s.b, s.c, s.d); }
    if (g == 1u) { return Sums(s.a, part, s.c, s.d); }
    if (g == 2u) { return Sums(s.a, s.b, part, s.d); }
    return Sums(s.a, s.b, s.c, part);
}

fn query_element(group: vec3<u32>, j: u32, i: u32) -> i32 {
    return bitcast<i32>(as_factor(QKV[query_at(row_of(group, j), head_of(group, j)) + i]));
}

fn put_query(group: vec3<u32>, at: u32, j: u32, i: u32) {
    if (i >= P.shape.dim) { return; }
    SHARED[at] = vec4<i32>(query_element(group, j, i), query_element(group, j + 1u, i), query_element(group, j + 2u, i), query_element(group, j + 3u, i));
}

fn shared_floats(at: u32) -> vec4<f32> {
    let x = SHARED[at];
    return vec4<f32>(bitcast<f32>(x.x), bitcast<f32>(x.y), bitcast<f32>(x.z), bitcast<f32>(x.w));
}

fn add_four(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return vec4<f32>(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)); }
fn mul_four(a: vec4<f32>, b: f32) -> vec4<f32> { return vec4<f32>(mul(a.x, b), mul(a.y, b), mul(a.z, b), mul(a.w, b)); }

// Sums with products of the four floats at a place of SHARED; then with those that are exact, as products with f16 are.
fn with_one(s: vec4<f32>, at: u32, x: f32) -> vec4<f32> { return add_four(s, mul_four(shared_floats(at), x)); }
fn with_exact(s: vec4<f32>, at: u32, x: f32) -> vec4<f32> {
    let y = shared_floats(at);
    return vec4<f32>(add_exact(s.x, y.x, x), add_exact(s.y, y.y, x), add_exact(s.z, y.z, x), add_exact(s.w, y.w, x));
}

// Elements of a key, or values of positions.
struct Floats { a: f32, b: f32, c: f32, d: f32, e: f32, f: f32, g: f32, h: f32 }

fn halves_in(w: Eight, shift: u32) -> Floats {
    return Floats(half_in(w.a, shift), half_in(w.b, shift), half_in(w.c, shift), half_in(w.d, shift),
        half_in(w.e, shift), half_in(w.f, shift), half_in(w.g, shift), half_in(w.h, shift));
}

fn codes_in(w: Eight, shift: u32, scale: f32) -> Floats {
    return Floats(mul(scale, code_in(w.a, shift)), mul(scale, code_in(w.b, shift)), mul(scale, code_in(w.c, shift)), mul(scale, code_in(w.d, shift)),
        mul(scale, code_in(w.e, shift)), mul(scale, code_in(w.f, shift)), mul(scale, code_in(w.g, shift)), mul(scale, code_in(w.h, shift)));
}

// Sums with 8 products, in order.
fn with_eight(s: vec4<f32>, at: u32, x: Floats) -> vec4<f32> {
    let a = with_one(with_one(with_one(with_one(s, at, x.a), at + 1u, x.b), at + 2u, x.c), at + 3u, x.d);
    return with_one(with_one(with_one(with_one(a, at + 4u, x.e), at + 5u, x.f), at + 6u, x.g), at + 7u, x.h);
}

fn with_eight_exact(s: vec4<f32>, at: u32, x: Floats) -> vec4<f32> {
    let a = with_exact(with_exact(with_exact(with_exact(s, at, x.a), at + 1u, x.b), at + 2u, x.c), at + 3u, x.d);
    return with_exact(with_exact(with_exact(with_exact(a, at + 4u, x.e), at + 5u, x.f), at + 6u, x.g), at + 7u, x.h);
}

// Those of all groups, whose queries are as far apart as each has members.
fn with_keys(s: Sums, i: u32, x: Floats, count: u32) -> Sums {
    if (count == 1u) { return Sums(with_eight(s.a, i, x), s.b, s.c, s.d); }
    if (count == 2u) { return Sums(with_eight(s.a, i, x), with_eight(s.b, i + 128u, x), s.c, s.d); }
    return Sums(with_eight(s.a, i, x), with_eight(s.b, i + 64u, x), with_eight(s.c, i + 128u, x), with_eight(s.d, i + 192u, x));
}

fn with_keys_exact(s: Sums, i: u32, x: Floats, count: u32) -> Sums {
    if (count == 1u) { return Sums(with_eight_exact(s.a, i, x), s.b, s.c, s.d); }
    if (count == 2u) { return Sums(with_eight_exact(s.a, i, x), with_eight_exact(s.b, i + 128u, x), s.c, s.d); }
    return Sums(with_eight_exact(s.a, i, x), with_eight_exact(s.b, i + 64u, x), with_eight_exact(s.c, i + 128u, x), with_eight_exact(s.d, i + 192u, x));
}

fn none() -> Sums {
    let zero = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    return Sums(zero, zero, zero, zero);
}

// The products of the queries and the first elements of a key: the next words are under way while these are computed.
fn products_of_halves(word: u32, slot: u32, count: u32) -> Sums {
    let at = word + slot / 2u;
    let all = groups();
    var s = none();
    var words = eight_words(at, 8u);
    for (var i = 0u; i < count; i += 8u) {
        let next = eight_words(at + 8u * min(i + 8u, count - 8u), 8u);
        s = with_keys_exact(s, i, halves_in(words, (slot & 1u) * 16u), all);
        words = next;
    }
    return s;
}

fn products_of_codes(word: u32, slot: u32, count: u32) -> Sums {
    let at = word + slot / 4u;
    let scales = word + code_words(Q8_0, false);
    let all = groups();
    var s = none();
    for (var i = 0u; i < count; i += 8u) {
        let scale = half_of(scales, i / 32u * 16u + slot);
        s = with_keys(s, i, codes_in(eight_words(at + 4u * i, 4u), (slot & 3u) * 8u, scale), all);
    }
    return s;
}

// The products of the queries and the key of a position.
fn products_of(word: u32, slot: u32) -> Sums {
    let dim = P.shape.dim;
    var count = dim / 8u * 8u;
    var s = none();
    if (P.shape.k_type == F16 && count > 0u) { s = products_of_halves(word, slot, count); }
    else if (P.shape.k_type == Q8_0) { s = products_of_codes(word, slot, count); }
    else { count = 0u; }
    for (var i = count; i < dim; i++) {
        let key = stored(P.shape.k_type, word, i, slot, false);
        for (var g = 0u; g < groups(); g++) { s = with_part(s, g, with_one(part_of(s, g), g * members() + i, key)); }
    }
    return s;
}

fn score(group: vec3<u32>, j: u32, end: u32, position: u32, product: f32) -> f32 {
    var head = 0u;
    if (P.scores.slopes != NONE) { head = head_of(group, j); }
    return score_of(product, end - 1u, position, head);
}

fn scores_of(group: vec3<u32>, products: Sums, position: u32) -> Sums {
    var s = products;
    for (var g = 0u; g < groups(); g++) {
        let end = ENDS[g];
        let x = part_of(s, g);
        s = with_part(s, g, vec4<f32>(score(group, 4u * g, end.x, position, x.x), score(group, 4u * g + 1u, end.y, position, x.y),
            score(group, 4u * g + 2u, end.z, position, x.z), score(group, 4u * g + 3u, end.w, position, x.w)));
    }
    return s;
}

// Weights of scores, by the largest ones in TOP.
fn weights_of(scores: Sums, seen: u32) -> Sums {
    var s = scores;
    for (var g = 0u; g < groups(); g++) {
        let bits = seen >> (4u * g);
        let top = TOP[16u * g];
        let x = part_of(s, g);
        s = with_part(s, g, vec4<f32>(weight_from(x.x, peak_of(top.x), (bits & 1u) != 0u), weight_from(x.y, peak_of(top.y), (bits & 2u) != 0u),
            weight_from(x.z, peak_of(top.z), (bits & 4u) != 0u), weight_from(x.w, peak_of(top.w), (bits & 8u) != 0u)));
    }
    return s;
}

fn put_orders(s: Sums, k: u32, seen: u32) {
    for (var g = 0u; g < groups(); g++) {
        let bits = seen >> (4u * g);
        let x = part_of(s, g);
        SHARED[place_of(g) + k] = vec4<i32>(order_of(x.x, (bits & 1u) != 0u), order_of(x.y, (bits & 2u) != 0u),
            order_of(x.z, (bits & 4u) != 0u), order_of(x.w, (bits & 8u) != 0u));
    }
}

fn put_weights(s: Sums, k: u32, turn: u32) {
    for (var g = 0u; g < groups(); g++) {
        let x = part_of(s, g);
        let w = vec4<i32>(bitcast<i32>(x.x), bitcast<i32>(x.y), bitcast<i32>(x.z), bitcast<i32>(x.w));
        SHARED[place_of(g) + k] = w;
        if ((w.x | w.y | w.z | w.w) == 0) { atomicStore(&HOLES[(g * positions() + k) / 8u], turn); }
    }
}

// The largest scores of each query, in TOP[16 g]. All invocations call it.
fn put_tops(s: Sums, seen: u32, invocation: u32) {
    let g = group_of(invocation);
    let lane = member_of(invocation);
    var top = vec4<i32>(LEAST, LEAST, LEAST, LEAST);
    for (var base = 0u; base < CHUNK; base += positions()) {
        workgroupBarrier();
        if (invocation - base < positions()) { put_orders(s, invocation - base, seen); }
        workgroupBarrier();
        if (lane < 16u) {
            for (var k = lane; k < positions(); k += 16u) { top = max(top, SHARED[place_of(g) + k]); }
        }
    }
    if (lane < 16u) { TOP[16u * g + lane] = top; }
    workgroupBarrier();
    if (lane == 0u) {
        for (var i = 1u; i < 16u; i++) { top = max(top, TOP[16u * g + i]); }
        TOP[16u * g] = top;
    }
    workgroupBarrier();
}

// Sums of lanes, as a tree.
fn pair_of(at: u32) -> vec4<f32> { return add_four(LANES[at], LANES[at + 8u]); }
fn quad_of(at: u32) -> vec4<f32> { return add_four(pair_of(at), pair_of(at + 4u)); }
fn octet_of(at: u32) -> vec4<f32> { return add_four(quad_of(at), quad_of(at + 2u)); }
fn total_of(at: u32) -> vec4<f32> { return add_four(octet_of(at), octet_of(at + 1u)); }

fn place_at(k: u32) -> u32 { return atomicLoad(&PLACES[k / 16u]) + P.shape.k_words; }

// The words of 8 positions of a chunk from `k` on that have element `i` in f16, if there is one. Heads have `pairs` of elements.
fn value_words(k: u32, i: u32, pairs: u32) -> Eight {
    return eight_words(place_at(k) + k % 16u * pairs + min(i / 2u, pairs - 1u), pairs);
}

// Sums with what a position gives. Where none of the four queries has a weight, the value can be anything.
fn with_value(s: vec4<f32>, at: u32, value: f32) -> vec4<f32> {
    let w = SHARED[at];
    return with_one(s, at, number(select(bitcast<u32>(value), 0u, (w.x | w.y | w.z | w.w) == 0)));
}

fn with_some_values(s: vec4<f32>, at: u32, x: Floats) -> vec4<f32> {
    let a = with_value(with_value(with_value(with_value(s, at, x.a), at + 1u, x.b), at + 2u, x.c), at + 3u, x.d);
    return with_value(with_value(with_value(with_value(a, at + 4u, x.e), at + 5u, x.f), at + 6u, x.g), at + 7u, x.h);
}

// The sums of an element, and the words of the next 8 positions if they are known.
struct Values { sums: vec4<f32>, words: Eight }

fn are_halves() -> bool { return P.shape.v_type == F16 && P.shape.dim % 2u == 0u; }

// Sums before position `k` of a chunk of `count`.
fn values_before(sums: vec4<f32>, k: u32, count: u32, i: u32) -> Values {
    if (!are_halves() || k >= count) { return Values(sums, Eight(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u)); }
    return Values(sums, value_words(k, i, P.shape.dim / 2u));
}

// Values with those positions of the first `count` whose weights are in SHARED: from `base` on, in order.
fn with_values(before: Values, base: u32, count: u32, g: u32, i: u32, turn: u32) -> Values {
    let end = min(count, base + positions());
    if (i >= P.shape.dim || end <= base) { return before; }
    let at = place_of(g) - base;
    var v = before;
    if (are_halves()) {
        let pairs = P.shape.dim / 2u;
        let holes = g * positions() - base;
        let last = (count - 1u) / 8u * 8u;
        for (var k = base; k < end; k += 8u) {
            let next = value_words(min(k + 8u, last), i, pairs);
            let x = halves_in(v.words, (i & 1u) * 16u);
            if (atomicLoad(&HOLES[(holes + k) / 8u]) == turn) { v.sums = with_some_values(v.sums, at + k, x); }
            else { v.sums = with_eight_exact(v.sums, at + k, x); }
            v.words = next;
        }
        return v;
    }
    for (var k = base; k < end; k++) { v.sums = with_value(v.sums, at + k, stored(P.shape.v_type, place_at(k), i, k % 16u, true)); }
    return v;
}

// Of the queries of a group.
struct Chunks { a: Chunk, b: Chunk, c: Chunk, d: Chunk }

// How many positions of the chunk there are for a group.
fn count_of(g: u32, first: u32) -> u32 {
    let end = ENDS[g];
    return min(CHUNK, max(max(max(end.x, end.y), max(end.z, end.w)), first) - first);
}

// The chunk that begins at `first`, as the queries of a sequence see it, of whose rows `row` is one. All invocations call it. `turn` grows by 2.
fn attended(group: vec3<u32>, row: u32, first: u32, invocation: u32, turn: u32) -> Chunks {
    let g = group_of(invocation);
    let i = member_of(invocation);
    let position = first + invocation;
    let seen = seen_bits(position);
    var s = none();
    if (seen != 0u) {
        let tile = tile_at(row, position, group.y / head_parts());
        atomicStore(&PLACES[invocation / 16u], tile);
        s = scores_of(group, products_of(tile, invocation % 16u), position);
    }
    put_tops(s, seen, invocation);
    s = weights_of(s, seen);
    let count = count_of(g, first);
    var total = none().a;
    var value = values_before(total, 0u, count, i);
    var other = total;
    for (var base = 0u; base < CHUNK; base += positions()) {
        workgroupBarrier();
        let now = turn + select(0u, 1u, base > 0u);
        if (invocation - base < positions()) { put_weights(s, invocation - base, now); }
        workgroupBarrier();
        if (i < 16u) {
            for (var k = i; k < positions(); k += 16u) { total = add_four(total, shared_floats(place_of(g) + k)); }
        }
        value = with_values(value, base, count, g, i, now);
        if (P.shape.dim > 256u) { other = with_values(values_before(other, base, count, i + 256u), base, count, g, i + 256u, now).sums; }
    }
    if (i < 16u) { LANES[16u * g + i] = total; }
    workgroupBarrier();
    let top = TOP[16u * g];
    let sum = total_of(16u * g);
    return Chunks(Chunk(peak_of(top.x), sum.x, value.sums.x, other.x), Chunk(peak_of(top.y), sum.y, value.sums.y, other.y),
        Chunk(peak_of(top.z), sum.z, value.sums.z, other.z), Chunk(peak_of(top.w), sum.w, value.sums.w, other.w));
}

// Both elements of a query that an invocation has.
fn put_results(group: vec3<u32>, j: u32, i: u32, sums: Chunk) {
    if (!is_there(group, j)) { return; }
    let row = row_of(group, j);
    let head = head_of(group, j);
    let part = share(head, sums.peak, sums.total);
    put_result(row, head, i, sums.value, part);
    put_result(row, head, i + 256u, sums.other, part);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    // The last rows see most, so they come first.
    let group = vec3<u32>((B[0] - 1u) / all_rows() - workgroup.x, workgroup.y, 0u);
    let g = group_of(invocation);
    let i = member_of(invocation);
    put_query(group, invocation, 4u * g, i);
    put_query(group, invocation + 256u, 4u * g, i + 256u);
    if (invocation < 16u) { atomicStore(&PLACES[invocation], 0u); }
    if (invocation < 64u) { atomicStore(&HOLES[invocation], 0u); }
    let start = Chunk(number(0xff800000u), number(0u), number(0u), number(0u));
    var sums = Chunks(start, start, start, start);
    var turn = 1u;
    // Rows of other sequences are computed one after the other.
    for (var lead = 0u; lead < all_rows(); lead++) {
        let row = row_of(group, lead * heads_at_once());
        let table = table_of(row);
        if (!is_first(group, lead, table)) { continue; }
        let range = range_of(group, table);
        workgroupBarrier();
        if (invocation < groups()) { put_ends(group, invocation, table); }
        workgroupBarrier();
        for (var first = 0u; first <= range.last; first += CHUNK) {
            if (!can_see(range, first)) { continue; }
            let next = attended(group, row, first, invocation, turn);
            sums = Chunks(with_chunk(sums.a, next.a), with_chunk(sums.b, next.b), with_chunk(sums.c, next.c), with_chunk(sums.d, next.d));
            turn += 2u;
        }
    }
    put_results(group, 4u * g, i, sums.a);
    put_results(group, 4u * g + 1u, i, sums.b);
    put_results(group, 4u * g + 2u, i, sums.c);
    put_results(group, 4u * g + 3u, i, sums.d);
}

fn put_ends(group: vec3<u32>, g: u32, table: u32) {
    ENDS[g] = vec4<u32>(end_of(group, 4u * g, table), end_of(group, 4u * g + 1u, table), end_of(group, 4u * g + 2u, table), end_of(group, 4u * g + 3u, table));
}

// Whether no row before is of the sequence with this table.
fn is_first(group: vec3<u32>, lead: u32, table: u32) -> bool {
    for (var i = 0u; i < lead; i++) {
        if (table_of(row_of(group, i * heads_at_once())) == table) { return false; }
    }
    return true;
}
