//!include num.wgsl
//!include keys.wgsl
//!include attention.wgsl
//!include QUERIES
//!include groups.wgsl
//!include products.wgsl
// Attention for many rows. A group has four queries that share a KV head: four heads of a row, or, where one or two heads share a KV head, the heads of some
// rows that follow each other. A workgroup has GROUPS groups, whose rows follow each other. So keys are read once for up to 16 queries. An invocation first has
// two positions of a chunk that follow each other, then two elements of the heads of a group.

// TOP: largest scores of 8 positions each. TOPS: largest scores of a quarter of all positions each.
var<workgroup> TOP: array<vec4<i32>, 128>;
var<workgroup> TOPS: array<vec4<i32>, 16>;
// Sums of weights: 16 lanes of each group.
var<workgroup> LANES: array<vec4<f32>, 64>;
// For the queries of each group: the position behind the last one that a query sees, or 0 where the query does not count.
var<workgroup> ENDS: array<vec4<u32>, 4>;
// Words at which the tiles of a chunk begin, if any query sees one of their positions; otherwise any tile. Invocations that store the same entry store the same
// word.
var<workgroup> PLACES: array<atomic<u32>, 16>;
// For each group: the last turn in which a position among the first `count_of` had no weight for any query.
var<workgroup> HOLES: array<atomic<u32>, 4>;

// Which queries see the two positions of an invocation: four bits for each group, the lowest one for the first query.
struct Seen { a: u32, b: u32 }

fn four_orders(x: vec4<f32>, bits: u32) -> vec4<i32> {
    return vec4<i32>(order_of(x.x, (bits & 1u) != 0u), order_of(x.y, (bits & 2u) != 0u), order_of(x.z, (bits & 4u) != 0u), order_of(x.w, (bits & 8u) != 0u));
}

fn score(group: vec3<u32>, j: u32, end: u32, position: u32, product: f32) -> f32 {
    var head = 0u;
    if (P.scores.slopes != NONE) { head = head_of(group, j); }
    return score_of(product, end - 1u, position, head);
}

// The scores of a position for the queries of a group.
fn four_scores(group: vec3<u32>, g: u32, x: vec4<f32>, position: u32) -> vec4<f32> {
    let end = ENDS[g];
    return vec4<f32>(score(group, 4u * g, end.x, position, x.x), score(group, 4u * g + 1u, end.y, position, x.y),
        score(group, 4u * g + 2u, end.z, position, x.z), score(group, 4u * g + 3u, end.w, position, x.w));
}

// Products become scores. The larger order of both positions goes where `put_tops` reads it. The compiler does not know how often the loop runs: otherwise it
// would unroll the loop.
fn scores_of(group: vec3<u32>, products: Sums, seen: Seen, invocation: u32, position: u32) -> Sums {
    var s = products;
    for (var g = 0u; g < GROUPS + ZERO; g++) {
        let x = Two(four_scores(group, g, s.a.a, position), four_scores(group, g, s.a.b, position + 1u));
        SHARED[place_of(g) + invocation] = max(four_orders(x.a, seen.a >> (4u * g)), four_orders(x.b, seen.b >> (4u * g)));
        s = turned(s, x);
    }
    return s;
}

fn sees_to(end: u32, position: u32) -> bool { return end > 0u && sees(end - 1u, position); }

fn seen_by(g: u32, position: u32) -> u32 {
    let end = ENDS[g];
    let low = select(0u, 1u, sees_to(end.x, position)) | select(0u, 2u, sees_to(end.y, position));
    let high = select(0u, 4u, sees_to(end.z, position)) | select(0u, 8u, sees_to(end.w, position));
    return (low | high) << (4u * g);
}

fn seen_bits(position: u32) -> u32 {
    var bits = seen_by(0u, position);
    if (GROUPS > 1u) { bits |= seen_by(1u, position); }
    if (GROUPS > 2u) { bits |= seen_by(2u, position) | seen_by(3u, position); }
    return bits;
}

fn largest_of(a: vec4<i32>, b: vec4<i32>, c: vec4<i32>, d: vec4<i32>) -> vec4<i32> { return max(max(a, b), max(c, d)); }

// Finds the largest scores of each group from the orders in SHARED, and leaves four of each group in TOPS. All invocations call it.
fn put_tops(invocation: u32) {
    workgroupBarrier();
    if (invocation < 32u * GROUPS) {
        let at = place_of(invocation / 32u) + invocation % 32u;
        TOP[invocation] = largest_of(SHARED[at], SHARED[at + 32u], SHARED[at + 64u], SHARED[at + 96u]);
    }
    workgroupBarrier();
    if (invocation < 4u * GROUPS) {
        let at = 8u * invocation;
        let low = largest_of(TOP[at], TOP[at + 1u], TOP[at + 2u], TOP[at + 3u]);
        let high = largest_of(TOP[at + 4u], TOP[at + 5u], TOP[at + 6u], TOP[at + 7u]);
        TOPS[invocation] = max(low, high);
    }
    workgroupBarrier();
}

