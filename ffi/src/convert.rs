//! Conversion of the library's errors into failures of a call: the status, and the numbers `at`, `needed` and `given`.

use core::fmt::Display;

use gguf_rs_lite::GgufError;
use gleed::EngineError;
use gleed::cache::{BLOCK_TOKENS, CacheError, SnapshotError, SnapshotHeader, SnapshotOptions};
use gleed::conversation::ConversationError;
use gleed::engine::PlanError;
use gleed::mem::MemoryError;
use gleed::model::ModelError;
use gleed::num::ARITHMETIC_VERSION;
use gleed::sample::SampleError;
use gleed::token::{TokenError, VocabError};
use gleed::tools::ToolsError;
use gleed::turns::TurnTextError;

use crate::error::Failure;
use crate::status;

impl Failure {
    fn of(status: i32, error: &impl Display) -> Self {
        Self::new(status, format_args!("{error}"))
    }
}

impl From<MemoryError> for Failure {
    fn from(error: MemoryError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            MemoryError::TooSmall { needed, given } => new(status::E_MEMORY_TOO_SMALL).numbers(needed, given),
            MemoryError::Misaligned { needed, off_by } => new(status::E_MEMORY_MISALIGNED).numbers(needed, off_by),
            MemoryError::TooLarge => new(status::E_MEMORY_TOO_LARGE),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<GgufError> for Failure {
    fn from(error: GgufError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            GgufError::Empty | GgufError::Magic { .. } => new(status::E_FILE_MAGIC),
            GgufError::BigEndian { version } | GgufError::Version { version } => {
                new(status::E_FILE_VERSION).numbers(3_u32, version)
            }
            // `needed` is the least size of the file, `given` its size, both in bytes.
            GgufError::Truncated { offset, needed, left } => {
                let start = offset as u64;
                let sizes = (start.saturating_add(needed), start.saturating_add(left as u64));
                new(status::E_FILE_TRUNCATED).at(offset).numbers(sizes.0, sizes.1)
            }
            GgufError::OutOfFile { end, len, .. } => new(status::E_FILE_TRUNCATED).numbers(end, len),
            GgufError::Split { part, parts } => new(status::E_FILE_SPLIT).at(part).numbers(1_u32, parts),
            GgufError::Count { offset, .. }
            | GgufError::KeyNotUtf8 { offset, .. }
            | GgufError::ValueType { offset, .. }
            | GgufError::Bool { offset, .. }
            | GgufError::Depth { offset, .. }
            | GgufError::NameNotUtf8 { offset, .. } => new(status::E_FILE).at(offset),
            _ => new(status::E_FILE),
        }
    }
}

impl From<ModelError> for Failure {
    fn from(error: ModelError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            ModelError::Gguf(error) => error.into(),
            ModelError::Parts { expected, given } => new(status::E_FILE_PARTS).numbers(expected, given),
            ModelError::PartNumber { expected, found } => {
                new(status::E_FILE_PART_ORDER).at(expected).numbers(expected, found.unwrap_or(usize::MAX))
            }
            ModelError::Architecture { .. } => new(status::E_MODEL_ARCHITECTURE),
            ModelError::MissingKey { .. } => new(status::E_MODEL_KEY_MISSING),
            ModelError::BadValue { .. } => new(status::E_MODEL_KEY_VALUE),
            ModelError::Unsupported { .. } => new(status::E_MODEL_KEY_UNSUPPORTED),
            ModelError::MissingTensor { .. } => new(status::E_MODEL_TENSOR_MISSING),
            ModelError::UnknownTensor { .. } | ModelError::DuplicateTensor { .. } => {
                new(status::E_MODEL_TENSOR_UNKNOWN)
            }
            ModelError::TensorShape { expected: [rows, cols], found: [found_rows, found_cols], .. } => {
                let new = new(status::E_MODEL_TENSOR_SHAPE);
                if cols as u64 == found_cols { new.numbers(rows, found_rows) } else { new.numbers(cols, found_cols) }
            }
            ModelError::TensorType { found, .. } => new(status::E_MODEL_TENSOR_TYPE).numbers(0_u32, found.number()),
            ModelError::TooMany { count, limit } => new(status::E_MODEL_TOO_MANY).numbers(limit, count),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<PlanError> for Failure {
    fn from(error: PlanError) -> Self {
        match error {
            PlanError::Limit { given, min, max, .. } => {
                let bound = if given < min { min } else { max };
                Self::of(status::E_LIMIT, &error).numbers(bound, given)
            }
            PlanError::NotBuilt { element } => Self::of(status::E_VALUE, &error).numbers(0_u32, element.number()),
            PlanError::Predictor { .. } => Self::of(status::E_VALUE, &error),
            PlanError::Memory(error) => error.into(),
            _ => Self::of(status::E_INTERNAL, &error),
        }
    }
}

impl From<CacheError> for Failure {
    fn from(error: CacheError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            CacheError::NoFreeSequence { sequences } => {
                new(status::FULL).numbers(sequences.saturating_add(1), sequences)
            }
            CacheError::OutOfBlocks { needed, free } => new(status::FULL).numbers(needed, free),
            CacheError::UnknownSequence { sequence } => new(status::E_SEQUENCE).numbers(0_u32, sequence),
            CacheError::Repeated { sequence } => new(status::E_VALUE).numbers(0_u32, sequence),
            CacheError::Busy { sequence } => new(status::E_BUSY).numbers(0_u32, sequence),
            CacheError::Position { expected, given } => new(status::E_POSITION).numbers(expected, given),
            CacheError::ContextFull { needed, context } => new(status::E_CONTEXT).numbers(context, needed),
            CacheError::TooShort { keep, length } => new(status::E_KEEP).numbers(length, keep),
            CacheError::Layer { expected, given } => new(status::E_LAYER).numbers(expected, given),
            CacheError::Shape { expected, given } => new(status::E_SHAPE).numbers(expected, given),
            CacheError::PolicyBlock { block } => new(status::E_VALUE).numbers(0_u32, block),
            CacheError::PolicySequence { sequence } => new(status::E_VALUE).numbers(0_u32, sequence),
            CacheError::NonFinite => new(status::E_NON_FINITE),
            CacheError::NotKept => new(status::E_NOT_KEPT),
            CacheError::WindowGone { position, first } => new(status::E_WINDOW).numbers(first, position),
            CacheError::TooMany { given, limit } => new(status::E_TOO_MANY).numbers(limit, given),
            CacheError::OnDevice => new(status::E_ON_DEVICE),
            CacheError::DeviceLost => new(status::E_DEVICE_LOST),
            CacheError::Internal(site) => new(status::E_INTERNAL).numbers(0_u32, site.number()),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<SnapshotError> for Failure {
    fn from(error: SnapshotError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            SnapshotError::Cache(error) => error.into(),
            SnapshotError::BufferTooSmall { needed, given } => new(status::E_SNAPSHOT_BUFFER).numbers(needed, given),
            SnapshotError::StateTooLong { given } => new(status::E_VALUE).numbers(SnapshotOptions::STATE_MAX, given),
            SnapshotError::BasePosition { base, tokens } => new(status::E_SNAPSHOT_BASE).at(base).numbers(base, tokens),
            SnapshotError::BaseMissing { base, given } => new(status::E_SNAPSHOT_BASE).at(base).numbers(base, given),
            SnapshotError::Base { stored, computed } => new(status::E_SNAPSHOT_BASE).numbers(stored, computed),
            SnapshotError::Sink { offset } | SnapshotError::Source { offset } => {
                new(status::E_SNAPSHOT_HOST).at(offset)
            }
            SnapshotError::Truncated { needed, given } => new(status::E_SNAPSHOT_TRUNCATED).numbers(needed, given),
            SnapshotError::Trailing { total } => new(status::E_SNAPSHOT_TRAILING).at(total),
            SnapshotError::Magic => new(status::E_SNAPSHOT_MAGIC),
            SnapshotError::Version { found } => new(status::E_SNAPSHOT_VERSION).numbers(SnapshotHeader::VERSION, found),
            SnapshotError::Model { expected, found } => new(status::E_SNAPSHOT_MODEL).numbers(expected, found),
            SnapshotError::Arithmetic { found } => {
                new(status::E_SNAPSHOT_ARITHMETIC).numbers(ARITHMETIC_VERSION, found)
            }
            SnapshotError::Geometry { expected, found, .. } => new(status::E_SNAPSHOT_SHAPE).numbers(expected, found),
            SnapshotError::BlockChecksum { block, .. } | SnapshotError::NonFinite { block } => {
                new(status::E_SNAPSHOT).at(block.saturating_mul(BLOCK_TOKENS))
            }
            SnapshotError::StateChecksum { .. } | SnapshotError::StateNonFinite => new(status::E_SNAPSHOT),
            SnapshotError::Token { position, .. } => new(status::E_SNAPSHOT).at(position),
            _ => new(status::E_SNAPSHOT),
        }
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            EngineError::Memory(error) => error.into(),
            EngineError::Cache(error) => error.into(),
            EngineError::Snapshot(error) => error.into(),
            EngineError::Token { index, token, vocab } => new(status::E_TOKEN).at(index).numbers(vocab, token),
            EngineError::Empty => new(status::E_EMPTY),
            EngineError::OutputLength { needed, given } => new(status::E_SHAPE).numbers(needed, given),
            EngineError::NoLogits => new(status::E_NO_LOGITS),
            EngineError::NoClasses => new(status::E_VALUE),
            EngineError::Whole { length } => new(status::E_WHOLE).at(length),
            EngineError::TextRows { tokens, rows } => new(status::E_ROWS).numbers(tokens, rows),
            EngineError::Adapter { given, loaded } => new(status::E_ADAPTER).numbers(loaded, given),
            EngineError::AdapterRoom { adapters, rank, given } => {
                new(status::E_ADAPTER_ROOM).at(adapters).numbers(given, rank)
            }
            EngineError::AdapterModel | EngineError::AdapterScale | EngineError::Predictor => new(status::E_VALUE),
            EngineError::Busy => new(status::E_BUSY),
            EngineError::NonFinite { layer } => new(status::E_NON_FINITE).at(layer),
            EngineError::OnDevice { .. } => new(status::E_ON_DEVICE),
            EngineError::DeviceLost => new(status::E_DEVICE_LOST),
            EngineError::Internal(site) => new(status::E_INTERNAL).numbers(0_u32, site.number()),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<VocabError> for Failure {
    fn from(error: VocabError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            VocabError::Memory(error) => error.into(),
            VocabError::Missing(_) => new(status::E_VOCAB_MISSING),
            VocabError::UnknownModel(_) | VocabError::UnknownPreTokenizer(_) => new(status::E_VOCAB_UNSUPPORTED),
            VocabError::WrongLength { needed, found, .. } => new(status::E_VOCAB).numbers(needed, found),
            VocabError::SpecialTooLong { bytes, limit, .. } => new(status::E_VOCAB).numbers(limit, bytes),
            _ => new(status::E_VOCAB),
        }
    }
}

impl From<TokenError> for Failure {
    fn from(error: TokenError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            TokenError::TextTooLong { bytes, limit } => new(status::E_TEXT_TOO_LONG).numbers(limit, bytes),
            TokenError::ScratchTooSmall { needed, given } => new(status::E_SCRATCH_TOO_SMALL).numbers(needed, given),
            TokenError::OutputTooSmall { needed, given } => new(status::E_OUTPUT_TOO_SMALL).numbers(needed, given),
            TokenError::NoToken { byte, at } => new(status::E_TEXT_SPELLING).at(at).numbers(0_u32, byte),
            TokenError::UnknownId { id, tokens } => new(status::E_TOKEN).numbers(tokens, id),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<ToolsError> for Failure {
    fn from(error: ToolsError) -> Self {
        let at = match error {
            ToolsError::NotJson { at } | ToolsError::TooDeep { at } => at,
            ToolsError::NoTool { at } | ToolsError::Twice { at } => at,
            _ => 0,
        };
        Self::of(status::E_TOOLS, &error).at(at)
    }
}

impl From<ConversationError> for Failure {
    fn from(error: ConversationError) -> Self {
        let new = |status| Self::of(status, &error);
        match error {
            ConversationError::Engine(error) => error.into(),
            ConversationError::Token(TokenError::ScratchTooSmall { needed, given }) => {
                let text = format_args!(
                    "a word is longer than the desk's limit `word`: {needed} words of scratch needed, {given} there"
                );
                Self::new(status::E_SCRATCH_TOO_SMALL, text).numbers(needed, given)
            }
            ConversationError::Token(error) => error.into(),
            ConversationError::Memory(error) => error.into(),
            ConversationError::Text(TurnTextError::TooLong { needed, given }) => {
                new(status::E_SCRATCH_TOO_SMALL).numbers(needed, given)
            }
            ConversationError::ContextFull { needed, context } => new(status::E_CONTEXT).numbers(context, needed),
            ConversationError::NoConversation => new(status::E_SNAPSHOT_MAGIC),
            ConversationError::Version { given, known } => new(status::E_SNAPSHOT_VERSION).numbers(known, given),
            ConversationError::Damaged { at } => new(status::E_SNAPSHOT).at(at),
            ConversationError::Buffer { needed, given } => new(status::E_SNAPSHOT_BUFFER).numbers(needed, given),
            ConversationError::Empty => new(status::E_EMPTY),
            ConversationError::NoTools { entry } => new(status::E_VALUE).at(entry),
            _ => new(status::E_INTERNAL),
        }
    }
}

impl From<SampleError> for Failure {
    fn from(error: SampleError) -> Self {
        match error {
            // The error's own text has the value, a float, whose formatting can panic: see `Failure::new`.
            SampleError::Parameter { name, allowed, .. } => {
                Self::new(status::E_VALUE, format_args!("{name} must be {allowed}"))
            }
            SampleError::Window { given, limit } | SampleError::TooManyBiases { given, limit } => {
                Self::new(status::E_VALUE, format_args!("at most {limit}, {given} given")).numbers(limit, given)
            }
            SampleError::Bias { token } => {
                Self::new(status::E_VALUE, format_args!("the bias of token {token} is not finite")).at(token)
            }
            SampleError::BiasTokens { given, limit } => {
                Self::new(status::E_VALUE, format_args!("a bias of {given} tokens, there is room for {limit}"))
                    .numbers(limit, given)
            }
            SampleError::UnknownToken { token, vocab } => {
                Self::new(status::E_TOKEN, format_args!("a bias is for token {token}, there are {vocab}"))
                    .numbers(vocab, token)
            }
            SampleError::Vocab { given } => {
                Self::new(status::E_NO_LOGITS, format_args!("{given} logits")).numbers(u32::MAX, given)
            }
            SampleError::NonFinite { token } => {
                Self::new(status::E_NON_FINITE, format_args!("the logit of token {token} is not finite")).at(token)
            }
            SampleError::AllBanned => Self::new(status::E_ALL_BANNED, format_args!("the biases ban every token")),
            SampleError::AllMasked => Self::new(status::E_NO_TOKEN, format_args!("the mask allows no token")),
            SampleError::Mask { needed, given } => {
                Self::new(status::E_SHAPE, format_args!("mask: {needed} elements needed, {given} given"))
                    .numbers(needed, given)
            }
            SampleError::ScratchTooSmall { needed, given } => {
                Self::new(status::E_SCRATCH_TOO_SMALL, format_args!("scratch: {needed} elements needed, {given} given"))
                    .numbers(needed, given)
            }
            _ => Self::new(status::E_INTERNAL, format_args!("an unknown error of the sampler")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gguf_rs_lite::{GgmlType, Name};
    use gleed::error::Site;

    /// Returns the status of a failure and its numbers: at, needed, given.
    fn numbers(failure: impl Into<Failure>) -> (i32, u64, u64, u64) {
        let mut error =
            crate::error::gleed_error { struct_size: 128, status: 0, at: 0, needed: 0, given: 0, text: [0; 96] };
        let failure = failure.into();
        // SAFETY: a reference to a whole struct.
        let status = unsafe { crate::error::run(&mut error, || Err(failure)) };
        assert!(error.text[0] != 0 && error.status == status);
        (status, error.at, error.needed, error.given)
    }

    #[test]
    fn errors_of_files_and_models_have_their_numbers() {
        let tensor = Name::new(b"token_embd.weight");
        assert_eq!(numbers(GgufError::Truncated { offset: 24, needed: 8, left: 7 }), (-203, 24, 32, 31));
        assert_eq!(numbers(GgufError::OutOfFile { tensor, end: 100, len: 99 }), (-203, 0, 100, 99));
        assert_eq!(numbers(GgufError::Version { version: 1 }), (-202, 0, 3, 1));
        assert_eq!(numbers(GgufError::Split { part: 1, parts: 4 }), (-204, 1, 1, 4));
        assert_eq!(numbers(GgufError::Depth { key: tensor, offset: 99 }), (-200, 99, 0, 0));
        assert_eq!(numbers(GgufError::TooLarge { tensor }), (-200, 0, 0, 0));
        assert_eq!(numbers(ModelError::Gguf(GgufError::Empty)), (-201, 0, 0, 0));
        assert_eq!(numbers(ModelError::TooMany { count: 9, limit: 8 }), (-308, 0, 8, 9));
        assert_eq!(numbers(ModelError::TensorType { tensor, found: GgmlType::Q8_0 }), (-307, 0, 0, 8));
        let shape = |found| numbers(ModelError::TensorShape { tensor, expected: [10, 64], found });
        assert_eq!(shape([10, 63]), (-306, 0, 64, 63));
        assert_eq!(shape([11, 64]), (-306, 0, 10, 11));
    }

    #[test]
    fn errors_of_engines_have_their_numbers() {
        let limit = |given| numbers(PlanError::Limit { name: "rows", given, min: 1, max: 9 });
        assert_eq!((limit(0), limit(10)), ((-400, 0, 1, 0), (-400, 0, 9, 10)));
        assert_eq!(numbers(EngineError::Token { index: 3, token: 99, vocab: 50 }), (-503, 3, 50, 99));
        assert_eq!(numbers(EngineError::NonFinite { layer: 4 }), (-600, 4, 0, 0));
        assert_eq!(numbers(EngineError::OutputLength { needed: 256, given: 9 }), (-508, 0, 256, 9));
        assert_eq!(numbers(EngineError::Adapter { given: 3, loaded: 2 }), (-513, 0, 2, 3));
        assert_eq!(numbers(EngineError::AdapterRoom { adapters: 2, rank: 64, given: 99 }), (-514, 2, 99, 64));
        assert_eq!(numbers(EngineError::NoLogits), (-512, 0, 0, 0));
        assert_eq!(numbers(EngineError::NoClasses), (-5, 0, 0, 0));
        assert_eq!(numbers(EngineError::Whole { length: 7 }), (-515, 7, 0, 0));
        assert_eq!(numbers(EngineError::TextRows { tokens: 300, rows: 256 }), (-516, 0, 300, 256));
        assert_eq!(numbers(EngineError::AdapterModel), (-5, 0, 0, 0));
        assert_eq!(numbers(EngineError::AdapterScale), (-5, 0, 0, 0));
        assert_eq!(numbers(EngineError::from(CacheError::ContextFull { needed: 33, context: 32 })), (-505, 0, 32, 33));
        assert_eq!(numbers(EngineError::from(CacheError::WindowGone { position: 3, first: 64 })), (-510, 0, 64, 3));
        assert_eq!(numbers(EngineError::from(CacheError::TooMany { given: 40, limit: 32 })), (-511, 0, 32, 40));
        assert_eq!(numbers(EngineError::from(CacheError::OutOfBlocks { needed: 2, free: 1 })), (2, 0, 2, 1));
        assert_eq!(numbers(EngineError::from(MemoryError::TooLarge)), (-102, 0, 0, 0));
        let site = Site::new("gleed::cache::pool", 7);
        assert_eq!(numbers(CacheError::Internal(site)), (-99, 0, 0, site.number().into()));
        assert_eq!(numbers(EngineError::Internal(site)), (-99, 0, 0, site.number().into()));
    }

    #[test]
    fn errors_of_texts_and_samplers_have_their_numbers() {
        let key = "tokenizer.ggml.tokens";
        assert_eq!(numbers(VocabError::Missing(key)), (-701, 0, 0, 0));
        assert_eq!(numbers(VocabError::UnknownModel(Name::new(b"bert"))), (-702, 0, 0, 0));
        assert_eq!(numbers(VocabError::WrongLength { key, needed: 5, found: 4 }), (-700, 0, 5, 4));
        assert_eq!(numbers(VocabError::Memory(MemoryError::TooSmall { needed: 5, given: 4 })), (-100, 0, 5, 4));
        assert_eq!(numbers(TokenError::TextTooLong { bytes: 9, limit: 8 }), (-711, 0, 8, 9));
        assert_eq!(numbers(TokenError::ScratchTooSmall { needed: 9, given: 8 }), (-103, 0, 9, 8));
        assert_eq!(numbers(TokenError::OutputTooSmall { needed: 9, given: 8 }), (-104, 0, 9, 8));
        assert_eq!(numbers(TokenError::NoToken { byte: 200, at: 7 }), (-712, 7, 0, 200));
        assert_eq!(numbers(TokenError::UnknownId { id: 70, tokens: 60 }), (-503, 0, 60, 70));
        let parameter = SampleError::Parameter { name: "top_p", value: 2.0, allowed: "from 0 to 1" };
        assert_eq!(numbers(parameter), (-5, 0, 0, 0));
        assert_eq!(numbers(SampleError::Window { given: 300, limit: 256 }), (-5, 0, 256, 300));
        assert_eq!(numbers(SampleError::Bias { token: 7 }), (-5, 7, 0, 0));
        assert_eq!(numbers(SampleError::UnknownToken { token: 70, vocab: 60 }), (-503, 0, 60, 70));
        assert_eq!(numbers(SampleError::Vocab { given: 0 }), (-512, 0, u32::MAX.into(), 0));
        assert_eq!(numbers(SampleError::NonFinite { token: 7 }), (-600, 7, 0, 0));
        assert_eq!(numbers(SampleError::AllBanned), (-601, 0, 0, 0));
        assert_eq!(numbers(SampleError::ScratchTooSmall { needed: 9, given: 8 }), (-103, 0, 9, 8));
    }

    #[test]
    fn errors_of_snapshots_have_their_numbers() {
        let numbers = |error| numbers(EngineError::from(error));
        assert_eq!(numbers(SnapshotError::HeaderChecksum { stored: 1, computed: 2 }), (-800, 0, 0, 0));
        assert_eq!(numbers(SnapshotError::BlockChecksum { block: 3, stored: 1, computed: 2 }), (-800, 48, 0, 0));
        assert_eq!(numbers(SnapshotError::Token { position: 5, token: 9 }), (-800, 5, 0, 0));
        assert_eq!(numbers(SnapshotError::Magic), (-801, 0, 0, 0));
        assert_eq!(numbers(SnapshotError::Version { found: 0 }), (-802, 0, 1, 0));
        assert_eq!(numbers(SnapshotError::Truncated { needed: 80, given: 3 }), (-803, 0, 80, 3));
        assert_eq!(numbers(SnapshotError::Trailing { total: 99 }), (-804, 99, 0, 0));
        assert_eq!(numbers(SnapshotError::Model { expected: 7, found: 8 }), (-805, 0, 7, 8));
        assert_eq!(numbers(SnapshotError::Arithmetic { found: 77 }), (-806, 0, ARITHMETIC_VERSION.into(), 77));
        assert_eq!(numbers(SnapshotError::Geometry { what: "layers", expected: 2, found: 3 }), (-807, 0, 2, 3));
        assert_eq!(numbers(SnapshotError::BaseMissing { base: 32, given: 4 }), (-808, 32, 32, 4));
        assert_eq!(numbers(SnapshotError::BufferTooSmall { needed: 9, given: 8 }), (-809, 0, 9, 8));
        assert_eq!(numbers(SnapshotError::Source { offset: 44 }), (-810, 44, 0, 0));
        assert_eq!(numbers(SnapshotError::StateTooLong { given: 300 }), (-5, 0, 256, 300));
        assert_eq!(numbers(SnapshotError::Cache(CacheError::OutOfBlocks { needed: 2, free: 1 })), (2, 0, 2, 1));
    }
}
