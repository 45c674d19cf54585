//! Builds without some families: formats that are built in give the same bits, and others are refused with their names.
//!
//! `.ci/run` runs this for several choices of features. It says in `GLEED_LEFT_OUT` what the build lacks for the file:
//! nothing, its "architecture" or its "type".

use gleed::engine::PlanError;
use gleed::kernels::{KvElement, Level};
use gleed::mem::ALIGN;
use gleed::num::Xxh64;
use gleed::tensor::Dtype;
use gleed::{Engine, KvType, Limits, Model, Plan};

/// A Q8_0 file with the architecture llama.
static FILE: &[u8] = include_bytes!("../examples/assets/gleed-tales-q8_0.gguf");

/// An F32 file with the architecture llama and experts.
static EXPERTS: &[u8] = include_bytes!("data/more/mixtral.gguf");

/// Hash of the logits in every build that can compute the file.
const HASH: u64 = 15_659_269_250_498_827_461;

fn left_out() -> Option<String> {
    std::env::var("GLEED_LEFT_OUT").ok()
}

#[test]
fn what_is_in_computes_the_same_bits_and_the_rest_is_refused_by_name() {
    let refused = match left_out().as_deref() {
        Some("architecture") => "architecture \"llama\" is not supported; one of qwen3",
        Some("type") => "tensor \"token_embd.weight\" has the unsupported type Q8_0",
        _ => {
            let model = Model::open(FILE).unwrap();
            for level in Level::available() {
                assert_eq!(hash(&model, level), HASH, "{level}");
            }
            return;
        }
    };
    assert_eq!(Model::open(FILE).unwrap_err().to_string(), refused);
}

#[test]
fn experts_that_are_left_out_are_refused_by_name() {
    match left_out().as_deref() {
        Some("others") => {
            let refused = "metadata key \"llama.expert_count\" asks for something that is not supported";
            assert_eq!(Model::open(EXPERTS).unwrap_err().to_string(), refused);
        }
        Some(_) => assert!(Model::open(EXPERTS).is_err(), "its architecture or its type is not there"),
        None => assert!(Model::open(EXPERTS).is_ok()),
    }
}

/// Returns the hash of the logits of some tokens.
fn hash(model: &Model<'_>, level: Level) -> u64 {
    let plan = Plan::new(model, &Limits { context: 64, rows: 8, level, ..Limits::default() }).unwrap();
    let mut memory = vec![0; plan.bytes() + ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    let mut engine = Engine::new(model, &plan, &mut memory[start..]).unwrap();
    let sequence = engine.open().unwrap();
    let mut hash = Xxh64::new();
    engine
        .prefill_rows(sequence, &[1, 414, 435, 261, 385, 952, 384], |_, logits| {
            logits.iter().for_each(|x| hash.update(&x.to_le_bytes()));
        })
        .unwrap_or_else(|_| panic!("logits"));
    hash.finish()
}

#[test]
fn types_of_keys_and_values_that_are_left_out_are_refused_by_name() {
    let Ok(model) = Model::open(FILE) else { return };
    for element in KvElement::ALL {
        let limits = Limits { kv_type: KvType { k: KvElement::F16, v: element }, ..Limits::default() };
        match Plan::new(&model, &limits) {
            Ok(_) => assert!(element.is_built()),
            Err(error) => {
                assert!(!element.is_built() && error == PlanError::NotBuilt { element });
                let name = element.name();
                assert_eq!(error.to_string(), format!("keys and values of type {name} are not in this build"));
            }
        }
    }
}

#[test]
fn the_default_leaves_nothing_out() {
    let all = Dtype::ALL.into_iter().all(Dtype::is_built) && KvElement::ALL.into_iter().all(KvElement::is_built);
    assert_eq!(all, left_out().is_none());
    assert!(all || Level::available().eq([Level::SCALAR]));
}
