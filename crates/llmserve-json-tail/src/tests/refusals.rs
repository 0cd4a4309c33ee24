//! Schemas that are refused, with the keyword and the place.

use serde_json::{Value, json};

use super::corpus::schemas;
use super::{closings, compiled};
use crate::{ByteJudge, Normal, Objects};

fn refusal(schema: &Value) -> (String, String, String) {
    let error = compiled(schema).map(|_| ()).expect_err(&schema.to_string());
    (error.keyword, error.path, error.reason)
}

#[track_caller]
fn assert_refused(schema: &Value, keyword: &str, path: &str) {
    let (met, at, reason) = refusal(schema);
    assert_eq!((met.as_str(), at.as_str()), (keyword, path), "{schema}: {reason}");
    assert!(!reason.is_empty());
}

#[test]
fn keywords_that_cannot_be_honoured() {
    for (keyword, value) in [
        ("not", json!({"pattern": "a[a-c]{12}$"})),
        ("not", json!({"properties": {"a": {"multipleOf": 3}}})),
        ("oneOf", json!([{"multipleOf": 2}, {"multipleOf": 3}])),
        ("propertyNames", json!({"pattern": "a", "maxLength": 900})),
        ("maxContains", json!(1)),
        ("minContains", json!(7)),
        ("$dynamicRef", json!("#a")),
    ] {
        let contained = json!({"multipleOf": 2});
        let inner = match keyword {
            "minContains" | "maxContains" => json!({"contains": contained, keyword: value}),
            _ => json!({keyword: value}),
        };
        assert_refused(&inner, keyword, "");
        assert_refused(&json!({"properties": {"a/b": {"items": inner}}}), keyword, "/properties/a~1b/items");
    }
}

/// What a branch leaves out may match another one.
#[test]
fn branches_that_only_seem_to_exclude_each_other() {
    let schema = json!({"oneOf": [{"type": "number"}, {"not": {"type": "integer"}}]});
    let mut judge = super::rescue::judge(&schema).unwrap();
    assert!(judge.accepts(b"1") && judge.accepts(b"\"a\"") && !judge.accepts(b"1.5"));
}

/// A branch that others exclude by their members alone is left out, the others are not.
#[test]
fn branches_that_fail_by_unnamed_members() {
    let kind = |name: &str, open: bool| {
        let more = if open { json!(true) } else { json!(false) };
        json!({"type": "object", "properties": {name: {"type": "integer"}}, "additionalProperties": more})
    };
    let schema = json!({"oneOf": [kind("a", false), kind("b", true), {"type": "null"}]});
    let mut judge = super::rescue::judge(&schema).unwrap();
    assert!(judge.accepts(b"null") && judge.accepts(b"{\"a\":\"x\"}"));
    assert!(!judge.accepts(b"{}") && !judge.accepts(b"{\"a\":1}"));
    assert_refused(&json!({"not": {"additionalProperties": false}}), "not", "");
}

#[test]
fn keywords_that_ask_for_nothing() {
    for schema in [
        json!({"uniqueItems": false}),
        json!({"not": false}),
        json!({"not": {"not": {}}}),
        json!({"then": false, "else": false}),
        json!({"if": {"pattern": "a"}}),
        json!({"minContains": 2, "maxContains": 1}),
        json!({"contains": {"pattern": "a"}, "minContains": 0}),
        json!({"propertyNames": {"type": "string"}}),
        json!({"dependentSchemas": {"a": true}}),
        json!({"format": "int32"}),
        json!({"format": "nonsense"}),
    ] {
        let normal = Normal::new(&schema, Objects::Open).unwrap();
        assert_eq!(*normal.schema(), json!({}), "{schema}");
    }
    let normal = Normal::new(&json!({"maxItems": 2.0}), Objects::Open).unwrap();
    assert_eq!(normal.schema()["maxItems"], json!(2));
}

#[test]
fn what_is_no_schema() {
    for schema in [json!(5), json!([]), json!("x"), Value::Null, json!(false)] {
        assert_refused(&schema, "schema", "");
    }
    assert_refused(&json!({"properties": {"a": "string"}}), "properties", "/properties/a");
    assert_refused(&json!({"items": 3}), "items", "/items");
    assert_refused(&json!({"anyOf": [{}, 1]}), "anyOf", "/anyOf/1");
}

