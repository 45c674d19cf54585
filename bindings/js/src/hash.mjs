const P1 = 0x9e3779b185ebca87n;
const P2 = 0xc2b2ae3d27d4eb4fn;
const P3 = 0x165667b19e3779f9n;
const P4 = 0x85ebca77c2b2ae63n;
const u64 = (x) => BigInt.asUintN(64, x);
const rotate = (x, by) => u64(x << by) | (x >> (64n - by));
const round = (lane, input) => u64(rotate(u64(lane + input * P2), 31n) * P1);

/** xxHash64 (Yann Collet) of logits, computed as on other machines. Rows have a multiple of 8 elements. */
export class Xxh64 {
  #lanes = [u64(P1 + P2), P2, 0n, u64(-P1)];
  #bytes = 0n;

  /** Adds a row of f32, at an address that is a multiple of 8. */
  update(row) {
    if (row.length % 8 !== 0) throw new RangeError(`${row.length} logits are no multiple of 8`);
    new BigUint64Array(row.buffer, row.byteOffset, row.length / 2).forEach((x, i) => {
      this.#lanes[i % 4] = round(this.#lanes[i % 4], x);
    });
    this.#bytes += BigInt(row.length * 4);
  }

  copy() {
    const copy = new Xxh64();
    copy.#lanes = [...this.#lanes];
    copy.#bytes = this.#bytes;
    return copy;
  }

  /** Returns the hash of all rows so far as 16 hexadecimal digits. */
  hex() {
    let hash = u64([1n, 7n, 12n, 18n].reduce((sum, by, i) => sum + rotate(this.#lanes[i], by), 0n));
    for (const lane of this.#lanes) hash = u64((hash ^ round(0n, lane)) * P1 + P4);
    hash = u64(hash + this.#bytes);
    hash = u64((hash ^ (hash >> 33n)) * P2);
    hash = u64((hash ^ (hash >> 29n)) * P3);
    return (hash ^ (hash >> 32n)).toString(16).padStart(16, "0");
  }
}
