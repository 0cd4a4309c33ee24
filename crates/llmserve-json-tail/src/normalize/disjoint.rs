//! Whether two schemas share a document, as far as types, constants, bounds and members tell.

use std::rc::Rc;

use serde_json::{Map, Value};

use super::super::source::Types;
use super::NARROW;

/// Nesting to which schemas are compared.
const MAX_DEPTH: usize = 8;

/// What a reference leads to.
pub(super) type Resolve<'r> = dyn FnMut(&str) -> Option<Rc<Value>> + 'r;

/// Whether no value matches both. `false` if that is not known.
pub(super) fn are_disjoint(one: &Value, other: &Value, resolve: &mut Resolve<'_>) -> bool {
    Comparison { resolve, depth: 0 }.disjoint(one, other)
}

struct Comparison<'a, 'r> {
    resolve: &'a mut Resolve<'r>,
    depth: usize,
}

impl Comparison<'_, '_> {
    fn disjoint(&mut self, one: &Value, other: &Value) -> bool {
        if *one == Value::Bool(false) || *other == Value::Bool(false) {
            return true;
        }
        let (Some(one_map), Some(other_map)) = (one.as_object(), other.as_object()) else { return false };
        if self.depth >= MAX_DEPTH || [one_map, other_map].iter().any(|map| map.contains_key(NARROW)) {
            return false;
        }
        self.depth += 1;
        let found =
            self.in_place(one_map, other) || self.in_place(other_map, one) || self.own(one_map, other_map);
        self.depth -= 1;
        found
    }

    /// Whether a part of `map` excludes `other`.
    fn in_place(&mut self, map: &Map<String, Value>, other: &Value) -> bool {
        let list = |keyword: &str| map.get(keyword).and_then(Value::as_array);
        if let Some(target) = map.get("$ref").and_then(Value::as_str)
            && let Some(target) = (self.resolve)(target)
            && self.disjoint(&target, other)
        {
            return true;
        }
        list("allOf").is_some_and(|parts| parts.iter().any(|part| self.disjoint(part, other)))
            || list("anyOf")
                .is_some_and(|branches| branches.iter().all(|branch| self.disjoint(branch, other)))
    }

    fn own(&mut self, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
        let types = types(one) & types(other);
        if types.is_empty() || no_common_value(one, other) {
            return true;
        }
        let is_only = |kind: Types| (types & kind) == types;
        if is_only(Types::INTEGER.or(Types::FRACTION)) {
            return is_below(one, other) || is_below(other, one);
        }
        if is_only(Types::STRING) {
            return counts_part(one, other, "minLength", "maxLength");
        }
        if is_only(Types::ARRAY) {
            return counts_part(one, other, "minItems", "maxItems");
        }
        is_only(Types::OBJECT) && (self.member_excludes(one, other) || self.member_excludes(other, one))
    }

    /// Whether a member that `one` requires cannot match both.
    fn member_excludes(&mut self, one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
        let required = one.get("required").and_then(Value::as_array).into_iter().flatten();
        let any = Value::Bool(true);
        for name in required.filter_map(Value::as_str) {
            let in_one = member(one, name).unwrap_or(&any);
            let in_other = member(other, name).unwrap_or(&any);
            if self.disjoint(in_one, in_other) {
                return true;
            }
        }
        false
    }
}

fn member<'m>(map: &'m Map<String, Value>, name: &str) -> Option<&'m Value> {
    let named = map.get("properties").and_then(|members| members.get(name));
    let has_patterns = map.contains_key("patternProperties");
    named.or_else(|| map.get("additionalProperties").filter(|_| !has_patterns))
}

/// The constants that a schema allows, if it lists them.
fn values(map: &Map<String, Value>) -> Option<&[Value]> {
    let list = map.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    map.get("const").map(std::slice::from_ref).or(list)
}

fn types(map: &Map<String, Value>) -> Types {
    let named = match map.get("type") {
        Some(Value::Array(names)) => names.iter().fold(Types::NONE, |types, name| types.or(named(name))),
        Some(name) => named(name),
        None => Types::ALL,
    };
    let of_values =
        |values: &[Value]| values.iter().fold(Types::NONE, |types, value| types.or(type_of(value)));
    values(map).map_or(named, |values| named & of_values(values))
}

fn named(name: &Value) -> Types {
    name.as_str().and_then(Types::named).unwrap_or(Types::ALL)
}

