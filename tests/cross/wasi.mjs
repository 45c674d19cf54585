// Runs a test that was compiled for wasm32-wasip1: node tests/cross/wasi.mjs TEST.wasm [ARGUMENT...]
import { readFile } from "node:fs/promises";
import { WASI } from "node:wasi";

const [path, ...args] = process.argv.slice(2);
const wasi = new WASI({ version: "preview1", args: [path, ...args], env: process.env, preopens: { "/": "/" } });
const module = await WebAssembly.compile(await readFile(path));
process.exitCode = wasi.start(await WebAssembly.instantiate(module, wasi.getImportObject()));
