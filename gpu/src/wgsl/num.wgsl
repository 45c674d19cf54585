// Numbers as docs/arithmetic.md defines them. Only this file, and native_halves.wgsl, have operations on floats.
//
// A compiler may fuse, reorder and simplify what it sees. So every float result passes through `keep`: an integer xor with
// P.zero, which is 0 but only the run time knows it. P lies in a storage buffer: in a uniform one some drivers compile its
// value into the shader, and the barrier is gone. A kernel reads it once, into a register: some drivers read a buffer again and again.

var<private> ZERO: u32;

fn keep(x: f32) -> f32 { return bitcast<f32>(bitcast<u32>(x) ^ ZERO); }

// The number with these bits. The compiler does not know its value.
fn number(bits: u32) -> f32 { return bitcast<f32>(bits ^ ZERO); }

fn add(a: f32, b: f32) -> f32 { return keep(a + b); }
fn sub(a: f32, b: f32) -> f32 { return keep(a - b); }
fn mul(a: f32, b: f32) -> f32 { return keep(a * b); }
// A sum with an exact product: the result is the same whether a compiler fuses both operations or not.
fn add_exact(sum: f32, a: f32, b: f32) -> f32 { return keep(sum + a * b); }
fn neg(a: f32) -> f32 { return bitcast<f32>(bitcast<u32>(a) ^ 0x80000000u); }
fn of_i32(i: i32) -> f32 { return keep(f32(i)); }
fn of_u32(i: u32) -> f32 { return keep(f32(i)); }
// An integer times a number. No machine has one instruction for a conversion and a product, so one barrier is enough.
fn mul_i32(i: i32, x: f32) -> f32 { return keep(f32(i) * x); }

fn magnitude(x: f32) -> u32 { return bitcast<u32>(x) & 0x7fffffffu; }
fn is_finite(x: f32) -> bool { return magnitude(x) < 0x7f800000u; }
fn is_nan(x: f32) -> bool { return magnitude(x) > 0x7f800000u; }

// An integer that orders like the number. Both zeros are 0.
fn order(x: f32) -> i32 {
    let m = bitcast<i32>(magnitude(x));
    return select(m, -m, bitcast<u32>(x) >= 0x80000000u);
}

fn greater(a: f32, b: f32) -> bool { return !is_nan(a) && !is_nan(b) && order(a) > order(b); }
fn less(a: f32, b: f32) -> bool { return greater(b, a); }

// The number, or +0 where its magnitude is below 2^-50.
fn settle(x: f32) -> f32 { return number(select(bitcast<u32>(x), 0u, magnitude(x) < 0x26800000u)); }

// The number rounded to 13 significant bits, so that a product with an f16 is exact.
fn short(x: f32) -> f32 {
    let split = mul(x, number(0x45001000u));
    let rounded = bitcast<u32>(sub(split, sub(split, x)));
    let m = magnitude(x);
    return number(select(select(rounded, 0u, m < 0x26800000u), 0x7fc00000u, m >= 0x71800000u));
}

const MAGIC = 0x4b400000u; // 1.5 * 2^23

// Rounds |x| < 2^22 to an integer, ties to even. The low bits of the result are that integer.
fn rounded_bits(x: f32) -> u32 { return bitcast<u32>(add(x, number(MAGIC))); }

//!include halves.wgsl

fn f32_to_f16(x: f32) -> u32 {
    let sign = (bitcast<u32>(x) >> 16u) & 0x8000u;
    let m = magnitude(x);
    if (m > 0x7f800000u) { return sign | 0x7e00u; }
    if (m >= 0x47800000u) { return sign | 0x7c00u; }
    if (m >= 0x38800000u) { return sign | ((m - 0x38000000u + 0xfffu + ((m >> 13u) & 1u)) >> 13u); }
    if (m < 0x33000000u) { return sign; } // 2^-25
    let shift = 126u - (m >> 23u);
    let whole = (m & 0x7fffffu) | 0x800000u;
    let half = (1u << (shift - 1u)) - 1u;
    return sign | ((whole + half + ((whole >> shift) & 1u)) >> shift);
}

