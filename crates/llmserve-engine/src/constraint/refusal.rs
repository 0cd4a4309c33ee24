//! Why a specification is refused, in the client's terms: one bounded line with keyword and JSON pointer
//! where they are known.

use llguidance::derivre::{RegexAst, RegexBuilder};
use llguidance::regex_to_lark;
use llmserve_json_tail::for_each_subschema;
use serde_json::Value;

use crate::error::Error;

pub(super) const JSON_SCHEMA: &str = "json_schema";
pub(super) const REGEX: &str = "regex";
pub(super) const GRAMMAR: &str = "grammar";

/// The longest reason in bytes.
const MAX_REASON_BYTES: usize = 300;

/// A refusal.
pub(super) fn refuse(field: &'static str, reason: &str) -> Error {
    Error::InvalidConstraint { field, reason: one_line(reason) }
}

/// A refusal of a schema at a place.
pub(super) fn refuse_at(keyword: &str, pointer: &str, reason: &str) -> Error {
    let place = if pointer.is_empty() { "the root" } else { pointer };
    refuse(JSON_SCHEMA, &format!("`{}` at {}: {reason}", short(keyword, 40), short(place, 120)))
}

/// The message of the metaschema, or of the validator's compiler.
pub(super) fn from_validator(schema: &Value, error: &jsonschema::ValidationError<'_>) -> Error {
    let pointer = error.instance_path().as_str();
    let keyword = pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
    let reason = error.masked_with("the value").to_string();
    if keyword.is_empty() {
        return from_schema(schema, &reason);
    }
    refuse_at(keyword, pointer, &reason)
}

/// llguidance's message about a regular expression or a grammar.
pub(super) fn from_text(field: &'static str, message: &str) -> Error {
    refuse(field, known(message).unwrap_or("it could not be compiled"))
}

/// llguidance's message about a schema. It names keywords at best; the place is searched for.
pub(super) fn from_schema(schema: &Value, message: &str) -> Error {
    let Some(message) = known(message) else {
        return refuse(JSON_SCHEMA, "the schema could not be compiled");
    };
    let reason = reworded(message);
    match locate(schema, message) {
        Some((keyword, pointer)) => refuse_at(&keyword, &pointer, reason),
        None => refuse(JSON_SCHEMA, reason),
    }
}

const NO_RANGE: &str = "Failed to generate regex for";
const NO_STEP: &str = "Value for 'multipleOf' has too many digits";
/// Bounds below it are never the reason of [`NO_RANGE`].
const LARGE_BOUND: f64 = 1e15;

/// Messages in the library's internal terms, put in the client's.
fn reworded(message: &str) -> &str {
    if message.starts_with(NO_RANGE) {
        "the number is too large for a grammar"
    } else if message.starts_with(NO_STEP) {
        "the number has too many digits for a grammar"
    } else {
        message
    }
}

/// The message without llguidance's own state; `None` for a panic's.
fn known(message: &str) -> Option<&str> {
    let end =
        ["\n<non-verbose", "\n<state>", "\n<backtrace>"].iter().filter_map(|mark| message.find(mark)).min();
    let message = message[..end.unwrap_or(message.len())].trim();
    (!message.is_empty() && !message.starts_with("panic:")).then_some(message)
}

fn one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_whitespace().collect();
    short(&words.join(" "), MAX_REASON_BYTES)
}

/// The beginning of a text, cut between characters.
fn short(text: &str, max_bytes: usize) -> String {
    if text.len() <= max_bytes {
        return text.to_owned();
    }
    let end = (0..=max_bytes - 3).rev().find(|&at| text.is_char_boundary(at)).unwrap_or(0);
    format!("{}...", &text[..end])
}

/// Keyword and JSON pointer of what a message is about.
fn locate(schema: &Value, message: &str) -> Option<(String, String)> {
    let mut first = None;
    for_each_subschema(schema, |pointer, members| {
        if first.is_none() {
            first = members.iter().find_map(|(keyword, value)| {
                is_about(message, keyword, value).then(|| (keyword.clone(), pointer.to_owned()))
            });
        }
    });
    first
}

fn is_about(message: &str, keyword: &str, value: &Value) -> bool {
    let says = |text: &str| message.contains(text);
    let says_value = |text: &str| value.as_str().is_some_and(|value| says(&format!("{text}{value}")));
    match keyword {
        "oneOf" if says("oneOf constraints") => true,
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if says(NO_RANGE) => {
            value.as_f64().is_some_and(|bound| bound.abs() >= LARGE_BOUND)
        }
        "multipleOf" if says(NO_STEP) => true,
        "minProperties" | "maxProperties" if says("min/maxProperties") => true,
        "format" if says("Unknown format: ") => says_value("Unknown format: "),
        "type" if says("Invalid type: ") => says_value("Invalid type: "),
        "$ref" if says("eference") || says("$ref") || says("Pointer") => {
            value.as_str().is_some_and(|value| says(value.trim_start_matches('#')))
        }
        "pattern" => value.as_str().is_some_and(|pattern| !is_regex(pattern)),
        "patternProperties" => value.as_object().is_some_and(|members| {
            says("patternProperty") || members.keys().any(|pattern| !is_regex(pattern))
        }),
        _ => message
            .strip_prefix("Unimplemented keys: ")
            .is_some_and(|keys| keys.contains(&format!("{keyword:?}"))),
    }
}

fn is_regex(pattern: &str) -> bool {
    RegexBuilder::new().mk(&RegexAst::SearchRegex(regex_to_lark(pattern, "dw"))).is_ok()
}
