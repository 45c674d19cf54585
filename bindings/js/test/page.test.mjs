// Tests of the page in headless Chromium: node --test page.test.mjs, with SITE (the folder of demo/build.sh), STORY (a file with the
// native story), IDS (a file with its tokens) and CHROMIUM. SCREENSHOTS is a folder for pictures. Without it no pictures are made.
import assert from "node:assert/strict";
import { mkdtemp, readdir, readFile, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { extname, join } from "node:path";
import { after, before, test } from "node:test";
import puppeteer from "puppeteer-core";

const { SITE, STORY, IDS, CHROMIUM = "/usr/bin/chromium", SCREENSHOTS } = process.env;
const TYPES = { ".html": "text/html", ".css": "text/css", ".mjs": "text/javascript", ".json": "application/json", ".wasm": "application/wasm" };
const PROMPT = "Once upon a time";
const NATIVE = (await readFile(STORY, "utf8")).trimEnd();
const NATIVE_IDS = (await readFile(IDS, "utf8")).trim().split(/\s+/).map(Number);
const WAIT = { timeout: 60000 };

/** The headers that isolate a page from other origins. */
const ISOLATED = { "cross-origin-opener-policy": "same-origin", "cross-origin-embedder-policy": "require-corp" };

let [server, browser, page, url, downloads, requests] = [];

/** Serves the page with the headers `more`, and without the file `without`. Returns the server and its URL. */
async function serve(more, without) {
  const server = createServer(async (request, response) => {
    const path = request.url === "/" ? "/index.html" : request.url;
    requests.push(`${request.method} ${path}`);
    const file = await readFile(join(SITE, path)).catch(() => undefined);
    if (!file || path === without) return response.writeHead(404).end();
    const headers = { "content-type": TYPES[extname(path)] ?? "application/octet-stream", "content-length": file.length, etag: '"1"', ...more };
    return response.writeHead(200, headers).end(request.method === "HEAD" ? undefined : file);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  return [server, `http://127.0.0.1:${server.address().port}/`];
}

before(async () => {
  requests = [];
  [server, url] = await serve({});
  downloads = await mkdtemp(join(tmpdir(), "gleed-page-"));
  browser = await puppeteer.launch({ executablePath: CHROMIUM, args: ["--no-sandbox", "--disable-gpu"] });
  page = await browser.newPage();
  page.on("pageerror", (error) => assert.fail(error));
  const client = await page.createCDPSession();
  await client.send("Browser.setDownloadBehavior", { behavior: "allow", downloadPath: downloads });
  await page.setViewport({ width: 1280, height: 900 });
  await page.goto(url);
});

after(async () => {
  await browser?.close();
  server?.close();
  await rm(downloads, { recursive: true, force: true });
});

const text = (index = 0) => page.$$eval(".card .text", (all, index) => all[index]?.textContent, index);
const count = (selector) => page.$$eval(selector, (all) => all.length);
const isIdle = () => page.waitForFunction(() => !document.querySelector(".card.writes"), WAIT);
const click = (card, name) => page.$$eval(`.card .${name}`, (all, card) => all[card].click(), card);
const value = (selector) => page.$eval(selector, (element) => element.textContent);
/** Checks that the number of drawn blocks equals the library's count. */
const agrees = async () => {
  await page.waitForFunction(() => document.querySelector("#pool").dataset.agrees === "true", WAIT);
};

async function picture(name) {
  if (!SCREENSHOTS) return;
  for (const scheme of ["light", "dark"]) {
    await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
    // Not `isMobile`, because Chromium would load the page again.
    for (const [size, width, height] of [["desktop", 1280, 900], ["phone", 390, 844]]) {
      await page.setViewport({ width, height });
      await page.screenshot({ path: join(SCREENSHOTS, `${name}-${size}-${scheme}.png`), fullPage: true });
    }
  }
  await page.setViewport({ width: 1280, height: 900 });
}

test("the demo model tells the native story at once, with the native hash", async () => {
  await page.waitForFunction((native) => document.querySelector(".card .text")?.textContent.length >= native.length, WAIT, NATIVE);
  await isIdle();
  assert.equal(await text(), NATIVE);
  assert.equal(await value("#hash-here"), await value("#hash-native"));
  assert.match(await value("#hash-verdict"), /Equal/);
  assert.match(await value("#model"), /Gleed Tales 2.6M · 2.8 MB/);
  assert.ok(Number(await value("#speed")) > 10);
  await agrees();
  await picture("story");
});

test("a rewind frees blocks, and the story goes on as before", async () => {
  const whole = await text();
  const used = await count("#pool .own");
  await page.$eval(".card .rewind input", (range) => {
    range.value = 40;
    range.dispatchEvent(new Event("input"));
    range.dispatchEvent(new Event("change"));
  });
  await page.waitForFunction((most) => document.querySelectorAll("#pool .own").length < most, WAIT, used);
  assert.ok((await text()).length < whole.length / 2);
  assert.equal(await count("#pool .own"), 3);
  await agrees();
  await click(0, "go");
  await page.waitForFunction((whole) => document.querySelector(".card .text").textContent === whole, WAIT, whole);
  await isIdle();
});

test("a fork shares blocks and tells another story", async () => {
  const whole = await text();
  await click(0, "fork");
  await page.waitForFunction(() => document.querySelectorAll("#pool .shared").length > 0, WAIT);
  await isIdle();
  await agrees();
  assert.equal(await count(".card"), 2);
  assert.notEqual(await text(1), whole);
  assert.ok((await text(1)).startsWith(PROMPT));
  assert.ok(Number.parseInt(await value("#saved")) > 50);
  await click(1, "fork");
  await page.waitForFunction(() => document.querySelectorAll(".card").length === 3, WAIT);
  await isIdle();
  await agrees();
  await picture("forks");
});

test("a snapshot goes into a file and comes back", async () => {
  const saved = await text(1);
  await click(1, "save");
  let files = [];
  for (let i = 0; i < 100 && !files.some((name) => name.endsWith(".gleed")); i++) {
    await new Promise((resolve) => setTimeout(resolve, 50));
    files = await readdir(downloads);
  }
  const file = join(downloads, files.find((name) => name.endsWith(".gleed")));
  await click(1, "close");
  await page.waitForFunction(() => document.querySelectorAll(".card").length === 2, WAIT);
  await (await page.$("#snapshot-file")).uploadFile(file);
  await page.waitForFunction(() => document.querySelectorAll(".card").length === 3, WAIT);
  await page.waitForFunction((saved) => document.querySelectorAll(".card .text")[2].textContent === saved, WAIT, saved);
  await agrees();
});

test("the keyboard tells and stops a story, and errors are shown", async () => {
  await page.$eval("#prompt", (prompt) => (prompt.value = "The dog"));
  await page.focus("#prompt");
  await page.keyboard.press("Enter");
  await page.waitForFunction(() => /^The dog.{25}/.test(document.querySelector(".card .text")?.textContent), WAIT);
  await page.keyboard.press("Escape");
  await isIdle();
  assert.equal(await count(".card"), 1);
  const wrong = join(downloads, "wrong.gguf");
  await writeFile(wrong, "this is no model");
  await (await page.$("#model-file")).uploadFile(wrong);
  await page.waitForFunction(() => !document.querySelector("#error").hidden, WAIT);
  assert.match(await value("#error"), /GGUF|file/);
  assert.equal(await count(".card"), 1, "what there was is still there");
});

test("a model that is dropped takes the place of the other, and the next visit takes the kept one", async () => {
  await page.evaluate(async () => {
    const bytes = await (await fetch("gleed-tales-q8_0.gguf")).arrayBuffer();
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], "dropped.gguf"));
    document.dispatchEvent(new DragEvent("dragover", { dataTransfer, cancelable: true }));
    document.dispatchEvent(new DragEvent("drop", { dataTransfer, cancelable: true }));
  });
  await page.waitForFunction(() => /from a file/.test(document.querySelector("#model").textContent), WAIT);
  requests.length = 0;
  await page.reload();
  await page.waitForFunction(() => /kept by the browser/.test(document.querySelector("#model").textContent), WAIT);
  assert.ok(requests.includes("HEAD /gleed-tales-q8_0.gguf"));
  assert.ok(!requests.includes("GET /gleed-tales-q8_0.gguf"));
});