// The exponent and the 24 significant bits of a number that is not 0.
struct Parts { exponent: i32, bits: u32 }
fn parts(m: u32) -> Parts {
    if (m >= 0x800000u) { return Parts(i32(m >> 23u), (m & 0x7fffffu) | 0x800000u); }
    let places = countLeadingZeros(m) - 8u;
    return Parts(1 - i32(places), m << places);
}

// a / b, correctly rounded: integers correct an estimate that is a few units off.
fn div(a: f32, b: f32) -> f32 {
    let sign = (bitcast<u32>(a) ^ bitcast<u32>(b)) & 0x80000000u;
    let ma = magnitude(a);
    let mb = magnitude(b);
    if (ma > 0x7f800000u || mb > 0x7f800000u || ((ma | mb) == 0u) || (ma == 0x7f800000u && mb == 0x7f800000u)) {
        return number(0x7fc00000u);
    }
    if (ma == 0x7f800000u || mb == 0u) { return number(sign | 0x7f800000u); }
    if (ma == 0u || mb == 0x7f800000u) { return number(sign); }
    let x = parts(ma);
    let y = parts(mb);
    // The quotient of the bits, shifted, has 24 bits.
    let wide = x.bits < y.bits;
    let shift = select(23u, 24u, wide);
    let exponent = x.exponent - y.exponent + select(127, 126, wide);
    let scale = number(select(0x4b000000u, 0x4b800000u, wide));
    var q = clamp(u32(keep(keep(f32(x.bits) / f32(y.bits)) * scale)), 0x800000u, 0xffffffu);
    var rest = bitcast<i32>((x.bits << shift) - q * y.bits);
    let divisor = bitcast<i32>(y.bits);
    for (var i = 0; i < 16 && rest < 0; i++) { q -= 1u; rest += divisor; }
    for (var i = 0; i < 16 && rest >= divisor; i++) { q += 1u; rest -= divisor; }
    if (exponent > 0) {
        let up = u32(2 * rest > divisor || (2 * rest == divisor && (q & 1u) == 1u));
        let bits = (u32(exponent) << 23u) + (q - 0x800000u) + up;
        return number(sign | select(bits, 0x7f800000u, exponent > 254 || bits > 0x7f800000u));
    }
    let places = u32(1 - exponent);
    if (places > 25u) { return number(sign); }
    let lost = q & ((1u << places) - 1u);
    let half = 1u << (places - 1u);
    let kept = q >> places;
    let up = u32(lost > half || (lost == half && (rest != 0 || (kept & 1u) == 1u)));
    return number(sign | (kept + up));
}

// The square root, correctly rounded: integers correct an estimate, as in `div`.
fn root(a: f32) -> f32 {
    let bits = bitcast<u32>(a);
    if (magnitude(a) == 0u || bits == 0x7f800000u) { return a; }
    if (is_nan(a) || bits >= 0x80000000u) { return number(0x7fc00000u); }
    let x = parts(bits);
    let exponent = x.exponent - 127;
    let odd = (exponent & 1) != 0;
    let shift = select(23u, 24u, odd);
    let scale = number(select(0x453504f3u, 0x45800000u, odd)); // sqrt(2^23), sqrt(2^24)
    var s = clamp(u32(keep(keep(sqrt(f32(x.bits))) * scale)), 0x800000u, 0xffffffu);
    var rest = bitcast<i32>((x.bits << shift) - s * s);
    for (var i = 0; i < 64 && rest < 0; i++) { s -= 1u; rest += i32(2u * s + 1u); }
    for (var i = 0; i < 64 && rest > i32(2u * s); i++) { rest -= i32(2u * s + 1u); s += 1u; }
    let up = u32(rest > i32(s)); // there are no ties
    return number((u32((exponent >> 1u) + 127) << 23u) + (s - 0x800000u) + up);
}

