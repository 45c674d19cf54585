//!include num.wgsl
//!include keys.wgsl
//!include attention.wgsl
// Attention for many rows. A workgroup has four queries that share a head of keys and values: four heads of a row, or, where one or two heads share one, those
// of some rows that follow each other. So keys and values are read once for all four. An invocation has a position of a chunk, then an element of the
// heads, or two with 256 between them.

const QUERIES = 4u;

// Of the four queries: elements, then of positions the order of scores and the weights.
var<workgroup> QUERY: array<vec4<f32>, 512>;
var<workgroup> SCORES: array<vec4<i32>, 256>;
var<workgroup> TOP: array<vec4<i32>, 16>;
var<workgroup> LANES: array<vec4<f32>, 16>;

// Heads of queries that share a head of keys and values; rows of a workgroup, and heads of a row; workgroups of a head of keys and values.
fn sharing() -> u32 { return P.shape.heads / P.shape.kv_heads; }
fn rows_at_once() -> u32 { return select(1u, QUERIES / sharing(), sharing() < 3u); }
fn heads_at_once() -> u32 { return QUERIES / rows_at_once(); }
fn head_parts() -> u32 { return (sharing() + heads_at_once() - 1u) / heads_at_once(); }

// The row of query `j` and its head; the last ones where there are fewer.
fn row_of(group: vec3<u32>, j: u32) -> u32 { return min(group.x * rows_at_once() + j / heads_at_once(), B[0] - 1u); }
fn own_head(group: vec3<u32>, j: u32) -> u32 { return group.y % head_parts() * heads_at_once() + j % heads_at_once(); }
fn head_of(group: vec3<u32>, j: u32) -> u32 { return group.y / head_parts() * sharing() + min(own_head(group, j), sharing() - 1u); }

// Where the table of the sequence of a row begins.
fn table_of(row: u32) -> u32 { return B[ROWS + ROW * row + 2u + P.shape.group]; }

// Whether there is query `j`.
fn is_there(group: vec3<u32>, j: u32) -> bool {
    return group.x * rows_at_once() + j / heads_at_once() < B[0] && own_head(group, j) < sharing();
}

// Where a query is, and whether it is there and of the sequence that is computed.
struct Query { position: u32, counts: bool }
struct Queries { a: Query, b: Query, c: Query, d: Query }

fn query_of(group: vec3<u32>, j: u32, table: u32) -> Query {
    let row = row_of(group, j);
    return Query(position_of(row), is_there(group, j) && table_of(row) == table);
}

fn sees_as(q: Query, position: u32) -> bool { return q.counts && sees(q.position, position); }

// Whether it sees any position of the chunk that begins at `first`.
fn sees_chunk(q: Query, first: u32) -> bool {
    let last = min(first + CHUNK - 1u, q.position);
    let is_seen = sees_as(q, last) || (first < P.scores.sinks && sees_as(q, min(last, P.scores.sinks - 1u)));
    return first <= q.position && is_seen;
}

fn last_of(q: Query) -> u32 { return select(0u, q.position, q.counts); }

fn query_element(group: vec3<u32>, j: u32, i: u32) -> f32 {
    return as_factor(QKV[query_at(row_of(group, j), head_of(group, j)) + i]);
}

fn add_four(a: vec4<f32>, b: vec4<f32>) -> vec4<f32> { return vec4<f32>(add(a.x, b.x), add(a.y, b.y), add(a.z, b.z), add(a.w, b.w)); }
fn mul_four(a: vec4<f32>, b: f32) -> vec4<f32> { return vec4<f32>(mul(a.x, b), mul(a.y, b), mul(a.z, b), mul(a.w, b)); }

// Sums with the product of an element of the queries and a key.
fn with_key(sums: vec4<f32>, i: u32, key: f32) -> vec4<f32> { return add_four(sums, mul_four(QUERY[i], key)); }

fn with_halves(sums: vec4<f32>, i: u32, w: Eight, slot: u32) -> vec4<f32> {
    let shift = (slot & 1u) * 16u;
    let a = with_key(with_key(sums, i, half_in(w.a, shift)), i + 1u, half_in(w.b, shift));
    let b = with_key(with_key(a, i + 2u, half_in(w.c, shift)), i + 3u, half_in(w.d, shift));
    let c = with_key(with_key(b, i + 4u, half_in(w.e, shift)), i + 5u, half_in(w.f, shift));
    return with_key(with_key(c, i + 6u, half_in(w.g, shift)), i + 7u, half_in(w.h, shift));
}

fn with_codes(sums: vec4<f32>, i: u32, w: Eight, scale: f32, slot: u32) -> vec4<f32> {
    let shift = (slot & 3u) * 8u;
    let a = with_key(with_key(sums, i, mul(scale, code_in(w.a, shift))), i + 1u, mul(scale, code_in(w.b, shift)));
    let b = with_key(with_key(a, i + 2u, mul(scale, code_in(w.c, shift))), i + 3u, mul(scale, code_in(w.d, shift)));
    let c = with_key(with_key(b, i + 4u, mul(scale, code_in(w.e, shift))), i + 5u, mul(scale, code_in(w.f, shift)));
    return with_key(with_key(c, i + 6u, mul(scale, code_in(w.g, shift))), i + 7u, mul(scale, code_in(w.h, shift)));
}

