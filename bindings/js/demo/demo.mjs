import { Gleed } from "./dist/gleed.mjs";
import { Card } from "./card.mjs";
import { Figures } from "./figures.mjs";
import { Blocks } from "./blocks.mjs";

const MODEL = new URL("gleed-tales-q8_0.gguf", document.baseURI);
const SLOTS = 4;
const FORK_TEMPERATURE = 0.8;
const $ = (id) => document.querySelector(`#${id}`);

class Demo {
  #model;
  #pool;
  #native;
  #figures = new Figures();
  #forks = 0;
  cards = [];
  blocks;
  isChat = false;

  async start() {
    this.#native = await (await fetch("native.json")).json();
    $("form").onsubmit = (event) => (event.preventDefault(), this.guard(() => this.write()));
    $("temperature").oninput = () => ($("temperature-value").textContent = $("temperature").value);
    $("pick-model").onclick = () => $("model-file").click();
    $("pick-snapshot").onclick = () => $("snapshot-file").click();
    $("model-file").onchange = ({ target }) => target.files[0] && this.guard(() => this.load(target.files[0]));
    $("snapshot-file").onchange = ({ target }) => target.files[0] && this.guard(() => this.restore(target.files[0]));
    document.addEventListener("keydown", (event) => event.key === "Escape" && this.cards.forEach((card) => card.stop()));
    this.#takeDrops();
    await this.guard(async () => {
      await this.load(MODEL);
      await this.write();
    });
  }

  /** Runs an action of the user, and shows its error if it fails. */
  async guard(work) {
    $("error").hidden = true;
    try {
      return await work();
    } catch (error) {
      $("error").textContent = error.message;
      $("error").hidden = false;
    }
  }

  get hasRoom() {
    return this.cards.length < SLOTS;
  }

