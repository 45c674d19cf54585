// Words, 16-bit halves and bytes of W. Rows begin at multiples of 16 bytes, and so do the codes in them.

fn words_at(byte: u32) -> vec4<u32> { return W[byte >> 4u]; }

fn word_at(byte: u32) -> u32 { return W[byte >> 4u][(byte >> 2u) & 3u]; }

fn half_at(byte: u32) -> u32 { return (word_at(byte) >> ((byte & 2u) * 8u)) & 0xffffu; }

fn byte_at(byte: u32) -> u32 { return (word_at(byte) >> ((byte & 3u) * 8u)) & 0xffu; }
