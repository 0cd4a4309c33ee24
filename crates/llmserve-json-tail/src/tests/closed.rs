//! Objects have the members that their schema names, and others where it mentions them.

use serde_json::{Value, json};

use super::super::{ByteJudge, Normal, Objects, Outline};
use super::rescue::judge_of;

/// Whether closed objects allow a document.
fn allows(schema: &Value, document: &Value) -> bool {
    let normal = Normal::new(schema, Objects::Closed).unwrap();
    judge_of(&Outline::compile(&normal).unwrap()).unwrap().accepts(document.to_string().as_bytes())
}

#[test]
fn objects_are_closed() {
    for (schema, document, other) in [
        (json!({"properties": {"a": {}}}), json!({"a": 1}), json!({"a": 1, "b": 2})),
        (
            json!({"properties": {"a": {"properties": {"b": {}}}}}),
            json!({"a": {"b": 1}}),
            json!({"a": {"c": 1}}),
        ),
        (json!({"items": {"properties": {"a": {}}}}), json!([{"a": 1}]), json!([{"b": 1}])),
        (
            json!({"anyOf": [{"properties": {"a": {}}, "required": ["a"]}]}),
            json!({"a": 1}),
            json!({"a": 1, "b": 2}),
        ),
        (
            json!({"$defs": {"x": {"properties": {"a": {}}}}, "$ref": "#/$defs/x"}),
            json!({"a": 1}),
            json!({"b": 1}),
        ),
        (
            json!({"properties": {"a": {}}, "anyOf": [{"properties": {"b": {}}, "required": ["b"]}, {"maxProperties": 1}]}),
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "c": 2}),
        ),
        (
            json!({"allOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}, "required": ["b"]}]}),
            json!({"a": 1, "b": 2}),
            json!({"a": 1, "b": 2, "c": 3}),
        ),
        (
            json!({"$defs": {"A": {"properties": {"x": {}}}}, "$ref": "#/$defs/A", "required": ["y"]}),
            json!({"x": 1, "y": 2}),
            json!({"y": 1, "z": 2}),
        ),
        (
            json!({"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}, "allOf": [{"properties": {"v": {}}}]}},
                   "$ref": "#/$defs/n"}),
            json!({"next": {"next": {"v": 1}}}),
            json!({"next": {"next": {"w": 1}}}),
        ),
    ] {
        assert!(allows(&schema, &document), "{schema} {document}");
        assert!(!allows(&schema, &other), "{schema} {other}");
    }
}

#[test]
fn what_a_schema_opens_is_open() {
    let document = json!({"a": 1, "b": 2});
    for schema in [
        json!({}),
        json!({"type": "object"}),
        json!({"properties": {"a": {}}, "additionalProperties": true}),
        json!({"properties": {"a": {}}, "patternProperties": {"^b": {}}}),
        json!({"properties": {"a": {}}, "unevaluatedProperties": true}),
        json!({"properties": {"a": {}}, "minProperties": 2}),
        json!({"properties": {"a": {}}, "required": ["b"]}),
        json!({"const": {"a": 1, "b": 2}}),
    ] {
        assert!(allows(&schema, &document), "{schema}");
    }
}
