//! Turns llama.cpp's messages about a failed load into a typed reason.

use crate::error::{LoadError, LoadErrorReason};

/// Phrases of llama.cpp's loader, the reason that they stand for, and the message for the user.
const PHRASES: [(&str, LoadErrorReason, &str); 14] = [
    (
        "unknown model architecture",
        LoadErrorReason::Unsupported,
        "llama.cpp does not know the model's architecture",
    ),
    ("unknown pre-tokenizer", LoadErrorReason::Unsupported, "llama.cpp does not know the model's tokenizer"),
    ("unknown tokenizer", LoadErrorReason::Unsupported, "llama.cpp does not know the model's tokenizer"),
    ("cannot find tokenizer", LoadErrorReason::Damaged, "the model has no tokenizer"),
    ("unable to allocate", LoadErrorReason::NotEnoughMemory, "there is not enough memory for the model"),
    ("failed to allocate", LoadErrorReason::NotEnoughMemory, "there is not enough memory for the model"),
    ("out of memory", LoadErrorReason::NotEnoughMemory, "there is not enough memory for the model"),
    ("missing tensor", LoadErrorReason::Damaged, "the model lacks a tensor that its architecture needs"),
    ("' not found", LoadErrorReason::Damaged, "the model lacks a tensor that its architecture needs"),
    (
        "has wrong shape",
        LoadErrorReason::Damaged,
        "a tensor of the model has the wrong shape for its architecture",
    ),
    ("key not found", LoadErrorReason::Damaged, "the model lacks metadata that its architecture needs"),
    (
        "wrong number of tensors",
        LoadErrorReason::Damaged,
        "the model does not have the tensors that its architecture needs",
    ),
    (
        "error loading model hyperparameters",
        LoadErrorReason::Damaged,
        "llama.cpp rejects the model's hyperparameters",
    ),
    ("error loading model vocabulary", LoadErrorReason::Damaged, "llama.cpp rejects the model's vocabulary"),
];

/// Gives a failure that llama.cpp did not explain its reason from the log lines of the load.
pub(crate) fn explain(error: LoadError, log: String) -> LoadError {
    let error = if error.reason == LoadErrorReason::Other {
        let known = PHRASES.iter().find(|(phrase, ..)| log.contains(phrase));
        known.map_or(error, |&(_, reason, message)| LoadError::new(reason, message))
    } else {
        error
    };
    if log.is_empty() { error } else { error.with_detail(log) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_words_become_reasons_and_stay_in_the_detail() {
        let other = LoadError::new(LoadErrorReason::Other, "llama.cpp could not load the model");
        let log = "error loading model: unknown model architecture: 'xyz'\n";
        let error = explain(other.clone(), log.to_owned());
        assert_eq!(error.reason, LoadErrorReason::Unsupported);
        assert_eq!(error.detail, log);
        assert!(!error.message.contains("xyz"));
        assert_eq!(explain(other, "something else".to_owned()).reason, LoadErrorReason::Other);
    }

    #[test]
    fn a_typed_failure_keeps_its_reason() {
        let typed = LoadError::invalid_option("tensor_split", "too many");
        assert_eq!(explain(typed, "failed to allocate".to_owned()).reason, LoadErrorReason::InvalidOption);
    }
}
