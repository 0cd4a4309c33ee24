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
pub(super) fn from_validator(error: &jsonschema::ValidationError<'_>) -> Error {
    let pointer = error.instance_path().as_str();
    let keyword = pointer.rsplit('/').find(|part| part.parse::<usize>().is_err()).unwrap_or_default();
    let reason = error.masked_with("the value").to_string();
    if keyword.is_empty() {
        return refuse(JSON_SCHEMA, &reason);
    }
    refuse_at(keyword, pointer, &reason)
}

/// llguidance's message about a regular expression or a grammar.
pub(super) fn from_text(field: &'static str, message: &str) -> Error {
    let Some(message) = known(message) else {
        return refuse(field, "it could not be compiled");
    };
    let (position, reason) = located(message);
    match position {
        // A regular expression is the only line of a grammar that the client has not written.
        Some((line, column)) if field == GRAMMAR => {
            refuse(field, &format!("line {line}, column {column}: {reason}"))
        }
        Some(_) | None => refuse(field, reason),
    }
}

/// Line and column of a message, if it has them, and what it says, without the excerpts that follow:
/// `at 1(8): invalid regex "(" (in regex): regex parse error:\n(\n^\nerror: unclosed group\n1 | start: /(/`.
fn located(message: &str) -> (Option<(u32, u32)>, &str) {
    let first = message.lines().next().unwrap_or_default();
    let place = first.strip_prefix("at ").unwrap_or(first);
    let position = place.split_once("): ").and_then(|(position, reason)| {
        let (line, column) = position.split_once('(')?;
        Some(((line.parse().ok()?, column.parse().ok()?), reason))
    });
    let cause = message.lines().find_map(|line| line.trim_start().strip_prefix("error: "));
    let reason = position.map_or(message, |(_, reason)| reason);
    (position.map(|(position, _)| position), cause.unwrap_or(reason))
}

/// llguidance's message about a schema, in our words. It names keywords at best; the place is searched for, and
/// `origin` has it in the schema that was sent.
pub(super) fn from_schema(schema: &Value, origin: impl Fn(&str) -> String, message: &str) -> Error {
    let message = known(message).unwrap_or_default();
    let reason = REASONS.iter().find(|(part, _)| message.contains(part)).map(|(_, reason)| *reason);
    let reason = reason.unwrap_or("it could not be compiled: the schema is too large or too complex");
    match locate(schema, message) {
        Some((keyword, pointer)) => refuse_at(&keyword, &origin(&pointer), reason),
        None => refuse(JSON_SCHEMA, reason),
    }
}

const NO_RANGE: &str = "Failed to generate regex for";
const NO_STEP: &str = "Value for 'multipleOf' has too many digits";
const NO_COUNT: &str = "min/maxProperties";
const NOT_DISJOINT: &str = "patternProperty regexes";
const CIRCULAR: &str = "circular references with sibling keys";
/// Bounds below it are never the reason of [`NO_RANGE`].
const LARGE_BOUND: f64 = 1e15;

/// Parts of llguidance's messages, and what they mean.
const REASONS: [(&str, &str); 10] = [
    (NO_RANGE, "the number is too large for a grammar"),
    (NO_STEP, "the number has too many digits for a grammar"),
    (NO_COUNT, "it is not supported beside that many optional properties"),
    (NOT_DISJOINT, "two of its patterns may match the same name, which is not supported"),
    (CIRCULAR, "a schema that refers to itself beside other keywords is not supported"),
    ("Unsatisfiable schema", "no value can match it: its keywords contradict each other"),
    ("Unable to determine if regex is empty", "its patterns are too complex together"),
    ("stack level exceeded", "its references and combinations are nested too deep"),
    ("schema too large", "the schema is too large"),
    ("no document was found", "no document was found that its patterns allow"),
];

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
    match keyword {
        "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" if says(NO_RANGE) => {
            value.as_f64().is_some_and(|bound| bound.abs() >= LARGE_BOUND)
        }
        "multipleOf" if says(NO_STEP) => true,
        "minProperties" | "maxProperties" if says(NO_COUNT) => true,
        "$ref" if says(CIRCULAR) => value.as_str().is_some_and(says),
        "pattern" => value.as_str().is_some_and(|pattern| !is_regex(pattern)),
        "patternProperties" => value
            .as_object()
            .is_some_and(|members| says(NOT_DISJOINT) || members.keys().any(|pattern| !is_regex(pattern))),
        _ => false,
    }
}

fn is_regex(pattern: &str) -> bool {
    RegexBuilder::new().mk(&RegexAst::SearchRegex(regex_to_lark(pattern, "dw"))).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_library_says_of_a_text_comes_without_its_excerpts() {
        let regex = "at 1(8): invalid regex \"(\" (in regex): regex parse error:\n    (\n    ^\n\
                     error: unclosed group\n1 | start: /(/\n            ^";
        let told = |field, message| from_text(field, message).to_string();
        assert_eq!(told(REGEX, regex), "regex: unclosed group");
        assert_eq!(told(GRAMMAR, regex), "grammar: line 1, column 8: unclosed group");
        let name = "at 3(8): unknown name: \"x\"\n3 | start: x\n           ^";
        assert_eq!(told(GRAMMAR, name), "grammar: line 3, column 8: unknown name: \"x\"");
        assert_eq!(told(GRAMMAR, "1(10): lexer error\n1 | start"), "grammar: line 1, column 10: lexer error");
        assert_eq!(told(GRAMMAR, "`stop` is not supported"), "grammar: `stop` is not supported");
    }
}
