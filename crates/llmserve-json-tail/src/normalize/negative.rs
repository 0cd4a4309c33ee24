//! A schema that must not match: one alternative for each keyword that may fail.
//!
//! Left out are numbers with a fraction where only whole numbers are excluded, what `contains` leaves out, and values
//! that fail only by members without a name of their own, by their names, by an item that comes twice, by `multipleOf` or
//! by a large pattern.

use serde_json::{Map, Value, json};

use super::super::automaton::Automaton;
use super::super::error::SchemaError;
use super::super::language::{Language, Written};
use super::positive::Draft;
use super::{Place, Rewriter, Sent, Sign, all_of, any_of, constants, narrow, never};

const TYPES: [&str; 6] = ["null", "boolean", "number", "string", "array", "object"];

impl<'s> Rewriter<'s> {
    pub(super) fn negative(&mut self, sent: &Sent<'s, '_>) -> Result<Value, SchemaError> {
        let mut ways = Vec::new();
        let mut left_out = None;
        for keyword in sent.map.keys() {
            let is_beside =
                Draft::of(self.root) == Draft::UpTo7 && sent.map.contains_key("$ref") && keyword != "$ref";
            if is_beside {
                continue;
            }
            if is_left_out(sent, keyword) {
                if keyword == "additionalProperties" {
                    self.fail_by_siblings(sent, &mut ways)?;
                }
                left_out = Some(keyword);
                continue;
            }
            if !self.fail(sent, keyword, &mut ways)? {
                left_out = Some(keyword);
            }
        }
        if let Some(keyword) = left_out {
            ways.retain(|way| *way != Value::Bool(false));
            if ways.is_empty() {
                return Err(sent.unsupported(keyword));
            }
            ways.push(never());
        }
        // Members that are missing are what most often tells branches apart.
        ways.sort_by_key(|way| !is_absence(way));
        let ways = ways.into_iter().map(|way| self.object(sent.path, way)).collect();
        Ok(any_of(ways))
    }

    /// Adds the ways in which members that other branches name break `additionalProperties`.
    fn fail_by_siblings(&mut self, sent: &Sent<'s, '_>, ways: &mut Vec<Value>) -> Result<(), SchemaError> {
        let Some(at) = sent.child("additionalProperties") else { return Ok(()) };
        let own: Vec<&String> = sent.named("properties").into_iter().map(|(name, _)| name).collect();
        let patterns = sent.named("patternProperties");
        let tables: Option<Vec<Automaton>> =
            patterns.iter().map(|(pattern, _)| Automaton::of_search(pattern)).collect();
        let Some(tables) = tables else { return Ok(()) };
        let names = self.sibling_names.clone();
        for name in names.iter().filter(|name| !own.contains(name)) {
            if tables.iter().any(|table| table.matches(name)) {
                continue;
            }
            let fails = self.fails_within(&at, "additionalProperties")?;
            if fails != Value::Bool(false) {
                ways.push(json!({"type": "object", "required": [name], "properties": {name: fails}}));
            }
        }
        Ok(())
    }

    /// Adds the ways in which a value may break `keyword`; false if there are others, which cannot be written.
    fn fail(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        ways: &mut Vec<Value>,
    ) -> Result<bool, SchemaError> {
        let value = &sent.map[keyword];
        match keyword {
            "type" => ways.extend(other_types(sent, value)?),
            "const" => ways.extend(constants::others(std::slice::from_ref(value))),
            "enum" => {
                let values = value.as_array().ok_or_else(|| sent.unsupported("enum"))?;
                ways.extend(constants::others(values));
            }
            "minimum" | "maximum" | "exclusiveMinimum" | "exclusiveMaximum" => {
                ways.extend(beyond(sent, keyword, value)?);
            }
            "minLength" | "minItems" | "minProperties" => {
                let count = sent.count(keyword).ok_or_else(|| sent.unsupported(keyword))?;
                let (most, of) = opposite(keyword);
                ways.extend(count.checked_sub(1).map(|most_count| json!({"type": of, most: most_count})));
            }
            "maxLength" | "maxItems" | "maxProperties" => {
                let count = sent.count(keyword).ok_or_else(|| sent.unsupported(keyword))?;
                let (least, of) = opposite(keyword);
                ways.push(json!({"type": of, least: count.saturating_add(1)}));
            }
            "required" => {
                let absent = |name: &str| json!({"type": "object", "properties": {name: false}});
                ways.extend(sent.texts("required").into_iter().map(absent));
            }
            "properties" => {
                for (name, at) in sent.named("properties") {
                    let fails = self.fails_within(&at, "properties")?;
                    if fails != Value::Bool(false) {
                        ways.push(json!({"type": "object", "required": [name], "properties": {name: fails}}));
                    }
                }
            }
            "items" | "prefixItems" | "additionalItems" => self.fail_items(sent, keyword, ways)?,
            "pattern" => match other_texts(value) {
                Some(Written::Pattern(others)) => ways.push(json!({"type": "string", "pattern": others})),
                Some(Written::Nothing) => {}
                None => return Ok(false),
            },
            "multipleOf" => return Ok(false),
            _ => self.fail_in_place(sent, keyword, ways)?,
        }
        Ok(true)
    }

    /// The failure of a member or an item, which has no siblings.
    fn fails_within(&mut self, at: &Place<'s>, keyword: &str) -> Result<Value, SchemaError> {
        let around = std::mem::take(&mut self.sibling_names);
        let fails = self.schema(at, keyword, Sign::Not);
        self.sibling_names = around;
        fails
    }

