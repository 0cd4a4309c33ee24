//! Turns a JSON Schema into a grammar: who reads it in which order, and who may refuse it.

use std::sync::Arc;

use llmserve_json_tail::{Normal, Objects, Outline, SchemaError, for_each_subschema, for_validator, numbers};
use serde_json::{Map, Value};

use super::document;
use super::grammar::JsonRules;
use super::refusal::{self, JSON_SCHEMA, refuse, refuse_at};
use crate::error::Error;

/// The longest constant text and name in bytes: each byte is a state of the lexer.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// Each character of a counted string is a state of the lexer.
const MAX_MIN_LENGTH: u64 = 100_000;
/// The most members of `properties` of one object. llguidance's time grows with their square; this is what
/// takes it about a second.
pub(super) const MAX_PROPERTIES: usize = 1500;
/// Patterns are compared with each other.
const MAX_PATTERN_PROPERTIES: usize = 64;
/// Number of digits that a double keeps.
const MAX_DIGITS: usize = 17;
/// A remainder is a state of the lexer: the largest divisor, without factors of ten.
const MAX_DIVISOR: u64 = 100_000;

/// A number of a JSON text that its reader would change: a whole number beyond 64 bits, or another with more
/// digits than a double keeps.
fn rounded_number(text: &str) -> Option<&str> {
    numbers(text).find(|number| {
        let number = number.trim_start_matches('-');
        if number.bytes().all(|byte| byte.is_ascii_digit()) {
            return number.parse::<u64>().is_err();
        }
        let mantissa = number.split(['e', 'E']).next().unwrap_or_default();
        mantissa.replace('.', "").trim_matches('0').len() > MAX_DIGITS
    })
}

/// A schema, as it was sent and as it is compiled.
pub(super) struct Schema {
    sent: Value,
    normal: Normal,
}

impl Schema {
    pub(super) fn parse(text: &str) -> Result<Self, Error> {
        if let Some(number) = rounded_number(text) {
            let number: String = number.chars().take(40).collect();
            return Err(refuse(JSON_SCHEMA, &format!("the number {number} has more digits than are kept")));
        }
        let mut schema: Value = serde_json::from_str(text)
            .map_err(|error| refuse(JSON_SCHEMA, &format!("is not valid JSON: {error}")))?;
        match &mut schema {
            Value::Bool(true) => schema = Value::Object(Map::new()),
            Value::Bool(false) => return Err(refuse(JSON_SCHEMA, "the schema `false` allows no document")),
            // llguidance's own options are ours to set.
            Value::Object(members) => _ = members.remove("x-guidance"),
            Value::Null => return Err(wrong_type("null")),
            Value::Number(_) => return Err(wrong_type("a number")),
            Value::String(_) => return Err(wrong_type("a string")),
            Value::Array(_) => return Err(wrong_type("an array")),
        }
        // An unknown draft is read as the newest.
        if document::draft(&schema).is_none()
            && let Some(members) = schema.as_object_mut()
        {
            members.remove("$schema");
        }
        for_validator(&mut schema);
        let normal = Normal::new(&schema, Objects::Closed).map_err(|error| refused(&error))?;
        Ok(Self { sent: schema, normal })
    }

    /// Reads the schema twice, for the shape of its documents and for their check.
    pub(super) fn rules(&self) -> Result<JsonRules, Error> {
        self.check_size()?;
        let outline = Outline::compile(&self.normal).map_err(|error| refused(&error))?;
        let validator = document::validator(&self.sent).map_err(|error| refusal::from_validator(&error))?;
        Ok(JsonRules { outline: Arc::new(outline), validator })
    }

    /// The schema that llguidance compiles. It allows no white space between tokens: a model could write it for ever.
    pub(super) fn grammar(&self, outline: &Outline) -> Result<Value, Error> {
        outline
            .grammar()
            .map_err(|error| refuse_at(&error.keyword, &self.normal.origin(&error.path), &error.reason))
    }

    /// llguidance's message about `grammar`, in the client's terms.
    pub(super) fn refusal(&self, outline: &Outline, grammar: &Value, message: &str) -> Error {
        refusal::from_schema(grammar, |pointer| self.normal.origin(&outline.origin(pointer)), message)
    }

