//! Hostile schemas end soon, in a refusal or an outline of bounded size; nothing panics.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::closings;
use super::compiled;
use crate::Walk;

/// Keywords that the generator of arbitrary schemas draws from.
const KEYWORDS: [&str; 30] = [
    "type",
    "properties",
    "required",
    "additionalProperties",
    "patternProperties",
    "items",
    "prefixItems",
    "additionalItems",
    "minItems",
    "maxItems",
    "minLength",
    "maxLength",
    "pattern",
    "format",
    "minimum",
    "maximum",
    "exclusiveMinimum",
    "exclusiveMaximum",
    "multipleOf",
    "enum",
    "const",
    "anyOf",
    "oneOf",
    "allOf",
    "$ref",
    "$defs",
    "minProperties",
    "maxProperties",
    "not",
    "title",
];

const WORDS: [&str; 14] = [
    "string",
    "integer",
    "object",
    "array",
    "null",
    "#",
    "#/$defs/a",
    "#/properties/a",
    "a",
    "^a+$",
    "(",
    "date",
    "\\d{2,3}",
    "",
];

pub(super) fn arbitrary() -> impl Strategy<Value = Value> {
    let word = prop::sample::select(&WORDS[..]);
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..20).prop_map(Value::from),
        any::<f64>().prop_map(|value| json!(value)),
        any::<u64>().prop_map(Value::from),
        word.prop_map(Value::from),
    ];
    leaf.prop_recursive(6, 60, 6, |inner| {
        let key = prop_oneof![
            4 => prop::sample::select(&KEYWORDS[..]).prop_map(str::to_owned),
            1 => prop::sample::select(&WORDS[..]).prop_map(str::to_owned),
        ];
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((key, inner), 0..6)
                .prop_map(|entries| Value::Object(entries.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_schema_and_no_text_panics(schema in arbitrary(), text in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok(outline) = compiled(&schema) {
            let mut walk = Walk::new(Arc::new(outline));
            walk.closings();
            walk.spoils(&text);
            walk.feed(&text);
            walk.closings();
        }
    }

    #[test]
    fn no_json_like_text_panics(schema in arbitrary(), text in "[\\[\\]{}\",:a-c0-2tn\\\\.eu-]{0,30}") {
        if let Ok(outline) = compiled(&schema) {
            closings(outline, text.as_bytes());
        }
    }
}

#[test]
fn deep_nesting_takes_no_stack() {
    // Deep in the schema's text, deep through references, deep in the document.
    let mut schema = json!({"type": "integer"});
    for _ in 0..100 {
        schema = json!({"type": "array", "items": schema, "minItems": 1});
    }
    assert_eq!(closings(compiled(&schema).unwrap(), b"")[0].len(), 201);

    let mut defs = Map::new();
    for index in 0..5000 {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        let node = json!({"type": "array", "items": next, "minItems": 1});
        defs.insert(format!("d{index}"), node);
    }
    defs.insert("d5000".to_owned(), json!({"type": "null"}));
    let schema = json!({"$defs": defs, "$ref": "#/$defs/d0"});
    assert_eq!(closings(compiled(&schema).unwrap(), b"")[0].len(), 10_004);

    let outline = compiled(&json!({"type": "array", "items": {"$ref": "#"}})).unwrap();
    let partial = "[".repeat(100_000);
    assert_eq!(closings(outline, partial.as_bytes())[0], "]".repeat(100_000).into_bytes());
}

#[test]
fn many_properties_are_read() {
    let properties: Map<String, Value> =
        (0..10_000).map(|index| (format!("p{index}"), json!({"type": "integer"}))).collect();
    let names: Vec<_> = properties.keys().cloned().collect();
    let optional = json!({"type": "object", "properties": properties});
    assert_eq!(closings(compiled(&optional).unwrap(), b"")[0], b"{}");
    let mut required = optional;
    required["required"] = json!(names);
    let outline = compiled(&required).unwrap();
    let document: Value = serde_json::from_slice(&closings(outline, b"")[0]).unwrap();
    assert_eq!(document.as_object().unwrap().len(), 10_000);
}

#[test]
fn references_that_fan_out_are_bounded() {
    // 2^60 bytes in the shortest document.
    let mut defs = Map::new();
    for index in 0..60 {
        let next = json!({"$ref": format!("#/$defs/d{}", index + 1)});
        defs.insert(
            format!("d{index}"),
            json!({"type": "object", "properties": {"l": next, "r": next}, "required": ["l", "r"]}),
        );
    }
    defs.insert("d60".to_owned(), json!({"type": "null"}));
    let error = compiled(&json!({"$defs": defs, "$ref": "#/$defs/d0"})).unwrap_err();
    assert!(error.reason.contains("shortest document"), "{error}");
}

#[test]
fn choices_that_multiply_are_bounded() {
    let branch = |name: &str| json!({"required": [name]});
    let branches: Vec<_> = (0..100).map(|index| branch(&format!("n{index}"))).collect();
    let schema = json!({"allOf": (0..20).map(|_| json!({"anyOf": branches})).collect::<Vec<_>>()});
    let outline = compiled(&schema).unwrap();
    assert_eq!(closings(outline, b"{")[0], b"\"n0\":0}");
}

#[test]
fn large_counts_and_enums_are_bounded() {
    let outline =
        compiled(&json!({"type": "array", "items": {"type": "integer"}, "minItems": 100_000})).unwrap();
    assert_eq!(closings(outline, b"")[0].len(), 200_001);
    let outline = compiled(&json!({"type": "string", "minLength": 100_000})).unwrap();
    assert_eq!(closings(outline, b"")[0].len(), 100_002);
    for (keyword, count) in [
        ("minItems", u64::MAX),
        ("minLength", u64::MAX),
        ("minProperties", u64::MAX),
        ("minItems", 10_000_000),
        ("minLength", 10_000_000),
        ("minProperties", 501),
    ] {
        let error = compiled(&json!({"items": {keyword: count}})).unwrap_err();
        assert_eq!((error.keyword.as_str(), error.path.as_str()), (keyword, "/items"));
        assert!(error.reason.contains("limit"), "{error}");
    }
    let outline = compiled(&json!({"type": "object", "minProperties": 500})).unwrap();
    let document: Value = serde_json::from_slice(&closings(outline, b"")[0]).unwrap();
    assert_eq!(document.as_object().unwrap().len(), 500);
    let values: Vec<_> = (0..100_000).map(|index| format!("value {index}")).collect();
    let outline = compiled(&json!({"enum": values})).unwrap();
    assert_eq!(closings(outline, b"\"value 9999")[0], b"\"");
}

#[test]
fn patterns_too_large_for_tables_stay_without() {
    let properties: Map<String, Value> = (0..200)
        .map(|index| {
            (
                format!("p{index}"),
                json!({"type": "string", "pattern": format!("^(\\w{{1,200}}x{index}){{50}}$")}),
            )
        })
        .collect();
    let schema = json!({"type": "object", "properties": properties, "required": ["p0"]});
    let outline = compiled(&schema).unwrap();
    let closings = closings(outline, b"{");
    assert!(closings.is_empty() || closings[0].len() > 50);
}

#[test]
fn the_generator_of_schemas_makes_many_that_are_taken() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = arbitrary();
    let taken = (0..500).filter(|_| {
        let schema = strategy.new_tree(&mut runner).unwrap().current();
        schema.is_object() && compiled(&schema).is_ok()
    });
    assert!(taken.count() > 40);
}

#[test]
fn merging_is_bounded_in_work_and_memory() {
    // A choice among many in front of much that every branch would carry along.
    let branches: Vec<_> = (0..5000).map(|index| json!({"minLength": index})).collect();
    let mut all = vec![json!({"anyOf": branches})];
    all.extend((0..40_000).map(|index| json!({"maxLength": 10_000 + index})));
    let error = compiled(&json!({"allOf": all})).unwrap_err();
    assert!(error.reason.contains("too large"), "{error}");

    // A large enumeration that every member narrows on its own.
    let values: Vec<_> = (0..40_000).map(|index| format!("v{index}")).collect();
    let narrowed = |index: usize| json!({"$ref": "#/$defs/e", "maxLength": 3 + index % 3});
    let members: Map<String, Value> = (0..5000).map(|i| (format!("m{i}"), narrowed(i))).collect();
    let schema = json!({"$defs": {"e": {"enum": values}}, "properties": members});
    let error = compiled(&schema).unwrap_err();
    assert!(error.reason.contains("too large"), "{error}");

    // The same without narrowing is one place.
    let shared: Map<String, Value> =
        (0..5000).map(|i| (format!("m{i}"), json!({"$ref": "#/$defs/e"}))).collect();
    let schema = json!({"$defs": {"e": {"enum": values}}, "properties": shared});
    assert!(compiled(&schema).is_ok());

    // Wide objects merged again and again.
    let wide: Map<String, Value> = (0..2000).map(|i| (format!("w{i}"), json!(true))).collect();
    let merged: Map<String, Value> =
        (0..5000).map(|i| (format!("m{i}"), json!({"$ref": "#/$defs/w", "minProperties": i % 7}))).collect();
    let schema = json!({"$defs": {"w": {"properties": wide}}, "properties": merged});
    let error = compiled(&schema).unwrap_err();
    assert!(error.reason.contains("too large"), "{error}");
}
