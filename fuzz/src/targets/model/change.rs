//! Changes of a file before and after it is written.

use std::sync::LazyLock;

use crate::support::Bytes;
use common::gguf_writer::{GgufWriter, Meta};

/// Keys of the metadata of all architectures, without the name of the architecture.
static KEYS: LazyLock<Vec<String>> =
    LazyLock::new(|| include_str!("keys.txt").split_whitespace().map(str::to_owned).collect());

const TEXTS: [&str; 14] = [
    "llama",
    "gpt2",
    "bert",
    "default",
    "yarn",
    "linear",
    "longrope",
    "none",
    "qwen2",
    "llama-bpe",
    "gemma3",
    "tekken",
    "<s>",
    "adapter",
];

/// Returns a value of any kind, often a number at a border.
fn value(bytes: &mut Bytes<'_>) -> Meta {
    match bytes.u8() % 16 {
        0 => Meta::U8(bytes.u8()),
        1 => Meta::I8(bytes.u8() as i8),
        2 => Meta::U16(bytes.u16()),
        3 => Meta::I16(bytes.u16() as i16),
        4..=6 => Meta::U32(bytes.odd() as u32),
        7 => Meta::I32(bytes.odd() as i32),
        8 | 9 => Meta::F32(bytes.f32()),
        10 => Meta::Bool(bytes.bool()),
        11 => Meta::String(bytes.some(20)),
        12 => (*bytes.pick(&TEXTS)).into(),
        13 => Meta::from((0..bytes.below(20)).map(|_| bytes.odd() as i32).collect::<Vec<_>>()),
        14 => match bytes.u8() % 3 {
            0 => Meta::U64(bytes.odd()),
            1 => Meta::I64(bytes.odd() as i64),
            _ => Meta::F64(bytes.f32().into()),
        },
        _ => array(bytes),
    }
}

/// Returns an array whose elements need not have the type that it declares.
fn array(bytes: &mut Bytes<'_>) -> Meta {
    let kind = u32::from(bytes.u8() % 14);
    let element = |bytes: &mut Bytes<'_>| match kind {
        6 => Meta::F32(bytes.f32()),
        7 => Meta::Bool(bytes.bool()),
        8 => Meta::String(vec![bytes.u8(); 3]),
        9 => Meta::Array(0, vec![Meta::U8(1)]),
        _ => Meta::U32(bytes.odd() as u32),
    };
    let len = bytes.below(6);
    Meta::Array(kind, (0..len).map(|_| element(bytes)).collect())
}

/// Makes one change of the metadata, of a tensor, or of the file's version, alignment or order.
pub fn change(writer: &mut GgufWriter, bytes: &mut Bytes<'_>, others: &[GgufWriter]) {
    match bytes.u8() % 20 {
        0..9 => metadata(writer, bytes, others),
        9..19 => tensor(writer, bytes),
        _ => match bytes.u8() % 3 {
            0 => writer.version = bytes.odd() as u32,
            1 => writer.alignment = *bytes.pick(&[1, 2, 4, 8, 16, 32, 64, 128, 3, 5]),
            _ => {
                let (one, two) = (bytes.below(writer.metadata.len()), bytes.below(writer.metadata.len()));
                if !writer.metadata.is_empty() {
                    writer.metadata.swap(one, two);
                }
            }
        },
    }
}

fn metadata(writer: &mut GgufWriter, bytes: &mut Bytes<'_>, others: &[GgufWriter]) {
    let at = bytes.below(writer.metadata.len());
    let Some(entry) = writer.metadata.get_mut(at) else { return };
    match bytes.u8() % 9 {
        0 | 1 => entry.1 = value(bytes),
        2 => drop(writer.metadata.remove(at)),
        3 => {
            let twice = entry.clone();
            writer.metadata.push(twice);
        }
        4 => {
            // An entry of another model, under its own key or under a key of this architecture.
            let other = bytes.pick(others);
            if let Some((key, value)) = other.metadata.get(bytes.below(other.metadata.len())) {
                writer.set(key, value.clone());
            }
        }
        5 => {
            let name = architecture(writer);
            let (key, value) = (bytes.pick(&KEYS), value(bytes));
            let is_global = key.starts_with("tokenizer.") || key.starts_with("general.") || key.starts_with("adapter.");
            writer.set(&if is_global { key.clone() } else { format!("{name}.{key}") }, value);
        }
        6 => entry.0 = bytes.pick(&KEYS).clone(),
        _ => part(&mut entry.1, bytes),
    }
}

