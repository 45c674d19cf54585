//! The architectures. Each is a value in one of the files, with everything that GGUF files do not say about it, and has
//! a row in the table here.

#[cfg(feature = "arch-afmoe")]
mod afmoe;
mod alibi;
#[cfg(feature = "arch-apertus")]
mod apertus;
mod architecture;
#[cfg(feature = "encoder")]
mod bert;
mod cohere;
mod exaone4;
mod gemma;
#[cfg(feature = "arch-gemma4")]
mod gemma4;
mod glm4;
mod gpt2;
mod gpt_oss;
mod gptneox;
mod hunyuan;
#[cfg(feature = "recurrent")]
mod lfm2;
mod llama;
mod mellum;
#[cfg(feature = "encoder")]
mod modern_bert;
mod nemotron;
mod olmo2;
mod phi3;
mod qwen;
#[cfg(feature = "recurrent")]
mod qwen35;
mod seed_oss;
mod spark;
mod stablelm;
mod starcoder2;
#[cfg(feature = "recurrent")]
mod state_space;

use gguf_rs_lite::{Gguf, Name};

use crate::weights::ModelError;
use architecture::{ALL_BIASES, DECODER, EXPERT_SCALE, NO_BIASES, OPTIONAL_BIASES, SHARED_COUNT, SHARED_WIDTH};
pub(super) use architecture::{Architecture, DENSE_LAYERS, FFN_WIDTHS};

