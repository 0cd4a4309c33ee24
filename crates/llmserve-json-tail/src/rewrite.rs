//! A schema as its other readers should get it.
//!
//! For llguidance: compact white space, patterns that mean there what they mean in JSON Schema, and bounds that it
//! honours. For the validator: patterns without look-ahead, and references that are URIs.

use serde_json::{Map, Value, json};

use super::bounds::draw_in;
use super::format::expression;
use super::keywords::change_subschemas;
use super::normalize::Normal;
use super::pattern::{from_ecma, without_lookahead};

/// The schema to compile in place of `schema`: it has the same documents, without white space between
/// tokens and without some numbers at the very ends of their ranges.
#[must_use]
pub fn for_grammar(schema: &Normal) -> Value {
    let mut schema = schema.schema().clone();
    change_subschemas(&mut schema, |members| {
        // The walk sees to unique items.
        members.retain(|keyword, _| !keyword.starts_with("x-") && keyword != "uniqueItems");
        rewrite_patterns(members);
        rewrite_format(members);
        draw_in(members);
    });
    if let Some(map) = schema.as_object_mut() {
        let compact = json!({
            "whitespace_flexible": false,
            "item_separator": ",",
            "key_separator": ":",
        });
        map.insert("x-guidance".to_owned(), compact);
    }
    schema
}

fn rewrite_patterns(members: &mut Map<String, Value>) {
    if let Some(Value::String(pattern)) = members.get_mut("pattern") {
        *pattern = from_ecma(pattern);
    }
    if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
        let renamed = std::mem::take(patterns).into_iter();
        *patterns = renamed.map(|(pattern, value)| (from_ecma(&pattern), value)).collect();
    }
}

/// A format as the pattern that the outline takes it for.
fn rewrite_format(members: &mut Map<String, Value>) {
    let Some(expression) = members.remove("format").as_ref().and_then(Value::as_str).and_then(expression)
    else {
        return;
    };
    let pattern = Value::String(format!("^(?:{expression})$"));
    if !members.contains_key("pattern") {
        members.insert("pattern".to_owned(), pattern);
    } else if let Some(parts) = members.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        parts.push(json!({"pattern": pattern}));
    }
}

/// Replaces what the validator does not read by what means the same: patterns with a look-ahead that are known to have
/// an equivalent without, and references with characters that a URI cannot have.
pub fn for_validator(schema: &mut Value) {
    change_subschemas(schema, |members| {
        if let Some(Value::String(pattern)) = members.get_mut("pattern")
            && let Some(plain) = without_lookahead(pattern)
        {
            *pattern = plain;
        }
        if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
            let old = std::mem::take(patterns).into_iter();
            *patterns = old.map(|(name, value)| (without_lookahead(&name).unwrap_or(name), value)).collect();
        }
        for keyword in ["$ref", "$dynamicRef", "$id"] {
            if let Some(Value::String(reference)) = members.get_mut(keyword) {
                *reference = percent_encoded(reference);
            }
        }
    });
}

/// A reference with the characters that a URI reference cannot have encoded (RFC 3986).
fn percent_encoded(reference: &str) -> String {
    let mut is_fragment = false;
    let encoded = reference.bytes().map(|byte| {
        let may_stand = byte.is_ascii_alphanumeric()
            || b"-._~:/?@!$&'()*+,;=%".contains(&byte)
            || (!is_fragment && b"[]#".contains(&byte));
        is_fragment |= byte == b'#';
        if may_stand { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Objects;

    #[test]
    fn patterns_are_rewritten_and_constants_are_not() {
        let schema = json!({
            "properties": {"pattern": {"pattern": "^.$"}, "c": {"const": {"pattern": "."}}},
            "patternProperties": {"^\\d": {"items": [{"pattern": "\\w"}]}},
        });
        let written = for_grammar(&Normal::new(&schema, Objects::Open).unwrap());
        let dot = r"^[^\n\r\x{2028}\x{2029}]$";
        assert_eq!(written["properties"]["pattern"]["pattern"], dot);
        assert_eq!(written["properties"]["c"], schema["properties"]["c"]);
        let named = &written["patternProperties"]["^[0-9]"];
        assert_eq!(named["prefixItems"][0]["pattern"], "[A-Za-z0-9_]");
        assert_eq!(written["x-guidance"]["whitespace_flexible"], false);
    }

    #[test]
    fn references_are_uris_for_the_validator() {
        for (sent, expected) in [
            ("#/$defs/é", "#/$defs/%C3%A9"),
            ("#/$defs/sp ace", "#/$defs/sp%20ace"),
            ("#/$defs/List<string>", "#/$defs/List%3Cstring%3E"),
            ("#/$defs/List[int]", "#/$defs/List%5Bint%5D"),
            ("#/$defs/p%25q/a~1b", "#/$defs/p%25q/a~1b"),
            ("http://[::1]/a.json#b", "http://[::1]/a.json#b"),
        ] {
            let mut schema = json!({"properties": {"$ref": {"$ref": sent}}, "const": {"$ref": sent}});
            for_validator(&mut schema);
            assert_eq!(schema["properties"]["$ref"]["$ref"], expected);
            assert_eq!(schema["const"]["$ref"], sent);
        }
    }
}