// The products of the queries and the key of a position.
fn products_of(word: u32, slot: u32) -> vec4<f32> {
    let dim = P.shape.dim;
    let element_type = P.shape.k_type;
    var sums = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    var i = 0u;
    if (element_type == F16) {
        let at = word + slot / 2u;
        for (; i + 16u <= dim; i += 16u) {
            let low = eight_words(at + 8u * i, 8u);
            let high = eight_words(at + 8u * i + 64u, 8u);
            sums = with_halves(with_halves(sums, i, low, slot), i + 8u, high, slot);
        }
    } else if (element_type == Q8_0) {
        let at = word + slot / 4u;
        let scales = word + code_words(Q8_0, false);
        for (; i + 16u <= dim; i += 16u) {
            let low = eight_words(at + 4u * i, 4u);
            let high = eight_words(at + 4u * i + 32u, 4u);
            let scale = half_of(scales, i / 32u * 16u + slot);
            sums = with_codes(with_codes(sums, i, low, scale, slot), i + 8u, high, scale, slot);
        }
    }
    for (; i < dim; i++) { sums = with_key(sums, i, stored(element_type, word, i, slot, false)); }
    return sums;
}

fn score(group: vec3<u32>, j: u32, q: Query, position: u32, product: f32) -> f32 {
    return score_of(product, q.position, position, head_of(group, j));
}

fn weight_bits(score: f32, peak: f32, seen: bool) -> i32 { return bitcast<i32>(weight_from(score, peak, seen)); }

fn weights_at(k: u32) -> vec4<f32> {
    let w = SCORES[k];
    return vec4<f32>(bitcast<f32>(w.x), bitcast<f32>(w.y), bitcast<f32>(w.z), bitcast<f32>(w.w));
}

// The largest of all SCORES of each query. All invocations call it.
fn largest(invocation: u32) -> vec4<i32> {
    if (invocation < 16u) {
        var top = SCORES[invocation];
        for (var i = invocation + 16u; i < 256u; i += 16u) { top = max(top, SCORES[i]); }
        TOP[invocation] = top;
    }
    workgroupBarrier();
    var top = TOP[0];
    for (var i = 1u; i < 16u; i++) { top = max(top, TOP[i]); }
    return top;
}

// Sums of weights, in 16 lanes each. All invocations call it.
fn totals_of(invocation: u32) -> vec4<f32> {
    if (invocation < 16u) {
        var sums = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
        for (var k = invocation; k < CHUNK; k += 16u) { sums = add_four(sums, weights_at(k)); }
        LANES[invocation] = sums;
    }
    workgroupBarrier();
    for (var half = 8u; half > 0u; half >>= 1u) {
        if (invocation < half) { LANES[invocation] = add_four(LANES[invocation], LANES[invocation + half]); }
        workgroupBarrier();
    }
    return LANES[0];
}

// Sums with what a position gives. Where none of the queries sees it, the value can be anything.
fn with_value(sums: vec4<f32>, k: u32, value: f32) -> vec4<f32> {
    let w = SCORES[k];
    let seen = number(select(bitcast<u32>(value), 0u, (w.x | w.y | w.z | w.w) == 0));
    return add_four(sums, mul_four(weights_at(k), seen));
}

fn with_eight_values(sums: vec4<f32>, k: u32, w: Eight, i: u32) -> vec4<f32> {
    let shift = (i & 1u) * 16u;
    let a = with_value(with_value(sums, k, half_in(w.a, shift)), k + 1u, half_in(w.b, shift));
    let b = with_value(with_value(a, k + 2u, half_in(w.c, shift)), k + 3u, half_in(w.d, shift));
    let c = with_value(with_value(b, k + 4u, half_in(w.e, shift)), k + 5u, half_in(w.f, shift));
    return with_value(with_value(c, k + 6u, half_in(w.g, shift)), k + 7u, half_in(w.h, shift));
}

// What element `i` of the first positions of the chunk adds, in order.
fn values_of(count: u32, i: u32) -> vec4<f32> {
    var sums = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    if (i >= P.shape.dim) { return sums; }
    if (P.shape.v_type == F16 && P.shape.dim % 2u == 0u) {
        for (var k = 0u; k < count; k += 8u) { sums = with_eight_values(sums, k, halves_of(k, i), i); }
        return sums;
    }
    for (var k = 0u; k < count; k++) { sums = with_value(sums, k, stored(P.shape.v_type, values_at(k), i, k % 16u, true)); }
    return sums;
}

