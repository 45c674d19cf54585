// Runs the report and shows it. `?tell` posts it to the server, too: check.mjs waits for that.
import init, { report } from "./gleed_gpu_web.js";

const lines = [];
const element = (id) => document.getElementById(id);

function say(line) {
  lines.push(line);
  element("lines").textContent = lines.join("\n");
}

async function run() {
  if (!navigator.gpu) throw new Error("This browser has no WebGPU.");
  await init({ module_or_path: new URL("gleed_gpu_web_bg.wasm", import.meta.url) });
  const response = await fetch("model.gguf");
  if (!response.ok) throw new Error(`model.gguf: ${response.status}`);
  return report(new Uint8Array(await response.arrayBuffer()), say);
}

const result = await run().then(
  ([gpu, cpu]) => ({ gpu, cpu }),
  (error) => ({ error: String(error) }),
);
const same = result.gpu === result.cpu;
element("verdict").textContent = result.error ?? (same ? "Equal: the GPU and WebAssembly have one hash." : "NOT equal.");
if (location.search === "?tell") await fetch("report", { method: "POST", body: JSON.stringify({ ...result, lines }) });
