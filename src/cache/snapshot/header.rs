//! The header of a snapshot, and the checks of its numbers.

use heapless::Vec;

use super::error::SnapshotError;
use crate::cache::block::BLOCK_TOKENS;
use crate::cache::geometry::KvGeometry;
use crate::kv::{KvShape, KvType, MAX_GROUPS};
use crate::num::{ARITHMETIC_VERSION, Xxh64};

pub(super) const MAGIC: [u8; 8] = *b"GLEEDKV\0";
const VERSION: u32 = 1;
/// Version for models that have states besides keys and values.
const VERSION_WITH_STATE: u32 = 2;
/// Version for these models if earlier states are in the snapshot, too.
const VERSION_WITH_CHECKPOINTS: u32 = 3;
/// Largest number of these earlier states.
const CHECKPOINTS_MAX: usize = 16;
const STATE_MAX: usize = 256;
/// Number of bytes of a checksum.
pub(super) const CHECKSUM: usize = 8;
/// Number of bytes of the header before the host's state. With an empty state the header has [`HEADER_MIN`] bytes.
const FIXED: usize = 88;
pub(super) const HEADER_MIN: usize = FIXED + CHECKSUM;
/// Number of bytes in the header that describe the state of recurrent layers, if there is one: behind the fixed bytes.
const ABOUT_STATE: usize = 16;
pub(super) const HEADER_MAX: usize = HEADER_MIN + ABOUT_STATE + STATE_MAX;

/// Names of the numbers from byte 36 on, which must equal the cache's numbers.
const SHAPE: [&str; 9] = [
    "key type",
    "value type",
    "layers",
    "kv_heads",
    "head_dim",
    "sinks",
    "window",
    "sinks of the second layer group",
    "window of the second layer group",
];

/// What a snapshot is to contain.
///
/// [Example](crate::cache#example).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SnapshotOptions<'h> {
    /// Number of tokens at the beginning of the sequence that the reader will have already, a multiple of 16. The
    /// snapshot is a delta to them. 0 stands for a snapshot of the whole sequence.
    pub base: usize,
    /// Bytes of the host, at most 256: the state of a sampler, for example.
    pub state: &'h [u8],
    /// Largest number of checkpoints of recurrent layers to write, at most 16: the last ones of the sequence before its
    /// state. Each takes as much as a state. A reader keeps them if it has free places (`Limits::checkpoints`).
    pub checkpoints: usize,
}

impl SnapshotOptions<'_> {
    /// Largest number of bytes of `state`.
    pub const STATE_MAX: usize = STATE_MAX;

    /// Largest number of checkpoints that are written.
    pub const CHECKPOINTS_MAX: usize = CHECKPOINTS_MAX;
}

/// The header of a snapshot.
///
/// [Example](crate::cache#example).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotHeader {
    pub(super) total: u64,
    pub(super) fingerprint: u64,
    pub(super) arithmetic: u32,
    pub(super) shape: [u32; SHAPE.len()],
    pub(super) tokens: u32,
    pub(super) base: u32,
    pub(super) base_checksum: u64,
    /// Number of f32 elements of a state of the model's recurrent layers, or 0 if it has none.
    pub(super) recurrent: u64,
    /// Position of the state: the number of tokens before it. If it is 0, no state is in the snapshot.
    pub(super) recurrent_position: u32,
    /// Number of earlier states in the snapshot.
    pub(super) checkpoints: u32,
    pub(super) state: Vec<u8, STATE_MAX>,
}

/// The sizes of a cache that a snapshot must agree with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape<'g> {
    pub(super) geometry: &'g KvGeometry,
    /// Number of f32 elements of a state.
    pub(super) recurrent: u64,
}

impl SnapshotHeader {
    /// The version of the format that is written and read for models without recurrent layers.
    pub const VERSION: u32 = VERSION;

    /// The version for models with recurrent layers.
    pub const VERSION_WITH_STATE: u32 = VERSION_WITH_STATE;

    /// The version for models with recurrent layers if checkpoints are in the snapshot.
    pub const VERSION_WITH_CHECKPOINTS: u32 = VERSION_WITH_CHECKPOINTS;

