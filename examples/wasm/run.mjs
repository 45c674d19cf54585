// Tells a story with the C functions of gleed.h in WebAssembly: node run.mjs gleed.wasm MODEL.gguf
// The host provides all memory: it grows the module's, and puts the file, the engine and the arguments there.
import { readFileSync } from "node:fs";

const [wasm, path] = process.argv.slice(2);
const file = readFileSync(path);
const { instance } = await WebAssembly.instantiate(readFileSync(wasm), {}); // It needs nothing of the host.
const { memory, ...gleed } = instance.exports;

// Pieces of memory, behind what the module has itself.
let top = memory.buffer.byteLength;
function take(bytes, align = 64) {
    const start = Math.ceil(top / align) * align;
    const missing = start + bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    top = start + bytes;
    return start;
}
// Views end when memory grows, so they are made when they are needed.
const words = () => new Uint32Array(memory.buffer);
const word = (at) => words()[at / 4];
const text = (at) => {
    const bytes = new Uint8Array(memory.buffer, at);
    return Buffer.from(bytes.subarray(0, bytes.indexOf(0))).toString();
};

// struct gleed_error: struct_size, status, three numbers of 8 bytes, and the text.
const error = take(128);
words()[error / 4] = 128;
function check(status) {
    if (status !== 0) throw new Error(`${text(gleed.gleed_status_text(status))}: ${text(error + 32)}`);
}

// Where functions put what they have to say.
const out = take(16);
const bytes = take(file.length);
new Uint8Array(memory.buffer, bytes, file.length).set(file);

check(gleed.gleed_model_size(out, out + 4, error));
const modelSize = word(out);
const modelMemory = take(modelSize, word(out + 4));
check(gleed.gleed_model_open(bytes, file.length, modelMemory, modelSize, out, error));
const model = word(out);

// struct gleed_config: 96 tokens in batches of 8, everything else as by default.
const config = take(28);
words().set([28, 1, 96, 8, 0, 0, 0], config / 4);
check(gleed.gleed_plan(model, config, out, out + 4, error));
const engineSize = word(out);
const engineMemory = take(engineSize, word(out + 4));
check(gleed.gleed_engine_init(model, config, engineMemory, engineSize, out, error));
const engine = word(out);
check(gleed.gleed_seq_open(engine, out, error));
const sequence = word(out);

const prompt = [1, 414, 435, 261, 385];
const tokens = take(4 * prompt.length);
words().set(prompt, tokens / 4);
const pieces = vocabulary(file);
const grown = memory.buffer.byteLength;

const hash = xxh64();
check(gleed.gleed_prefill(engine, sequence, tokens, prompt.length, out, out + 4, error));
const story = [...prompt];
for (let i = 0; i < 64; i++) {
    const logits = new Float32Array(memory.buffer, word(out), word(out + 4));
    hash.update(new BigUint64Array(memory.buffer, logits.byteOffset, logits.length / 2));
    const token = logits.indexOf(logits.reduce((max, logit) => Math.max(max, logit)));
    if (token === 2) break;
    story.push(token);
    check(gleed.gleed_decode_step(engine, sequence, token, out, out + 4, error));
}
if (memory.buffer.byteLength !== grown) throw new Error("the library took memory");
console.log(story.slice(1).map((id) => pieces[id]).join("").trim());
console.log(`logits ${hash.finish().toString(16).padStart(16, "0")}`);

// The texts of the tokens, from the file.
function vocabulary(file) {
    const sizes = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
    let at = 24;
    const string = () => {
        const len = Number(file.readBigUInt64LE(at));
        return file.subarray(at + 8, (at += 8 + len)).toString();
    };
    const value = (type) => {
        if (type === 8) return string();
        if (type !== 9) return void (at += sizes[type]);
        const [element, count] = [file.readUInt32LE(at), Number(file.readBigUInt64LE(at + 4))];
        at += 12;
        return Array.from({ length: count }, () => value(element));
    };
    for (let keys = Number(file.readBigUInt64LE(16)); keys > 0; keys--) {
        const name = string();
        const found = value(file.readUInt32LE((at += 4) - 4));
        if (name !== "tokenizer.ggml.tokens") continue;
        const byte = (piece) => piece.replace(/^<0x(..)>$/, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
        return found.map((piece) => byte(piece.replaceAll("\u2581", " ")));
    }
    throw new Error("no tokens in the file");
}

// xxHash64 of whole stripes of 32 bytes (Yann Collet), as other machines hash their logits.
function xxh64() {
    const [P1, P2, P3, P4] = [0x9e3779b185ebca87n, 0xc2b2ae3d27d4eb4fn, 0x165667b19e3779f9n, 0x85ebca77c2b2ae63n];
    const u64 = (x) => BigInt.asUintN(64, x);
    const rotate = (x, by) => u64(x << by) | (x >> (64n - by));
    const round = (lane, input) => u64(rotate(u64(lane + input * P2), 31n) * P1);
    const lanes = [u64(P1 + P2), P2, 0n, u64(-P1)];
    let length = 0n;
    return {
        update(input) {
            input.forEach((x, i) => (lanes[i % 4] = round(lanes[i % 4], x)));
            length += BigInt(input.length * 8);
        },
        finish() {
            let hash = u64([1n, 7n, 12n, 18n].reduce((sum, by, i) => sum + rotate(lanes[i], by), 0n));
            for (const lane of lanes) hash = u64((hash ^ round(0n, lane)) * P1 + P4);
            hash = u64(hash + length);
            hash = u64((hash ^ (hash >> 33n)) * P2);
            hash = u64((hash ^ (hash >> 29n)) * P3);
            return hash ^ (hash >> 32n);
        },
    };
}
