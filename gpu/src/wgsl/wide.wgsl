// Integers of 64 bits, as two words.

struct Wide { low: u32, high: u32 }

fn plus(a: Wide, b: Wide) -> Wide {
    let low = a.low + b.low;
    return Wide(low, a.high + b.high + select(0u, 1u, low < a.low));
}

fn minus(a: Wide, b: Wide) -> Wide {
    return Wide(a.low - b.low, a.high - b.high - select(0u, 1u, a.low < b.low));
}

fn is_below(a: Wide, b: Wide) -> bool { return a.high < b.high || (a.high == b.high && a.low < b.low); }

fn times(a: u32, b: u32) -> Wide {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let left = (a >> 16u) * (b & 0xffffu);
    let right = (a & 0xffffu) * (b >> 16u);
    let middle = (low >> 16u) + (left & 0xffffu) + (right & 0xffffu);
    return Wide((low & 0xffffu) | (middle << 16u), (a >> 16u) * (b >> 16u) + (left >> 16u) + (right >> 16u) + (middle >> 16u));
}

// The upper 64 and the lower 32 of the 96 bits of a product.
struct Product { upper: Wide, low: u32 }
fn product(a: Wide, b: u32) -> Product {
    let low = times(a.low, b);
    return Product(plus(times(a.high, b), Wide(low.high, 0u)), low.low);
}

// The lower 64 bits of a product.
fn wrapped(a: Wide, b: Wide) -> Wide {
    let low = times(a.low, b.low);
    return Wide(low.low, low.high + a.low * b.high + a.high * b.low);
}

// a ^ (a >> count), for a count from 1 to 31.
fn folded(a: Wide, count: u32) -> Wide {
    return Wide(a.low ^ ((a.low >> count) | (a.high << (32u - count))), a.high ^ (a.high >> count));
}
