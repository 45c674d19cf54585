//! Status numbers. They are part of the ABI: a number never changes its meaning and is never used again.
//!
//! 0 is done; > 0 are ordinary outcomes, after which the caller goes on; < 0 are errors, in blocks of 100
//! by what was wrong: -1 the call, -100 memory, -200 the file, -300 the model, -400 limits,
//! -500 sequences and rows, -600 results, -700 text, -800 snapshots, -900 grammars and tools, -1000 devices.

use core::ffi::CStr;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: i32 = $number;)*

        /// Every status: its name in the header (without `GLEED_`) and its number.
        pub const ALL: &[(&str, i32)] = &[$((stringify!($name), $number)),*];

        /// A short English text, also for numbers that this version does not know.
        pub fn text(status: i32) -> &'static CStr {
            match status {
                $($number => $text,)*
                E_ON_DEVICE => c"keys and values lie on a device",
                E_DEVICE_LOST => c"the device is lost, and keys and values with it",
                1.. => c"an outcome that this version does not know",
                _ => c"an error that this version does not know",
            }
        }
    };
}

/// Keys and values lie on a device, and cannot be set, copied or swapped from here. `gleed_gpu.h` declares it.
pub const E_ON_DEVICE: i32 = -1000;
/// The device of an engine is lost. `gleed_gpu.h` declares it.
pub const E_DEVICE_LOST: i32 = -1001;

