//! A schema as llguidance should read it: compact white space, patterns that mean there what they mean in
//! JSON Schema, and bounds that it honours.

use serde_json::{Map, Value, json};

use super::bounds::draw_in;
use super::pattern::from_ecma;

/// Keywords that hold one schema, or a list of them.
const SCHEMAS: [&str; 8] = [
    "items",
    "prefixItems",
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "oneOf",
    "contains",
];
/// Keywords that hold schemas by name.
const NAMED: [&str; 4] = ["properties", "patternProperties", "$defs", "definitions"];

/// The schema to compile in place of `schema`: it has the same documents, without white space between
/// tokens and without some numbers at the very ends of their ranges. `schema` is one that [`super::Outline`] took, so an object or `true`.
pub(crate) fn for_grammar(schema: &Value) -> Value {
    let mut schema = if schema.is_object() { schema.clone() } else { json!({}) };
    let mut open = vec![&mut schema];
    while let Some(value) = open.pop() {
        match value {
            Value::Object(map) => {
                rename_patterns(map);
                draw_in(map);
                for (keyword, value) in map {
                    visit(keyword, value, &mut open);
                }
            }
            Value::Array(values) => open.extend(values),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
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

fn visit<'v>(keyword: &str, value: &'v mut Value, open: &mut Vec<&'v mut Value>) {
    if keyword == "pattern" {
        if let Value::String(pattern) = value {
            *pattern = from_ecma(pattern);
        }
    } else if SCHEMAS.contains(&keyword) {
        open.push(value);
    } else if NAMED.contains(&keyword)
        && let Value::Object(map) = value
    {
        open.extend(map.values_mut());
    }
}

fn rename_patterns(map: &mut Map<String, Value>) {
    if let Some(Value::Object(patterns)) = map.get_mut("patternProperties") {
        let renamed = std::mem::take(patterns).into_iter();
        *patterns = renamed.map(|(pattern, value)| (from_ecma(&pattern), value)).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_rewritten_and_constants_are_not() {
        let schema = json!({
            "properties": {"pattern": {"pattern": "^.$"}, "c": {"const": {"pattern": "."}}},
            "patternProperties": {"^\\d": {"items": [{"pattern": "\\w"}]}},
        });
        let written = for_grammar(&schema);
        let dot = r"^[^\n\r\x{2028}\x{2029}]$";
        assert_eq!(written["properties"]["pattern"]["pattern"], dot);
        assert_eq!(written["properties"]["c"], schema["properties"]["c"]);
        let named = &written["patternProperties"]["^[0-9]"];
        assert_eq!(named["items"][0]["pattern"], "[0-9a-zA-Z_]");
        assert_eq!(written["x-guidance"]["whitespace_flexible"], false);
    }
}