fn architecture(writer: &GgufWriter) -> String {
    let of = |(key, value): &(String, Meta)| match value {
        Meta::String(name) if key == "general.architecture" => Some(String::from_utf8_lossy(name).into_owned()),
        _ => None,
    };
    writer.metadata.iter().find_map(of).unwrap_or_default()
}

/// Changes a number, or an element of an array.
fn part(value: &mut Meta, bytes: &mut Bytes<'_>) {
    match value {
        Meta::U32(number) => *number = bytes.odd() as u32,
        Meta::F32(number) => *number = bytes.f32(),
        Meta::Bool(flag) => *flag = !*flag,
        Meta::String(text) => *text = bytes.some(12),
        Meta::Array(_, elements) if !elements.is_empty() => {
            let (at, other) = (bytes.below(elements.len()), bytes.below(elements.len()));
            match bytes.u8() % 5 {
                0 => drop(elements.remove(at)),
                1 => elements.push(elements[at].clone()),
                2 => elements[at] = elements[other].clone(),
                3 => elements.truncate(at),
                _ => part(&mut elements[at], bytes),
            }
        }
        _ => {}
    }
}

fn tensor(writer: &mut GgufWriter, bytes: &mut Bytes<'_>) {
    let count = writer.tensors.len();
    let (at, other) = (bytes.below(count), bytes.below(count));
    let Some(name) = writer.tensors.get(other).map(|tensor| tensor.name.clone()) else { return };
    let tensor = &mut writer.tensors[at];
    match bytes.u8() % 9 {
        0 => tensor.ggml_type = u32::from(bytes.u8() % 42),
        1 if !tensor.dims.is_empty() => {
            let dim = bytes.below(tensor.dims.len());
            tensor.dims[dim] = bytes.odd();
        }
        2 if bytes.bool() => tensor.dims.push(bytes.odd()),
        1 | 2 => drop(tensor.dims.pop()),
        3 => tensor.name = name,
        4 if bytes.bool() => drop(writer.tensors.remove(at)),
        4 => {
            let twice = tensor.clone();
            writer.tensors.push(twice);
        }
        5 => {
            let len = bytes.below(tensor.data.len() + 1);
            tensor.data.resize(if bytes.bool() { len } else { tensor.data.len() + len }, 0);
        }
        6 => tensor.data.fill(*bytes.pick(&[0, 0xff, 0x7f, 0x80, 0x7c, 0x3f, 0x55])),
        7 => {
            let all = bytes.once_in(4);
            for place in tensor.data.as_chunks_mut::<4>().0.iter_mut().filter(|_| all).take(1 << 12) {
                *place = bytes.f32().to_le_bytes();
            }
        }
        _ => {
            for _ in 0..1 + bytes.below(6) {
                let at = bytes.below(tensor.data.len() / 4);
                let value = bytes.f32().to_le_bytes();
                if let Some(place) = tensor.data.get_mut(4 * at..4 * at + 4) {
                    place.copy_from_slice(&value);
                }
            }
        }
    }
}

/// Sometimes changes bytes in the first part of the file, which says what the rest is, or cuts the file.
pub fn damage(mut file: Vec<u8>, bytes: &mut Bytes<'_>) -> Vec<u8> {
    if bytes.once_in(4) {
        for _ in 0..bytes.below(6) {
            let at = bytes.below(file.len().min(8192));
            file[at] = bytes.u8();
        }
    }
    if bytes.once_in(16) {
        file.truncate(bytes.below(file.len()));
    }
    file
}
