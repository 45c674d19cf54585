//! A sequence as bytes: format version 0, which `docs/snapshot.md` describes byte by byte.
//!
//! The header says how long it is, so later versions can grow. Everything is verified before the cache
//! changes. A snapshot is checked, not authenticated: a forged one can give wrong text, never worse.

use core::fmt;

use half::f16;

use super::error::CacheError;
use super::geometry::KvGeometry;
use super::kind::{KvKind, KvType};
use super::kv_cache::{IMPORTED_TOKEN, KvCache, SeqId};
use crate::num::{ARITHMETIC_VERSION, Xxh64, f16_to_f32, f32_to_f16};

const MAGIC: [u8; 8] = *b"GLEEDKV\0";
const VERSION: u32 = 0;
const HEADER: usize = 56;
const CHECKSUM: usize = 8;

/// Why a snapshot was not written or not restored. The cache is as it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SnapshotError {
    /// The caller's buffer is too small.
    BufferTooSmall {
        /// Bytes needed.
        needed: usize,
        /// Bytes given.
        given: usize,
    },
    /// The bytes do not begin like a snapshot.
    Magic,
    /// A version of the format that this library does not read.
    Version {
        /// The version found.
        found: u32,
    },
    /// The bytes are fewer or more than the header says.
    Length {
        /// Bytes that the header says.
        expected: u64,
        /// Bytes given.
        given: usize,
    },
    /// The bytes are damaged.
    Checksum {
        /// The checksum that is stored.
        stored: u64,
        /// The checksum of the bytes.
        computed: u64,
    },
    /// The snapshot is of another model.
    Model {
        /// The fingerprint of the engine's model.
        expected: u64,
        /// The fingerprint in the snapshot.
        found: u64,
    },
    /// The snapshot was computed with another version of the arithmetic.
    Arithmetic {
        /// The version found.
        found: u32,
    },
    /// The snapshot's keys and values are of another type or shape than the cache's.
    Geometry {
        /// What differs.
        what: &'static str,
        /// The cache's number (for the element type, ggml's).
        expected: u32,
        /// The snapshot's number.
        found: u32,
    },
    /// A token id that the model does not have.
    Token {
        /// Its position.
        position: usize,
        /// The id.
        token: u32,
    },
    /// The cache refused: no room, an unknown sequence, unfinished work, values that are not finite.
    Cache(CacheError),
}

impl From<CacheError> for SnapshotError {
    fn from(error: CacheError) -> Self {
        Self::Cache(error)
    }
}

impl fmt::Display for SnapshotError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::BufferTooSmall { needed, given } => {
                write!(f, "buffer too small for the snapshot: {needed} bytes needed, {given} given")
            }
            Self::Magic => f.write_str("not a snapshot"),
            Self::Version { found } => write!(f, "snapshot of version {found}; this library reads version {VERSION}"),
            Self::Length { expected, given } => write!(f, "snapshot of {expected} bytes expected, {given} given"),
            Self::Checksum { stored, computed } => {
                write!(f, "snapshot is damaged: checksum {computed:#018x} instead of {stored:#018x}")
            }
            Self::Model { expected, found } => {
                write!(f, "snapshot of another model: fingerprint {found:#018x} instead of {expected:#018x}")
            }
            Self::Arithmetic { found } => {
                write!(f, "snapshot of arithmetic version {found}; this library computes version {ARITHMETIC_VERSION}")
            }
            Self::Geometry { what, expected, found } => {
                write!(f, "snapshot with {what} {found}; the cache has {what} {expected}")
            }
            Self::Token { position, token } => write!(f, "snapshot with impossible token {token} at {position}"),
            Self::Cache(error) => error.fmt(f),
        }
    }
}

impl core::error::Error for SnapshotError {}

/// A snapshot whose checksum is right, in borrowed bytes.
#[derive(Clone, Copy, Debug)]
pub struct KvSnapshot<'b> {
    fingerprint: u64,
    arithmetic: u32,
    shape: [u32; 4],
    tokens: &'b [[u8; 4]],
    rows: &'b [u8],
}

/// What the four numbers of a shape are.
const SHAPE: [&str; 4] = ["element type", "layers", "kv_heads", "head_dim"];

