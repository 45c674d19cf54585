//!include num.wgsl
//!include bytes.wgsl
//!include FORMAT
//!include ELEMENTS
// Rows of the embedding, times a factor; or rows of learned positions, which are added; or rows of tokens, which are added, and the sums multiplied by another
// factor. One workgroup per row of the batch. Rows of other pieces of the matrix are left alone.

struct Params {
    zero: u32, cols: u32, row_bytes: u32, at: u32,
    first: u32, count: u32, factor: u32, y_stride: u32,
    adds: u32, of_sum: f32, y_at: u32, unused: u32,
}
@group(0) @binding(0) var<storage, read> P: Params;
@group(0) @binding(1) var<storage, read> W: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read> B: array<u32>;
@group(0) @binding(3) var<storage, read_write> Y: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) invocation: u32) {
    ZERO = P.zero;
    let number_of_row = B[ROWS + 5u * group.x + select(1u, 0u, P.adds == POSITIONS)];
    if (number_of_row < P.first || number_of_row - P.first >= P.count) { return; }
    let row = P.at + (number_of_row - P.first) * P.row_bytes;
    for (var i = invocation; i < P.cols; i += 64u) {
        var x = weight(row, i);
        if (P.factor != 0u) { x = settle(mul(x, number(P.factor))); }
        let at = P.y_at + group.x * P.y_stride + i;
        if (P.adds != 0u) { x = add(Y[at], x); }
        if (P.adds == TOKENS) { x = mul(x, P.of_sum); }
        Y[at] = x;
    }
}

const POSITIONS = 1u;
const TOKENS = 2u;
const ROWS = 16u; // words of a batch before its rows; a row has its position, its token, the first entries of its sequence's tables