  async load(source) {
    $("progress").classList.remove("done");
    $("model").textContent = source instanceof File ? `Loading ${source.name}…` : "Loading the demo model…";
    const progress = ({ loaded, total }) => ($("progress").value = total ? loaded / total : 0.5);
    try {
      const model = await Gleed.open(source, { worker: true, progress });
      await this.#use(model).catch(async (error) => {
        await model.close();
        throw error;
      });
    } finally {
      $("progress").classList.add("done");
      this.#describe();
    }
  }

  /** Opens a model in place of the one before. */
  async #use(model) {
    const limits = { context: Math.min(model.info.context, 256), sequences: SLOTS, rows: 64 };
    if (model.info.context > 512) Object.assign(limits, { context: Math.min(model.info.context, 2048), blocks: 192 });
    const pool = await model.pool(limits);
    const plan = await model.memoryPlan(limits);
    for (const card of [...this.cards]) card.element.remove();
    this.cards = [];
    await this.#model?.close();
    this.#model = model;
    this.#pool = pool;
    this.isChat = model.info.turns !== null;
    this.blocks = new Blocks(plan.blocks);
    this.#figures.plan(plan);
    $("prompt-label").textContent = this.isChat ? "Ask the model" : "A story begins";
    $("tell").textContent = this.isChat ? "Ask" : "Tell";
    $("hash-panel").hidden = model.info.fingerprint !== this.#native.fingerprint;
    this.changed();
  }

  #describe() {
    if (!this.#model) return;
    const { name, architecture, bytes, build, threads, from } = this.#model.info;
    const title = Object.assign(document.createElement("b"), { textContent: name || architecture });
    const sources = { cache: "kept by the browser", network: "downloaded", file: "from a file", memory: "from memory" };
    const size = (bytes / 1e6).toFixed(1);
    $("model").replaceChildren(title, ` · ${size} MB, ${sources[from]} · WebAssembly ${build === "plain" ? "without" : "with"} SIMD${threads > 1 ? ` and ${threads} threads` : ""}`);
  }

  /** Tells a new story, or asks in the conversation. */
  async write() {
    const text = $("prompt").value;
    const talking = this.isChat && this.cards[0];
    const card = talking || (await this.#fresh());
    card.stop();
    if (this.isChat) {
      $("prompt").value = "";
      card.say(text);
      return card.show(card.session.ask(text, { tokens: 400 }));
    }
    card.begin(text, (await this.#model.encode(text)).length);
    const hashes = !$("hash-panel").hidden && text === this.#native.prompt && $("temperature").value === "0";
    if (!hashes) this.#figures.hash(undefined, this.#native.hash);
    const reason = await card.show(card.session.tell(text, hashes ? { tokens: this.#native.tokens } : {}));
    if (!hashes || reason !== "length") return;
    this.#figures.hash(await card.session.logitsHash(), this.#native.hash);
    await card.resume();
  }

  /** Closes all stories and opens an empty one. */
  async #fresh() {
    for (const card of [...this.cards]) await this.close(card);
    const temperature = Number($("temperature").value);
    const choice = temperature > 0 ? { temperature, minP: 0.05, seed: Math.max(0, Math.floor(Number($("seed").value))) } : {};
    // In a conversation that does not fit the context, the first turns are left out.
    const keep = this.isChat ? { last: 1, room: 64 } : undefined;
    const session = await this.#pool.session({ ...choice, keep, hash: !$("hash-panel").hidden });
    this.blocks.open(session);
    return this.#add(session);
  }

  #add(session) {
    const slot = [...Array(SLOTS).keys()].find((slot) => !this.cards.some((card) => card.slot === slot));
    const card = new Card(this, session, slot);
    this.cards.push(card);
    this.cards.forEach((card) => card.draw());
    this.changed();
    return card;
  }

  /** Adds a second story that begins like this one and goes on differently. */
  async fork(parent) {
    const wrote = parent.isWriting;
    parent.stop();
    await this.sync(parent);
    const session = await parent.session.fork({ temperature: FORK_TEMPERATURE, minP: 0.05, seed: 1000 + ++this.#forks });
    this.blocks.fork(parent.session, session);
    const card = this.#add(session);
    card.inherit(parent);
    parent.element.after(card.element);
    if (parent.count > 40 && parent.isOver) return this.#halfway(card);
    return Promise.all([card.resume(), wrote ? parent.resume() : undefined]);
  }

  /** Goes on from the middle of a story that has ended. */
  async #halfway(card) {
    await card.rewind(Math.floor(card.count / 2));
    return card.resume();
  }

  async close(card) {
    card.stop();
    await card.session.close();
    this.blocks.close(card.session);
    this.cards.splice(this.cards.indexOf(card), 1);
    card.element.remove();
    this.cards.forEach((card) => card.draw());
    this.changed();
  }

  async restore(file) {
    const session = await this.#pool.restore(new Uint8Array(await file.arrayBuffer()), { temperature: FORK_TEMPERATURE, minP: 0.05 });
    this.blocks.open(session);
    const card = this.#add(session);
    const tokens = await session.tokens();
    card.begin(await this.#model.decode(tokens), tokens.length);
    card.state = `from ${file.name}`;
    card.draw();
    $("snapshot-file").value = "";
  }

  /** Draws the pool anew, at most once per frame. */
  changed() {
    this.#isStale = true;
    this.#drawing ??= requestAnimationFrame(() => this.#draw().finally(() => (this.#drawing = undefined)));
  }

  #isStale = false;
  #drawing;

  async #draw() {
    while (this.#isStale) {
      this.#isStale = false;
      const pool = this.#pool;
      try {
        await Promise.all(this.cards.map((card) => this.sync(card)));
        const [info, metrics] = [await pool.info(), await pool.metrics()];
        if (pool === this.#pool) this.#figures.draw(this, info, metrics);
      } catch (error) {
        // A story was closed meanwhile, or a model replaced. The next round draws the new state.
        if (!/closed/.test(error.message)) throw error;
      }
      await new Promise(requestAnimationFrame);
    }
  }

  /** Updates a story with the library's counts. */
  async sync(card) {
    const info = await card.session.info();
    if (!this.blocks.table(card.session)) return;
    this.blocks.resize(card.session, info.computed);
    card.info = info;
  }

  #takeDrops() {
    const drop = $("drop");
    document.addEventListener("dragover", (event) => (event.preventDefault(), (drop.hidden = false)));
    document.addEventListener("dragleave", (event) => event.relatedTarget === null && (drop.hidden = true));
    document.addEventListener("drop", (event) => {
      event.preventDefault();
      drop.hidden = true;
      const [file] = event.dataTransfer.files;
      if (file) this.guard(() => (file.name.endsWith(".gguf") ? this.load(file) : this.restore(file)));
    });
  }
}

await new Demo().start();
