//! Bounds of what a chat template in Jinja may use.
//!
//! A template comes with a model's file and is not trusted. Whatever it does, it ends with a text or with an error that
//! names one of these bounds. A stack of 2 MB and about 256 MB of memory suffice.

/// The most bytes of a template.
pub const MAX_SOURCE: usize = 256 << 10;

/// The deepest nesting of blocks, branches, brackets and operators. A bracket counts as 2. The deepest template in
/// `tests/data/templates` has 21.
pub const MAX_NESTING: usize = 100;

/// The most instructions of one rendering. Long conversations take fewer, and an endless loop ends.
pub const MAX_INSTRUCTIONS: u64 = 2_000_000;

/// The deepest nesting of calls of macros, and of blocks in them. A macro counts as 4.
pub const MAX_CALLS: usize = 200;

/// The most bytes of one text, and of the text that a rendering writes, with the text of macros and `set` blocks.
pub const MAX_TEXT: usize = 16 << 20;

/// The most values of one list or dictionary, and the most bytes of a text that is read character by character.
pub const MAX_ITEMS: usize = 1_000_000;

/// The most bytes of everything in one list or dictionary, with 64 bytes for each value.
pub const MAX_WEIGHT: usize = 64 << 20;

/// The deepest nesting of lists and dictionaries.
pub const MAX_DEPTH: usize = 64;

/// The most bytes of all values that a rendering makes, with those that no longer exist.
pub const MAX_MADE: usize = 96 << 20;

/// The most bytes that a rendering reads from values in total.
pub const MAX_READ: usize = 256 << 20;