    /// Reads the header at the beginning of `bytes` and verifies its checksum. It does not look at later bytes.
    ///
    /// # Errors
    /// [`SnapshotError::Truncated`], [`SnapshotError::Magic`], [`SnapshotError::Version`],
    /// [`SnapshotError::HeaderLength`], [`SnapshotError::HeaderChecksum`].
    pub fn parse(bytes: &[u8]) -> Result<Self, SnapshotError> {
        let given = bytes.len() as u64;
        let needed = Self::len_of(bytes).ok_or(SnapshotError::Truncated { needed: HEADER_MIN as u64, given })??;
        let short = SnapshotError::Truncated { needed: needed as u64, given };
        let end = needed.saturating_sub(CHECKSUM);
        let (content, stored) = (bytes.get(..end).ok_or(short)?, u64_at(bytes, end).ok_or(short)?);
        let computed = Xxh64::hash(content);
        if stored != computed {
            return Err(SnapshotError::HeaderChecksum { stored, computed });
        }
        let u32_at = |offset| u32_at(content, offset).ok_or(short);
        let u64_at = |offset| u64_at(content, offset).ok_or(short);
        let rest = content.get(FIXED..).ok_or(short)?;
        let version = u32_at(8)?;
        let (recurrent, recurrent_position, state) = match version {
            VERSION => (0, 0, rest),
            _ => (u64_at(FIXED)?, u32_at(FIXED + 8)?, rest.get(ABOUT_STATE..).ok_or(short)?),
        };
        let checkpoints = if version == VERSION_WITH_CHECKPOINTS { u32_at(FIXED + 12)? } else { 0 };
        Ok(Self {
            total: u64_at(16)?,
            fingerprint: u64_at(24)?,
            arithmetic: u32_at(32)?,
            shape: shape_at(content, 36).ok_or(short)?,
            tokens: u32_at(72)?,
            base: u32_at(76)?,
            base_checksum: u64_at(80)?,
            recurrent,
            recurrent_position,
            checkpoints,
            state: Vec::from_slice(state).map_err(|_| short)?,
        })
    }

    /// Returns the length of the header, from its first 16 bytes, or `None` if there are fewer bytes.
    pub(super) fn len_of(bytes: &[u8]) -> Option<Result<usize, SnapshotError>> {
        let (magic, version, found) = (bytes.first_chunk()?, u32_at(bytes, 8)?, u32_at(bytes, 12)?);
        if magic != &MAGIC {
            return Some(Err(SnapshotError::Magic));
        }
        let least = match version {
            VERSION => HEADER_MIN,
            VERSION_WITH_STATE | VERSION_WITH_CHECKPOINTS => HEADER_MIN + ABOUT_STATE,
            _ => return Some(Err(SnapshotError::Version { found: version })),
        };
        let len = usize::try_from(found).ok().filter(|len| (least..=least + STATE_MAX).contains(len));
        Some(len.ok_or(SnapshotError::HeaderLength { found }))
    }

    /// Returns the header of a snapshot of `tokens` tokens, without the checksum of its base.
    pub(super) fn new(
        shape: Shape<'_>,
        fingerprint: u64,
        [tokens, recurrent_position, checkpoints]: [usize; 3],
        options: &SnapshotOptions<'_>,
    ) -> Result<Self, SnapshotError> {
        let (base, given) = (options.base, options.state.len());
        let state = Vec::from_slice(options.state).map_err(|_| SnapshotError::StateTooLong { given })?;
        let mut header = Self {
            total: 0,
            fingerprint,
            arithmetic: ARITHMETIC_VERSION,
            shape: self::shape(shape.geometry),
            tokens: tokens as u32,
            base: u32::try_from(base).map_err(|_| SnapshotError::BasePosition { base, tokens })?,
            base_checksum: 0,
            recurrent: shape.recurrent,
            recurrent_position: recurrent_position as u32,
            checkpoints: checkpoints as u32,
            state,
        };
        header.check_base()?;
        header.total = header.total_for(shape.geometry);
        Ok(header)
    }

    /// Returns the bytes of the header, its checksum included. (They always fit.)
    pub(super) fn to_bytes(&self) -> Vec<u8, HEADER_MAX> {
        let mut bytes = Vec::new();
        let mut put = |part: &[u8]| drop(bytes.extend_from_slice(part));
        put(&MAGIC);
        let version = match (self.recurrent, self.checkpoints) {
            (0, _) => VERSION,
            (_, 0) => VERSION_WITH_STATE,
            _ => VERSION_WITH_CHECKPOINTS,
        };
        put(&version.to_le_bytes());
        put(&(self.len() as u32).to_le_bytes());
        put(&self.total.to_le_bytes());
        put(&self.fingerprint.to_le_bytes());
        put(&self.arithmetic.to_le_bytes());
        self.shape.iter().for_each(|number| put(&number.to_le_bytes()));
        put(&self.tokens.to_le_bytes());
        put(&self.base.to_le_bytes());
        put(&self.base_checksum.to_le_bytes());
        if self.recurrent > 0 {
            put(&self.recurrent.to_le_bytes());
            put(&self.recurrent_position.to_le_bytes());
            put(&self.checkpoints.to_le_bytes());
        }
        put(&self.state);
        let checksum = Xxh64::hash(&bytes);
        drop(bytes.extend_from_slice(&checksum.to_le_bytes()));
        bytes
    }

    /// Returns the fingerprint of the model that computed the sequence.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Returns the number of bytes of the whole snapshot.
    pub fn total_bytes(&self) -> u64 {
        self.total
    }

    /// Returns the number of tokens in the sequence, including the tokens of the base.
    pub fn tokens(&self) -> usize {
        self.tokens as usize
    }

    /// Returns the number of tokens at the beginning of the sequence that are not in the snapshot, or 0 if all are in
    /// it.
    pub fn base(&self) -> usize {
        self.base as usize
    }

    /// Returns the host's bytes.
    pub fn state(&self) -> &[u8] {
        &self.state
    }

