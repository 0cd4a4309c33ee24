//! The ways in which a value can match a schema, with all choices made.

use std::cell::Cell;

use serde_json::{Map, Value, json};

use super::disjoint::are_disjoint;
use super::{ORIGIN, REST_OF_ITEMS, REST_OF_MEMBERS, UNSEEN};

/// Maximum number of ways that are written out.
const MAX_WAYS: usize = 64;
/// Maximum number of schemas that are looked at, and of pairs that are compared.
const MAX_STEPS: usize = 20_000;
/// Maximum size of the ways of all places of a schema together.
const MAX_SIZE: usize = 400_000;
/// So many steps take as long as writing out one value.
const STEPS_PER_VALUE: usize = 2;
/// Maximum nesting of what applies in place.
const MAX_DEPTH: usize = 256;

/// Schemas without choices and references, which have to match together.
pub(super) type Way = Vec<Value>;

/// A schema has too many ways.
pub(super) struct TooMany;

/// Keywords that apply other schemas to the same value.
pub(super) fn is_in_place(keyword: &str) -> bool {
    matches!(keyword, "allOf" | "anyOf" | "$ref")
}

/// Writes out ways.
pub(super) struct Ways<'d> {
    pub(super) definitions: &'d Map<String, Value>,
    /// The schema itself, to which `#` refers.
    pub(super) root: &'d Value,
    num_steps: usize,
    depth: usize,
    /// The size of what was written out, that of earlier places included.
    size: &'d Cell<usize>,
}

impl<'d> Ways<'d> {
    pub(super) fn new(definitions: &'d Map<String, Value>, root: &'d Value, size: &'d Cell<usize>) -> Self {
        Self { definitions, root, num_steps: 0, depth: 0, size }
    }
}

impl<'d> Ways<'d> {
    pub(super) fn target(&self, reference: &str) -> &'d Value {
        let name = reference.strip_prefix("#/$defs/");
        name.and_then(|name| self.definitions.get(name)).unwrap_or(self.root)
    }

    pub(super) fn of(&mut self, schema: &Value) -> Result<Vec<Way>, TooMany> {
        let Some(map) = schema.as_object() else {
            return Ok(if *schema == Value::Bool(false) { vec![] } else { vec![vec![]] });
        };
        self.depth += 1;
        self.pay(1)?;
        if self.depth > MAX_DEPTH {
            return Err(TooMany);
        }
        let mut ways = vec![vec![]];
        let own_place = map.keys().position(|keyword| keyword == "properties");
        let own_place = own_place.or_else(|| map.keys().position(|keyword| !is_in_place(keyword)));
        for (index, (keyword, value)) in map.iter().enumerate() {
            if own_place == Some(index) {
                ways = self.product(&ways, &[own(map).into_iter().collect()])?;
            }
            for part in self.parts(keyword, value)? {
                ways = self.product(&ways, &part)?;
            }
        }
        self.depth -= 1;
        close_rest(map, &mut ways);
        Ok(ways)
    }

    /// The ways of what a keyword applies in place.
    fn parts(&mut self, keyword: &str, value: &Value) -> Result<Vec<Vec<Way>>, TooMany> {
        let list = value.as_array().map_or(&[][..], Vec::as_slice);
        match keyword {
            "allOf" => list.iter().map(|part| self.of(part)).collect(),
            "anyOf" => {
                let ways = list.iter().map(|branch| self.of(branch)).collect::<Result<Vec<_>, _>>()?;
                Ok(vec![ways.into_iter().flatten().collect()])
            }
            "$ref" => {
                let target = self.target(value.as_str().unwrap_or_default());
                Ok(vec![self.of(target)?])
            }
            _ => Ok(Vec::new()),
        }
    }

    fn pay(&mut self, steps: usize) -> Result<(), TooMany> {
        self.num_steps = self.num_steps.saturating_add(steps);
        self.size.set(self.size.get() + steps / STEPS_PER_VALUE);
        if self.num_steps > MAX_STEPS || self.size.get() > MAX_SIZE { Err(TooMany) } else { Ok(()) }
    }

    /// All pairs but those that exclude each other.
    fn product(&mut self, ones: &[Way], others: &[Way]) -> Result<Vec<Way>, TooMany> {
        let mut ways = Vec::new();
        for one in ones {
            for other in others {
                self.pay(one.len().saturating_mul(other.len()))?;
                let excludes = |a: &Value| other.iter().any(|b| are_disjoint(a, b, &mut |_| None));
                if one.iter().any(excludes) {
                    continue;
                }
                let new = other.iter().filter(|schema| !one.contains(schema)).cloned();
                let way: Way = one.iter().cloned().chain(new).collect();
                self.size.set(self.size.get() + way.iter().map(size_of).sum::<usize>());
                ways.push(way);
                if ways.len() > MAX_WAYS || self.size.get() > MAX_SIZE {
                    return Err(TooMany);
                }
            }
        }
        Ok(ways)
    }
}

