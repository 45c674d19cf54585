// Words and halves at any even byte of W, where blocks of weights begin.

fn word_at(byte: u32) -> u32 {
    let i = byte >> 2u;
    if ((byte & 2u) == 0u) { return W[i]; }
    return (W[i] >> 16u) | (W[i + 1u] << 16u);
}

fn half_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 2u) * 8u)) & 0xffffu; }

fn byte_at(byte: u32) -> u32 { return (W[byte >> 2u] >> ((byte & 3u) * 8u)) & 0xffu; }
