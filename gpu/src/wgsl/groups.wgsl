// The queries of a workgroup of attention for many rows: GROUPS groups of four. The kernel includes `keys.wgsl`.

const QUERIES = 4u;
const INVOCATIONS = 128u;
// Invocations of a group. Each has two elements of the group's heads, and in wide heads two more that are 256 behind them.
const MEMBERS = INVOCATIONS / GROUPS;

// `sharing` heads of queries share a KV head. A group has some rows, and some heads of each, a power of 2. A KV head has `head_parts` groups for these rows.
fn sharing() -> u32 { return P.shape.heads / P.shape.kv_heads; }
fn head_bits() -> u32 { return min(sharing(), 3u) - 1u; }
fn rows_at_once() -> u32 { return QUERIES >> head_bits(); }
fn heads_at_once() -> u32 { return 1u << head_bits(); }
fn head_parts() -> u32 { return (sharing() + heads_at_once() - 1u) >> head_bits(); }

// Rows of a workgroup.
fn all_rows() -> u32 { return GROUPS * rows_at_once(); }

// The row of query `j` and its head. Where there are fewer: the last ones.
fn row_of(group: vec3<u32>, j: u32) -> u32 { return min(group.x * all_rows() + (j >> head_bits()), B[0] - 1u); }
fn own_head(group: vec3<u32>, j: u32) -> u32 { return group.y % head_parts() * heads_at_once() + (j & (heads_at_once() - 1u)); }
fn head_of(group: vec3<u32>, j: u32) -> u32 { return group.y / head_parts() * sharing() + min(own_head(group, j), sharing() - 1u); }

// The first entry of the block table of a row's sequence.
fn table_of(row: u32) -> u32 { return B[ROWS + ROW * row + 2u + P.shape.group]; }

// Returns whether there is a query `j`.
fn is_there(group: vec3<u32>, j: u32) -> bool {
    return group.x * all_rows() + (j >> head_bits()) < B[0] && own_head(group, j) < sharing();
}

// The position behind that of query `j`, or 0 if there is no such query or if it is not of the sequence with this table.
fn end_of(group: vec3<u32>, j: u32, table: u32) -> u32 {
    let row = row_of(group, j);
    return select(0u, position_of(row) + 1u, is_there(group, j) && table_of(row) == table);
}

// The smallest and the largest position of the rows of a sequence.
struct Range { least: u32, last: u32 }

fn range_of(group: vec3<u32>, table: u32) -> Range {
    var range = Range(0xffffffffu, 0u);
    for (var i = 0u; i < all_rows(); i++) {
        let row = row_of(group, i * heads_at_once());
        if (table_of(row) == table) { range = Range(min(range.least, position_of(row)), max(range.last, position_of(row))); }
    }
    return range;
}

// Returns whether any row can see a position of the chunk that begins at `first`. Otherwise the chunk changes nothing.
fn can_see(range: Range, first: u32) -> bool {
    let end = first + CHUNK - 1u;
    if (max(range.least, end) - end < P.scores.window) { return true; }
    let sink = min(end, max(P.scores.sinks, 1u) - 1u);
    return first < P.scores.sinks && max(range.least, sink) - sink < P.scores.reach;
}
