//! The one table of JSON Schema's keywords: what each contains, and how it is treated.

use serde_json::{Map, Value};

/// What the value of a keyword contains.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    NoSchema,
    Schema,
    /// A list of schemas.
    Schemas,
    /// One schema, or a list in older drafts.
    SchemaOrSchemas,
    /// Schemas by name.
    Named,
}

/// How a keyword is treated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The keyword constrains the value itself, not through another schema.
    Own,
    /// The keyword applies other schemas, or constants, to the same value.
    InPlace,
    /// The keyword has no place in the normal form.
    Refused,
    /// The keyword asks for nothing.
    Note,
}

const KEYWORDS: [(&str, Role, Holds); 50] = [
    ("type", Role::Own, Holds::NoSchema),
    ("minimum", Role::Own, Holds::NoSchema),
    ("maximum", Role::Own, Holds::NoSchema),
    ("exclusiveMinimum", Role::Own, Holds::NoSchema),
    ("exclusiveMaximum", Role::Own, Holds::NoSchema),
    ("multipleOf", Role::Own, Holds::NoSchema),
    ("minLength", Role::Own, Holds::NoSchema),
    ("maxLength", Role::Own, Holds::NoSchema),
    ("pattern", Role::Own, Holds::NoSchema),
    ("format", Role::Own, Holds::NoSchema),
    ("items", Role::Own, Holds::SchemaOrSchemas),
    ("additionalItems", Role::Own, Holds::Schema),
    ("prefixItems", Role::Own, Holds::Schemas),
    ("minItems", Role::Own, Holds::NoSchema),
    ("maxItems", Role::Own, Holds::NoSchema),
    ("properties", Role::Own, Holds::Named),
    ("patternProperties", Role::Own, Holds::Named),
    ("additionalProperties", Role::Own, Holds::Schema),
    ("required", Role::Own, Holds::NoSchema),
    ("minProperties", Role::Own, Holds::NoSchema),
    ("maxProperties", Role::Own, Holds::NoSchema),
    ("const", Role::InPlace, Holds::NoSchema),
    ("enum", Role::InPlace, Holds::NoSchema),
    ("allOf", Role::InPlace, Holds::Schemas),
    ("anyOf", Role::InPlace, Holds::Schemas),
    ("oneOf", Role::InPlace, Holds::Schemas),
    ("$ref", Role::InPlace, Holds::NoSchema),
    ("not", Role::Refused, Holds::Schema),
    ("if", Role::Refused, Holds::Schema),
    ("then", Role::Refused, Holds::Schema),
    ("else", Role::Refused, Holds::Schema),
    ("dependentRequired", Role::Refused, Holds::NoSchema),
    ("dependentSchemas", Role::Refused, Holds::Named),
    ("dependencies", Role::Refused, Holds::NoSchema),
    ("contains", Role::Refused, Holds::Schema),
    ("minContains", Role::Refused, Holds::NoSchema),
    ("maxContains", Role::Refused, Holds::NoSchema),
    ("propertyNames", Role::Refused, Holds::Schema),
    ("unevaluatedItems", Role::Refused, Holds::Schema),
    ("unevaluatedProperties", Role::Refused, Holds::Schema),
    ("$dynamicRef", Role::Refused, Holds::NoSchema),
    ("$recursiveRef", Role::Refused, Holds::NoSchema),
    ("$dynamicAnchor", Role::Refused, Holds::NoSchema),
    ("$recursiveAnchor", Role::Refused, Holds::NoSchema),
    ("uniqueItems", Role::Own, Holds::NoSchema),
    ("$defs", Role::Note, Holds::Named),
    ("definitions", Role::Note, Holds::Named),
    ("contentSchema", Role::Note, Holds::Schema),
    // The notes of a normalized schema.
    ("x-rest-of-members", Role::Note, Holds::Schema),
    ("x-rest-of-items", Role::Note, Holds::Schema),
];

/// How the keyword `name` is treated; unknown ones are annotations.
pub(super) fn role(name: &str) -> Role {
    find(name).0
}

fn find(name: &str) -> (Role, Holds) {
    let found = KEYWORDS.iter().find(|(known, ..)| *known == name);
    found.map_or((Role::Note, Holds::NoSchema), |&(_, role, holds)| (role, holds))
}

/// A name as a step of a JSON pointer (RFC 6901).
#[must_use]
pub fn escape(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

/// Visits the schema objects of a schema with their JSON pointers, outer ones first.
pub fn for_each_subschema(schema: &Value, mut visit: impl FnMut(&str, &Map<String, Value>)) {
    let mut waiting = vec![(String::new(), schema)];
    while let Some((pointer, schema)) = waiting.pop() {
        let Some(members) = schema.as_object() else { continue };
        visit(&pointer, members);
        let first = waiting.len();
        for (keyword, value) in members {
            match (find(keyword).1, value) {
                (Holds::Schema | Holds::SchemaOrSchemas, Value::Object(_)) => {
                    waiting.push((format!("{pointer}/{keyword}"), value));
                }
                (Holds::Schemas | Holds::SchemaOrSchemas, Value::Array(items)) => {
                    let items = items.iter().enumerate();
                    waiting.extend(items.map(|(index, item)| (format!("{pointer}/{keyword}/{index}"), item)));
                }
                (Holds::Named, Value::Object(named)) => {
                    let path = |name: &String| format!("{pointer}/{keyword}/{}", escape(name));
                    waiting.extend(named.iter().map(|(name, item)| (path(name), item)));
                }
                (
                    Holds::NoSchema | Holds::Schema | Holds::Schemas | Holds::SchemaOrSchemas | Holds::Named,
                    _,
                ) => {}
            }
        }
        waiting[first..].reverse();
    }
}

/// Changes the schema objects of a schema.
pub(super) fn change_subschemas(schema: &mut Value, change: impl Fn(&mut Map<String, Value>)) {
    let mut waiting = vec![schema];
    while let Some(schema) = waiting.pop() {
        let Some(members) = schema.as_object_mut() else { continue };
        change(members);
        for (keyword, value) in members {
            match (find(keyword).1, value) {
                (Holds::Schema | Holds::SchemaOrSchemas, value @ Value::Object(_)) => waiting.push(value),
                (Holds::Schemas | Holds::SchemaOrSchemas, Value::Array(items)) => waiting.extend(items),
                (Holds::Named, Value::Object(named)) => waiting.extend(named.values_mut()),
                (
                    Holds::NoSchema | Holds::Schema | Holds::Schemas | Holds::SchemaOrSchemas | Holds::Named,
                    _,
                ) => {}
            }
        }
    }
}
