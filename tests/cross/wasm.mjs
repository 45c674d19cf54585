// Prints what the program prints elsewhere. The argument is its module.
import { readFileSync } from "node:fs";

const { instance } = await WebAssembly.instantiate(readFileSync(process.argv[2]), {});
const { levels, name, hash, memory } = instance.exports;
for (let level = 0; level < levels(); level++) {
    const place = BigInt.asUintN(64, name(level));
    const text = Buffer.from(memory.buffer, Number(place & 0xffffffffn), Number(place >> 32n)).toString();
    console.log(`${text} ${BigInt.asUintN(64, hash(level)).toString(16).padStart(16, "0")}`);
}
