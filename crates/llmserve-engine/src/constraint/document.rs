//! The full check of a finished document: it is read by a JSON parser and judged by a JSON Schema validator, which share
//! only the rewriting of patterns with the masks' source.

use jsonschema::{Draft, PatternOptions, Validator};
use llmserve_json_tail::for_each_subschema;
use serde_json::Value;

use crate::error::Error;

/// Maximum size of a compiled pattern, and of its cache, in bytes.
const PATTERN_BYTES: usize = 4 << 20;

/// Judges a document.
pub(super) fn check(validator: &Validator, text: &[u8]) -> Result<(), Error> {
    let Ok(document) = serde_json::from_slice::<Value>(text) else {
        return Err(Error::ConstraintFailed { reason: "the document is not valid JSON" });
    };
    if validator.is_valid(&document) {
        return Ok(());
    }
    Err(Error::ConstraintFailed { reason: "the document does not match its schema" })
}

/// The validator of a schema, which is checked against its metaschema. Formats are left to the matcher,
/// which knows them all: whether a validator looks at them depends on the draft.
pub(super) fn validator(schema: &Value) -> Result<Validator, jsonschema::ValidationError<'static>> {
    let patterns = PatternOptions::regex().size_limit(PATTERN_BYTES).dfa_size_limit(PATTERN_BYTES);
    jsonschema::options()
        .offline()
        .with_draft(draft(schema).unwrap_or_else(|| unnamed_draft(schema)))
        .with_pattern_options(patterns)
        .should_validate_formats(false)
        .build(schema)
}

/// The draft of a schema that names none: the newest in which its keywords have their forms.
fn unnamed_draft(schema: &Value) -> Draft {
    let mut draft = Draft::Draft202012;
    for_each_subschema(schema, |_, members| {
        if members.get("items").is_some_and(Value::is_array) {
            draft = Draft::Draft201909;
        }
    });
    draft
}

/// The draft that a schema names, if it is a known one.
pub(super) fn draft(schema: &Value) -> Option<Draft> {
    match schema.get("$schema")?.as_str()?.trim_end_matches('#') {
        "https://json-schema.org/draft/2020-12/schema" => Some(Draft::Draft202012),
        "https://json-schema.org/draft/2019-09/schema" => Some(Draft::Draft201909),
        "http://json-schema.org/draft-07/schema" => Some(Draft::Draft7),
        "http://json-schema.org/draft-06/schema" => Some(Draft::Draft6),
        "http://json-schema.org/draft-04/schema" => Some(Draft::Draft4),
        _ => None,
    }
}