statuses! {
    /// The call did what it was asked for.
    OK = 0, c"done";
    /// The budget is used up; the next call goes on where this one stopped.
    YIELDED = 1, c"the budget is used up, call again";
    /// No free block or slot; nothing has changed.
    FULL = 2, c"full, nothing has changed";
    /// The caller's cancel flag is set.
    STOPPED = 3, c"stopped, the cancel flag is set";
    /// Rows with logits are finished.
    READY = 4, c"logits are ready";

    /// A pointer that must not be NULL is.
    E_NULL = -1, c"a pointer is NULL";
    /// `struct_size` is not that of a struct this version knows, or fields it does not know are set.
    E_STRUCT_SIZE = -2, c"struct_size is wrong, or fields that this version does not know are set";
    /// A pointer is not aligned for what it points to.
    E_ALIGNMENT = -3, c"a pointer is not aligned for its type";
    /// A pointer and a length together pass the end of the address space.
    E_LENGTH = -4, c"a length passes the end of the address space";
    /// An argument has a value that the function does not take.
    E_VALUE = -5, c"an argument is out of range";
    /// A pointer is not to an object of its type.
    E_OBJECT = -6, c"a pointer is not to an object of its type";
    /// The object is in use by a call that has not returned.
    E_REENTRANT = -7, c"the object is in use by a call that has not returned";
    /// The library contradicts itself: a defect of it.
    E_INTERNAL = -99, c"internal error, a defect of the library";

    /// The memory is smaller than planned.
    E_MEMORY_TOO_SMALL = -100, c"the memory is too small";
    /// The memory does not start at a multiple of the planned alignment.
    E_MEMORY_MISALIGNED = -101, c"the memory is not aligned";
    /// The limits need more memory than the machine can address.
    E_MEMORY_TOO_LARGE = -102, c"more memory is needed than the machine can address";
    /// The scratch is smaller than this call needs.
    E_SCRATCH_TOO_SMALL = -103, c"the scratch is too small";
    /// The buffer for the result is too small.
    E_OUTPUT_TOO_SMALL = -104, c"the buffer for the result is too small";

    /// The file is damaged, or was never right.
    E_FILE = -200, c"the file is damaged";
    /// It is no GGUF file.
    E_FILE_MAGIC = -201, c"not a GGUF file";
    /// A GGUF file of a version or byte order that is not supported.
    E_FILE_VERSION = -202, c"this version of GGUF is not supported";
    /// The file ends before its contents do.
    E_FILE_TRUNCATED = -203, c"the file is cut off";
    /// One file of several that make a model.
    E_FILE_SPLIT = -204, c"the file is one part of a model that was split";
    /// These are not all parts of a split file.
    E_FILE_PARTS = -205, c"not all parts of a split file were given";
    /// A part of a split file is in another one's place.
    E_FILE_PART_ORDER = -206, c"a part of a split file is in the place of another";

    /// No code for the model's architecture.
    E_MODEL_ARCHITECTURE = -300, c"the model's architecture is not supported";
    /// A metadata key is missing.
    E_MODEL_KEY_MISSING = -301, c"a metadata key is missing";
    /// A metadata value of the wrong type, or out of range.
    E_MODEL_KEY_VALUE = -302, c"a metadata key has an impossible value";
    /// A metadata key that asks for what is not supported.
    E_MODEL_KEY_UNSUPPORTED = -303, c"a metadata key asks for something that is not supported";
    /// A tensor is missing.
    E_MODEL_TENSOR_MISSING = -304, c"a tensor is missing";
    /// A tensor that the architecture does not have.
    E_MODEL_TENSOR_UNKNOWN = -305, c"a tensor is not part of the architecture";
    /// A tensor of the wrong shape.
    E_MODEL_TENSOR_SHAPE = -306, c"a tensor has the wrong shape";
    /// A tensor of an element type that is not supported there.
    E_MODEL_TENSOR_TYPE = -307, c"a tensor has an element type that is not supported there";
    /// More layers or tensors than any model has.
    E_MODEL_TOO_MANY = -308, c"too many layers or tensors";

    /// A limit of the configuration is out of range.
    E_LIMIT = -400, c"a limit is out of range";

    /// No open sequence has this handle.
    E_SEQUENCE = -500, c"the sequence is not open";
    /// There is unfinished work that the call must not disturb.
    E_BUSY = -501, c"there is unfinished work";
    /// The position is not the sequence's next one.
    E_POSITION = -502, c"the position is not the sequence's next one";
    /// A token id that the model does not have.
    E_TOKEN = -503, c"the model does not have this token";
    /// No tokens were given.
    E_EMPTY = -504, c"no tokens were given";
    /// The sequence would be longer than the limits allow.
    E_CONTEXT = -505, c"the sequence would be too long";
    /// The sequence has fewer tokens than are to be kept.
    E_KEEP = -506, c"the sequence is shorter than what is to be kept";
    /// No such layer, or not the one whose turn it is.
    E_LAYER = -507, c"no such layer, or not its turn";
    /// A buffer of another size than its shape demands.
    E_SHAPE = -508, c"a buffer has the wrong size";
    /// The cache kind keeps no keys and values.
    E_NOT_KEPT = -509, c"this kind of cache keeps no keys and values";
    /// What would be seen or read has left the sequence's window.
    E_WINDOW = -510, c"the sequence's window has passed";
    /// More tokens at a time than a sequence with a window takes.
    E_TOO_MANY = -511, c"too many tokens at a time for the sequence's window";
    /// There are no logits of what was asked for.
    E_NO_LOGITS = -512, c"there are no logits";
    /// No adapter with this number is loaded.
    E_ADAPTER = -513, c"no adapter with this number is loaded";
    /// More adapters than planned, or one of a larger rank.
    E_ADAPTER_ROOM = -514, c"no room for another adapter, or for one of this rank";

    /// Each token of the model sees those after it: a sequence takes all its tokens at once, and keeps all or none.
    E_WHOLE = -515, c"tokens of this model see those after them: a sequence takes all at once";
    /// Each token of the model sees those after it, and a text has more tokens than a batch has rows.
    E_ROWS = -516, c"a text has more tokens than a batch has rows";

    /// An infinity or a NaN where numbers must be finite.
    E_NON_FINITE = -600, c"an infinity or a NaN was computed";
    /// Biases ban every token.
    E_ALL_BANNED = -601, c"the biases ban every token";
    /// Kernels of this level compute something else than they should.
    E_SELFTEST = -602, c"this machine computes wrong results at this level";

    /// The vocabulary contradicts itself.
    E_VOCAB = -700, c"the vocabulary is damaged";
    /// The file lacks a key of the vocabulary.
    E_VOCAB_MISSING = -701, c"a key of the vocabulary is missing";
    /// A kind of tokenizer that is not supported.
    E_VOCAB_UNSUPPORTED = -702, c"this kind of tokenizer is not supported";
    /// A text is not UTF-8.
    E_TEXT = -710, c"the text is not UTF-8";
    /// A text is longer than can be encoded at once.
    E_TEXT_TOO_LONG = -711, c"the text is too long";
    /// A text that the vocabulary cannot spell.
    E_TEXT_SPELLING = -712, c"the vocabulary cannot spell the text";

    /// A snapshot is damaged, or was never right.
    E_SNAPSHOT = -800, c"the snapshot is damaged";
    /// It is no snapshot.
    E_SNAPSHOT_MAGIC = -801, c"not a snapshot";
    /// A snapshot of a version of the format that is not read.
    E_SNAPSHOT_VERSION = -802, c"this version of snapshots is not supported";
    /// The snapshot ends before its contents do.
    E_SNAPSHOT_TRUNCATED = -803, c"the snapshot is cut off";
    /// Bytes follow the snapshot.
    E_SNAPSHOT_TRAILING = -804, c"bytes follow the snapshot";
    /// The snapshot is of another model.
    E_SNAPSHOT_MODEL = -805, c"the snapshot is of another model";
    /// The snapshot was computed with another version of the arithmetic.
    E_SNAPSHOT_ARITHMETIC = -806, c"the snapshot is of another version of the arithmetic";
    /// The snapshot's keys and values are of another type or shape than the engine's.
    E_SNAPSHOT_SHAPE = -807, c"the snapshot is of another type or shape of keys and values";
    /// The snapshot is a delta, and the sequence given is not what it continues.
    E_SNAPSHOT_BASE = -808, c"the snapshot does not continue this sequence";
    /// The buffer is smaller than the snapshot.
    E_SNAPSHOT_BUFFER = -809, c"the buffer is too small for the snapshot";
    /// The host's callback did not take or give bytes.
    E_SNAPSHOT_HOST = -810, c"the host did not take or give the snapshot";
    /// The snapshot of a matcher is of another grammar.
    E_SNAPSHOT_GRAMMAR = -811, c"the snapshot is of another grammar";

    /// A grammar does not follow its syntax.
    E_GRAMMAR = -900, c"the grammar does not follow its syntax";
    /// A keyword of a schema, or a part of an expression, that is not supported.
    E_GRAMMAR_UNSUPPORTED = -901, c"a part of the grammar is not supported";
    /// A keyword of a schema with a value that it does not take.
    E_GRAMMAR_VALUE = -902, c"a keyword has a value that it does not take";
    /// A grammar without a text.
    E_GRAMMAR_EMPTY = -903, c"no text satisfies the grammar";
    /// A rule begins with itself.
    E_GRAMMAR_RECURSION = -904, c"a rule of the grammar begins with itself";
    /// An automaton has too many states.
    E_GRAMMAR_STATES = -905, c"an automaton has too many states";
    /// A text that can be read in too many ways at once.
    E_AMBIGUOUS = -910, c"the text can be read in too many ways at once";
    /// Calls of rules are nested too deeply.
    E_NESTED = -911, c"calls of rules are nested too deeply";
    /// The states before so many tokens are not kept.
    E_NOT_REWINDABLE = -912, c"so many tokens cannot be taken back";
    /// The text must go on, and no token does.
    E_NO_TOKEN = -913, c"no token of the vocabulary may follow";
    /// A sequence has a token that the grammar does not allow.
    E_NOT_ALLOWED = -914, c"the sequence has a token that the grammar does not allow";
    /// A list of tools that is none.
    E_TOOLS = -920, c"the list of tools is wrong";
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_unique_and_signs_mean_what_they_say() {
        for (i, &(name, number)) in ALL.iter().enumerate() {
            assert_eq!(name.starts_with("E_"), number < 0, "{name}");
            assert!(ALL[..i].iter().all(|&(_, other)| other != number), "{name}");
        }
        assert_eq!(text(E_LENGTH), c"a length passes the end of the address space");
        assert_eq!(text(i32::MAX), c"an outcome that this version does not know");
        assert_eq!(text(i32::MIN), c"an error that this version does not know");
    }
}
