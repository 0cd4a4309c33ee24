//! Objects without members that their schema does not name, and `unevaluated...`.
//!
//! Both depend on all schemas that apply to a value together, so a place that combines several is written as
//! its ways.

use std::cell::Cell;
use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::error::SchemaError;
use super::super::keywords::for_each_subschema;
use super::ways::{Way, Ways, close_members, close_rest};
use super::{MAX_SCHEMAS, ORIGIN, Objects, REST_OF_ITEMS, REST_OF_MEMBERS, UNSEEN, all_of, any_of, narrow};

/// The name of a definition as it is drawn into a place, not closed itself.
const PART: &str = "-part";

/// Closes all places of a schema and its definitions.
pub(super) fn close(
    root: Value,
    definitions: Map<String, Value>,
    objects: Objects,
) -> Result<(Value, Map<String, Value>), SchemaError> {
    let has_rest = |schema: &Value| {
        let mut found = false;
        for_each_subschema(schema, |_, map| {
            found |= map.contains_key(REST_OF_MEMBERS) || map.contains_key(REST_OF_ITEMS);
        });
        found
    };
    if objects == Objects::Open && !has_rest(&root) && !definitions.values().any(has_rest) {
        return Ok((root, definitions));
    }
    let closing = Closing {
        definitions: &definitions,
        root: &root,
        objects,
        num_schemas: Cell::new(0),
        size_of_ways: Cell::new(0),
        num_drawn_in: Cell::new(0),
    };
    let mut closed = Map::new();
    for (name, schema) in &definitions {
        closed.insert(name.clone(), closing.place(schema)?);
    }
    let closed_root = closing.place(&root)?;
    closing.add_parts(&closed_root, &mut closed)?;
    Ok((closed_root, closed))
}

struct Closing<'d> {
    definitions: &'d Map<String, Value>,
    root: &'d Value,
    objects: Objects,
    num_schemas: Cell<usize>,
    size_of_ways: Cell<usize>,
    /// How many places around this one have drawn in what they refer to.
    num_drawn_in: Cell<usize>,
}

/// A definition that refers to itself would be drawn into itself for ever.
const MAX_DRAWN_IN: usize = 4;

/// Whether what a schema refers to applies in its place.
fn refers(map: &Map<String, Value>) -> bool {
    let parts = ["allOf", "anyOf"].iter().filter_map(|keyword| map.get(*keyword)?.as_array()).flatten();
    map.contains_key("$ref") || parts.filter_map(Value::as_object).any(refers)
}

