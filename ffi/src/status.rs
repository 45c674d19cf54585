//! Status numbers. They are part of the ABI: a number never changes its meaning, and is never used for anything else.
//!
//! 0 is success. Numbers above 0 are ordinary outcomes, after which the caller goes on. Numbers below 0 are errors, in
//! groups of 100 by what was wrong: from -1 on the call, from -100 on memory, -200 the file, -300 the model, -400
//! limits, -500 sequences and rows, -600 results, -700 text, -800 snapshots, -900 grammars and tools, -1000 devices.

use core::ffi::CStr;

macro_rules! statuses {
    ($($(#[doc = $doc:literal])* $name:ident = $number:literal, $text:literal;)*) => {
        $($(#[doc = $doc])* pub const $name: i32 = $number;)*

        /// Every status: its name in the header (without `GLEED_`) and its number.
        pub const ALL: &[(&str, i32)] = &[$((stringify!($name), $number)),*];

        /// Returns a short English text for a status, also for a number that this version does not know.
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

/// Keys and values lie on a device, and cannot be set, copied or swapped from here. `gleed_gpu.h` declares the number.
pub const E_ON_DEVICE: i32 = -1000;
/// The device of an engine is lost. `gleed_gpu.h` declares the number.
pub const E_DEVICE_LOST: i32 = -1001;

statuses! {
    /// The call did what it was asked to do.
    OK = 0, c"done";
    /// The budget is used up; the next call goes on where this one stopped.
    YIELDED = 1, c"the budget is used up, call again";
    /// Too few sequences or blocks are free; nothing has changed.
    FULL = 2, c"full, nothing has changed";
    /// The caller's cancel flag is set; the next call goes on where this one stopped.
    STOPPED = 3, c"stopped, the cancel flag is set";
    /// Rows with logits or hidden states are finished.
    READY = 4, c"logits are ready";

    /// A pointer is NULL that must not be.
    E_NULL = -1, c"a pointer is NULL";
    /// `struct_size` is unknown, or fields are set that this version does not know.
    E_STRUCT_SIZE = -2, c"struct_size is wrong, or fields that this version does not know are set";
    /// A pointer is not aligned for its type.
    E_ALIGNMENT = -3, c"a pointer is not aligned for its type";
    /// A pointer and a length together pass the end of the address space.
    E_LENGTH = -4, c"a length passes the end of the address space";
    /// An argument has a value that the function does not take.
    E_VALUE = -5, c"an argument is out of range";
    /// A pointer does not lead to an object of its type, or the object was moved.
    E_OBJECT = -6, c"a pointer is not to an object of its type";
    /// The object is in use by a call that has not returned.
    E_REENTRANT = -7, c"the object is in use by a call that has not returned";
    /// The library contradicts itself: this is a defect of the library.
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

    /// The file is damaged.
    E_FILE = -200, c"the file is damaged";
    /// The file is not GGUF.
    E_FILE_MAGIC = -201, c"not a GGUF file";
    /// The version of GGUF or the byte order of the file is not supported.
    E_FILE_VERSION = -202, c"this version of GGUF is not supported";
    /// The file ends before its contents do.
    E_FILE_TRUNCATED = -203, c"the file is cut off";
    /// The file is one part of a split model.
    E_FILE_SPLIT = -204, c"the file is one part of a model that was split";
    /// Parts of a split file are missing.
    E_FILE_PARTS = -205, c"not all parts of a split file were given";
    /// A part of a split file is in the place of another part.
    E_FILE_PART_ORDER = -206, c"a part of a split file is in the place of another";

    /// The model's architecture is not supported.
    E_MODEL_ARCHITECTURE = -300, c"the model's architecture is not supported";
    /// A metadata key is missing.
    E_MODEL_KEY_MISSING = -301, c"a metadata key is missing";
    /// A metadata value has the wrong type or is out of range.
    E_MODEL_KEY_VALUE = -302, c"a metadata key has an impossible value";
    /// A metadata key asks for something that is not supported.
    E_MODEL_KEY_UNSUPPORTED = -303, c"a metadata key asks for something that is not supported";
    /// A tensor is missing.
    E_MODEL_TENSOR_MISSING = -304, c"a tensor is missing";
    /// The architecture does not have this tensor.
    E_MODEL_TENSOR_UNKNOWN = -305, c"a tensor is not part of the architecture";
    /// A tensor has the wrong shape.
    E_MODEL_TENSOR_SHAPE = -306, c"a tensor has the wrong shape";
    /// A tensor has an element type that is not supported there.
    E_MODEL_TENSOR_TYPE = -307, c"a tensor has an element type that is not supported there";
    /// There are too many layers or tensors.
    E_MODEL_TOO_MANY = -308, c"too many layers or tensors";

    /// A limit of the configuration is out of range.
    E_LIMIT = -400, c"a limit is out of range";

    /// No open sequence has this handle.
    E_SEQUENCE = -500, c"the sequence is not open";
    /// There is unfinished work that the call must not disturb.
    E_BUSY = -501, c"there is unfinished work";
    /// The position is not the next position of the sequence.
    E_POSITION = -502, c"the position is not the sequence's next one";
    /// The model does not have a token with this id.
    E_TOKEN = -503, c"the model does not have this token";
    /// No tokens were given.
    E_EMPTY = -504, c"no tokens were given";
    /// The sequence would be longer than the limits allow.
    E_CONTEXT = -505, c"the sequence would be too long";
    /// The sequence has fewer tokens than the call is to keep.
    E_KEEP = -506, c"the sequence is shorter than what is to be kept";
    /// There is no such layer, or it is another layer's turn.
    E_LAYER = -507, c"no such layer, or not its turn";
    /// A buffer has the wrong size.
    E_SHAPE = -508, c"a buffer has the wrong size";
    /// The cache kind keeps no keys and values.
    E_NOT_KEPT = -509, c"this kind of cache keeps no keys and values";
    /// Tokens that the call needs have left the sequence's window.
    E_WINDOW = -510, c"the sequence's window has passed";
    /// More tokens at a time than a sequence with a window takes.
    E_TOO_MANY = -511, c"too many tokens at a time for the sequence's window";
    /// There are no results for the row, or the model predicts no tokens.
    E_NO_LOGITS = -512, c"there are no logits";
    /// No adapter with this number is loaded.
    E_ADAPTER = -513, c"no adapter with this number is loaded";
    /// The engine has no room for another adapter, or for an adapter of this rank.
    E_ADAPTER_ROOM = -514, c"no room for another adapter, or for one of this rank";

    /// Tokens of an encoder see later tokens: a sequence takes all its tokens at once, and keeps all or none.
    E_WHOLE = -515, c"tokens of this model see those after them: a sequence takes all at once";
    /// Tokens of an encoder see later tokens, and a text has more tokens than a batch has rows.
    E_ROWS = -516, c"a text has more tokens than a batch has rows";

    /// A number is infinite or NaN that must be finite.
    E_NON_FINITE = -600, c"an infinity or a NaN was computed";
    /// Biases ban every token.
    E_ALL_BANNED = -601, c"the biases ban every token";
    /// Kernels of this level compute wrong results on this machine.
    E_SELFTEST = -602, c"this machine computes wrong results at this level";

    /// The vocabulary contradicts itself.
    E_VOCAB = -700, c"the vocabulary is damaged";
    /// The file lacks a key of the vocabulary.
    E_VOCAB_MISSING = -701, c"a key of the vocabulary is missing";
    /// This kind of tokenizer is not supported.
    E_VOCAB_UNSUPPORTED = -702, c"this kind of tokenizer is not supported";
    /// A text is not UTF-8.
    E_TEXT = -710, c"the text is not UTF-8";
    /// A text is longer than can be encoded at once.
    E_TEXT_TOO_LONG = -711, c"the text is too long";
    /// The vocabulary cannot spell a byte of the text.
    E_TEXT_SPELLING = -712, c"the vocabulary cannot spell the text";

    /// The snapshot is damaged.
    E_SNAPSHOT = -800, c"the snapshot is damaged";
    /// The bytes are not a snapshot.
    E_SNAPSHOT_MAGIC = -801, c"not a snapshot";
    /// The version of the snapshot's format is not supported.
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
    /// The snapshot is a delta, and does not continue the given sequence.
    E_SNAPSHOT_BASE = -808, c"the snapshot does not continue this sequence";
    /// The buffer is smaller than the snapshot.
    E_SNAPSHOT_BUFFER = -809, c"the buffer is too small for the snapshot";
    /// The host's callback did not take or give bytes.
    E_SNAPSHOT_HOST = -810, c"the host did not take or give the snapshot";
    /// The snapshot of a matcher is of another grammar, or of other options.
    E_SNAPSHOT_GRAMMAR = -811, c"the snapshot is of another grammar";

    /// A grammar does not follow its syntax.
    E_GRAMMAR = -900, c"the grammar does not follow its syntax";
    /// A keyword of a schema, or a part of an expression, is not supported.
    E_GRAMMAR_UNSUPPORTED = -901, c"a part of the grammar is not supported";
    /// A keyword of a schema has a value that it does not take.
    E_GRAMMAR_VALUE = -902, c"a keyword has a value that it does not take";
    /// No text satisfies the grammar.
    E_GRAMMAR_EMPTY = -903, c"no text satisfies the grammar";
    /// A rule begins with itself.
    E_GRAMMAR_RECURSION = -904, c"a rule of the grammar begins with itself";
    /// An automaton has too many states.
    E_GRAMMAR_STATES = -905, c"an automaton has too many states";
    /// The text can be read in too many ways at once.
    E_AMBIGUOUS = -910, c"the text can be read in too many ways at once";
    /// Calls of rules are nested too deeply.
    E_NESTED = -911, c"calls of rules are nested too deeply";
    /// More tokens are to be taken back than the kept states allow.
    E_NOT_REWINDABLE = -912, c"so many tokens cannot be taken back";
    /// The text must go on, but no token may follow.
    E_NO_TOKEN = -913, c"no token of the vocabulary may follow";
    /// A sequence has a token that the grammar does not allow.
    E_NOT_ALLOWED = -914, c"the sequence has a token that the grammar does not allow";
    /// The list of tools is wrong.
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