impl<'b> KvSnapshot<'b> {
    /// Reads the header and verifies lengths and checksum.
    ///
    /// # Errors
    /// [`SnapshotError::Magic`], [`SnapshotError::Version`], [`SnapshotError::Length`],
    /// [`SnapshotError::Checksum`].
    pub fn parse(bytes: &'b [u8]) -> Result<Self, SnapshotError> {
        if bytes.first_chunk() != Some(&MAGIC) {
            return Err(SnapshotError::Magic);
        }
        let short = SnapshotError::Length { expected: (HEADER + CHECKSUM) as u64, given: bytes.len() };
        let found = u32_at(bytes, 8).ok_or(short)?;
        if found != VERSION {
            return Err(SnapshotError::Version { found });
        }
        let expected = u64_at(bytes, 16).ok_or(short)?;
        if expected != bytes.len() as u64 {
            return Err(SnapshotError::Length { expected, given: bytes.len() });
        }
        let (content, stored) = bytes.split_last_chunk::<CHECKSUM>().ok_or(short)?;
        let (stored, computed) = (u64::from_le_bytes(*stored), Xxh64::hash(content));
        if stored != computed {
            return Err(SnapshotError::Checksum { stored, computed });
        }
        let header = u32_at(bytes, 12).ok_or(short)? as usize;
        let word = |offset| u32_at(bytes, offset).ok_or(short);
        let shape = [word(36)?, word(40)?, word(44)?, word(48)?];
        let tokens = (word(52)? as usize).checked_mul(4).ok_or(short)?;
        let (tokens, rows) =
            content.get(header.max(HEADER)..).and_then(|rest| rest.split_at_checked(tokens)).ok_or(short)?;
        Ok(Self {
            fingerprint: u64_at(bytes, 24).ok_or(short)?,
            arithmetic: word(32)?,
            shape,
            tokens: tokens.as_chunks().0,
            rows,
        })
    }

    /// The fingerprint of the model that computed it.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Tokens in the sequence.
    pub fn seq_len(&self) -> usize {
        self.tokens.len()
    }

    /// The ids of the tokens; `u32::MAX` for those whose keys and values came from outside.
    pub fn tokens(&self) -> impl ExactSizeIterator<Item = u32> + use<'b> {
        self.tokens.iter().map(|&bytes| u32::from_le_bytes(bytes))
    }

    /// Whether it is of this model and fits this cache.
    fn check(&self, fingerprint: u64, vocab: usize, geometry: &KvGeometry) -> Result<(), SnapshotError> {
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
        let expected = geometry.row_bytes().saturating_mul(self.seq_len());
        if self.rows.len() != expected {
            return Err(SnapshotError::Length { expected: expected as u64, given: self.rows.len() });
        }
        // The kind off computes from the tokens, so it has to know them.
        let known = |token| (token as usize) < vocab || token == IMPORTED_TOKEN && geometry.kind != KvKind::Off;
        match self.tokens().enumerate().find(|&(_, token)| !known(token)) {
            Some((position, token)) => Err(SnapshotError::Token { position, token }),
            None => Ok(()),
        }
    }
}

