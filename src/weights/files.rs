//! The files of a model: one, or the parts that a large one was split into.

use gguf_rs_lite::{Gguf, Name, TensorInfo};

use super::error::ModelError;
use super::names::{layer_and_suffix, layer_name};
use crate::kv::LayerSet;
use crate::num::Xxh64;

/// The key that says how many parts there are.
const COUNT: &str = "split.count";

/// The key that says which one a part is, from 0.
const NUMBER: &str = "split.no";

/// One file, or all parts of one. The metadata is that of the first.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Files<'m> {
    first: Gguf<'m>,
    others: &'m [&'m [u8]],
}

impl<'m> Files<'m> {
    /// A model in one file.
    pub(crate) fn one(bytes: &'m [u8]) -> Result<Self, ModelError> {
        Ok(Self { first: Gguf::parse(bytes)?, others: &[] })
    }

    /// A model in parts, in their order.
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

    /// The first, with the metadata.
    pub(crate) fn first(&self) -> &Gguf<'m> {
        &self.first
    }

    /// The bytes of a part.
    pub(crate) fn bytes(&self, part: usize) -> Option<&'m [u8]> {
        match part.checked_sub(1) {
            None => Some(self.first.bytes()),
            Some(index) => self.others.get(index).copied(),
        }
    }

    /// The bytes of all parts together.
    pub(crate) fn len(&self) -> usize {
        self.others.iter().fold(self.first.bytes().len(), |sum, part| sum.saturating_add(part.len()))
    }

    /// All tensors, each with the part that it is in.
    pub(crate) fn tensors(&self) -> impl Iterator<Item = (usize, TensorInfo<'m>)> + use<'m> {
        self.parts().enumerate().flat_map(|(part, gguf)| gguf.tensors().map(move |info| (part, info)))
    }

    /// The tensor with this name.
    pub(crate) fn tensor(&self, name: &str) -> Option<TensorInfo<'m>> {
        self.parts().find_map(|gguf| gguf.tensor(name))
    }

    /// The layers that have a tensor of the name `blk.N.` and this.
    pub(crate) fn layers_with(&self, suffix: &str) -> LayerSet {
        let layer_of =
            |name: &str| layer_and_suffix(name).filter(|&(_, found)| found == suffix).map(|(layer, _)| layer);
        self.tensors().filter_map(|(_, info)| layer_of(info.name())).collect()
    }

    /// Whether a layer has a tensor of this name.
    pub(crate) fn has_in_layer(&self, layer: usize, suffix: &str) -> bool {
        self.tensor(&layer_name(layer, suffix)).is_some()
    }

    /// The layers that predict tokens further ahead. They follow those that run, and are left out there.
    pub(crate) fn predicting(&self) -> LayerSet {
        self.layers_with("nextn.eh_proj.weight")
    }

    pub(crate) fn tensor_count(&self) -> usize {
        self.parts().map(|gguf| gguf.tensor_count()).sum()
    }

    /// See [`Model::fingerprint`](super::Model::fingerprint).
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

    /// All parts, which were checked when the model was opened.
    fn parts(&self) -> impl Iterator<Item = Gguf<'m>> + use<'m> {
        core::iter::once(self.first).chain(self.others.iter().filter_map(|bytes| Gguf::parse_part(bytes).ok()))
    }
}

/// A small number of the metadata, if it is there.
fn number(gguf: &Gguf<'_>, name: &str) -> Result<Option<usize>, ModelError> {
    let Some(value) = gguf.get(name) else { return Ok(None) };
    let number = value.as_u64().and_then(|number| u16::try_from(number).ok());
    number.map(|number| Some(number.into())).ok_or(ModelError::BadValue { key: Name::new(name.as_bytes()) })
}
