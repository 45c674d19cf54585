//! The files of a model: one file, or the parts of a split file.

use gguf_rs_lite::{Gguf, Name, TensorInfo};

use super::error::ModelError;
use super::names::{layer_and_suffix, layer_name};
use crate::kv::LayerSet;
use crate::num::Xxh64;

/// The key of the number of parts.
const COUNT: &str = "split.count";

/// The key of the number of a part, from 0.
const NUMBER: &str = "split.no";

/// One file, or all parts of a split file. The metadata is that of the first part.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'m> {
    first: Gguf<'m>,
    others: &'m [&'m [u8]],
}

impl<'m> Files<'m> {
    /// Opens a model in one file.
    pub(crate) fn one(bytes: &'m [u8]) -> Result<Self, ModelError> {
        Ok(Self { first: Gguf::parse(bytes)?, others: &[] })
    }

    /// Opens a model in parts, which are in their order.
    pub(crate) fn split(parts: &'m [&'m [u8]]) -> Result<Self, ModelError> {
        let (first, others) = parts.split_first().ok_or(ModelError::Parts { expected: 1, given: 0 })?;
        let (first, given) = (Gguf::parse_part(first)?, parts.len());
        let expected = number(&first, COUNT)?.unwrap_or(1).max(1);
        if expected != given {
            return Err(ModelError::Parts { expected, given });
        }
        let files = Self { first, others };
        for (index, bytes) in files.others.iter().enumerate() {
            let found = number(&Gguf::parse_part(bytes)?, NUMBER)?;
            if found != Some(index + 1) {
                return Err(ModelError::PartNumber { expected: index + 1, found });
            }
        }
        match number(&files.first, NUMBER)? {
            None | Some(0) => Ok(files),
            found => Err(ModelError::PartNumber { expected: 0, found }),
        }
    }

    /// Returns the first part, which has the metadata.
    pub(crate) fn first(&self) -> &Gguf<'m> {
        &self.first
    }

    /// Returns the bytes of a part.
    pub(crate) fn bytes(&self, part: usize) -> Option<&'m [u8]> {
        match part.checked_sub(1) {
            None => Some(self.first.bytes()),
            Some(index) => self.others.get(index).copied(),
        }
    }

    /// Returns the number of bytes of all parts together.
    pub(crate) fn len(&self) -> usize {
        self.others.iter().fold(self.first.bytes().len(), |sum, part| sum.saturating_add(part.len()))
    }

    /// Returns all tensors, each with the number of its part.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (usize, TensorInfo<'m>)> + use<'m> {
        self.parts().enumerate().flat_map(|(part, gguf)| gguf.tensors().map(move |info| (part, info)))
    }

    /// Returns the tensor with this name.
    pub(crate) fn tensor(&self, name: &str) -> Option<TensorInfo<'m>> {
        self.parts().find_map(|gguf| gguf.tensor(name))
    }

    /// Returns the layers that have a tensor `blk.N.<suffix>`.
    pub(crate) fn layers_with(&self, suffix: &str) -> LayerSet {
        let layer_of =
            |name: &str| layer_and_suffix(name).filter(|&(_, found)| found == suffix).map(|(layer, _)| layer);
        self.tensors().filter_map(|(_, info)| layer_of(info.name())).collect()
    }

    /// Returns whether a layer has a tensor with this name.
    pub(crate) fn has_in_layer(&self, layer: usize, suffix: &str) -> bool {
        self.tensor(&layer_name(layer, suffix)).is_some()
    }

    /// Returns the layers that predict tokens further ahead. They are after the layers that run, and do not run.
    pub(crate) fn predicting(&self) -> LayerSet {
        self.layers_with("nextn.eh_proj.weight")
    }

    pub(crate) fn tensor_count(&self) -> usize {
        self.parts().map(|gguf| gguf.tensor_count()).sum()
    }

    /// Returns the number of [`Model::fingerprint`](super::Model::fingerprint).
    pub(crate) fn fingerprint(&self) -> u64 {
        const SAMPLE: usize = 64;
        const SAMPLES: usize = 64;
        let mut hasher = Xxh64::new();
        for gguf in self.parts() {
            hasher.update(gguf.metadata_bytes());
            for info in gguf.tensors() {
                let stride = (info.data().len() / SAMPLES).max(SAMPLE);
                for sample in info.data().chunks(stride) {
                    hasher.update(sample.get(..SAMPLE).unwrap_or(sample));
                }
            }
        }
        hasher.finish()
    }

    /// Returns all parts. They were checked when the model was opened.
    fn parts(&self) -> impl Iterator<Item = Gguf<'m>> + use<'m> {
        core::iter::once(self.first).chain(self.others.iter().filter_map(|bytes| Gguf::parse_part(bytes).ok()))
    }
}

/// Returns a number below 2^16 from the metadata, if the file has it.
fn number(gguf: &Gguf<'_>, name: &str) -> Result<Option<usize>, ModelError> {
    let Some(value) = gguf.get(name) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    number.map(|number| Some(number.into())).ok_or(ModelError::BadValue { key: Name::new(name.as_bytes()) })
}