test("a model whose file has a chat template talks", async () => {
  const file = join(downloads, "talks.gguf");
  await writeFile(file, talking(await readFile(join(SITE, "gleed-tales-q8_0.gguf"))));
  await (await page.$("#model-file")).uploadFile(file);
  await page.waitForFunction(() => document.querySelector("#tell").textContent === "Ask", WAIT);
  for (const [turn, question] of ["Tell me of a dog.", "And of a cat?"].entries()) {
    await page.$eval("#prompt", (prompt, question) => (prompt.value = question), question);
    await page.click("#tell");
    await page.waitForFunction((turns) => document.querySelectorAll(".card .you").length === turns, WAIT, turn + 1);
    await isIdle();
    await agrees();
  }
  assert.equal(await count(".card"), 1);
  assert.match(await text(), /^Tell me of a dog\.\n\n[^]+\n\nAnd of a cat\?\n\n[^]+/);
  assert.ok(Number(await value("#speed")) > 10);
  await picture("chat");
});

/**
 * Returns the file with an added chat template. The entry before the other keys has a multiple of 32 bytes, so the tensors stay
 * aligned.
 */
function talking(file) {
  const key = "tokenizer.chat_template";
  const template = "{% for message in messages %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}";
  const text = template.padEnd(template.length + ((32 - ((20 + key.length + template.length) % 32)) % 32));
  const entry = Buffer.alloc(20 + key.length + text.length);
  entry.writeBigUInt64LE(BigInt(key.length), 0);
  entry.write(key, 8);
  entry.writeUInt32LE(8, 8 + key.length);
  entry.writeBigUInt64LE(BigInt(text.length), 12 + key.length);
  entry.write(text, 20 + key.length);
  const header = Buffer.from(file.subarray(0, 24));
  header.writeBigUInt64LE(header.readBigUInt64LE(16) + 1n, 16);
  return Buffer.concat([header, entry, file.subarray(24)]);
}