fn type_of(value: &Value) -> Types {
    match value {
        Value::Null => Types::NULL,
        Value::Bool(true) => Types::TRUE,
        Value::Bool(false) => Types::FALSE,
        Value::Number(number) if number.as_f64().is_some_and(|value| value.fract() != 0.0) => Types::FRACTION,
        Value::Number(_) => Types::INTEGER,
        Value::String(_) => Types::STRING,
        Value::Array(_) => Types::ARRAY,
        Value::Object(_) => Types::OBJECT,
    }
}

fn no_common_value(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let (Some(ours), Some(theirs)) = (values(one), values(other)) else { return false };
    let is_same = |a: &Value, b: &Value| a == b || (a.is_number() && a.as_f64() == b.as_f64());
    // Numbers inside arrays and objects may be written in several ways.
    let is_plain = |value: &Value| !value.is_array() && !value.is_object();
    ours.iter().all(|a| theirs.iter().all(|b| !is_same(a, b) && (is_plain(a) || is_plain(b))))
}

/// Whether all numbers of `one` are smaller than those of `other`.
fn is_below(one: &Map<String, Value>, other: &Map<String, Value>) -> bool {
    let bound = |map: &Map<String, Value>, keyword: &str| map.get(keyword).and_then(Value::as_f64);
    let constants = |map: &Map<String, Value>, pick: fn(f64, f64) -> f64| {
        values(map)?.iter().map(Value::as_f64).collect::<Option<Vec<f64>>>()?.into_iter().reduce(pick)
    };
    let highest = bound(one, "maximum").or_else(|| constants(one, f64::max));
    let open_highest = bound(one, "exclusiveMaximum");
    let lowest = bound(other, "minimum").or_else(|| constants(other, f64::min));
    let open_lowest = bound(other, "exclusiveMinimum");
    let less = |high: Option<f64>, low: Option<f64>| high.zip(low).is_some_and(|(high, low)| high < low);
    let at_most = |high: Option<f64>, low: Option<f64>| high.zip(low).is_some_and(|(high, low)| high <= low);
    less(highest, lowest)
        || at_most(open_highest, lowest)
        || at_most(highest, open_lowest)
        || at_most(open_highest, open_lowest)
}

fn counts_part(one: &Map<String, Value>, other: &Map<String, Value>, least: &str, most: &str) -> bool {
    let count = |map: &Map<String, Value>, keyword: &str| map.get(keyword).and_then(Value::as_u64);
    let part = |a, b| count(a, most).zip(count(b, least)).is_some_and(|(most, least)| most < least);
    part(one, other) || part(other, one)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn what_excludes_each_other() {
        for (one, other) in [
            (json!({"type": "string"}), json!({"type": ["integer", "null"]})),
            (json!({"const": 1}), json!({"enum": [2, "1"]})),
            (json!({"type": "integer", "maximum": 3}), json!({"type": "number", "exclusiveMinimum": 3})),
            (json!({"type": "string", "maxLength": 3}), json!({"type": "string", "minLength": 4})),
            (
                json!({"type": "object", "required": ["a"]}),
                json!({"type": "object", "properties": {"a": false}}),
            ),
            (
                json!({"type": "object", "required": ["k"], "properties": {"k": {"const": "a"}}}),
                json!({"type": "object", "properties": {"k": {"const": "b"}}}),
            ),
            (
                json!({"type": "object", "required": ["k"]}),
                json!({"type": "object", "properties": {"a": true}, "additionalProperties": false}),
            ),
            (json!({"anyOf": [{"type": "null"}, {"const": 1}]}), json!({"allOf": [{}, {"type": "string"}]})),
        ] {
            assert!(are_disjoint(&one, &other, &mut |_| None), "{one} {other}");
            assert!(are_disjoint(&other, &one, &mut |_| None), "{other} {one}");
        }
    }

    #[test]
    fn what_may_have_a_value_in_common() {
        for (one, other) in [
            (json!({"type": "integer"}), json!({"type": "number"})),
            (json!({"const": 1}), json!({"const": 1.0})),
            (json!({"const": [1]}), json!({"const": [1.0]})),
            (json!({"maximum": 3}), json!({"minimum": 4})),
            (json!({"required": ["a"]}), json!({"properties": {"a": false}})),
            (
                json!({"type": "object", "properties": {"k": {"const": "a"}}}),
                json!({"type": "object", "properties": {"k": {"const": "b"}}}),
            ),
            (json!({"$ref": "#/$defs/a"}), json!({"type": "null"})),
            (json!({"type": "string", "x-narrow": true}), json!({"type": "null"})),
        ] {
            assert!(!are_disjoint(&one, &other, &mut |_| None), "{one} {other}");
        }
    }
}
