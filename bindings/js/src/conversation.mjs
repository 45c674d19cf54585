import { GleedError } from "./error.mjs";
import { DESK, ENTRY, KEEP, SCRIPT, UPDATE } from "./structs.mjs";

const ROLES = { system: 1, user: 2, assistant: 3 };
const E_OUTPUT_TOO_SMALL = -104;

/**
 * A list of messages in a sequence. After any change of the list, `update` returns the tokens that the model has not
 * read yet.
 */
export class Conversation {
  #pool;
  #options;
  #format;
  #memory;
  #at;
  messages = [];

  /** Begins a conversation in an open sequence. */
  static begin(pool, options, sequence) {
    const { lib, engine } = pool;
    return new Conversation(pool, options, (memory, bytes) =>
      lib.c.gleed_conversation_init(engine, sequence, 0, memory, bytes, lib.out, lib.error),
    );
  }

  /** Opens a new sequence, and loads a conversation from saved bytes in the memory of the library. */
  static load(pool, options, bytes, length) {
    const { lib, engine } = pool;
    // First, because what fails behind the call below would leave its sequence open.
    const messages = savedMessages(lib, bytes, length);
    const conversation = new Conversation(pool, { ...options, system: undefined }, (memory, room) =>
      lib.c.gleed_conversation_load(engine, bytes, length, 0, memory, room, lib.out, lib.error),
    );
    conversation.messages = messages;
    return conversation;
  }

  constructor(pool, options, init) {
    const { lib, engine, model } = pool;
    this.#pool = pool;
    this.#options = options;
    this.#format = model.turnsFormat(options.turns);
    if (this.#format === undefined) {
      const why = options.turns === undefined ? "the file does not say how its model talks: name a turn format" : "there is none";
      throw new GleedError(`no turn format ('turns'): ${why}`);
    }
    const conversation = lib.object((size, align) => lib.c.gleed_conversation_plan(engine, size, align, 0, lib.error), init);
    this.#memory = conversation.memory;
    this.#at = conversation.at;
    if (options.system !== undefined) this.messages.push({ role: "system", text: options.system });
  }

  get sequence() {
    const { lib } = this.#pool;
    lib.check(lib.c.gleed_conversation_seq(this.#at, lib.out, lib.error));
    return lib.word();
  }

  /** Rewinds the sequence to its common beginning with the messages, and returns the tokens of the rest. */
  update() {
    const { lib, engine, tokenizer } = this.#pool;
    return lib.scope((take) => {
      const entries = this.#entries(take);
      const [script, update] = [take(SCRIPT.size), take(UPDATE.size)];
      SCRIPT.write(lib.memory, script, { format: this.#format });
      UPDATE.write(lib.memory, update);
      let keep = 0;
      if (this.#options.keep) KEEP.write(lib.memory, (keep = take(KEEP.size)), this.#options.keep);
      const status = lib.c.gleed_conversation_update(
        this.#at, engine, tokenizer, this.#pool.desk, entries, this.messages.length, script, keep, update, lib.error,
      );
      lib.check(status);
      const { tokens, tokens_len } = UPDATE.read(lib.memory, update);
      return Array.from(lib.words(tokens, tokens_len));
    });
  }

  /** Returns whether a token ends the model's turn. */
  isStop(token) {
    const { lib, tokenizer } = this.#pool;
    lib.check(lib.c.gleed_turns_is_stop(tokenizer, this.#format, token, lib.out, lib.error));
    return lib.word() !== 0;
  }

  /** Returns a conversation with the same messages, in a new sequence. */
  fork() {
    const { lib, engine } = this.#pool;
    const fork = new Conversation(this.#pool, { ...this.#options, system: undefined }, (memory, bytes) =>
      lib.c.gleed_conversation_fork(this.#at, engine, memory, bytes, lib.out, lib.error),
    );
    fork.messages = this.messages.map((message) => ({ ...message }));
    return fork;
  }

  /** Returns the messages, the positions of the replies and the sequence as bytes. */
  save() {
    const { lib, engine } = this.#pool;
    return lib.scope((take) => {
      const entries = this.#entries(take);
      const { desk } = this.#pool;
      const count = this.messages.length;
      lib.check(lib.c.gleed_conversation_saved_size(this.#at, engine, desk, entries, count, lib.out, lib.error));
      const size = lib.word();
      const bytes = take(size);
      lib.check(lib.c.gleed_conversation_save(this.#at, engine, desk, entries, count, bytes, size, lib.out, lib.error));
      return lib.bytes(bytes, lib.word()).slice();
    });
  }

  free() {
    this.#pool.lib.heap.give(this.#memory);
    this.#memory = undefined;
  }

  #entries(take) {
    const { lib } = this.#pool;
    const entries = take(ENTRY.size * this.messages.length);
    this.messages.forEach(({ role, text }, index) => {
      if (!ROLES[role]) throw new TypeError(`there is no role '${role}'`);
      const [at, text_len] = lib.put(take, text);
      ENTRY.write(lib.memory, entries + ENTRY.size * index, { role: ROLES[role], text: at, text_len });
    });
    return entries;
  }
}

/** Memory in which the conversations of a pool are written. */
export function makeDesk({ lib, tokenizer, plan }) {
  return lib.scope((take) => {
    const limits = take(DESK.size);
    DESK.write(lib.memory, limits, { context: plan.context, text: Math.max(16384, 8 * plan.context) });
    return lib.object(
      (size, align) => lib.c.gleed_desk_plan(tokenizer, size, align, limits, lib.error),
      (memory, bytes) => lib.c.gleed_desk_init(tokenizer, limits, memory, bytes, lib.out, lib.error),
    );
  });
}

function savedMessages(lib, bytes, length) {
  return lib.scope((take) => {
    let [entries, room] = [0, 0];
    const read = () => lib.c.gleed_conversation_saved_entries(bytes, length, entries, room, lib.out, lib.error);
    let status = read();
    if (status === E_OUTPUT_TOO_SMALL) {
      room = lib.needed();
      entries = take(ENTRY.size * room);
      status = read();
    }
    lib.check(status);
    const roles = Object.keys(ROLES);
    return Array.from({ length: lib.word() }, (_, index) => {
      const { role, text, text_len } = ENTRY.read(lib.memory, entries + ENTRY.size * index);
      return { role: roles.find((name) => ROLES[name] === role), text: lib.text(text, text_len) };
    });
  });
}
