// Words and bytes at any byte of W, and halves at any even one: blocks of weights begin there.

fn word_at(byte: u32) -> u32 {
    let i = byte >> 2u;
    let shift = (byte & 3u) * 8u;
    // In two steps: one of 32 bits is none.
    return (W[i] >> shift) | ((W[i + 1u] << 1u) << (31u - shift));
}

fn half_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 2u) * 8u)) & 0xffffu; }

fn byte_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 3u) * 8u)) & 0xffu; }
