//! Random combinations of keywords that are rewritten: what the grammar allows, the validator accepts.

use serde_json::{Value, json};

use super::super::{Normal, Objects, Outline, Walk, find_tail};
use super::random::{Random, legal_byte};
use super::rescue::{judge_of, validator};
use crate::ByteJudge as _;

const NUM_SCHEMAS: u64 = 300;
const FUEL: usize = 1000;

fn leaf(random: &mut Random) -> Value {
    let leaves = [
        json!(true),
        json!({"type": "integer"}),
        json!({"type": ["number", "null"]}),
        json!({"minimum": 2}),
        json!({"maximum": 5, "type": "integer"}),
        json!({"enum": ["a", "b", 1]}),
        json!({"const": "a"}),
        json!({"type": "string", "maxLength": 2}),
        json!({"minLength": 1}),
        json!({"required": ["a"]}),
        json!({"type": "object", "properties": {"a": {"const": "a"}}}),
        json!({"type": "array", "maxItems": 2}),
        json!({"type": "boolean"}),
        json!({"$ref": "#/$defs/d"}),
        json!({"maxProperties": 1}),
    ];
    leaves[random.below(leaves.len())].clone()
}

fn schema(random: &mut Random, depth: usize) -> Value {
    if depth == 0 {
        return leaf(random);
    }
    let mut made = json!({});
    for _ in 0..=random.below(2) {
        let mut inner = || schema(random, depth - 1);
        let (one, other, third) = (inner(), inner(), inner());
        let more = match random.below(12) {
            0 => json!({"not": one}),
            1 => json!({"if": one, "then": other, "else": third}),
            2 => json!({"oneOf": [one, other, third]}),
            3 => json!({"anyOf": [one, other]}),
            4 => json!({"allOf": [one, other]}),
            5 => json!({"contains": one, "maxContains": 2}),
            6 => json!({"prefixItems": [one], "items": other, "minContains": 0}),
            7 => json!({"properties": {"a": one, "b": other}, "required": ["b"]}),
            8 => json!({"dependentSchemas": {"a": one}, "dependentRequired": {"b": ["a"]}}),
            9 => json!({"properties": {"b": one}, "anyOf": [other, third], "unevaluatedProperties": false}),
            10 => json!({"propertyNames": {"enum": ["a", "b"]}, "additionalProperties": one}),
            _ => leaf(random),
        };
        if let (Some(made), Value::Object(more)) = (made.as_object_mut(), more) {
            made.extend(more);
        }
    }
    made
}

/// Whether a schema is compiled; then its documents are checked.
fn follow(schema: &Value, objects: Objects, random: &mut Random) -> bool {
    let Ok(normal) = Normal::new(schema, objects) else { return false };
    let Ok(outline) = Outline::compile(&normal) else { return false };
    let Ok(mut judge) = judge_of(&outline) else { return false };
    let validator = validator(schema);
    let mut walk = Walk::new(std::sync::Arc::new(outline));
    for _ in 0..20 {
        let text = String::from_utf8_lossy(walk.text()).into_owned();
        let tail = find_tail(&mut judge, Some(&mut walk), FUEL, &mut || true);
        let Some(tail) = tail else { panic!("{schema}: no tail after {text}") };
        let document = text + &String::from_utf8(tail).unwrap();
        let value: Value = serde_json::from_str(&document).unwrap();
        assert!(validator.is_valid(&value), "{objects:?} {schema}: {document}\n{}", normal.schema());
        let Some(byte) = legal_byte(&mut judge, random).filter(u8::is_ascii) else { break };
        if walk.spoils(&[byte]) {
            break;
        }
        // A step may cost llguidance more than its limit.
        if !judge.push(byte) {
            break;
        }
        walk.feed(&[byte]);
    }
    true
}

#[test]
fn documents_of_combined_schemas_are_valid() {
    let mut num_compiled = 0;
    for seed in 0..NUM_SCHEMAS {
        let mut random = Random::new(seed + 1);
        let mut schema = schema(&mut random, 1 + seed as usize % 2);
        schema["$defs"] =
            json!({"d": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}});
        for objects in [Objects::Open, Objects::Closed] {
            num_compiled += usize::from(follow(&schema, objects, &mut random));
        }
    }
    println!("{num_compiled} of {} compiled", 2 * NUM_SCHEMAS);
    assert!(num_compiled as u64 > NUM_SCHEMAS / 2, "{num_compiled}");
}