fn top_of(g: u32) -> vec4<i32> { return largest_of(TOPS[4u * g], TOPS[4u * g + 1u], TOPS[4u * g + 2u], TOPS[4u * g + 3u]); }

fn four_weights(x: vec4<f32>, peaks: vec4<f32>, bits: u32) -> vec4<f32> {
    return vec4<f32>(weight_from(x.x, peaks.x, (bits & 1u) != 0u), weight_from(x.y, peaks.y, (bits & 2u) != 0u),
        weight_from(x.z, peaks.z, (bits & 4u) != 0u), weight_from(x.w, peaks.w, (bits & 8u) != 0u));
}

fn peaks_of(top: vec4<i32>) -> vec4<f32> { return vec4<f32>(peak_of(top.x), peak_of(top.y), peak_of(top.z), peak_of(top.w)); }

// The weights of scores, relative to the largest ones.
fn weights_of(scores: Sums, seen: Seen) -> Sums {
    var s = scores;
    for (var g = 0u; g < GROUPS + ZERO; g++) {
        let peaks = peaks_of(top_of(g));
        s = turned(s, Two(four_weights(s.a.a, peaks, seen.a >> (4u * g)), four_weights(s.a.b, peaks, seen.b >> (4u * g))));
    }
    return s;
}

// Puts the weights of position `k` of a group into SHARED.
fn put_four(g: u32, x: vec4<f32>, k: u32, turn: u32, is_before: bool) {
    let w = vec4<i32>(bitcast<i32>(x.x), bitcast<i32>(x.y), bitcast<i32>(x.z), bitcast<i32>(x.w));
    SHARED[place_of(g) + k] = w;
    if (is_before && (w.x | w.y | w.z | w.w) == 0) { atomicStore(&HOLES[g], turn); }
}

// Puts the weights of both positions of an invocation. The first one is position `k` of the chunk.
fn put_weights(weights: Sums, first: u32, k: u32, turn: u32) {
    var s = weights;
    for (var g = 0u; g < GROUPS + ZERO; g++) {
        let count = count_of(g, first);
        put_four(g, s.a.a, k % POSITIONS, turn, k < count);
        put_four(g, s.a.b, k % POSITIONS + 1u, turn, k + 1u < count);
        s = turned(s, s.a);
    }
}

// A total with the weights in SHARED that belong to lane `i` of 16.
fn with_weights(total: vec4<f32>, g: u32, i: u32) -> vec4<f32> {
    var sum = total;
    for (var k = place_of(g) + i; k < place_of(g) + POSITIONS; k += 64u) {
        let a = shared_floats(k);
        let b = shared_floats(k + 16u);
        let c = shared_floats(k + 32u);
        let d = shared_floats(k + 48u);
        sum = add_four(add_four(add_four(add_four(sum, a), b), c), d);
    }
    return sum;
}

// The sum of the 16 lanes, as a tree.
fn pair_of(at: u32) -> vec4<f32> { return add_four(LANES[at], LANES[at + 8u]); }
fn quad_of(at: u32) -> vec4<f32> { return add_four(pair_of(at), pair_of(at + 4u)); }
fn octet_of(at: u32) -> vec4<f32> { return add_four(quad_of(at), quad_of(at + 2u)); }
fn total_of(at: u32) -> vec4<f32> { return add_four(octet_of(at), octet_of(at + 1u)); }

fn place_at(k: u32) -> u32 { return atomicLoad(&PLACES[k / 16u]) + P.shape.k_words; }

fn are_halves() -> bool { return P.shape.v_type == F16 && P.shape.dim % 2u == 0u; }

// The words of 8 positions of a chunk from `k` on that have element `i` in f16 and the next one. Behind the last element: the last words.
fn value_words(k: u32, i: u32) -> Eight {
    let pairs = P.shape.dim / 2u;
    return eight_words(place_at(k) + k % 16u * pairs + min(i / 2u, pairs - 1u), pairs);
}

// Element `i` and the next one of a position's values. The last element has no next one and counts twice.
fn values_of(k: u32, i: u32) -> Pair {
    let next = min(i + 1u, P.shape.dim - 1u);
    return Pair(stored(P.shape.v_type, place_at(k), i, k % 16u, true), stored(P.shape.v_type, place_at(k), next, k % 16u, true));
}