/// Number of values in a value.
fn size_of(value: &Value) -> usize {
    1 + match value {
        Value::Array(items) => items.iter().map(size_of).sum(),
        Value::Object(members) => members.values().map(size_of).sum(),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => 0,
    }
}

/// The keywords that say something about the value itself.
fn own(map: &Map<String, Value>) -> Option<Value> {
    let is_own =
        |keyword: &str| !is_in_place(keyword) && keyword != REST_OF_MEMBERS && keyword != REST_OF_ITEMS;
    let own: Map<String, Value> =
        map.iter().filter(|(keyword, _)| is_own(keyword)).map(|(k, v)| (k.clone(), v.clone())).collect();
    own.keys().any(|keyword| !keyword.starts_with("x-")).then_some(Value::Object(own))
}

/// Settles `unevaluated...` for each way.
pub(super) fn close_rest(map: &Map<String, Value>, ways: &mut [Way]) {
    for (rest, close) in [
        (REST_OF_MEMBERS, close_members as fn(&Way, &Value) -> Option<Value>),
        (REST_OF_ITEMS, close_items as fn(&Way, &Value) -> Option<Value>),
    ] {
        let Some(schema) = map.get(rest) else { continue };
        for way in ways.iter_mut() {
            let Some(mut closing) = close(way, schema) else { continue };
            for note in [ORIGIN, UNSEEN] {
                if let Some(value) = map.get(note) {
                    closing[note] = value.clone();
                }
            }
            way.push(closing);
        }
    }
}

/// The schemas of a way that evaluate members or items.
fn seen(way: &Way) -> impl Iterator<Item = &Map<String, Value>> {
    way.iter().filter_map(Value::as_object).filter(|map| !map.contains_key(UNSEEN))
}

/// A schema that asks `rest` of all members that `way` does not name; `None` if it speaks about all.
pub(super) fn close_members(way: &Way, rest: &Value) -> Option<Value> {
    let mut members = Map::new();
    let mut patterns = Map::new();
    for map in seen(way) {
        if map.contains_key("additionalProperties") {
            return None;
        }
        for (keyword, into) in [("properties", &mut members), ("patternProperties", &mut patterns)] {
            let names = map.get(keyword).and_then(Value::as_object).into_iter().flatten();
            into.extend(names.map(|(name, _)| (name.clone(), Value::Bool(true))));
        }
    }
    let mut closing = json!({"properties": members, "additionalProperties": rest});
    if !patterns.is_empty() {
        closing["patternProperties"] = Value::Object(patterns);
    }
    Some(closing)
}

fn close_items(way: &Way, rest: &Value) -> Option<Value> {
    let mut count = 0;
    for map in seen(way) {
        if map.contains_key("items") {
            return None;
        }
        count = count.max(map.get("prefixItems").and_then(Value::as_array).map_or(0, Vec::len));
    }
    Some(json!({"prefixItems": vec![true; count], "items": rest}))
}