    /// Refuses schemas that would take llguidance too long without its noticing.
    fn check_size(&self) -> Result<(), Error> {
        let mut refused = Ok(());
        for_each_subschema(self.normal.schema(), |pointer, members| {
            if refused.is_ok()
                && let Err((keyword, reason)) = check_members(members)
            {
                refused = Err(refuse_at(keyword, &self.normal.origin(pointer), &reason));
            }
        });
        refused
    }
}

fn refused(error: &SchemaError) -> Error {
    refuse_at(&error.keyword, &error.path, &error.reason)
}

type Refused = (&'static str, String);

fn check_members(schema: &Map<String, Value>) -> Result<(), Refused> {
    let count = |keyword: &str| schema.get(keyword).and_then(Value::as_object).map_or(0, Map::len);
    at_most("properties", "members of an object", count("properties"), MAX_PROPERTIES)?;
    at_most("patternProperties", "patterns", count("patternProperties"), MAX_PATTERN_PROPERTIES)?;
    check_texts(schema)?;
    let min_length = schema.get("minLength").and_then(Value::as_u64).unwrap_or(0);
    if min_length > MAX_MIN_LENGTH {
        return Err((
            "minLength",
            format!("at most {MAX_MIN_LENGTH} characters are supported, got {min_length}"),
        ));
    }
    match schema.get("multipleOf").and_then(Value::as_f64) {
        Some(step) if divisor(step).is_none_or(|divisor| divisor > MAX_DIVISOR) => {
            Err(("multipleOf", format!("{step} has too many digits for a grammar")))
        }
        Some(_) | None => Ok(()),
    }
}

fn check_texts(schema: &Map<String, Value>) -> Result<(), Refused> {
    for (keyword, value) in schema {
        let (keyword, len) = match (keyword.as_str(), value) {
            ("const", value) => ("const", longest_text(value)),
            ("enum", value) => ("enum", longest_text(value)),
            ("required", value) => ("required", longest_text(value)),
            ("properties", Value::Object(members)) => {
                ("properties", members.keys().map(String::len).max().unwrap_or(0))
            }
            _ => continue,
        };
        at_most(keyword, "bytes in a text", len, MAX_TEXT_BYTES)?;
    }
    Ok(())
}

fn at_most(keyword: &'static str, what: &str, count: usize, max: usize) -> Result<(), Refused> {
    if count <= max {
        return Ok(());
    }
    Err((keyword, format!("at most {max} {what} are supported, got {count}")))
}

/// Bytes of the longest text among a value's own strings and names.
fn longest_text(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(values) => values.iter().map(longest_text).max().unwrap_or(0),
        Value::Object(members) => {
            members.iter().map(|(name, value)| name.len().max(longest_text(value))).max().unwrap_or(0)
        }
    }
}

/// The digits of a number as an integer, without zeros at either end.
fn divisor(step: f64) -> Option<u64> {
    let text = format!("{:e}", step.abs());
    let digits: String = text.split('e').next()?.chars().filter(char::is_ascii_digit).collect();
    digits.trim_end_matches('0').parse().ok()
}

fn wrong_type(found: &str) -> Error {
    refuse(JSON_SCHEMA, &format!("must be an object or a boolean, got {found}"))
}

#[cfg(test)]
mod tests {
    use super::{divisor, rounded_number};

    #[test]
    fn a_divisor_has_no_zeros_at_its_ends() {
        let cases = [
            (1.0, 1),
            (0.01, 1),
            (0.25, 25),
            (86_400.0, 864),
            (1e6, 1),
            (-3.5, 35),
            (1_000_003.0, 1_000_003),
        ];
        for (step, expected) in cases {
            assert_eq!(divisor(step), Some(expected), "{step}");
        }
    }

    #[test]
    fn numbers_that_would_be_rounded_are_found() {
        assert_eq!(rounded_number(r#"{"const": 18446744073709551616}"#), Some("18446744073709551616"));
        assert_eq!(rounded_number("[0.10000000000000000000001]"), Some("0.10000000000000000000001"));
        for kept in [
            r#"{"const": 18446744073709551615, "minimum": -9223372036854775808}"#,
            r#"{"a\\": "18446744073709551616", "\"": 0.1}"#,
            "[1000000000000000000.0, 1e300, 0.30000000000000004]",
            "",
            "\"",
        ] {
            assert_eq!(rounded_number(kept), None, "{kept}");
        }
    }
}
