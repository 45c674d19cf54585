import { SHOWN, STRING } from "./structs.mjs";

const RENDER_SPECIAL = 1;
const CONTINUES = 2;
const NO_STOP = 0xffffffff;

/** Makes text of tokens: a detokenizer, and strings that end the text. `free` gives its memory back. */
export class Text {
  #lib;
  #tokenizer;
  #detokenizer;
  #pieces = [];
  #room;
  #buffer;
  #stops;
  #shown;
  /** Whether a stop string has ended the text. */
  isStopped = false;

  constructor(lib, tokenizer, vocab, { continues = true, special = false, stop = [] } = {}) {
    const { c, error } = lib;
    this.#lib = lib;
    this.#tokenizer = tokenizer;
    const flags = (continues ? CONTINUES : 0) | (special ? RENDER_SPECIAL : 0);
    const detokenizer = lib.object(
      (size, align) => c.gleed_detokenizer_size(size, align, error),
      (memory, bytes) => c.gleed_detokenizer_init(tokenizer, flags, memory, bytes, lib.out, error),
    );
    this.#detokenizer = detokenizer.at;
    this.#pieces.push(detokenizer.memory);
    this.#room = Math.max(vocab.max_text, 3);
    try {
      this.#buffer = this.#take(this.#room);
      const strings = typeof stop === "string" ? [stop] : [...stop];
      if (strings.length > 0) this.#findStops(strings);
    } catch (error) {
      this.free();
      throw error;
    }
  }

  /** Returns the text that a token completes. */
  push(token) {
    const { c, out, error } = this.#lib;
    this.#lib.check(c.gleed_detokenize(this.#detokenizer, this.#tokenizer, token, this.#buffer, this.#room, out, error));
    return this.#show(this.#lib.word());
  }

  /** Returns the rest of the text after the last token. */
  finish() {
    const { c, out, error } = this.#lib;
    this.#lib.check(c.gleed_detokenizer_finish(this.#detokenizer, this.#buffer, this.#room, out, error));
    const rest = this.#show(this.#lib.word());
    if (!this.#stops || this.isStopped) return rest;
    this.#lib.check(c.gleed_stops_finish(this.#stops, out, out + 4, error));
    return rest + this.#lib.text(this.#lib.word(0), this.#lib.word(1));
  }

  free() {
    this.#pieces.splice(0).forEach((at) => this.#lib.heap.give(at));
  }

  #take(bytes) {
    this.#pieces.push(this.#lib.heap.take(bytes));
    return this.#pieces.at(-1);
  }

  #findStops(strings) {
    const { c, error, memory } = this.#lib;
    const array = this.#take(STRING.size * strings.length);
    strings.forEach((string, index) => {
      const [text, text_len] = this.#lib.put((bytes) => this.#take(bytes), string);
      STRING.write(memory, array + STRING.size * index, { text, text_len });
    });
    const stops = this.#lib.object(
      (size, align) => c.gleed_stops_size(size, align, error),
      (at, bytes) => c.gleed_stops_init(array, strings.length, at, bytes, this.#lib.out, error),
    );
    this.#pieces.push(stops.memory);
    this.#stops = stops.at;
    this.#shown = this.#take(SHOWN.size);
  }

  #show(length) {
    if (!this.#stops || length === 0) return this.#lib.text(this.#buffer, length);
    const { c, error, memory } = this.#lib;
    SHOWN.write(memory, this.#shown);
    this.#lib.check(c.gleed_stops_push(this.#stops, this.#buffer, length, this.#shown, error));
    const shown = SHOWN.read(memory, this.#shown);
    this.isStopped = shown.stop !== NO_STOP;
    return this.#lib.text(shown.held, shown.held_len) + this.#lib.text(this.#buffer, shown.text_len);
  }
}
