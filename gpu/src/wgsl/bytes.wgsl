// Words and bytes at any byte of W, and halves at any even one: blocks of weights begin there.

// A word that begins in one word and ends in the next. In two steps: a shift by 32 bits is none.
fn joined(low: u32, high: u32, shift: u32) -> u32 { return (low >> shift) | ((high << 1u) << (31u - shift)); }

// Four words.
fn words_at(byte: u32) -> vec4<u32> {
    let i = byte >> 2u;
    let shift = (byte & 3u) * 8u;
    let b = W[i + 1u];
    let c = W[i + 2u];
    let d = W[i + 3u];
    return vec4<u32>(joined(W[i], b, shift), joined(b, c, shift), joined(c, d, shift), joined(d, W[i + 4u], shift));
}

fn half_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 2u) * 8u)) & 0xffffu; }

fn byte_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 3u) * 8u)) & 0xffu; }
