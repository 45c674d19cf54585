/** The error of a refused call, with the numbers that were wrong: the `gleed_error` of include/gleed.h. */
export class GleedError extends Error {
  /**
   * `status` is the number of gleed.h, or 0 if the package itself refused. The meaning of `at`, `needed` and `given`
   * depends on it.
   */
  constructor(message, { status = 0, at = 0, needed = 0, given = 0, cause } = {}) {
    super(message, cause === undefined ? undefined : { cause });
    this.name = "GleedError";
    Object.assign(this, { status, at, needed, given });
  }

  /** Returns the members that are sent from a worker. `GleedError.from` makes an error from them again. */
  toJSON() {
    const { message, status, at, needed, given } = this;
    return { message, status, at, needed, given };
  }

  static from({ message, ...numbers }) {
    return new GleedError(message, numbers);
  }
}