// Sums with the products of a position. Where none of the four queries has a weight, the value can be anything, so it counts as 0.
fn with_value(s: Two, at: u32, x: Pair) -> Two {
    let w = SHARED[at];
    let is_hole = (w.x | w.y | w.z | w.w) == 0;
    return with_one(s, at, Pair(number(select(bitcast<u32>(x.a), 0u, is_hole)), number(select(bitcast<u32>(x.b), 0u, is_hole))));
}

fn with_some_halves(s: Two, at: u32, w: Eight) -> Two {
    let t = with_value(with_value(with_value(with_value(s, at, halves(w.a)), at + 1u, halves(w.b)), at + 2u, halves(w.c)), at + 3u, halves(w.d));
    return with_value(with_value(with_value(with_value(t, at + 4u, halves(w.e)), at + 5u, halves(w.f)), at + 6u, halves(w.g)), at + 7u, halves(w.h));
}

// The sums of two elements, and the words of the next 8 positions if values are f16.
struct Values { sums: Two, words: Eight }

// Sums before position `k` of a chunk of `count` positions, with the words of the next ones.
fn values_before(sums: Two, k: u32, count: u32, i: u32) -> Values {
    if (!are_halves() || k >= count) { return Values(sums, Eight(0u, 0u, 0u, 0u, 0u, 0u, 0u, 0u)); }
    return Values(sums, value_words(k, i));
}

// Values with the positions from `base` on whose weights are in SHARED, in order, as far as they are among the first `count`.
fn with_values(before: Values, base: u32, count: u32, g: u32, i: u32, turn: u32) -> Values {
    let end = min(count, base + POSITIONS);
    if (i >= P.shape.dim || end <= base) { return before; }
    let at = place_of(g) - base;
    var v = before;
    if (are_halves()) {
        let whole = select(end / 8u * 8u, 0u, atomicLoad(&HOLES[g]) == turn);
        let last = (count - 1u) / 8u * 8u;
        for (var k = base; k < end; k += 8u) {
            let next = value_words(min(k + 8u, last), i);
            if (k < whole) { v.sums = with_halves(v.sums, at + k, v.words); }
            else { v.sums = with_some_halves(v.sums, at + k, v.words); }
            v.words = next;
        }
        return v;
    }
    for (var k = base; k < end; k++) { v.sums = with_value(v.sums, at + k, values_of(k, i)); }
    return v;
}

// Returns how many positions of the chunk that begins at `first` a group can see.
fn count_of(g: u32, first: u32) -> u32 {
    let end = ENDS[g];
    return min(CHUNK, max(max(max(end.x, end.y), max(end.z, end.w)), first) - first);
}

// A chunk's sums for the four queries of a group.
struct Chunks { a: Chunk, b: Chunk, c: Chunk, d: Chunk }

fn chunks_of(peaks: vec4<f32>, totals: vec4<f32>, sums: Two) -> Chunks {
    return Chunks(Chunk(peaks.x, totals.x, sums.a.x, sums.b.x), Chunk(peaks.y, totals.y, sums.a.y, sums.b.y),
        Chunk(peaks.z, totals.z, sums.a.z, sums.b.z), Chunk(peaks.w, totals.w, sums.a.w, sums.b.w));
}

fn with_chunks(s: Chunks, next: Chunks) -> Chunks {
    return Chunks(with_chunk(s.a, next.a), with_chunk(s.b, next.b), with_chunk(s.c, next.c), with_chunk(s.d, next.d));
}

// The sums of two elements, and of two more where heads have more than 256 elements.
struct Attended { near: Chunks, far: Chunks }

fn has_far() -> bool { return GROUPS == 1u && P.shape.dim > 256u; }