impl Closing<'_> {
    /// Adds the definitions that are drawn into places with too many ways.
    fn add_parts(&self, root: &Value, closed: &mut Map<String, Value>) -> Result<(), SchemaError> {
        let mut wanted = parts_in(root);
        wanted.extend(closed.values().flat_map(parts_in));
        while let Some(name) = wanted.pop_first() {
            let Some(plain) = name.strip_suffix(PART).filter(|_| !closed.contains_key(&name)) else {
                continue;
            };
            let part = self.part(self.definitions.get(plain).unwrap_or(self.root))?;
            wanted.extend(parts_in(&part));
            closed.insert(name, part);
        }
        Ok(())
    }

    /// A schema that stands for a value of its own.
    fn place(&self, schema: &Value) -> Result<Value, SchemaError> {
        let Some(map) = schema.as_object() else { return Ok(schema.clone()) };
        let mut in_place = map.keys().filter(|keyword| !keyword.starts_with("x-"));
        let only = in_place.next().filter(|_| in_place.next().is_none());
        let has_rest = map.contains_key(REST_OF_MEMBERS) || map.contains_key(REST_OF_ITEMS);
        match only.map(String::as_str) {
            Some("$ref") if !has_rest => return Ok(schema.clone()),
            Some("anyOf") if !has_rest => return self.with_list(map, "anyOf"),
            Some("allOf") if !has_rest && map["allOf"].as_array().is_some_and(|parts| parts.len() == 1) => {
                return self.with_list(map, "allOf");
            }
            _ => {}
        }
        let is_drawn_in = refers(map);
        if is_drawn_in && self.num_drawn_in.get() == MAX_DRAWN_IN {
            return self.with_many_ways(map);
        }
        let mut ways = Ways::new(self.definitions, self.root, &self.size_of_ways);
        let Ok(ways) = ways.of(schema) else { return self.with_many_ways(map) };
        let around = self.num_drawn_in.get();
        self.num_drawn_in.set(around + usize::from(is_drawn_in));
        let choice = self.choice(ways);
        self.num_drawn_in.set(around);
        Ok(noted(choice?, map))
    }

    /// One of several ways, closed; what they share stands once.
    fn choice(&self, mut ways: Vec<Way>) -> Result<Value, SchemaError> {
        if ways.len() == 1 {
            return self.way(ways.swap_remove(0));
        }
        let shared: Way = match ways.split_first() {
            Some((first, others)) => {
                first.iter().filter(|schema| others.iter().all(|way| way.contains(schema))).cloned().collect()
            }
            None => return Ok(Value::Bool(false)),
        };
        let mut parts = self.parts(&shared)?;
        let mut choices = Vec::new();
        for mut way in ways {
            let closing = self.closing(&way);
            way.retain(|schema| !shared.contains(schema));
            way.extend(closing);
            choices.push(all_of(self.parts(&way)?));
        }
        parts.push(any_of(choices));
        Ok(all_of(parts))
    }

    fn with_list(&self, map: &Map<String, Value>, keyword: &str) -> Result<Value, SchemaError> {
        let Some(list) = map[keyword].as_array() else { return Ok(Value::Object(map.clone())) };
        let list: Vec<Value> = list.iter().map(|part| self.place(part)).collect::<Result<_, _>>()?;
        let mut map = map.clone();
        map.insert(keyword.to_owned(), Value::Array(list));
        Ok(Value::Object(map))
    }

    /// One way, closed.
    fn way(&self, mut way: Way) -> Result<Value, SchemaError> {
        if let Some(closing) = self.closing(&way) {
            match &mut way[..] {
                [Value::Object(alone)] => close_alone(alone, &closing),
                _ => way.push(closing),
            }
        }
        Ok(all_of(self.parts(&way)?))
    }

    /// The schema that closes the objects of a way.
    fn closing(&self, way: &Way) -> Option<Value> {
        if self.objects == Objects::Open || !closes(way) {
            return None;
        }
        let mut closing = close_members(way, &Value::Bool(false))?;
        let required = way.iter().filter_map(|schema| schema.get("required")?.as_array()).flatten();
        for name in required.filter_map(Value::as_str) {
            closing["properties"][name] = Value::Bool(true);
        }
        Some(closing)
    }

    fn parts(&self, way: &Way) -> Result<Vec<Value>, SchemaError> {
        way.iter().map(|schema| self.part(schema)).collect()
    }

    /// A schema that applies beside others: its members and items are places.
    fn part(&self, schema: &Value) -> Result<Value, SchemaError> {
        match schema.as_object() {
            Some(map) => self.part_of_map(map),
            None => Ok(schema.clone()),
        }
    }

    fn part_of_map(&self, map: &Map<String, Value>) -> Result<Value, SchemaError> {
        self.num_schemas.set(self.num_schemas.get() + 1);
        if self.num_schemas.get() > MAX_SCHEMAS {
            let path = map.get(ORIGIN).and_then(Value::as_str).unwrap_or_default();
            let reason = "is too large: its combinations have too many alternatives";
            return Err(SchemaError::new("schema", path, reason));
        }
        let mut out = Map::new();
        for (keyword, value) in map {
            let value = match (keyword.as_str(), value) {
                ("properties" | "patternProperties", Value::Object(named)) => {
                    let place = |(name, schema): (&String, &Value)| Ok((name.clone(), self.place(schema)?));
                    Value::Object(named.iter().map(place).collect::<Result<_, SchemaError>>()?)
                }
                ("prefixItems", Value::Array(items)) => {
                    items.iter().map(|item| self.place(item)).collect::<Result<_, _>>()?
                }
                ("items" | "additionalProperties", schema) => self.place(schema)?,
                ("allOf" | "anyOf", Value::Array(parts)) => {
                    parts.iter().map(|part| self.part(part)).collect::<Result<_, _>>()?
                }
                ("$ref", Value::String(target)) => json!(part_of(target)),
                (REST_OF_MEMBERS | REST_OF_ITEMS, _) => continue,
                _ => value.clone(),
            };
            out.insert(keyword.clone(), value);
        }
        let rest = self.rest_of_part(map)?;
        Ok(if rest.is_empty() {
            Value::Object(out)
        } else {
            narrow(all_of([vec![Value::Object(out)], rest].concat()))
        })
    }

    /// What `unevaluated...` asks for where the ways are too many to write out: only what applies in each counts as
    /// evaluated.
    fn rest_of_part(&self, map: &Map<String, Value>) -> Result<Vec<Value>, SchemaError> {
        if !map.contains_key(REST_OF_MEMBERS) && !map.contains_key(REST_OF_ITEMS) {
            return Ok(Vec::new());
        }
        let mut always = Vec::new();
        self.collect(map, &["allOf"], &mut always, &mut BTreeSet::new());
        let num_schemas = always.len();
        close_rest(map, std::slice::from_mut(&mut always));
        always[num_schemas..].iter().map(|closing| self.part(closing)).collect()
    }

    /// A place whose ways are too many to write out gets all names of all ways.
    fn with_many_ways(&self, map: &Map<String, Value>) -> Result<Value, SchemaError> {
        let mut schemas = Vec::new();
        self.collect(map, &["allOf", "anyOf"], &mut schemas, &mut BTreeSet::new());
        let schema = self.part_of_map(map)?;
        let parts = [schema].into_iter().chain(self.closing(&schemas)).collect();
        Ok(noted(all_of(parts), map))
    }

    /// All schemas that `$ref` and `keywords` apply in place.
    fn collect(
        &self,
        map: &Map<String, Value>,
        keywords: &[&str],
        out: &mut Way,
        seen: &mut BTreeSet<String>,
    ) {
        out.push(names_of(map));
        for part in keywords.iter().filter_map(|keyword| map.get(*keyword)?.as_array()).flatten() {
            if let Some(part) = part.as_object() {
                self.collect(part, keywords, out, seen);
            }
        }
        if let Some(target) = map.get("$ref").and_then(Value::as_str)
            && seen.insert(target.to_owned())
        {
            let ways = Ways::new(self.definitions, self.root, &self.size_of_ways);
            if let Some(target) = ways.target(target).as_object() {
                self.collect(target, keywords, out, seen);
            }
        }
    }
}

