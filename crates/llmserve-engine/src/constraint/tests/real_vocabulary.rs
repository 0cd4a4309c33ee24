//! The default model's vocabulary (`LLMSERVE_TEST_MODEL`; `make test` sets it).

use std::sync::Arc;

use super::documents::{Random, walk};
use super::*;
use crate::config::WeightsConfig;
use crate::model::llama::{LlamaVocabulary, Weights};

pub(super) fn default_vocabulary() -> Arc<dyn Vocabulary> {
    let path =
        std::env::var_os("LLMSERVE_TEST_MODEL").expect("LLMSERVE_TEST_MODEL is not set; `make test` sets it");
    let weights = Weights::load(path.as_ref(), &WeightsConfig::default(), false, true, |_| true).unwrap();
    Arc::new(LlamaVocabulary::new(Arc::new(weights)))
}

/// Twelve objects with the same three members.
const RECORDS: &str = r#"{"type":"array","minItems":12,"maxItems":12,"items":{"type":"object","properties":{
    "identifier":{"type":"integer","minimum":0,"maximum":999},"display_name":{"type":"string","maxLength":12},
    "is_enabled":{"type":"boolean"}},"required":["identifier","display_name","is_enabled"],"additionalProperties":false}}"#;

fn text_of(vocabulary: &dyn Vocabulary, tokens: &[TokenId]) -> String {
    let bytes: Vec<u8> = tokens.iter().flat_map(|&token| vocabulary.piece(token, false)).copied().collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn the_vocabulary_tokenizes_as_itself() {
    let vocabulary = default_vocabulary();
    let environment = environment::TokenEnvironment::new(Arc::clone(&vocabulary));
    let texts = [
        "{\"name\":\"",
        " a word",
        "\u{4f60}\u{597d} \u{1f600}",
        "\",\"is_enabled\":true},{\"",
        "<|im_end|>",
    ];
    for text in texts {
        let tokens = environment.tokenize(text.as_bytes());
        let own = vocabulary.tokenize(text, false, false).unwrap();
        assert_eq!(tokens, own.iter().map(|token| token.0 as u32).collect::<Vec<_>>(), "{text:?}");
    }
    let long = "{\"key\": \"some words and more \u{e9}\"} ".repeat(300);
    let bytes: Vec<u8> = environment
        .tokenize(long.as_bytes())
        .into_iter()
        .flat_map(|token| environment.bytes(token).to_vec())
        .collect();
    assert_eq!(bytes, long.as_bytes());
    for &end in vocabulary.end_of_generation() {
        assert!(environment.is_end(end) && environment.bytes(end.0 as u32).is_empty());
    }
}

#[test]
fn most_of_a_fixed_key_is_forced() {
    let vocabulary = default_vocabulary();
    let compiler = Compiler::new(Arc::clone(&vocabulary));
    let mut constraint = start(&compiler, &json(RECORDS)).unwrap();
    let forced = constraint.forced();
    let text = text_of(&*vocabulary, &forced);
    assert!("[{\"identifier\":".starts_with(&text), "{text}");
    assert!(text.len() >= "[{\"identifier".len(), "{text}");
    let (mut num_forced, mut num_free) = (0, 0);
    let mut random = Random::new(1);
    while !constraint.is_finished() {
        let forced = constraint.forced();
        num_forced += forced.len();
        for &token in &forced {
            assert!(constraint.mask().unwrap().allows(token));
            constraint.consume(token).unwrap();
        }
        if forced.is_empty() {
            let allowed = tokens(&mut constraint, vocabulary.size());
            constraint.consume(allowed[random.below(allowed.len())]).unwrap();
            num_free += 1;
        }
    }
    constraint.check_document().unwrap();
    assert!(num_forced > num_free, "{num_forced} forced, {num_free} chosen");
}

#[test]
fn walks_end_in_documents() {
    let vocabulary = default_vocabulary();
    let compiler = Compiler::new(Arc::clone(&vocabulary));
    for (index, schema) in documents::corpus().enumerate().step_by(3) {
        let mut constraint = start(&compiler, &json(schema)).unwrap();
        walk(&mut constraint, &*vocabulary, &mut Random::new(index as u64), 20);
    }
}
