//! Checks the vocabulary's arrays and the tokens that llama.cpp puts around a text.
//!
//! Source: `llama_vocab::impl::load` and `tokenize`. The unknown tokenizers and pre-tokenizers
//! are llama.cpp's to refuse, which it does with an exception.

use super::metadata::{Metadata, Value, ValueType};
use super::values::TOKENS;
use super::{damaged, quoted};
use crate::error::LoadError;

/// BPE pre-tokenizers that begin a text with the BOS token unless the file says otherwise.
const PRE_WITH_BOS: [&str; 11] = [
    "llama3",
    "llama-v3",
    "llama-bpe",
    "falcon3",
    "falcon-h1",
    "pixtral",
    "midm-2.0",
    "lfm2",
    "jina-v5-nano",
    "tekken",
    "chameleon",
];

/// Checks the vocabulary. `digests` has a hash of each token's text.
pub(super) fn check(metadata: &Metadata, digests: &mut [u64]) -> Result<(), LoadError> {
    let Some(model) = metadata.text("tokenizer.ggml.model") else {
        return Err(damaged("`tokenizer.ggml.model` is missing or no text"));
    };
    if matches!(model, "no_vocab" | "none") {
        return Ok(());
    }
    let num_tokens = check_array(metadata, TOKENS, &[ValueType::Str], 1)?;
    let Some(num_tokens) = num_tokens else {
        return Err(damaged(format!("{} is missing", quoted(TOKENS))));
    };
    check_distinct(digests)?;
    let numbers = [ValueType::F32, ValueType::I32];
    check_array(metadata, "tokenizer.ggml.scores", &numbers, num_tokens)?;
    check_array(metadata, "tokenizer.ggml.token_type", &[ValueType::I32], num_tokens)?;
    check_array(metadata, "tokenizer.ggml.suppress_tokens", &[ValueType::I32], 0)?;
    check_array(metadata, "tokenizer.ggml.precompiled_charsmap", &[ValueType::I8, ValueType::U8], 4)?;
    check_merges(metadata, model)?;
    check_special_tokens(metadata, Tokenizer::new(metadata, model), num_tokens)?;
    if model == "bert" { check_word_pieces(metadata, num_tokens) } else { Ok(()) }
}

/// `WordPiece` puts a separator behind each text, and the unknown token in the place of what it cannot spell.
fn check_word_pieces(metadata: &Metadata, num_tokens: u64) -> Result<(), LoadError> {
    let keys = [("tokenizer.ggml.seperator_token_id", 102), ("tokenizer.ggml.unknown_token_id", 100)];
    for (key, default) in keys {
        let token = special_token(metadata, key, num_tokens)?;
        if token.is_none() && default >= num_tokens {
            return Err(damaged(format!(
                "{} is missing or none of {num_tokens} tokens, texts may have it",
                quoted(key)
            )));
        }
    }
    Ok(())
}

/// The length of an array that is there: of one of the `kinds`, with `least` elements or more.
fn check_array(
    metadata: &Metadata,
    key: &str,
    kinds: &[ValueType],
    least: u64,
) -> Result<Option<u64>, LoadError> {
    let array = match metadata.get(key) {
        None => return Ok(None),
        Some(Value::Array(array)) => array,
        Some(other) => return Err(damaged(format!("{} is no array but {}", quoted(key), other.kind()))),
    };
    if !kinds.contains(&array.element) {
        return Err(damaged(format!(
            "{} has elements of type {}, it must be {}",
            quoted(key),
            array.element,
            kinds.iter().map(ToString::to_string).collect::<Vec<_>>().join(" or ")
        )));
    }
    if array.length < least {
        return Err(damaged(format!(
            "{} has {} elements, at least {least} are needed",
            quoted(key),
            array.length
        )));
    }
    Ok(Some(array.length))
}

/// llama.cpp asserts that no text stands for two tokens.
fn check_distinct(digests: &mut [u64]) -> Result<(), LoadError> {
    digests.sort_unstable();
    let repeated = digests.windows(2).filter(|pair| pair[0] == pair[1]).count();
    if repeated == 0 {
        return Ok(());
    }
    let total = digests.len();
    Err(damaged(format!("{} has {total} tokens, {repeated} of them repeat another", quoted(TOKENS))))
}

fn check_merges(metadata: &Metadata, model: &str) -> Result<(), LoadError> {
    const MERGES: &str = "tokenizer.ggml.merges";
    if !matches!(model, "gpt2" | "hybriddna" | "whitespace" | "gemma4") {
        return Ok(());
    }
    let found = check_array(metadata, MERGES, &[ValueType::Str], 0)?;
    if found.is_none() && metadata.text("tokenizer.ggml.pre") != Some("kimi-k2") {
        return Err(damaged(format!("{} is missing, tokenizer {} needs it", quoted(MERGES), quoted(model))));
    }
    Ok(())
}

/// What llama.cpp puts around a text when it is asked for special tokens.
#[derive(Debug, Clone, Copy)]
struct Tokenizer {
    default_bos: Option<u64>,
    default_eos: Option<u64>,
    adds_bos: bool,
    adds_eos: bool,
}

