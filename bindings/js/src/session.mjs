import { Conversation } from "./conversation.mjs";
import { GleedError } from "./error.mjs";
import { Xxh64 } from "./hash.mjs";
import { Sampler } from "./sampler.mjs";
import { readState, writeState } from "./state.mjs";
import { Stream } from "./stream.mjs";
import { SEQUENCE, SNAPSHOT, SNAPSHOT_OPTIONS } from "./structs.mjs";
import { Text } from "./text.mjs";

const FULL = 2;
const E_CONTEXT = -505;
const E_SNAPSHOT_MAGIC = -801;

/** A sequence and its sampler, for a text or a conversation. A session writes one text at a time. */
export class Session {
  #pool;
  #sequence;
  #options;
  #sampler;
  #hash;
  #conversation;
  /** The last chosen token, or null. The sequence gets it with the next computation. */
  #pending = null;
  #stream;
  /** The tokens that are being computed. `#chooses` says whether a token is chosen after them. */
  #queued;
  #chooses;
  #chosen;
  #isClosed = false;

  /** For the package only: `Pool.session` makes sessions. */
  constructor(pool, sequence, options) {
    const { system, turns, keep, hash, ...choice } = options;
    this.#pool = pool;
    this.#options = options;
    this.#sequence = sequence;
    this.#sampler = new Sampler(pool, choice);
    this.#hash = hash ? new Xxh64() : undefined;
  }

  get pool() {
    return this.#pool;
  }

  /** Begins a new text and returns its continuation after `text`, piece by piece. */
  tell(text, options = {}) {
    return this.#write(options, (progress) => this.#tell(progress, text, options));
  }

  /** Says something to the model and returns its reply. The conversation goes on with the next call. */
  ask(text, options = {}) {
    return this.#write(options, (progress) => this.#reply(progress, text, options));
  }

  /** Returns the model's reply to the present messages. */
  reply(options = {}) {
    return this.#write(options, (progress) => this.#reply(progress, undefined, options));
  }

  /** Goes on with a text that the model has not ended itself. A text that the model has ended gives no more pieces. */
  resume(options = {}) {
    return this.#write(options, (progress) => this.#resume(progress, options));
  }

  /** Returns the ids of the text so far, including the prompt. */
  async tokens() {
    const finished = this.#finished();
    return this.#pending === null ? finished : [...finished, this.#pending];
  }

  /** Returns the messages of the conversation. */
  async messages() {
    return this.#conversation?.messages.map((message) => ({ ...message })) ?? [];
  }

  /**
   * Replaces the messages, for example to write a reply again, to edit, or to take another branch. Nothing is read
   * twice.
   */
  async setMessages(messages) {
    this.#stop();
    this.#converse().messages = messages.map(({ role, text }) => ({ role, text }));
  }

