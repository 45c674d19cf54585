// Tells a story with the C functions of gleed.h in WebAssembly: node run.mjs gleed.wasm MODEL.gguf The host
// provides all memory: it grows the module's memory, and puts the file, the engine and the arguments there.
// (For programs there is a package: bindings/js.)
import { readFileSync } from "node:fs";
import { Xxh64 } from "../../bindings/js/src/hash.mjs";

const [wasm, path] = process.argv.slice(2);
const file = readFileSync(path);
const { instance } = await WebAssembly.instantiate(readFileSync(wasm), {}); // The module imports nothing.
const { memory, ...gleed } = instance.exports;

// Returns a piece of memory after the module's own data.
let top = memory.buffer.byteLength;
function take(bytes, align = 64) {
    const start = Math.ceil(top / align) * align;
    const missing = start + bytes - memory.buffer.byteLength;
    if (missing > 0) memory.grow(Math.ceil(missing / 65536));
    top = start + bytes;
    return start;
}
// Returns a new view each time, because views end when the memory grows.
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

// The memory for the outputs of functions.
const out = take(16);
const bytes = take(file.length);
new Uint8Array(memory.buffer, bytes, file.length).set(file);

check(gleed.gleed_model_size(out, out + 4, error));
const modelSize = word(out);
const modelMemory = take(modelSize, word(out + 4));
check(gleed.gleed_model_open(bytes, file.length, modelMemory, modelSize, out, error));
const model = word(out);

// struct gleed_config: 96 tokens in batches of 8, and defaults for everything else.
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
check(gleed.gleed_tokenizer_size(model, out, out + 4, error));
const tokenizerSize = word(out);
const tokenizerMemory = take(tokenizerSize, word(out + 4));
check(gleed.gleed_tokenizer_init(model, tokenizerMemory, tokenizerSize, out, error));
const tokenizer = word(out);
check(gleed.gleed_detokenizer_size(out, out + 4, error));
const detokenizerSize = word(out);
const detokenizerMemory = take(detokenizerSize, word(out + 4));
check(gleed.gleed_detokenizer_init(tokenizer, 0, detokenizerMemory, detokenizerSize, out, error));
const detokenizer = word(out);
// No token of this vocabulary has a longer text.
const piece = take(64);
const grown = memory.buffer.byteLength;

const hash = new Xxh64();
check(gleed.gleed_prefill(engine, sequence, tokens, prompt.length, out, out + 4, error));
const story = [...prompt];
for (let i = 0; i < 64; i++) {
    const logits = new Float32Array(memory.buffer, word(out), word(out + 4));
    hash.update(logits);
    const token = logits.indexOf(logits.reduce((max, logit) => Math.max(max, logit)));
    if (token === 2) break;
    story.push(token);
    check(gleed.gleed_decode_step(engine, sequence, token, out, out + 4, error));
}
if (memory.buffer.byteLength !== grown) throw new Error("the library took memory");
const pieces = story.map((token) => {
    check(gleed.gleed_detokenize(detokenizer, tokenizer, token, piece, 64, out, error));
    return Buffer.from(new Uint8Array(memory.buffer, piece, word(out)));
});
console.log(Buffer.concat(pieces).toString());
console.log(`logits ${hash.hex()}`);