impl Tokenizer {
    fn new(metadata: &Metadata, model: &str) -> Self {
        let pre = metadata.text("tokenizer.ggml.pre").unwrap_or_default();
        let (begin, end) = match model {
            "llama" | "plamo2" => (Some(1), Some(2)),
            "bert" => (Some(101), None),
            "gpt2" | "hybriddna" | "whitespace" => (Some(11), Some(11)),
            "t5" => (None, Some(1)),
            _ => (None, None),
        };
        let bos_by_default = match model {
            "llama" => true,
            "gpt2" | "hybriddna" | "whitespace" => PRE_WITH_BOS.contains(&pre),
            _ => false,
        };
        // These two add it whatever the file says; the last two tokenizers never do.
        let bos_always = matches!(model, "bert" | "gemma4") || pre == "gemma4";
        let never = matches!(model, "rwkv" | "test");
        let flag = |key| metadata.bool(key);
        Self {
            default_bos: begin,
            default_eos: end,
            adds_bos: !never
                && (bos_always || flag("tokenizer.ggml.add_bos_token").unwrap_or(bos_by_default)),
            adds_eos: !never
                && model != "bert"
                && flag("tokenizer.ggml.add_eos_token").unwrap_or(model == "t5"),
        }
    }
}

fn check_special_tokens(metadata: &Metadata, tokenizer: Tokenizer, num_tokens: u64) -> Result<(), LoadError> {
    let ends = [
        ("tokenizer.ggml.bos_token_id", tokenizer.default_bos, tokenizer.adds_bos),
        ("tokenizer.ggml.eos_token_id", tokenizer.default_eos, tokenizer.adds_eos),
    ];
    for (key, default, is_added) in ends {
        let given = special_token(metadata, key, num_tokens)?;
        let token = given.or(default.filter(|id| *id < num_tokens));
        // llama.cpp asserts on it with the first text.
        if is_added && token.is_none() {
            return Err(damaged(format!(
                "{} is missing or none of {num_tokens} tokens, each text is to have it",
                quoted(key)
            )));
        }
    }
    Ok(())
}

/// The id under `key`. Converters write -1 for none.
fn special_token(metadata: &Metadata, key: &str, num_tokens: u64) -> Result<Option<u64>, LoadError> {
    match metadata.get(key) {
        None | Some(Value::U32(u32::MAX)) => Ok(None),
        Some(Value::U32(id)) if u64::from(*id) < num_tokens => Ok(Some(u64::from(*id))),
        Some(Value::U32(id)) => {
            Err(damaged(format!("{} is {id}, the vocabulary has {num_tokens} tokens", quoted(key))))
        }
        Some(other) => Err(damaged(format!("{} has type {}, it must be u32", quoted(key), other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use super::super::metadata::{Array, Items};
    use super::*;

    fn texts(length: u64) -> Value {
        Value::Array(Array { element: ValueType::Str, length, items: Items::Skipped })
    }

    fn vocabulary(model: &str, tokens: u64, more: &[(&str, Value)]) -> Result<(), LoadError> {
        let mut metadata = Metadata::default();
        metadata.insert("tokenizer.ggml.model".into(), Value::Str(model.into()));
        metadata.insert(TOKENS.into(), texts(tokens));
        for (key, value) in more {
            metadata.insert(format!("tokenizer.ggml.{key}"), value.clone());
        }
        check(&metadata, &mut (0..tokens).collect::<Vec<_>>())
    }

    #[test]
    fn sound_vocabularies_pass() {
        assert_eq!(vocabulary("none", 0, &[]), Ok(()));
        assert_eq!(vocabulary("llama", 3, &[]), Ok(()));
        assert_eq!(vocabulary("gpt2", 3, &[("merges", texts(0))]), Ok(()));
        let none = [("bos_token_id", Value::U32(u32::MAX)), ("add_bos_token", Value::Bool(false))];
        assert_eq!(vocabulary("llama", 3, &none), Ok(()));
    }

    #[test]
    fn a_needed_token_must_exist() {
        // The default BOS token of SentencePiece vocabularies is 1.
        assert!(vocabulary("llama", 1, &[]).is_err());
        let flag = ("add_bos_token", Value::Bool(true));
        let merges = ("merges", texts(0));
        assert!(vocabulary("gpt2", 11, &[merges.clone(), flag.clone()]).is_err());
        assert_eq!(vocabulary("gpt2", 12, &[merges.clone(), flag]), Ok(()));
        let pre = ("pre", Value::Str(b"llama-bpe".to_vec()));
        assert!(vocabulary("gpt2", 11, &[merges.clone(), pre]).is_err());
        assert!(vocabulary("gemma4", 300, &[merges]).is_err());
    }

    #[test]
    fn word_pieces_need_their_tokens() {
        let id = |key, id| (key, Value::U32(id));
        let all = [id("bos_token_id", 2), id("seperator_token_id", 3), id("unknown_token_id", 1)];
        assert_eq!(vocabulary("bert", 4, &all), Ok(()));
        assert_eq!(vocabulary("bert", 103, &[]), Ok(()));
        for missing in 0..3 {
            let mut some = all.to_vec();
            some.remove(missing);
            assert!(vocabulary("bert", 4, &some).is_err(), "{missing}");
        }
    }

    #[test]
    fn contradictions_are_damage() {
        let scores = Array { element: ValueType::F32, length: 2, items: Items::Skipped };
        assert!(vocabulary("llama", 3, &[("scores", Value::Array(scores))]).is_err());
        assert!(vocabulary("llama", 3, &[("token_type", texts(3))]).is_err());
        assert!(vocabulary("llama", 3, &[("eos_token_id", Value::U32(3))]).is_err());
        assert!(vocabulary("gpt2", 3, &[]).is_err());
        assert!(vocabulary("llama", 0, &[]).is_err());
    }

    #[test]
    fn repeated_tokens_are_counted() {
        let error = check_distinct(&mut [5, 3, 5]).unwrap_err();
        assert!(error.message.contains("3 tokens, 1 of them"), "{error}");
    }
}
