//! Reads the other files of a folder about its tokenizer: added and special tokens, flags, the chat template.

use serde_json::Value as Json;

use super::{Kind, Token, Vocab};
use common::Result;

/// The files. A missing one is null.
pub(super) struct Settings<'c> {
    pub(super) tokenizer: Option<Json>,
    pub(super) tokenizer_config: Json,
    pub(super) added_tokens: Json,
    pub(super) generation: Json,
    pub(super) config: &'c Json,
    pub(super) template_file: Option<String>,
}

/// A token that is added to the vocabulary proper.
struct Added<'a> {
    id: usize,
    text: &'a str,
    special: bool,
}

impl Settings<'_> {
    pub(super) fn apply(&self, vocab: &mut Vocab) -> Result<()> {
        for added in self.added() {
            add(vocab, &added)?;
        }
        for (name, key) in
            [("bos", "bos_token"), ("eos", "eos_token"), ("unknown", "unk_token"), ("padding", "pad_token")]
        {
            if let Some(id) = self.special(vocab, key) {
                vocab.special.retain(|(known, _)| *known != name);
                vocab.special.push((name, id));
            }
        }
        // Encoders have other names for the tokens that begin and end a text.
        for (name, key) in [("bos", "cls_token"), ("eos", "sep_token")] {
            if vocab.special.iter().all(|(known, _)| *known != name) && !self.is_decoder() {
                vocab.special.extend(self.special(vocab, key).map(|id| (name, id)));
            }
        }
        self.add_end_of_turn(vocab);
        let [first, last] = self.processor(vocab);
        let flag = |name: &str| self.tokenizer_config[name].as_bool();
        let frames = vocab.model == "bert";
        vocab.add_bos = first.or(flag("add_bos_token")).or(Some(vocab.model == "llama" || frames));
        vocab.add_eos = last.or(flag("add_eos_token")).or(Some(frames));
        vocab.chat_template = self.template_file.clone().or_else(|| self.chat_template());
        Ok(())
    }

    /// Returns whether the model predicts tokens.
    fn is_decoder(&self) -> bool {
        self.config["architectures"][0]
            .as_str()
            .is_some_and(|class| class.contains("CausalLM") || class.contains("Generation"))
    }

    fn added(&self) -> Vec<Added<'_>> {
        let id = |json: &Json| usize::try_from(json.as_u64()?).ok();
        let listed = self.tokenizer.as_ref().and_then(|json| json["added_tokens"].as_array()).into_iter().flatten();
        let listed = listed.filter_map(|token| Some((id(&token["id"])?, token)));
        let decoder = self.tokenizer_config["added_tokens_decoder"].as_object().into_iter().flatten();
        let decoder = decoder.filter_map(|(id, token)| Some((id.parse().ok()?, token)));
        let full = listed.chain(decoder).filter_map(|(id, token)| {
            Some(Added { id, text: token["content"].as_str()?, special: token["special"].as_bool().unwrap_or(false) })
        });
        let plain = self.added_tokens.as_object().into_iter().flatten();
        let plain = plain.filter_map(|(text, number)| Some(Added { id: id(number)?, text, special: false }));
        let mut added: Vec<_> = full.collect();
        // Old files have names and ids only.
        plain.for_each(|token| {
            if added.iter().all(|known| known.id != token.id) {
                added.push(token);
            }
        });
        added
    }

    /// Returns the id of a special token, which files give by its name or as a number.
    fn special(&self, vocab: &Vocab, key: &str) -> Option<usize> {
        let named = &self.tokenizer_config[key];
        let named = named.as_str().or_else(|| named["content"].as_str()).and_then(|text| vocab.find(text));
        let number = |json: &Json| match &json[format!("{key}_id")] {
            Json::Array(ids) => ids.first().and_then(Json::as_u64),
            id => id.as_u64(),
        };
        let numbered = number(self.config).or_else(|| number(&self.generation));
        named.or_else(|| usize::try_from(numbered?).ok().filter(|&id| id < vocab.tokens.len()))
    }

    /// Adds one more token that ends a generation, besides `eos`. GGUF has a key for one.
    fn add_end_of_turn(&self, vocab: &mut Vocab) {
        let eos = vocab.special.iter().find(|(name, _)| *name == "eos").map(|(_, id)| *id);
        let ends = self.generation["eos_token_id"].as_array().into_iter().flatten();
        let mut ids = ends.filter_map(|id| usize::try_from(id.as_u64()?).ok());
        let other = ids.find(|&id| Some(id) != eos && id < vocab.tokens.len());
        vocab.special.extend(other.map(|id| ("eot", id)));
    }

    /// Returns whether the post-processor puts tokens before and after texts; `None` if it does not say.
    fn processor(&self, vocab: &Vocab) -> [Option<bool>; 2] {
        let Some(json) = &self.tokenizer else { return [None; 2] };
        let processor = &json["post_processor"];
        let list = processor["processors"].as_array().map_or(std::slice::from_ref(processor), Vec::as_slice);
        // The post-processors of RoBERTa and BERT put one token before and one after each text.
        if list.iter().any(|step| step["type"] == "RobertaProcessing" || step["type"] == "BertProcessing") {
            return [Some(true); 2];
        }
        let Some(template) = list.iter().find(|step| step["type"] == "TemplateProcessing") else {
            return [None; 2];
        };
        let is = |item: Option<&Json>, name: &str| {
            let id = item.and_then(|item| item["SpecialToken"]["id"].as_str()).and_then(|text| vocab.find(text));
            id.is_some() && id == vocab.special.iter().find(|(known, _)| *known == name).map(|(_, id)| *id)
        };
        let items = template["single"].as_array().map(Vec::as_slice).unwrap_or_default();
        [Some(is(items.first(), "bos")), Some(is(items.last(), "eos"))]
    }

    fn chat_template(&self) -> Option<String> {
        match &self.tokenizer_config["chat_template"] {
            Json::String(template) => Some(template.clone()),
            Json::Array(list) => {
                let found = list.iter().find(|entry| entry["name"] == "default").or(list.first())?;
                found["template"].as_str().map(str::to_owned)
            }
            _ => None,
        }
    }
}

/// Adds a token, or sets the kind of a known one.
fn add(vocab: &mut Vocab, added: &Added<'_>) -> Result<()> {
    let kind = if added.special { Kind::Control } else { Kind::UserDefined };
    match vocab.tokens.get_mut(added.id) {
        Some(token) if token.text == added.text => {
            if !matches!(token.kind, Kind::Unknown | Kind::Byte) && (added.special || token.kind == Kind::Normal) {
                token.kind = kind;
            }
            Ok(())
        }
        _ => vocab.put(added.id, Token { text: added.text.to_owned(), score: -1000.0, kind }),
    }
}