test("a phone shows everything without scrolling sideways", async () => {
  await page.setViewport({ width: 360, height: 740 });
  const [wide, seen] = await page.evaluate(() => [document.documentElement.scrollWidth, innerWidth]);
  assert.ok(wide <= seen, `${wide} pixels wide`);
});

test("an isolated page computes on all cores, with the native hash", async () => {
  const [server, url] = await serve(ISOLATED);
  const page = await browser.newPage();
  try {
    page.on("pageerror", (error) => assert.fail(error));
    await page.goto(url);
    const cores = await page.evaluate(() => (crossOriginIsolated ? Math.min(8, navigator.hardwareConcurrency) : 0));
    assert.ok(cores > 0, "the page is isolated");
    await page.waitForFunction((native) => document.querySelector(".card .text")?.textContent === native, WAIT, NATIVE);
    await page.waitForFunction(() => /Equal/.test(document.querySelector("#hash-verdict").textContent), WAIT);
    const said = await page.$eval("#model", (element) => element.textContent);
    assert.match(said, cores > 1 ? new RegExp(`with SIMD and ${cores} threads`) : /with SIMD$/);
    assert.equal(requests.includes("GET /dist/gleed-threads.wasm"), cores > 1);
    // More threads than cores work, threads on the page itself are refused, and nothing is left after the end.
    const [ids, refused, ended] = await page.evaluate(async () => {
      const { Gleed } = await import("./dist/gleed.mjs");
      const source = "gleed-tales-q8_0.gguf";
      const model = await Gleed.open(source, { worker: true, threads: 5 });
      const story = (await model.session({ context: 64 })).tell("Once upon a time", { tokens: 20 });
      await story.read();
      await model.close();
      const error = await Gleed.open(source, { threads: 2 }).catch(({ message }) => message);
      return [story.ids, error, await model.memory().catch(({ message }) => message)];
    });
    assert.deepEqual(ids, NATIVE_IDS.slice(0, 20));
    assert.match(refused, /worker: true/);
    assert.match(ended, /closed/);
  } finally {
    await page.close();
    server.close();
  }
});

test("an isolated page whose server lacks the module with threads computes on one", async () => {
  const [server, url] = await serve(ISOLATED, "/dist/gleed-threads.wasm");
  const page = await browser.newPage();
  try {
    await page.goto(url);
    await page.waitForFunction((native) => document.querySelector(".card .text")?.textContent === native, WAIT, NATIVE);
    assert.match(await page.$eval("#model", (element) => element.textContent), /with SIMD$/);
    const refused = await page.evaluate(async () => {
      const { Gleed } = await import("./dist/gleed.mjs");
      return Gleed.open("gleed-tales-q8_0.gguf", { worker: true, threads: 2 }).then(() => "opened", ({ message }) => message);
    });
    assert.match(refused, /gleed-threads.wasm is not there/);
  } finally {
    await page.close();
    server.close();
  }
});
