// Tests of the installed package in Node: node --test package.test.mjs, with GLEED_REPOSITORY.
import assert from "node:assert/strict";
import { mkdtemp, open, readFile, readdir, readlink, rm } from "node:fs/promises";
import { spawnSync } from "node:child_process";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { after, before, describe, test } from "node:test";
import { pathToFileURL } from "node:url";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { Gleed, GleedError, hasSimd } from "gleed";

setFlagsFromString("--expose-gc");
const gc = runInNewContext("gc");
const root = process.env.GLEED_REPOSITORY;
const PATH = `${root}/examples/assets/gleed-tales-q8_0.gguf`;
const PROMPT = "Once upon a time";
const { hash: HASH } = JSON.parse(await readFile(`${root}/bindings/js/demo/native.json`, "utf8"));
// The ids that examples/hello.rs chooses after the prompt, until the model ends the story.
const NATIVE = (await readFile(`${root}/bindings/python/tests/native_ids.txt`, "utf8")).trim().split(/\s+/).map(Number);
const bytes = await readFile(PATH);

const PLACES = [
  ["in the thread of the program", {}],
  ["in a worker", { worker: true }],
  ["on three threads", { threads: 3 }],
  ["in a worker, on two threads", { worker: true, threads: 2 }],
];
for (const [place, options] of PLACES) {
  describe(place, () => {
    const { worker, threads = 1 } = options;
    let model;
    before(async () => (model = await Gleed.open(PATH, options)));
    after(() => model.close());

    test("a story has the ids and the logits of the native one", async () => {
      const session = await model.session({ context: 96, hash: true });
      const story = session.tell(PROMPT, { tokens: 64 });
      const pieces = [];
      for await (const piece of story) pieces.push(piece);
      assert.deepEqual(story.ids, NATIVE.slice(0, 64));
      assert.equal(story.reason, "length");
      assert.equal(pieces.join(""), await model.decode(story.ids, { continues: true }));
      assert.ok(pieces.length > 50);
      assert.equal(await session.logitsHash(), HASH);
      assert.deepEqual([model.info.build, model.info.threads], [threads > 1 ? "threads" : "simd", threads]);
      await session.pool.close();
    });

    test("a text goes on where it ended, and ends where the model ends it", async () => {
      const session = await model.session({ context: 256 });
      await session.tell(PROMPT, { tokens: 7 }).read();
      const rest = session.resume();
      await rest.read();
      assert.deepEqual(rest.ids, NATIVE.slice(7));
      assert.equal(rest.reason, "end");
      assert.equal(await session.resume().read(), "");
      const stopped = session.tell(PROMPT, { stop: ["Lil", "nowhere"] });
      assert.ok((await stopped.read()).endsWith(" named "));
      assert.equal(stopped.reason, "stop");
      await session.pool.close();
      const short = await model.session({ context: 16 });
      const full = short.tell(PROMPT);
      await full.read();
      assert.deepEqual([full.reason, full.ids], ["context", NATIVE.slice(0, 11)]);
      await short.pool.close();
    });

    test("a text is cancelled: by leaving the loop, by cancel, by a signal", async () => {
      const session = await model.session({ context: 256 });
      for await (const piece of session.tell(PROMPT)) {
        assert.ok(piece);
        break;
      }
      const rest = session.resume({ tokens: 3 });
      await rest.read();
      assert.deepEqual(rest.ids, NATIVE.slice(1, 4));
      const cancelled = session.tell(PROMPT);
      await cancelled.next();
      cancelled.cancel();
      assert.equal(await cancelled.read(), "");
      assert.equal(cancelled.reason, "cancelled");
      const abort = new AbortController();
      await assert.rejects(
        async () => {
          for await (const _ of session.tell(PROMPT, { signal: abort.signal })) abort.abort(new Error("enough"));
        },
        { message: "enough" },
      );
      await session.pool.close();
    });

    test("a fork shares blocks, a rewind frees them, a snapshot goes on", async () => {
      const session = await model.session({ context: 256, sequences: 3, temperature: 1, seed: 5n });
      const first = session.tell(PROMPT, { tokens: 60 });
      await first.read();
      assert.equal((await session.info()).tokens, 65);
      const fork = await session.fork();
      assert.deepEqual(await session.info(), { tokens: 65, computed: 64, ownBlocks: 0, sharedBlocks: 4, ownBytes: 0, sharedBytes: 131072 });
      const saved = await session.snapshot();
      const [a, b] = [session.resume({ tokens: 20 }), fork.resume({ tokens: 20 })];
      await Promise.all([a.read(), b.read()]);
      assert.deepEqual(a.ids, b.ids, "the same generator draws the same tokens");
      const restored = await session.pool.restore(saved, { temperature: 1 });
      const c = restored.resume({ tokens: 20 });
      await c.read();
      assert.deepEqual(c.ids, a.ids);
      assert.deepEqual(await restored.tokens(), await session.tokens());
      const other = await model.session({ context: 256, temperature: 1, seed: 6 });
      const d = other.tell(PROMPT, { tokens: 60 });
      await d.read();
      assert.notDeepEqual(d.ids, first.ids);
      await other.pool.close();
      await restored.rewind(20);
      assert.equal((await restored.tokens()).length, 20);
      assert.equal((await restored.info()).ownBlocks, 2);
      await restored.resume({ tokens: 5 }).read();
      await assert.rejects(() => session.fork(), (error) => error instanceof GleedError && error.status === 2 && error.needed > 0);
      await restored.close();
      await restored.close();
      await assert.rejects(() => session.fork({ temprature: 1 }), { message: /temprature/ });
      await assert.rejects(() => session.fork({ temperature: -1 }), (error) => error.status === -5);
      assert.equal((await session.pool.info()).sequences, 2);
      await assert.rejects(() => session.rewind(99), { status: -506, needed: 85, given: 99 });
      saved[200] ^= 1;
      await assert.rejects(() => session.pool.restore(saved), (error) => error.status <= -800 && error.status > -900);
      assert.equal((await session.pool.info()).sequences, 2);
      await session.pool.close();
    });

    test("a conversation goes on, is edited, forked, saved", async () => {
      await assert.rejects(() => model.session().then((session) => session.ask("Hello").read()), { message: /turns/ });
      const chat = await model.session({ context: 512, sequences: 3, turns: "chatml", system: "You tell stories." });
      const first = await chat.ask("Tell me of a dog.", { tokens: 20 }).read();
      await chat.ask("And a cat?", { tokens: 20 }).read();
      const messages = await chat.messages();
      assert.deepEqual(messages.map(({ role }) => role), ["system", "user", "assistant", "user", "assistant"]);
      assert.equal(messages[2].text, first);
      const fork = await chat.fork();
      await chat.setMessages(messages.slice(0, 2));
      assert.equal(await chat.reply({ tokens: 20 }).read(), first, "a reply that is written again is the same");
      const saved = await fork.snapshot();
      const again = await chat.pool.restore(saved, { turns: "chatml" });
      assert.deepEqual(await again.messages(), messages);
      const [a, b] = [await fork.ask("A bird?", { tokens: 12 }).read(), await again.ask("A bird?", { tokens: 12 }).read()];
      assert.equal(a, b);
      const metrics = await chat.pool.metrics();
      assert.ok(metrics.saved_conversation > 0 && metrics.decode_tokens > 0 && metrics.decode_times_sum > 0);
      await chat.pool.close();
    });

    test("memory is planned, taken, and given back", async () => {
      const plan = await model.memoryPlan({ context: 128, sequences: 2 });
      assert.equal(plan.blocks, 16);
      assert.equal(plan.file, bytes.length);
      assert.ok(plan.sections.length > 5 && plan.sections.every(({ name, bytes }) => name && bytes >= 0));
      const before = (await model.memory()).used;
      for (let i = 0; i < 5; i++) {
        const session = await model.session({ context: 128, sequences: 2 });
        assert.ok((await model.memory()).used - before >= plan.bytes);
        await session.tell(PROMPT, { tokens: 3 }).read();
        await session.fork();
        await session.pool.close();
        assert.equal((await model.memory()).used, before);
        await assert.rejects(() => session.tokens(), { message: /closed/ });
      }
    });

    test("a text that is refused gives its memory back", async () => {
      const session = await model.session({ context: 64 });
      const before = (await model.memory()).used;
      for (const stop of [[""], Array(17).fill("a")]) {
        await assert.rejects(() => session.tell(PROMPT, { stop }).read(), (error) => error.status === -5);
        assert.equal((await model.memory()).used, before);
      }
      await session.pool.close();
    });

    test("errors have a status and numbers", async () => {
      await assert.rejects(() => model.session({ rows: 7e4 }), (error) => error instanceof GleedError && error.status === -400 && error.given === 7e4);
      await assert.rejects(() => model.session({ contxt: 5 }), { message: /contxt/ });
      await assert.rejects(() => Gleed.open(bytes.subarray(0, 2e6), options), (error) => error.status === -203 && error.given === 2e6);
      await assert.rejects(() => Gleed.open(Buffer.from("no model at all, this is a text"), options), { name: "GleedError", status: -201 });
      await assert.rejects(() => Gleed.open(`${root}/nothing.gguf`, options), { message: /ENOENT/ });
    });
  });
}

