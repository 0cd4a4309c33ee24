//! A schema as llguidance should read it: compact white space, patterns that mean there what they mean in
//! JSON Schema, and bounds that it honours.

use serde_json::{Map, Value, json};

use super::bounds::draw_in;
use super::format::expression;
use super::keywords::change_subschemas;
use super::normalize::Normal;
use super::pattern::from_ecma;

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
}
