// A story on the page: a session with its text and its buttons.

const NAMES = ["A", "B", "C", "D"];

export class Card {
  /** Pieces of text, each with the number of tokens up to its end. */
  #pieces = [];
  #stream;
  #demo;
  #least = 1;

  constructor(demo, session, slot) {
    this.#demo = demo;
    this.session = session;
    this.slot = slot;
    this.name = NAMES[slot];
    this.element = document.querySelector("#card").content.firstElementChild.cloneNode(true);
    this.element.style.setProperty("--of", `var(--s${slot})`);
    this.element.setAttribute("aria-label", `Story ${this.name}`);
    this.part("name").textContent = this.name;
    this.part("text").setAttribute("aria-label", `Text of story ${this.name}`);
    this.part("go").onclick = () => (this.#stream ? this.stop() : this.demo(() => this.resume()));
    this.part("fork").onclick = () => this.demo(() => demo.fork(this));
    this.part("save").onclick = () => this.demo(() => this.save());
    this.part("close").onclick = () => this.demo(() => demo.close(this));
    const range = this.range;
    range.oninput = () => this.draw(Number(range.value));
    range.onchange = () => this.demo(() => this.rewind(Number(range.value)));
    document.querySelector("#cards").append(this.element);
    this.draw();
  }

  part(name) {
    return this.element.querySelector(`.${name}`);
  }

  get range() {
    return this.element.querySelector(".rewind input");
  }

  get text() {
    return this.#pieces.map(({ text }) => text).join("");
  }

  get isWriting() {
    return this.#stream !== undefined;
  }

  /** Whether the story can only go on from an earlier token. */
  get isOver() {
    return this.state === "end" || this.state === "context";
  }

  demo(work) {
    return this.#demo.guard(work);
  }

  /** Begins with a given text. */
  begin(text, tokens, kind = "given") {
    this.#pieces = [{ text, end: tokens, kind }];
    this.#least = tokens;
    this.draw();
  }

  inherit(card) {
    this.#pieces = [...card.#pieces];
    this.#least = card.#least;
    this.draw();
  }

  say(text) {
    this.#pieces.push({ text: `${this.#pieces.length ? "\n\n" : ""}${text}\n\n`, end: this.count, kind: "you" });
    this.draw();
    this.part("text").scrollTop = this.part("text").scrollHeight;
  }

  get count() {
    return this.#pieces.at(-1)?.end ?? 0;
  }

  /** Shows the pieces of a stream as they come. Returns the reason why it has ended. */
  async show(stream, base = this.count) {
    this.#stream = stream;
    this.draw();
    try {
      for await (const text of stream) {
        this.#pieces.push({ text, end: base + stream.ids.length });
        this.draw();
        this.#demo.changed();
      }
    } finally {
      if (this.#stream === stream) this.#stream = undefined;
      this.state = stream.reason;
      this.draw();
      this.#demo.changed();
    }
    return stream.reason;
  }

  resume() {
    return this.show(this.session.resume());
  }

  stop() {
    this.#stream?.cancel();
  }

  async rewind(keep) {
    this.stop();
    const tokens = await this.session.tokens();
    await this.session.rewind(Math.min(keep, tokens.length));
    // The drawing must drop the blocks before the story goes on, because new tokens do not go into blocks that other
    // sessions hold.
    await this.#demo.sync(this);
    this.#pieces = this.#pieces.filter(({ end }) => end <= keep);
    // A character of several tokens comes with its last token, so the text shows whole pieces.
    this.state = "rewound";
    this.draw();
    this.#demo.changed();
  }

  async save() {
    this.stop();
    const bytes = await this.session.snapshot();
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([bytes]));
    link.download = `story-${this.name}.gleed`;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    this.state = `saved, ${Math.ceil(bytes.length / 1024)} KB`;
    this.draw();
  }

  /** Draws the text. Tokens after `keep` are struck out. */
  draw(keep = Infinity) {
    const text = this.part("text");
    const isAtEnd = text.scrollHeight - text.scrollTop - text.clientHeight < 24;
    const runs = [];
    for (const piece of this.#pieces) {
      const kind = piece.end > keep ? "cut" : (piece.kind ?? "");
      if (runs.at(-1)?.kind === kind) runs.at(-1).text += piece.text;
      else runs.push({ kind, text: piece.text });
    }
    text.replaceChildren(
      ...runs.map(({ kind, text }) => Object.assign(document.createElement("span"), { className: kind, textContent: text })),
    );
    if (isAtEnd) text.scrollTop = text.scrollHeight;
    this.element.classList.toggle("writes", this.isWriting);
    this.part("go").textContent = this.isWriting ? "Stop" : "Continue";
    this.part("go").disabled = !this.isWriting && this.isOver;
    this.part("fork").disabled = !this.#demo.hasRoom;
    const shown = keep === Infinity ? this.count : keep;
    const range = this.range;
    [range.min, range.max, range.value] = [Math.min(this.#least, this.count), this.count, shown];
    range.disabled = this.count <= this.#least;
    // A conversation is rewound by its messages.
    this.part("rewind").hidden = this.#demo.isChat;
    this.element.querySelector(".rewind output").textContent = shown;
    this.part("state").textContent = this.isWriting ? "writes" : (STATES[this.state] ?? this.state ?? "");
  }
}

const STATES = {
  end: "the end",
  context: "the context is full",
  full: "the pool is full",
  length: "",
  cancelled: "stopped",
};