// (e^r - 1 - r) / r^2
fn exp_polynomial(r: f32) -> f32 {
    var p = number(0x39506967u);
    p = add(mul(p, r), number(0x3ab743ceu));
    p = add(mul(p, r), number(0x3c088908u));
    p = add(mul(p, r), number(0x3d2aa9c1u));
    p = add(mul(p, r), number(0x3e2aaaaau));
    return add(mul(p, r), number(0x3f000000u));
}

// e^x, or +0 for x below the negative number whose magnitude has the bits `least`.
fn exp_from(x: f32, least: u32) -> f32 {
    let shifted = add(mul(x, number(0x3fb8aa3bu)), number(MAGIC));
    let n = sub(shifted, number(MAGIC));
    let r = sub(sub(x, mul(n, number(0x3f318000u))), mul(n, number(0xb95e8083u)));
    let p = exp_polynomial(r);
    let y = add(add(mul(p, mul(r, r)), r), number(0x3f800000u));
    let power = (bitcast<u32>(shifted) - MAGIC + 127u) << 23u;
    var bits = bitcast<u32>(mul(y, number(power)));
    let negative = bitcast<u32>(x) >= 0x80000000u;
    if (!negative && magnitude(x) > 0x42b00000u) { bits = 0x7f800000u; }
    if (negative && magnitude(x) > least) { bits = 0u; }
    return number(select(bits, 0x7fc00000u, is_nan(x)));
}

fn exp_of(x: f32) -> f32 { return exp_from(x, 0x42ae0000u); } // -87
fn weight_of(x: f32) -> f32 { return exp_from(x, 0x41dc0000u); } // -27.5

// 1 / (1 + e^-x), or +0 for x below -80.
fn sigmoid(x: f32) -> f32 {
    let y = div(number(0x3f800000u), add(number(0x3f800000u), exp_of(neg(x))));
    return number(select(bitcast<u32>(y), 0u, less(x, number(0xc2a00000u))));
}

// ln(1 + e^x).
fn softplus(x: f32) -> f32 {
    let t = exp_of(neg(number(magnitude(x))));
    let s = div(t, add(number(0x40000000u), t));
    let square = mul(s, s);
    var p = number(0x3d888889u);
    p = add(mul(p, square), number(0x3d9d89d9u));
    p = add(mul(p, square), number(0x3dba2e8cu));
    p = add(mul(p, square), number(0x3de38e39u));
    p = add(mul(p, square), number(0x3e124925u));
    p = add(mul(p, square), number(0x3e4ccccdu));
    p = add(mul(p, square), number(0x3eaaaaabu));
    p = add(mul(p, square), number(0x3f800000u));
    let positive = number(select(0u, bitcast<u32>(x), greater(x, number(0u))));
    return settle(add(positive, mul(mul(number(0x40000000u), s), p)));
}

fn silu(x: f32) -> f32 { return div(x, add(number(0x3f800000u), exp_of(neg(x)))); }

fn gelu_tanh(x: f32) -> f32 {
    let inner = add(number(0xbfcc422au), mul(number(0xbd922279u), mul(x, x)));
    return div(x, add(number(0x3f800000u), exp_of(mul(x, inner))));
}

