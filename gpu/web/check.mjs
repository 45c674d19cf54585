// Opens the page of SITE in headless Chromium, waits for its report, and fails where a hash is not HASH. PROFILE is an empty folder
// for the browser, CHROMIUM its program. The adapter is SwiftShader, which computes on the CPU.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { extname, join } from "node:path";
import { text } from "node:stream/consumers";

const { SITE, HASH, PROFILE, CHROMIUM } = process.env;
const TYPES = { ".html": "text/html", ".js": "text/javascript", ".mjs": "text/javascript", ".wasm": "application/wasm" };
/** Seconds that the page may take. */
const PATIENCE = 900;

const server = createServer(async (request, response) => {
  const { pathname } = new URL(request.url, "http://localhost");
  if (request.method === "POST") {
    server.emit("report", JSON.parse(await text(request)));
    return response.end();
  }
  const file = await readFile(join(SITE, pathname === "/" ? "index.html" : pathname)).catch(() => undefined);
  if (!file) return response.writeHead(404).end();
  response.writeHead(200, { "content-type": TYPES[extname(pathname)] ?? (pathname === "/" ? "text/html" : "application/octet-stream") }).end(file);
});
server.listen(0, "127.0.0.1");
await once(server, "listening");

const swiftshader = ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader"];
const args = ["--headless", "--no-sandbox", ...swiftshader, `--user-data-dir=${PROFILE}`, `http://127.0.0.1:${server.address().port}/?tell`];
const browser = spawn(CHROMIUM, args, { stdio: "ignore" });
const started = Date.now();
try {
  const ended = once(browser, "exit").then(() => assert.fail("the browser ended"));
  const [report] = await Promise.race([once(server, "report", { signal: AbortSignal.timeout(PATIENCE * 1000) }), ended]);
  console.log(report.lines.join("\n"));
  assert.equal(report.error, undefined);
  assert.deepEqual([report.gpu, report.cpu], [HASH, HASH]);
  console.log(`the browser's GPU and WebAssembly have the native hash ${HASH}; ${Math.round((Date.now() - started) / 1000)} s`);
} finally {
  browser.removeAllListeners("exit");
  browser.kill();
  server.close();
  server.closeAllConnections();
}