impl KvCache<'_> {
    /// Bytes of a snapshot of a sequence.
    ///
    /// # Errors
    /// [`SnapshotError::Cache`].
    pub fn snapshot_len(&self, seq: SeqId) -> Result<usize, SnapshotError> {
        let tokens = self.whole(seq)?;
        let rows = self.geometry().row_bytes().saturating_add(4).saturating_mul(tokens);
        Ok(rows.saturating_add(HEADER + CHECKSUM))
    }

    /// Writes a sequence into `out`: the number of bytes written. `fingerprint` names the model.
    ///
    /// # Errors
    /// [`SnapshotError::BufferTooSmall`], [`SnapshotError::Cache`]. `out` is not touched then.
    pub fn snapshot(&self, seq: SeqId, fingerprint: u64, out: &mut [u8]) -> Result<usize, SnapshotError> {
        let (needed, given) = (self.snapshot_len(seq)?, out.len());
        let out = out.get_mut(..needed).ok_or(SnapshotError::BufferTooSmall { needed, given })?;
        let tokens = self.seq_len(seq)?;
        let mut writer = Writer { rest: out, hasher: Xxh64::new() };
        writer.put(&MAGIC);
        writer.put(&VERSION.to_le_bytes());
        writer.put(&(HEADER as u32).to_le_bytes());
        writer.put(&(needed as u64).to_le_bytes());
        writer.put(&fingerprint.to_le_bytes());
        writer.put(&ARITHMETIC_VERSION.to_le_bytes());
        for number in shape(self.geometry()) {
            writer.put(&number.to_le_bytes());
        }
        writer.put(&(tokens as u32).to_le_bytes());
        for position in 0..tokens {
            writer.put(&self.token(seq, position).ok_or(CacheError::Internal)?.to_le_bytes());
        }
        for position in 0..tokens {
            for layer in 0..self.num_layers() {
                for x in self.read_row(seq, layer, position)? {
                    writer.put_element(self.geometry().element, x.ok_or(CacheError::Internal)?);
                }
            }
        }
        let checksum = writer.hasher.finish();
        writer.put(&checksum.to_le_bytes());
        Ok(needed)
    }

    /// Opens a sequence with the contents of a snapshot. `fingerprint` and `vocab` are the model's.
    ///
    /// # Errors
    /// [`SnapshotError`]: of another model, arithmetic or shape, or no room. Nothing has changed then.
    pub fn restore(
        &mut self,
        snapshot: &KvSnapshot<'_>,
        fingerprint: u64,
        vocab: usize,
    ) -> Result<SeqId, SnapshotError> {
        snapshot.check(fingerprint, vocab, self.geometry())?;
        let seq = self.open()?;
        match self.restore_into(seq, snapshot) {
            Ok(()) => Ok(seq),
            Err(error) => {
                self.close(seq)?;
                Err(error.into())
            }
        }
    }

    fn restore_into(&mut self, seq: SeqId, snapshot: &KvSnapshot<'_>) -> Result<(), CacheError> {
        let KvGeometry { element, layers, .. } = *self.geometry();
        let width = self.geometry().kv_width() * element.bytes();
        self.reserve(seq, snapshot.tokens())?;
        let mut rest = snapshot.rows;
        for position in 0..snapshot.seq_len() {
            for layer in 0..layers {
                let (k, after) = rest.split_at_checked(width).ok_or(CacheError::Internal)?;
                let (v, after) = after.split_at_checked(width).ok_or(CacheError::Internal)?;
                self.put_values(seq, layer, position, elements(element, k), elements(element, v))?;
                rest = after;
            }
        }
        self.commit(seq, snapshot.seq_len())
    }
}

/// Fills a buffer of the right length and hashes what it writes.
struct Writer<'b> {
    rest: &'b mut [u8],
    hasher: Xxh64,
}

impl Writer<'_> {
    fn put(&mut self, bytes: &[u8]) {
        if let Some((place, rest)) = core::mem::take(&mut self.rest).split_at_mut_checked(bytes.len()) {
            for (place, &byte) in place.iter_mut().zip(bytes) {
                *place = byte;
            }
            self.rest = rest;
        }
        self.hasher.update(bytes);
    }

    fn put_element(&mut self, element: KvType, x: f32) {
        match element {
            KvType::F32 => self.put(&x.to_le_bytes()),
            KvType::F16 => self.put(&f32_to_f16(x).to_le_bytes()),
        }
    }
}

/// Elements as f32, from bytes.
fn elements(element: KvType, bytes: &[u8]) -> impl Iterator<Item = f32> {
    bytes.chunks_exact(element.bytes()).map(move |bytes| match (element, bytes) {
        (KvType::F32, &[a, b, c, d]) => f32::from_le_bytes([a, b, c, d]),
        (KvType::F16, &[a, b]) => f16_to_f32(f16::from_le_bytes([a, b])),
        _ => f32::NAN,
    })
}

/// Element type (ggml's number), layers, kv_heads, head_dim.
fn shape(geometry: &KvGeometry) -> [u32; 4] {
    let element = match geometry.element {
        KvType::F32 => 0,
        KvType::F16 => 1,
    };
    [element, geometry.layers as u32, geometry.kv_heads as u32, geometry.head_dim as u32]
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    bytes.get(offset..)?.first_chunk().map(|&bytes| u32::from_le_bytes(bytes))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    bytes.get(offset..)?.first_chunk().map(|&bytes| u64::from_le_bytes(bytes))
}