// The chunk that begins at `first`, as the queries of a sequence see it. `row` is one of its rows. All invocations call it. `turn` grows by 2.
fn attended(group: vec3<u32>, row: u32, first: u32, invocation: u32, turn: u32) -> Attended {
    let g = invocation / MEMBERS;
    let i = invocation % MEMBERS;
    let k = 2u * invocation;
    let seen = Seen(seen_bits(first + k), seen_bits(first + k + 1u));
    var s = Sums(no_sums(), no_sums(), no_sums(), no_sums());
    if ((seen.a | seen.b) != 0u) {
        let tile = tile_at(row, first + k, group.y / head_parts());
        atomicStore(&PLACES[k / 16u], tile);
        s = products_of(tile, k % 16u);
    }
    workgroupBarrier();
    s = scores_of(group, s, seen, invocation, first + k);
    put_tops(invocation);
    s = weights_of(s, seen);
    let peaks = peaks_of(top_of(g));
    let count = count_of(g, first);
    var total = no_sums().a;
    var near = values_before(no_sums(), 0u, count, 2u * i);
    var far = no_sums();
    for (var base = 0u; base < CHUNK; base += POSITIONS) {
        let now = turn + base / POSITIONS;
        workgroupBarrier();
        if (k / POSITIONS * POSITIONS == base) { put_weights(s, first, k, now); }
        workgroupBarrier();
        if (i < 16u) { total = with_weights(total, g, i); }
        near = with_values(near, base, count, g, 2u * i, now);
        if (has_far()) { far = with_values(values_before(far, base, count, 2u * i + 256u), base, count, g, 2u * i + 256u, now).sums; }
    }
    if (i < 16u) { LANES[16u * g + i] = total; }
    workgroupBarrier();
    let totals = total_of(16u * g);
    return Attended(chunks_of(peaks, totals, near.sums), chunks_of(peaks, totals, far));
}

// Puts the results of elements `i` and `i + 1` of a query.
fn put_results(group: vec3<u32>, j: u32, i: u32, sums: Chunk) {
    if (!is_there(group, j)) { return; }
    let row = row_of(group, j);
    let head = head_of(group, j);
    let part = share(head, sums.peak, sums.total);
    put_result(row, head, i, sums.value, part);
    put_result(row, head, i + 1u, sums.other, part);
}

fn put_chunks(group: vec3<u32>, g: u32, i: u32, chunks: Chunks) {
    var s = chunks;
    for (var j = 4u * g; j < 4u * g + 4u + ZERO; j++) {
        put_results(group, j, i, s.a);
        s = Chunks(s.b, s.c, s.d, s.a);
    }
}

fn query_element(group: vec3<u32>, j: u32, i: u32) -> i32 {
    return bitcast<i32>(as_factor(QKV[query_at(row_of(group, j), head_of(group, j)) + i]));
}

fn put_query(group: vec3<u32>, g: u32, i: u32) {
    let j = 4u * g;
    SHARED[g * ELEMENTS + i] =
        vec4<i32>(query_element(group, j, i), query_element(group, j + 1u, i), query_element(group, j + 2u, i), query_element(group, j + 3u, i));
}

@compute @workgroup_size(INVOCATIONS)
fn main(@builtin(workgroup_id) workgroup: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    // The last rows see most positions, so they come first.
    let group = vec3<u32>((B[0] - 1u) / all_rows() - workgroup.x, workgroup.y, 0u);
    let g = invocation / MEMBERS;
    let i = 2u * (invocation % MEMBERS);
    for (var e = i / 2u; e < P.shape.dim; e += MEMBERS) { put_query(group, g, e); }
    if (invocation < 16u) { atomicStore(&PLACES[invocation], 0u); }
    if (invocation < 4u) { atomicStore(&HOLES[invocation], 0u); }
    let zero = Chunk(number(0xff800000u), number(0u), number(0u), number(0u));
    var near = Chunks(zero, zero, zero, zero);
    var far = near;
    var turn = 1u;
    // The sequences of the rows are computed one after the other.
    for (var lead = 0u; lead < all_rows(); lead++) {
        let row = row_of(group, lead * heads_at_once());
        let table = table_of(row);
        if (!is_first(group, lead, table)) { continue; }
        let range = range_of(group, table);
        workgroupBarrier();
        if (invocation < GROUPS) { put_ends(group, invocation, table); }
        workgroupBarrier();
        for (var first = 0u; first <= range.last; first += CHUNK) {
            if (!can_see(range, first)) { continue; }
            let next = attended(group, row, first, invocation, turn);
            near = with_chunks(near, next.near);
            if (has_far()) { far = with_chunks(far, next.far); }
            turn += 2u;
        }
    }
    put_chunks(group, g, i, near);
    if (has_far()) { put_chunks(group, g, i + 256u, far); }
}

fn put_ends(group: vec3<u32>, g: u32, table: u32) {
    ENDS[g] = vec4<u32>(end_of(group, 4u * g, table), end_of(group, 4u * g + 1u, table), end_of(group, 4u * g + 2u, table), end_of(group, 4u * g + 3u, table));
}

// Returns whether no row before is of the sequence with this table.
fn is_first(group: vec3<u32>, lead: u32, table: u32) -> bool {
    for (var i = 0u; i < lead; i++) {
        if (table_of(row_of(group, i * heads_at_once())) == table) { return false; }
    }
    return true;
}
