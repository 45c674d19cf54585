//! What a chat template in Jinja may use.
//!
//! A template comes with a model's file, and nobody has read it. Whatever it does ends with a text or with an error
//! that names one of these bounds, on a thread with a stack of 2 MB, and in about 256 MB of memory.

/// Bytes of a template, at most.
pub const MAX_SOURCE: usize = 256 << 10;

/// Blocks, branches, brackets and operators that stand in one another, at most; a bracket counts as 2. The deepest of
/// the templates in `tests/data/templates` has 21.
pub const MAX_NESTING: usize = 100;

/// Instructions of one rendering, at most: more than a long conversation takes, and an endless loop ends.
pub const MAX_INSTRUCTIONS: u64 = 2_000_000;

/// Macros that call one another, and blocks in them, at most. A macro counts as 4.
pub const MAX_CALLS: usize = 200;

/// Bytes of one text, and of the text that a rendering writes (including what macros and `set` blocks write), at most.
pub const MAX_TEXT: usize = 16 << 20;

/// Values in one list or dictionary, and characters of a text that is gone through one by one, at most.
pub const MAX_ITEMS: usize = 1_000_000;

/// Bytes of all that is in one list or dictionary, with 64 for each value, at most.
pub const MAX_WEIGHT: usize = 64 << 20;

/// Lists and dictionaries in one another, at most.
pub const MAX_DEPTH: usize = 64;

/// Bytes of the values that a rendering makes, all in all, whether they are still there or not, at most.
pub const MAX_MADE: usize = 96 << 20;

/// Bytes of the values that a rendering goes through, all in all, at most.
pub const MAX_READ: usize = 256 << 20;