test("sources: bytes, Blob, stream, URL of a file, URL of a server, with progress", async () => {
  const server = createServer((request, response) => {
    if (request.url !== "/model.gguf") return response.writeHead(404).end();
    return response.writeHead(200, { "content-length": bytes.length }).end(bytes);
  });
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  const url = `http://127.0.0.1:${server.address().port}/model.gguf`;
  const sources = [bytes, new Uint8Array(bytes).buffer, new Blob([bytes]), new Blob([bytes]).stream(), pathToFileURL(PATH), url];
  for (const source of sources) {
    const seen = [];
    const model = await Gleed.open(source, { progress: (progress) => seen.push(progress) });
    assert.equal(model.info.fingerprint.length, 16);
    assert.equal(seen.at(-1).loaded, bytes.length);
    const session = await model.session({ context: 64 });
    const story = session.tell(PROMPT, { tokens: 5 });
    await story.read();
    assert.deepEqual(story.ids, NATIVE.slice(0, 5));
    // One copy of the file, and little else.
    assert.ok((await model.memory()).bytes < (source instanceof ReadableStream ? 2 ** 24 : bytes.length) + (4 << 20));
    await model.close();
  }
  await assert.rejects(() => Gleed.open(url.replace("model", "nothing")), { name: "GleedError", given: 404 });
  const abort = new AbortController();
  await assert.rejects(() => Gleed.open(url, { signal: abort.signal, progress: () => abort.abort() }), { name: "AbortError" });
  server.close();
});