  /**
   * Returns the number of tokens, and the numbers of blocks of 16 tokens that only this session holds and that it
   * shares.
   */
  async info() {
    const info = this.#describe();
    return {
      tokens: info.tokens + (this.#pending === null ? 0 : 1),
      computed: info.tokens,
      ownBlocks: info.own_blocks,
      sharedBlocks: info.shared_blocks,
      ownBytes: info.own_bytes,
      sharedBytes: info.shared_bytes,
    };
  }

  /**
   * Opens a second session with the same text. The two share blocks, and nothing is computed. `options` are those of a
   * session.
   */
  async fork(options = {}) {
    this.#stop();
    const { lib } = this.#pool;
    const all = { ...this.#options, ...options };
    const inherit = (fork) => fork.#inherit(this, options);
    if (this.#conversation) return this.#forkConversation(all, inherit);
    const { tokens } = this.#describe();
    lib.check(lib.c.gleed_fork(this.#pool.engine, this.sequence, tokens, lib.out, lib.error));
    return this.#pool.adopt(lib.word(), all, inherit);
  }

  /** Keeps only the first `keep` tokens. `resume` goes on from there. A conversation is rewound by `setMessages`. */
  async rewind(keep) {
    this.#stop();
    if (this.#conversation) throw new GleedError("a conversation is rewound by its messages");
    const tokens = await this.tokens();
    if (!Number.isInteger(keep) || keep < 1 || keep > tokens.length) {
      throw new GleedError(`cannot keep ${keep} tokens of ${tokens.length}`, { status: -506, needed: tokens.length, given: keep });
    }
    if (keep === tokens.length) return;
    const { lib } = this.#pool;
    // The last token is computed again, because its logits are not kept.
    lib.check(lib.c.gleed_rewind(this.#pool.engine, this.sequence, keep - 1, lib.error));
    this.#pending = tokens[keep - 1];
    this.#sampler.read(tokens.slice(0, keep - 1));
  }

  /** Returns the session as bytes for `Pool.restore`, here or on another machine. */
  async snapshot() {
    this.#stop();
    if (this.#conversation) {
      this.#flush();
      return this.#conversation.save();
    }
    const { lib, engine } = this.#pool;
    return lib.scope((take) => {
      const [state, state_len] = writeState(lib, take, { sampler: this.#sampler.state, pending: this.#pending });
      const options = take(SNAPSHOT_OPTIONS.size);
      SNAPSHOT_OPTIONS.write(lib.memory, options, { state, state_len });
      lib.check(lib.c.gleed_snapshot_size(engine, this.sequence, options, lib.out, lib.error));
      const size = lib.word();
      const bytes = take(size);
      lib.check(lib.c.gleed_snapshot(engine, this.sequence, options, bytes, size, lib.out, lib.error));
      return lib.bytes(bytes, lib.word()).slice();
    });
  }

  /**
   * Returns the xxHash64 of all logits of the text, in hexadecimal. It is the same on every machine. The session needs
   * `hash: true`.
   */
  async logitsHash() {
    if (!this.#hash) throw new GleedError("a session that hashes its logits is made with { hash: true }");
    return this.#hash.hex();
  }

  /** Closes the sequence and frees its blocks. */
  async close() {
    this.end();
  }

  /** For the package only, like all members below. */
  get sequence() {
    if (this.#sequence === undefined) throw new GleedError("the session is closed");
    return this.#sequence;
  }

  end() {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#stop();
    const { lib } = this.#pool;
    if (this.#sequence !== undefined) lib.check(lib.c.gleed_seq_close(this.#pool.engine, this.#sequence, lib.error));
    this.#sequence = undefined;
    this.#conversation?.free();
    this.#sampler.free();
    this.#pool.forget(this);
  }

  /** Takes the logits of the last queued token. */
  arrived(logits, length) {
    this.#queued.forEach((token) => this.#sampler.accept(token));
    if (this.#chooses) {
      this.#hash?.update(new Float32Array(this.#pool.lib.memory.buffer, logits, length));
      this.#chosen = this.#sampler.choose(logits, length);
    }
    this.#queued = undefined;
  }

  /** Loads the bytes of `snapshot`. */
  load(saved) {
    const { lib, engine } = this.#pool;
    lib.scope((take) => {
      const bytes = take(saved.length);
      lib.bytes(bytes, saved.length).set(saved);
      const info = take(SNAPSHOT.size);
      SNAPSHOT.write(lib.memory, info);
      const status = lib.c.gleed_snapshot_describe(bytes, saved.length, info, lib.error);
      if (status === E_SNAPSHOT_MAGIC) {
        this.#conversation = Conversation.load(this.#pool, this.#options, bytes, saved.length);
        this.#sequence = this.#conversation.sequence;
        return;
      }
      lib.check(status);
      const { sampler, pending } = readState(lib, info);
      lib.check(lib.c.gleed_restore(engine, 0, bytes, saved.length, lib.out, lib.error));
      this.#sequence = lib.word();
      this.#sampler.state = sampler;
      this.#pending = pending;
    });
    this.#sampler.read(this.#finished());
  }

  #forkConversation(options, inherit) {
    const conversation = this.#conversation.fork();
    try {
      return this.#pool.adopt(conversation.sequence, options, (fork) => {
        fork.#conversation = conversation;
        inherit(fork);
      });
    } catch (error) {
      conversation.free();
      throw error;
    }
  }

  #inherit(parent, options) {
    this.#pending = parent.#pending;
    this.#hash &&= parent.#hash?.copy() ?? this.#hash;
    if (options.seed === undefined) this.#sampler.state = parent.#sampler.state;
    this.#sampler.read(this.#finished());
  }

  #write({ signal }, work) {
    this.#stop();
    void this.sequence;
    const progress = { ids: [], reason: null, slice: 0 };
    this.#stream = new Stream(progress, work(progress), signal);
    return this.#stream;
  }

  /** Ends the unfinished text, if there is one. */
  #stop() {
    this.#stream?.cancel();
    this.#stream = undefined;
  }

  *#tell(progress, text, options) {
    const { model, lib, engine } = this.#pool;
    const ids = model.encodeNow(text, true);
    this.#conversation?.free();
    this.#conversation = undefined;
    lib.check(lib.c.gleed_reset(engine, this.sequence, lib.error));
    this.#pending = null;
    this.#sampler.restart();
    this.#hash &&= new Xxh64();
    let isWhole = false;
    try {
      yield* this.#generate(progress, ids, options, { began: () => (isWhole = true) });
    } finally {
      // A part of a prompt is not kept as a text.
      if (!isWhole && this.#sequence !== undefined) lib.check(lib.c.gleed_reset(engine, this.sequence, lib.error));
    }
  }

  *#reply(progress, question, options) {
    const conversation = this.#converse();
    this.#flush();
    const { messages } = conversation;
    if (question !== undefined) messages.push({ role: "user", text: question });
    const raw = this.#text({ special: true });
    let reply;
    try {
      yield* this.#generate(progress, conversation.update(), options, {
        isEnd: (token) => conversation.isStop(token),
        began: () => (reply ??= ""),
        chose: (token) => (reply += raw.push(token)),
      });
    } finally {
      if (reply !== undefined) messages.push({ role: "assistant", text: reply + raw.finish() });
      // A question that the model has not read to its end counts as not asked.
      else if (question !== undefined) messages.pop();
      raw.free();
    }
  }

  *#resume(progress, options) {
    const ids = this.#pending === null ? [] : [this.#pending];
    const last = this.#conversation?.messages.at(-1);
    if (last?.role !== "assistant") return yield* this.#generate(progress, ids, options, {});
    const raw = this.#text({ special: true });
    try {
      yield* this.#generate(progress, ids, options, {
        isEnd: (token) => this.#conversation.isStop(token),
        chose: (token) => (last.text += raw.push(token)),
      });
    } finally {
      last.text += raw.finish();
      raw.free();
    }
  }

  /** Appends tokens, then chooses token after token until the text ends, and sets the reason. */
  *#generate(progress, ids, { tokens: most = Infinity, stop }, { isEnd = (token) => this.#isEnd(token), began, chose }) {
    const text = this.#text({ stop });
    try {
      for (let queue = ids; ; queue = [this.#pending]) {
        if (progress.ids.length >= most || queue.length === 0) {
          progress.reason ??= queue.length === 0 ? "end" : "length";
          break;
        }
        const token = yield* this.#compute(progress, queue, true);
        this.#pending = null;
        began?.();
        progress.reason ??= isEnd(token) ? "end" : this.#refusal();
        if (progress.reason) break;
        this.#pending = token;
        progress.ids.push(token);
        chose?.(token);
        const piece = text.push(token);
        if (text.isStopped) progress.reason = "stop";
        if (piece) yield piece;
        if (text.isStopped) return;
      }
      const rest = text.finish();
      if (rest) yield rest;
    } finally {
      text.free();
    }
  }

  /**
   * Appends tokens, and returns the token that is chosen after them. If the caller leaves earlier, unfinished tokens
   * are dropped.
   */
  *#compute(progress, ids, chooses) {
    const { rows } = this.#pool.plan;
    for (let at = 0; at < ids.length; at += rows) {
      this.#queued = ids.slice(at, at + rows);
      this.#chooses = chooses && at + rows >= ids.length;
      this.#pool.queue(this, this.#queued);
      try {
        while (this.#pool.isWaiting(this)) {
          this.#pool.step(progress.slice);
          if (this.#pool.isWaiting(this)) yield undefined;
        }
      } finally {
        this.#pool.drop(this);
      }
      if (this.#queued) throw new GleedError("the tokens were lost in the error of another session");
    }
    return this.#chosen;
  }

  /** Appends the last chosen token. */
  #flush() {
    if (this.#pending === null) return;
    const work = this.#compute({ slice: Infinity }, [this.#pending], false);
    while (!work.next().done);
    this.#pending = null;
  }

  #text(options) {
    return new Text(this.#pool.lib, this.#pool.tokenizer, this.#pool.model.vocab, options);
  }

  #converse() {
    if (this.#conversation) return this.#conversation;
    const { lib, engine } = this.#pool;
    const conversation = Conversation.begin(this.#pool, this.#options, this.sequence);
    try {
      lib.check(lib.c.gleed_reset(engine, this.sequence, lib.error));
    } catch (error) {
      conversation.free();
      throw error;
    }
    this.#pending = null;
    this.#hash &&= new Xxh64();
    this.#conversation = conversation;
    return conversation;
  }

  #isEnd(token) {
    const { lib, tokenizer } = this.#pool;
    lib.check(lib.c.gleed_token_kind(tokenizer, token, lib.out, lib.out + 4, lib.error));
    return lib.word(1) !== 0;
  }

  /** Returns the reason why no token fits the sequence, or null. */
  #refusal() {
    const { lib, engine } = this.#pool;
    const status = lib.c.gleed_can_extend(engine, this.sequence, 1, lib.error);
    if (status === FULL) return "full";
    if (status === E_CONTEXT) return "context";
    lib.check(status);
    return null;
  }

  #describe() {
    const { lib, engine } = this.#pool;
    return lib.describe(SEQUENCE, (at) => lib.c.gleed_seq_describe(engine, this.sequence, at, lib.error));
  }

  /** Returns the ids of the tokens in the sequence. */
  #finished() {
    const { lib, engine } = this.#pool;
    const { tokens: count } = this.#describe();
    return lib.scope((take) => {
      const tokens = take(4 * count);
      lib.check(lib.c.gleed_seq_tokens(engine, this.sequence, 0, tokens, count, lib.error));
      return Array.from(lib.words(tokens, count));
    });
  }
}