/// Returns the architecture of a file.
pub(super) fn of(file: &Gguf<'_>) -> Result<&'static Architecture, ModelError> {
    let key = Name::new(b"general.architecture");
    let name = file.get("general.architecture").ok_or(ModelError::MissingKey { key })?;
    let name = name.as_bytes().ok_or(ModelError::BadValue { key })?;
    let known = ARCHITECTURES.iter().find(|architecture| architecture.name.as_bytes() == name);
    known.ok_or(ModelError::Architecture { name: Name::new(name) })
}

/// The architectures of this build.
pub(super) const ARCHITECTURES: &[Architecture] = &[
    #[cfg(feature = "arch-llama")]
    llama::LLAMA,
    #[cfg(feature = "arch-smollm3")]
    llama::SMOLLM3,
    #[cfg(feature = "arch-granite")]
    llama::GRANITE,
    #[cfg(feature = "arch-granite_swa")]
    llama::GRANITE_SWA,
    #[cfg(feature = "arch-qwen2")]
    qwen::QWEN2,
    #[cfg(feature = "arch-qwen3")]
    qwen::QWEN3,
    #[cfg(feature = "arch-qwen3moe")]
    qwen::QWEN3MOE,
    #[cfg(feature = "arch-gemma")]
    gemma::GEMMA,
    #[cfg(feature = "arch-gemma2")]
    gemma::GEMMA2,
    #[cfg(feature = "arch-gemma3")]
    gemma::GEMMA3,
    #[cfg(feature = "arch-phi3")]
    phi3::PHI3,
    #[cfg(feature = "arch-gpt2")]
    gpt2::GPT2,
    #[cfg(feature = "arch-bloom")]
    alibi::BLOOM,
    #[cfg(feature = "arch-mpt")]
    alibi::MPT,
    #[cfg(feature = "arch-gptneox")]
    gptneox::GPTNEOX,
    #[cfg(feature = "arch-stablelm")]
    stablelm::STABLELM,
    #[cfg(feature = "arch-olmo2")]
    olmo2::OLMO2,
    #[cfg(feature = "arch-starcoder2")]
    starcoder2::STARCODER2,
    #[cfg(feature = "arch-ernie4_5")]
    llama::ERNIE4_5,
    #[cfg(feature = "arch-arcee")]
    llama::ARCEE,
    #[cfg(feature = "arch-mistral3")]
    llama::MISTRAL3,
    #[cfg(feature = "arch-hunyuan-dense")]
    hunyuan::HUNYUAN,
    #[cfg(feature = "arch-glm4")]
    glm4::GLM4,
    #[cfg(feature = "arch-exaone4")]
    exaone4::EXAONE4,
    #[cfg(feature = "arch-seed_oss")]
    seed_oss::SEED_OSS,
    #[cfg(feature = "arch-exaone")]
    exaone4::EXAONE,
    #[cfg(feature = "arch-internlm2")]
    llama::INTERNLM2,
    #[cfg(feature = "arch-xverse")]
    llama::XVERSE,
    #[cfg(feature = "arch-minicpm")]
    llama::MINICPM,
    #[cfg(feature = "arch-command-r")]
    cohere::COMMAND_R,
    #[cfg(feature = "arch-cohere2")]
    cohere::COHERE2,
    #[cfg(feature = "arch-nemotron")]
    nemotron::NEMOTRON,
    #[cfg(feature = "arch-orion")]
    nemotron::ORION,
    #[cfg(feature = "arch-chatglm")]
    glm4::CHATGLM,
    #[cfg(feature = "arch-maincoder")]
    hunyuan::MAINCODER,
    #[cfg(feature = "arch-pangu-embedded")]
    seed_oss::PANGU_EMBEDDED,
    #[cfg(feature = "arch-starcoder")]
    gpt2::STARCODER,
    #[cfg(feature = "arch-apertus")]
    apertus::APERTUS,
    #[cfg(feature = "arch-spark2_5")]
    spark::SPARK,
    #[cfg(feature = "arch-qwen2vl")]
    qwen::QWEN2VL,
    #[cfg(feature = "arch-qwen3vl")]
    qwen::QWEN3VL,
    #[cfg(feature = "arch-gpt-oss")]
    gpt_oss::GPT_OSS,
    #[cfg(feature = "arch-qwen2moe")]
    qwen::QWEN2MOE,
    #[cfg(feature = "arch-ernie4_5-moe")]
    llama::ERNIE4_5_MOE,
    #[cfg(feature = "arch-olmoe")]
    olmo2::OLMOE,
    #[cfg(feature = "arch-granitemoe")]
    llama::GRANITE_MOE,
    #[cfg(feature = "arch-bailingmoe")]
    llama::BAILING_MOE,
    #[cfg(feature = "arch-bailingmoe2")]
    llama::BAILING_MOE_2,
    #[cfg(feature = "arch-afmoe")]
    afmoe::AFMOE,
    #[cfg(feature = "arch-deepseek")]
    llama::DEEPSEEK,
    #[cfg(feature = "arch-dots1")]
    llama::DOTS1,
    #[cfg(feature = "arch-glm4moe")]
    glm4::GLM4_MOE,
    #[cfg(feature = "arch-hunyuan-moe")]
    hunyuan::HUNYUAN_MOE,
    #[cfg(feature = "arch-mellum")]
    mellum::MELLUM,
    #[cfg(feature = "arch-qwen3vlmoe")]
    qwen::QWEN3VLMOE,
    #[cfg(feature = "arch-gemma4")]
    gemma4::GEMMA4,
    #[cfg(feature = "arch-bert")]
    bert::BERT,
    #[cfg(feature = "arch-nomic-bert")]
    bert::NOMIC_BERT,
    #[cfg(feature = "arch-nomic-bert-moe")]
    bert::NOMIC_BERT_MOE,
    #[cfg(feature = "arch-jina-bert-v2")]
    bert::JINA_BERT_V2,
    #[cfg(feature = "arch-jina-bert-v3")]
    bert::JINA_BERT_V3,
    #[cfg(feature = "arch-modern-bert")]
    modern_bert::MODERN_BERT,
    #[cfg(feature = "arch-neo-bert")]
    modern_bert::NEO_BERT,
    #[cfg(feature = "arch-eurobert")]
    llama::EUROBERT,
    #[cfg(feature = "arch-llama-embed")]
    llama::LLAMA_EMBED,
    #[cfg(feature = "arch-gemma-embedding")]
    gemma::GEMMA_EMBEDDING,
    #[cfg(feature = "arch-lfm2")]
    lfm2::LFM2,
    #[cfg(feature = "arch-qwen35")]
    qwen35::QWEN35,
    #[cfg(feature = "arch-granitehybrid")]
    state_space::GRANITE_HYBRID,
    #[cfg(feature = "arch-lfm2moe")]
    lfm2::LFM2MOE,
    #[cfg(feature = "arch-qwen35moe")]
    qwen35::QWEN35MOE,
    #[cfg(feature = "arch-falcon-h1")]
    state_space::FALCON_H1,
    #[cfg(feature = "arch-nemotron_h")]
    state_space::NEMOTRON_H,
    #[cfg(feature = "arch-nemotron_h_moe")]
    state_space::NEMOTRON_H_MOE,
];