// A position of the tile that begins at `first` if any of the queries sees one there; that of a query otherwise.
fn position_of_tile(q: Queries, first: u32) -> u32 {
    let a = position_in(q.a.position, first);
    let b = select(a, position_in(q.b.position, first), q.b.counts && (!q.a.counts || a != first));
    let c = select(b, position_in(q.c.position, first), q.c.counts && (!(q.a.counts || q.b.counts) || b != first));
    return select(c, position_in(q.d.position, first), q.d.counts && (!(q.a.counts || q.b.counts || q.c.counts) || c != first));
}

struct Chunks { a: Chunk, b: Chunk, c: Chunk, d: Chunk }

// The positions from `first` on, as the queries of a sequence see them, of whose rows `row` is one and `last` the largest position. All invocations call it.
fn attended(group: vec3<u32>, q: Queries, row: u32, last: u32, first: u32, invocation: u32) -> Chunks {
    let position = first + invocation;
    let a = sees_as(q.a, position);
    let b = sees_as(q.b, position);
    let c = sees_as(q.c, position);
    let d = sees_as(q.d, position);
    workgroupBarrier();
    if (invocation < 16u) { TILES[invocation] = tile_at(row, position_of_tile(q, first + 16u * invocation), group.y / head_parts()); }
    workgroupBarrier();
    var x = vec4<f32>(number(0u), number(0u), number(0u), number(0u));
    if (a || b || c || d) {
        let products = products_of(TILES[invocation / 16u], invocation % 16u);
        x = vec4<f32>(score(group, 0u, q.a, position, products.x), score(group, 1u, q.b, position, products.y),
            score(group, 2u, q.c, position, products.z), score(group, 3u, q.d, position, products.w));
    }
    SCORES[invocation] = vec4<i32>(order_of(x.x, a), order_of(x.y, b), order_of(x.z, c), order_of(x.w, d));
    workgroupBarrier();
    let top = largest(invocation);
    let peaks = vec4<f32>(peak_of(top.x), peak_of(top.y), peak_of(top.z), peak_of(top.w));
    SCORES[invocation] = vec4<i32>(weight_bits(x.x, peaks.x, a), weight_bits(x.y, peaks.y, b), weight_bits(x.z, peaks.z, c), weight_bits(x.w, peaks.w, d));
    workgroupBarrier();
    let totals = totals_of(invocation);
    let count = select(0u, min(CHUNK, last + 1u - first), last >= first);
    let values = values_of(count, invocation);
    let others = values_of(count, invocation + 256u);
    return Chunks(Chunk(peaks.x, totals.x, values.x, others.x), Chunk(peaks.y, totals.y, values.y, others.y),
        Chunk(peaks.z, totals.z, values.z, others.z), Chunk(peaks.w, totals.w, values.w, others.w));
}

// Both elements of a query that an invocation has.
fn put_results(group: vec3<u32>, j: u32, invocation: u32, sums: Chunk) {
    if (!is_there(group, j)) { return; }
    let row = row_of(group, j);
    let head = head_of(group, j);
    let part = share(head, sums.peak, sums.total);
    put_result(row, head, invocation, sums.value, part);
    put_result(row, head, invocation + 256u, sums.other, part);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    for (var i = invocation; i < P.shape.dim; i += 256u) {
        QUERY[i] = vec4<f32>(query_element(group, 0u, i), query_element(group, 1u, i), query_element(group, 2u, i), query_element(group, 3u, i));
    }
    let none = Chunk(number(0xff800000u), number(0u), number(0u), number(0u));
    var sums = Chunks(none, none, none, none);
    // Rows of other sequences are computed one after the other.
    for (var lead = 0u; lead < rows_at_once(); lead++) {
        let row = row_of(group, lead * heads_at_once());
        let table = table_of(row);
        if (!is_first(group, lead, table)) { continue; }
        let q = Queries(query_of(group, 0u, table), query_of(group, 1u, table), query_of(group, 2u, table), query_of(group, 3u, table));
        let last = max(max(last_of(q.a), last_of(q.b)), max(last_of(q.c), last_of(q.d)));
        for (var first = 0u; first <= last; first += CHUNK) {
            if (!(sees_chunk(q.a, first) || sees_chunk(q.b, first) || sees_chunk(q.c, first) || sees_chunk(q.d, first))) { continue; }
            let next = attended(group, q, row, last, first, invocation);
            sums = Chunks(with_chunk(sums.a, next.a), with_chunk(sums.b, next.b), with_chunk(sums.c, next.c), with_chunk(sums.d, next.d));
        }
    }
    put_results(group, 0u, invocation, sums.a);
    put_results(group, 1u, invocation, sums.b);
    put_results(group, 2u, invocation, sums.c);
    put_results(group, 3u, invocation, sums.d);
}

// Whether no row before is of the sequence with this table.
fn is_first(group: vec3<u32>, lead: u32, table: u32) -> bool {
    for (var i = 0u; i < lead; i++) {
        if (table_of(row_of(group, i * heads_at_once())) == table) { return false; }
    }
    return true;
}