#[test]
fn values_of_the_wrong_kind() {
    for (keyword, value) in [
        ("type", json!("strin")),
        ("type", json!([])),
        ("type", json!(["string", 1])),
        ("type", json!({})),
        ("minLength", json!(-1)),
        ("maxLength", json!("3")),
        ("minItems", json!(1.5)),
        ("required", json!("x")),
        ("required", json!([1])),
        ("properties", json!([])),
        ("patternProperties", json!("a")),
        ("minimum", json!("0")),
        ("multipleOf", json!(0)),
        ("multipleOf", json!(-2)),
        ("enum", json!([])),
        ("enum", json!("a")),
        ("enum", json!([1, 6_849_607_701_738_958_785_u64])),
        ("const", json!({"id": [9_007_199_254_740_993_i64]})),
        ("anyOf", json!([])),
        ("allOf", json!({})),
        ("oneOf", json!(null)),
        ("pattern", json!(1)),
        ("pattern", json!("(")),
        ("pattern", json!("^+[a-z]$")),
        ("pattern", json!("(?<=a)*")),
        ("pattern", json!("a{3,1}")),
        ("patternProperties", json!({"[": {}})),
        ("$ref", json!(1)),
        ("$ref", json!("https://example.org/schema")),
        ("$ref", json!("other.json#/a")),
        ("$ref", json!("#/$defs/missing")),
        ("$ref", json!("#anchor")),
        ("prefixItems", json!({})),
        ("uniqueItems", json!("yes")),
        ("format", json!(1)),
        ("dependencies", json!([])),
    ] {
        assert_refused(&json!({keyword: value}), keyword, "");
    }
}

#[test]
fn bounds_that_contradict() {
    assert_refused(&json!({"minLength": 3, "maxLength": 2}), "minLength", "");
    assert_refused(&json!({"minItems": 3, "maxItems": 2}), "minItems", "");
    assert_refused(&json!({"minProperties": 3, "maxProperties": 2}), "minProperties", "");
    assert_refused(&json!({"minimum": 3, "maximum": 2}), "minimum", "");
    assert_refused(&json!({"exclusiveMinimum": 2, "maximum": 2}), "exclusiveMinimum", "");
}

#[test]
fn schemas_without_a_document() {
    let (_, path, reason) =
        refusal(&json!({"type": "object", "properties": {"a": false}, "required": ["a"]}));
    assert_eq!(path, "/properties/a", "{reason}");
    let (_, path, _) = refusal(&json!({"allOf": [{"type": "string"}, {"type": "integer"}]}));
    assert_eq!(path, "");
    let endless = json!({"properties": {"next": {"$ref": "#"}}, "required": ["next"], "type": "object"});
    assert!(refusal(&endless).2.contains("endless"));
    let narrow = json!({"properties": {"n": {"type": "integer", "minimum": 0.2, "maximum": 0.8}}, "required": ["n"], "type": "object"});
    assert_eq!(refusal(&narrow).1, "/properties/n");
    let never = json!({"type": "string", "pattern": "^a$", "minLength": 2});
    assert!(refusal(&never).2.contains("contradict"));
}

#[test]
fn references_to_nothing_but_themselves() {
    assert_refused(&json!({"$ref": "#"}), "$ref", "");
    let turn = json!({"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"allOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"});
    assert_eq!(refusal(&turn).0, "$ref");
}

#[test]
fn annotations_and_unknown_keywords_are_passed_over() {
    let schema = json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema", "$id": "urn:x", "title": "t",
        "description": "d", "default": 1, "examples": [], "$comment": "c", "deprecated": true,
        "readOnly": true, "writeOnly": false, "contentEncoding": "base64", "x-own": {"not": 1},
        "nullable": true, "type": "integer",
    });
    assert_eq!(closings(compiled(&schema).unwrap(), b"")[0], b"0");
}

#[test]
fn the_corpus_is_not_refused() {
    for schema in schemas() {
        assert!(compiled(&schema).is_ok(), "{schema}");
    }
}