/// What a schema says of the members that an object may have, without what it says of their values.
fn names_of(map: &Map<String, Value>) -> Value {
    let mut out = Map::new();
    for (keyword, value) in map {
        let value = match (keyword.as_str(), value) {
            ("properties" | "patternProperties", Value::Object(named)) => {
                let is_open = |member: &Value| Value::Bool(*member != Value::Bool(false));
                named.iter().map(|(name, member)| (name.clone(), is_open(member))).collect()
            }
            ("additionalProperties" | REST_OF_MEMBERS | REST_OF_ITEMS, _) => Value::Bool(true),
            ("required" | "minProperties" | UNSEEN, value) => value.clone(),
            _ => continue,
        };
        out.insert(keyword.clone(), value);
    }
    Value::Object(out)
}

/// Whether the objects of a way are closed: it names members, and does not mention others.
fn closes(way: &Way) -> bool {
    let seen = || way.iter().filter_map(Value::as_object).filter(|map| !map.contains_key(UNSEEN));
    let names = |map: &Map<String, Value>| {
        let members = map.get("properties").and_then(Value::as_object);
        members.map_or(0, |members| members.values().filter(|member| **member != Value::Bool(false)).count())
    };
    let num_names: usize = seen().map(names).sum();
    let opens = |map: &Map<String, Value>| {
        map.contains_key("additionalProperties")
            || map.contains_key("patternProperties")
            || map.get("minProperties").and_then(Value::as_u64).is_some_and(|min| min > num_names as u64)
    };
    num_names > 0 && !seen().any(opens)
}

/// Puts a closing into the only schema of a way.
fn close_alone(schema: &mut Map<String, Value>, closing: &Value) {
    let named = closing["properties"].as_object().into_iter().flatten();
    if let Some(members) = schema.entry("properties").or_insert_with(|| json!({})).as_object_mut() {
        for (name, any) in named {
            members.entry(name.clone()).or_insert_with(|| any.clone());
        }
    }
    schema.insert("additionalProperties".to_owned(), Value::Bool(false));
}

/// A schema with the notes of the one that it stands for.
fn noted(mut schema: Value, of: &Map<String, Value>) -> Value {
    if let Some(map) = schema.as_object_mut() {
        for (keyword, value) in of.iter().filter(|(keyword, _)| [ORIGIN, UNSEEN].contains(&keyword.as_str()))
        {
            map.entry(keyword.clone()).or_insert_with(|| value.clone());
        }
    }
    schema
}

fn part_of(target: &str) -> String {
    if target == "#" { format!("#/$defs/root{PART}") } else { format!("{target}{PART}") }
}

/// The names of the definitions that are drawn in as parts.
fn parts_in(schema: &Value) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for_each_subschema(schema, |_, map| {
        let target =
            map.get("$ref").and_then(Value::as_str).and_then(|target| target.strip_prefix("#/$defs/"));
        names.extend(target.filter(|name| name.ends_with(PART)).map(str::to_owned));
    });
    names
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_way_that_names_members_is_closed() {
        assert!(closes(&vec![json!({"properties": {"a": true}})]));
        assert!(!closes(&vec![json!({"properties": {"a": false}})]));
        assert!(!closes(&vec![json!({"properties": {"a": true}}), json!({"additionalProperties": true})]));
    }
}
