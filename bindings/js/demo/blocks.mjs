// The owners of the blocks in the pool. The C functions do not number blocks. They only count the blocks that a session holds alone and
// those that it shares. This file gives blocks places by the rules of the pool: a fork shares all blocks of its parent, and a session that
// writes into a shared block gets its own copy. `agrees` compares the result with the library's counts.

const BLOCK = 16;

export class Blocks {
  #tables = new Map(); // session: [{ place, tokens }]
  #places = new Map(); // place: how many tables have it

  constructor(count) {
    this.count = count;
  }

  open(session) {
    this.#tables.set(session, []);
  }

  fork(parent, session) {
    const table = this.#tables.get(parent).map((block) => ({ ...block }));
    table.forEach(({ place }) => this.#hold(place));
    this.#tables.set(session, table);
  }

  close(session) {
    this.resize(session, 0);
    this.#tables.delete(session);
  }

  /** Sets the number of finished tokens of a session. */
  resize(session, tokens) {
    const table = this.#tables.get(session);
    const count = Math.ceil(tokens / BLOCK);
    while (table.length > count) this.#drop(table.pop().place);
    for (let index = 0; index < count; index++) {
      const has = Math.min(BLOCK, tokens - index * BLOCK);
      const block = table[index];
      if (!block) table.push({ place: this.#take(), tokens: has });
      else if (block.tokens < has) {
        if (this.#places.get(block.place) > 1) {
          this.#drop(block.place);
          block.place = this.#take();
        }
        block.tokens = has;
      } else block.tokens = has;
    }
  }

  table(session) {
    return this.#tables.get(session);
  }

  isShared(place) {
    return this.#places.get(place) > 1;
  }

  /** Returns the sessions that hold a block, and the largest number of tokens that one of them has in it. */
  at(place) {
    const holders = [];
    let tokens = 0;
    for (const [session, table] of this.#tables) {
      const block = table.find((block) => block.place === place);
      if (!block) continue;
      holders.push(session);
      tokens = Math.max(tokens, block.tokens);
    }
    return { holders, tokens };
  }

  agrees(session, { ownBlocks, sharedBlocks }) {
    const shared = this.#tables.get(session).filter(({ place }) => this.isShared(place)).length;
    return shared === sharedBlocks && this.#tables.get(session).length === ownBlocks + sharedBlocks;
  }

  #hold(place) {
    this.#places.set(place, (this.#places.get(place) ?? 0) + 1);
  }

  #drop(place) {
    const left = this.#places.get(place) - 1;
    if (left) this.#places.set(place, left);
    else this.#places.delete(place);
  }

  #take() {
    let place = 0;
    while (this.#places.has(place)) place++;
    this.#hold(place);
    return place;
  }
}