test("a source that does not fit is closed", async () => {
  const folder = await mkdtemp(`${tmpdir()}/gleed-`);
  const large = 5 * 2 ** 30;
  const tooLarge = { name: "GleedError", status: -102 };
  const path = `${folder}/large.gguf`;
  const file = await open(path, "w");
  await file.truncate(large);
  await file.close();
  await assert.rejects(() => Gleed.open(path), tooLarge);
  if (process.platform === "linux") {
    const opened = await readdir("/proc/self/fd");
    const paths = await Promise.all(opened.map((fd) => readlink(`/proc/self/fd/${fd}`).catch(() => "")));
    assert.ok(!paths.includes(path));
  }
  await rm(folder, { recursive: true });

  let ended;
  const closed = new Promise((resolve) => (ended = resolve));
  const server = createServer((_, response) => response.on("close", ended).writeHead(200, { "content-length": large }).write("GGUF"));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  await assert.rejects(() => Gleed.open(`http://127.0.0.1:${server.address().port}/large.gguf`), tooLarge);
  await closed;
  server.close();
});

test("what fails leaves no memory and no sequence behind", async () => {
  const model = await Gleed.open(PATH, { threads: 2 });
  const { lib } = model;
  const { c } = lib;
  const failing = async (name, run) => {
    const { used } = lib.heap;
    lib.c = { ...c, [name]: () => -99 };
    await assert.rejects(run, { status: -99 });
    lib.c = c;
    assert.equal(lib.heap.used, used, name);
  };
  await failing("gleed_set_clock", () => model.pool({ context: 64 }));
  await failing("gleed_set_executor", () => model.pool({ context: 64 }));
  const chat = await model.session({ context: 256, sequences: 2, turns: "chatml" });
  await failing("gleed_reset", () => chat.setMessages([]));
  await chat.ask("Hello!", { tokens: 3 }).read();
  const saved = await chat.snapshot();
  await failing("gleed_conversation_saved_entries", () => chat.pool.restore(saved, { turns: "chatml" }));
  assert.equal((await chat.pool.info()).sequences, 1);
  assert.equal((await (await chat.pool.restore(saved, { turns: "chatml" })).messages()).length, 2);
  await model.close();
});