    fn fail_items(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        ways: &mut Vec<Value>,
    ) -> Result<(), SchemaError> {
        let is_tuple = sent.map.get("items").is_some_and(Value::is_array);
        let prefix = if is_tuple { "items" } else { "prefixItems" };
        if keyword == prefix {
            for (index, at) in sent.children(prefix).iter().enumerate() {
                ways.extend(item_at(index, self.fails_within(at, prefix)?));
            }
        } else if (keyword == "items" || is_tuple)
            && let Some(at) = sent.child(keyword)
        {
            let first = sent.children(prefix).len();
            let fails = self.fails_within(&at, keyword)?;
            for index in first..first + super::contains::MAX_PLACES {
                ways.extend(item_at(index, self.copy(&fails, sent.path)?).map(narrow));
            }
        }
        Ok(())
    }

    fn fail_in_place(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        ways: &mut Vec<Value>,
    ) -> Result<(), SchemaError> {
        match keyword {
            "allOf" => {
                for at in sent.children("allOf") {
                    ways.push(self.schema(&at, "allOf", Sign::Not)?);
                }
            }
            "anyOf" => ways.push(all_of(self.each(&sent.children("anyOf"), "anyOf", Sign::Not)?)),
            "oneOf" => ways.extend(self.not_one_of(sent)?),
            "$ref" => ways.push(json!({"$ref": self.reference(sent, "$ref", Sign::Not)?})),
            "$dynamicRef" | "$recursiveRef" => {
                self.check_static(sent, keyword)?;
                ways.push(json!({"$ref": self.reference(sent, keyword, Sign::Not)?}));
            }
            "not" => {
                let at = sent.child("not");
                ways.extend(at.map(|at| self.negated(&at, "not", Sign::Is)).transpose()?);
            }
            "if" => ways.extend(self.not_conditional(sent)?),
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                ways.extend(self.not_dependencies(sent, keyword)?);
            }
            "contains" => ways.extend(self.not_contains(sent)?),
            // A format never fails: a validator takes it as a note.
            _ => {}
        }
        Ok(())
    }

    pub(super) fn each(
        &mut self,
        places: &[Place<'s>],
        keyword: &str,
        sign: Sign,
    ) -> Result<Vec<Value>, SchemaError> {
        places.iter().map(|at| self.schema(at, keyword, sign)).collect()
    }
}

/// Whether a schema asks for no more than that a member is missing.
fn is_absence(way: &Value) -> bool {
    let members = way.get("properties").and_then(Value::as_object).into_iter().flatten();
    way.get("required").is_none() && members.into_iter().any(|(_, member)| *member == Value::Bool(false))
}

/// Whether a keyword may fail in a way that the normal form does not have.
fn is_left_out(sent: &Sent<'_, '_>, keyword: &str) -> bool {
    match keyword {
        "additionalProperties"
        | "patternProperties"
        | "propertyNames"
        | "unevaluatedProperties"
        | "unevaluatedItems" => sent.map[keyword] != Value::Bool(true),
        "uniqueItems" => sent.map[keyword] != Value::Bool(false),
        _ => false,
    }
}

/// The texts that a pattern does not match; `None` if they cannot be written.
fn other_texts(pattern: &Value) -> Option<Written> {
    Language::not(Language::of(pattern.as_str()?)).written()
}

fn item_at(index: usize, item: Value) -> Option<Value> {
    let mut prefix = vec![Value::Bool(true); index];
    let can_fail = item != Value::Bool(false);
    prefix.push(item);
    can_fail.then(|| json!({"type": "array", "minItems": index + 1, "prefixItems": prefix}))
}

/// A value of another type.
fn other_types(sent: &Sent<'_, '_>, value: &Value) -> Result<Option<Value>, SchemaError> {
    let names = value.as_array().map_or(std::slice::from_ref(value), Vec::as_slice);
    let names: Option<Vec<&str>> = names.iter().map(Value::as_str).collect();
    let names = names.ok_or_else(|| sent.unsupported("type"))?;
    let is_named = |kind: &str| names.contains(&kind) || (kind == "number" && names.contains(&"integer"));
    let others: Vec<&str> = TYPES.into_iter().filter(|kind| !is_named(kind)).collect();
    let leaves_out = names.contains(&"integer") && !names.contains(&"number");
    Ok(match (others.is_empty(), leaves_out) {
        (true, true) => Some(never()),
        (true, false) => None,
        (false, true) => Some(narrow(json!({"type": others}))),
        (false, false) => Some(json!({"type": others})),
    })
}

/// The keyword that bounds the same count from the other side, and the type that it is for.
fn opposite(keyword: &str) -> (&'static str, &'static str) {
    match keyword {
        "minLength" => ("maxLength", "string"),
        "maxLength" => ("minLength", "string"),
        "minItems" => ("maxItems", "array"),
        "maxItems" => ("minItems", "array"),
        "minProperties" => ("maxProperties", "object"),
        _ => ("minProperties", "object"),
    }
}

/// A number on the other side of a bound.
fn beyond(sent: &Sent<'_, '_>, keyword: &str, value: &Value) -> Result<Option<Value>, SchemaError> {
    let is_old = |keyword| sent.map.get(keyword) == Some(&Value::Bool(true));
    let other = match keyword {
        "minimum" if is_old("exclusiveMinimum") => "maximum",
        "minimum" => "exclusiveMaximum",
        "maximum" if is_old("exclusiveMaximum") => "minimum",
        "maximum" => "exclusiveMinimum",
        "exclusiveMinimum" => "maximum",
        _ => "minimum",
    };
    if value.is_boolean() {
        return Ok(None);
    }
    if !value.is_number() {
        return Err(sent.unsupported(keyword));
    }
    let mut way = Map::from_iter([("type".to_owned(), json!("number"))]);
    way.insert(other.to_owned(), value.clone());
    Ok(Some(Value::Object(way)))
}