fn gelu_erf(x: f32) -> f32 {
    let m = number(magnitude(x));
    let z = mul(m, number(0x3f3504f3u));
    let t = div(number(0x3f800000u), add(number(0x3f800000u), mul(number(0x3f000000u), z)));
    var p = number(0x3e2ef945u);
    p = add(mul(p, t), number(0xbf527891u));
    p = add(mul(p, t), number(0x3fbe87b0u));
    p = add(mul(p, t), number(0xbf914e5du));
    p = add(mul(p, t), number(0x3e8ec7ccu));
    p = add(mul(p, t), number(0xbe3ec24cu));
    p = add(mul(p, t), number(0x3dc636c9u));
    p = add(mul(p, t), number(0x3ebf88fbu));
    p = add(mul(p, t), number(0x3f8000c7u));
    p = add(mul(p, t), number(0xbfa1fc4eu));
    let far = mul(mul(number(0x3f000000u), m), mul(t, exp_of(sub(p, mul(z, z)))));
    let tail = number(select(bitcast<u32>(far), 0u, greater(z, number(0x41a00000u)))); // z > 20
    if (less(x, number(0u))) { return settle(neg(tail)); }
    return settle(sub(x, tail));
}

fn squared_relu(x: f32) -> f32 {
    let above = number(select(bitcast<u32>(x), 0u, less(x, number(0u))));
    return settle(mul(above, above));
}

// e^x - 1 for x that is not above 0.
fn exp_minus_1(x: f32) -> f32 {
    if (greater(x, number(0xbeae147bu))) { return add(mul(exp_polynomial(x), mul(x, x)), x); } // -0.34
    return sub(exp_of(x), number(0x3f800000u));
}

// xIELU, with numbers of the layer.
fn xielu(x: f32, slope: f32, above: f32, below: f32, most: f32) -> f32 {
    var y = most;
    if (less(x, most)) { y = x; }
    var curve = settle(mul(below, sub(exp_minus_1(y), x)));
    if (greater(x, number(0u))) { curve = settle(mul(above, settle(mul(x, x)))); }
    return settle(add(curve, settle(mul(slope, x))));
}

// x limited to the range from -7 to 7.
fn limited(x: f32) -> f32 {
    let most = number(0x40e00000u);
    if (greater(x, most)) { return most; }
    if (less(x, neg(most))) { return neg(most); }
    return x;
}

fn limited_silu(x: f32) -> f32 {
    let most = number(0x40e00000u);
    var y = x;
    if (greater(x, most)) { y = most; }
    return div(y, add(number(0x3f800000u), exp_of(mul(number(0xbfd9db23u), y)))); // -1.702
}

fn tanh_of(x: f32) -> f32 {
    let s = mul(x, x);
    let one = number(0x3f800000u);
    if (magnitude(x) < 0x3f200000u) { // 0.625
        var p = number(0xbbbaf0eau);
        p = add(mul(p, s), number(0x3ca9134fu));
        p = add(mul(p, s), number(0xbd5c1e2du));
        p = add(mul(p, s), number(0x3e088393u));
        p = add(mul(p, s), number(0xbeaaaa99u));
        return add(mul(mul(p, s), x), x);
    }
    let large = sub(one, div(number(0x40000000u), add(exp_of(mul(number(0x40000000u), number(magnitude(x)))), one)));
    return number(bitcast<u32>(large) ^ select(0u, 0x80000000u, less(x, number(0u))));
}

fn soft_cap(cap: f32, x: f32) -> f32 { return settle(mul(cap, tanh_of(div(x, cap)))); }

const SILU = 0u;
const GELU_TANH = 1u;
const GELU_ERF = 2u;
const SQUARED_RELU = 3u;
const LIMITED_SILU = 4u;
const XIELU = 5u;
fn activate(kind: u32, x: f32) -> f32 {
    switch kind {
        case GELU_TANH: { return gelu_tanh(x); }
        case GELU_ERF: { return gelu_erf(x); }
        case SQUARED_RELU: { return squared_relu(x); }
        case LIMITED_SILU: { return limited_silu(x); }
        default: { return silu(x); }
    }
}

// The activation function of a gate, times what it gates.
fn gated(kind: u32, gate: f32, x: f32) -> f32 {
    if (kind == LIMITED_SILU) { return mul(limited_silu(gate), add(limited(x), number(0x3f800000u))); }
    return mul(activate(kind, gate), x);
}