    /// Checks that the snapshot is of this model and this arithmetic, fits this cache, and does not contradict itself.
    pub(super) fn check(&self, fingerprint: u64, cache: Shape<'_>) -> Result<(), SnapshotError> {
        let geometry = cache.geometry;
        if self.fingerprint != fingerprint {
            return Err(SnapshotError::Model { expected: fingerprint, found: self.fingerprint });
        }
        if self.arithmetic != ARITHMETIC_VERSION {
            return Err(SnapshotError::Arithmetic { found: self.arithmetic });
        }
        for ((what, found), expected) in SHAPE.into_iter().zip(self.shape).zip(shape(geometry)) {
            if found != expected {
                return Err(SnapshotError::Geometry { what, expected, found });
            }
        }
        if self.recurrent != cache.recurrent {
            let [expected, found] = [cache.recurrent, self.recurrent].map(|elements| elements as u32);
            return Err(SnapshotError::Geometry { what: "elements of the state", expected, found });
        }
        if self.recurrent_position > self.tokens {
            let (expected, found) = (self.tokens, self.recurrent_position);
            return Err(SnapshotError::Geometry { what: "position of the state", expected, found });
        }
        let most = if self.has_recurrent() { CHECKPOINTS_MAX as u32 } else { 0 };
        if self.checkpoints > most {
            return Err(SnapshotError::Geometry { what: "checkpoints", expected: most, found: self.checkpoints });
        }
        self.check_base()?;
        let (expected, found) = (self.total_for(geometry), self.total);
        if expected == found { Ok(()) } else { Err(SnapshotError::Length { expected, found }) }
    }

    /// Returns the blocks in the snapshot: the index of each block in the sequence, and its number of tokens.
    pub(super) fn blocks(&self) -> impl Iterator<Item = (usize, usize)> + use<> {
        let tokens = self.tokens();
        let first = self.base() / BLOCK_TOKENS;
        (first..tokens.div_ceil(BLOCK_TOKENS))
            .map(move |block| (block, (tokens - block * BLOCK_TOKENS).min(BLOCK_TOKENS)))
    }

    fn check_base(&self) -> Result<(), SnapshotError> {
        let (base, tokens) = (self.base(), self.tokens());
        let possible = base.is_multiple_of(BLOCK_TOKENS) && base <= tokens;
        if possible { Ok(()) } else { Err(SnapshotError::BasePosition { base, tokens }) }
    }

    /// Returns whether the snapshot has a state.
    pub(super) fn has_recurrent(&self) -> bool {
        // A build without recurrent layers refuses such a snapshot: its cache has no state.
        cfg!(feature = "recurrent") && self.recurrent > 0 && self.recurrent_position > 0
    }

    fn len(&self) -> usize {
        HEADER_MIN + if self.recurrent > 0 { ABOUT_STATE } else { 0 } + self.state.len()
    }

    /// Returns the number of bytes of a snapshot with this header.
    fn total_for(&self, geometry: &KvGeometry) -> u64 {
        let own = u64::from(self.tokens.saturating_sub(self.base));
        let (blocks, rest) = (own / BLOCK_TOKENS as u64, own % BLOCK_TOKENS as u64);
        let rows = (geometry.block_bytes() as u64).saturating_mul(blocks);
        let rows = rows.saturating_add(geometry.token_bytes(rest as usize) as u64).saturating_add(own * 4);
        let checksums = own.div_ceil(BLOCK_TOKENS as u64) + 1;
        let of_state = self.recurrent.saturating_mul(4).saturating_add(CHECKSUM as u64);
        let of_checkpoints = of_state.saturating_add(4).saturating_mul(self.checkpoints.into());
        let state = if self.has_recurrent() { of_state.saturating_add(of_checkpoints) } else { 0 };
        rows.saturating_add(checksums * CHECKSUM as u64).saturating_add(state).saturating_add(self.len() as u64)
    }
}

/// Returns the numbers that [`SHAPE`] names: element types of keys and of values (ggml's numbers), layers, heads,
/// elements per head, and what is visible.
fn shape(geometry: &KvGeometry) -> [u32; SHAPE.len()] {
    let KvType { k, v } = geometry.element;
    let [first, second] = [0, 1].map(|group| geometry.visible(group));
    let of_groups = |size: fn(KvShape) -> usize| both(geometry.shapes.map(size));
    let (layers, kv_heads, head_dim) =
        (geometry.layers as u32, of_groups(|shape| shape.heads), of_groups(|shape| shape.head_dim));
    let seen = [first.sinks(), first.last(), second.sinks(), second.last()].map(|tokens| tokens as u32);
    let [sinks, window, second_sinks, second_window] = seen;
    [k.number(), v.number(), layers, kv_heads, head_dim, sinks, window, second_sinks, second_window]
}

/// Returns a size of the layers of the first group. If the second group has another one, 65536 times that is added.
fn both([first, second]: [usize; MAX_GROUPS]) -> u32 {
    if first == second { first as u32 } else { first as u32 | (second as u32) << 16 }
}

fn shape_at(bytes: &[u8], offset: usize) -> Option<[u32; SHAPE.len()]> {
    let words = bytes.get(offset..)?.as_chunks::<4>().0.first_chunk()?;
    Some(words.map(u32::from_le_bytes))
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
}