test("all builds compute the same bits, with any number of threads", async () => {
  assert.equal(hasSimd(), true);
  for (const options of [{ build: "simd" }, { build: "plain" }, { build: "threads" }, { threads: 2 }, { threads: 7 }]) {
    const model = await Gleed.open(PATH, options);
    const { build = "threads", threads = 1 } = options;
    assert.deepEqual([model.info.build, model.info.threads], [build, threads]);
    const session = await model.session({ context: 96, hash: true });
    await session.tell(PROMPT, { tokens: 64 }).read();
    assert.equal(await session.logitsHash(), HASH, JSON.stringify(options));
    await model.close();
  }
  for (const threads of [0, 33, 1.5]) await assert.rejects(() => Gleed.open(PATH, { threads }), RangeError);
  await assert.rejects(() => Gleed.open(PATH, { threads: 2, build: "simd" }), { name: "TypeError", message: /simd/ });
});

test("a program ends although a model with threads is open", () => {
  const program = `import { Gleed } from "gleed";
    const model = await Gleed.open(process.argv[1], { threads: 3 });
    console.log((await (await model.session({ context: 64 })).tell("Once", { tokens: 3 }).read()).length > 0);`;
  const { status, stdout } = spawnSync(process.execPath, ["--input-type=module", "-e", program, PATH], { timeout: 60000, encoding: "utf8" });
  assert.deepEqual([status, stdout], [0, "true\n"]);
});

test("a program without promises works in steps", async () => {
  const model = await Gleed.open(PATH);
  const session = await model.session({ context: 256 });
  const story = session.tell(PROMPT);
  let [text, frames] = ["", 0];
  for (; story.reason === null; frames++) text += story.step(4);
  assert.deepEqual(story.ids, NATIVE);
  assert.ok(frames > 3);
  assert.equal(text, await model.decode(NATIVE, { continues: true }));
  await model.close();
});

test("what is closed gives its memory back to the system", async () => {
  const held = () => (gc(), gc(), process.memoryUsage().arrayBuffers + process.memoryUsage().external);
  const open = async () => {
    const model = await Gleed.open(PATH);
    const session = await model.session({ context: 512 });
    await session.tell(PROMPT, { tokens: 4 }).read();
    return model;
  };
  await (await open()).close();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const before = held();
  for (let i = 0; i < 10; i++) await (await open()).close();
  await new Promise((resolve) => setTimeout(resolve, 50));
  const after = held();
  assert.ok(after - before < 4 << 20, `${after - before} bytes more after 10 models of 6 MB`);
  const model = await open();
  assert.ok(held() - after > 4 << 20, "the measure sees a model that is open");
  await model.close();
  assert.throws(() => model.lib, { name: "GleedError", message: /closed/ });
  await model.close();
});

test("threads end with their model, and the memory that they share goes back", async () => {
  // Node does not count shared memory, but the system does.
  const held = () => (gc(), gc(), process.memoryUsage().rss);
  const open = async () => {
    const model = await Gleed.open(PATH, { threads: 2 });
    await (await model.session({ context: 512 })).tell(PROMPT, { tokens: 4 }).read();
    return model;
  };
  const settle = () => new Promise((resolve) => setTimeout(resolve, 300));
  for (let i = 0; i < 3; i++) await (await open()).close();
  await settle();
  const before = held();
  for (let i = 0; i < 30; i++) await (await open()).close();
  await settle();
  const after = held();
  assert.ok(after - before < 60e6, `${after - before} bytes more after 30 models of 6 MB`);
  const models = [];
  for (let i = 0; i < 12; i++) models.push(await open());
  assert.ok(held() - after > 60e6, `the measure sees 12 models that are open: ${held() - after}`);
  for (const model of models) await model.close();
});
