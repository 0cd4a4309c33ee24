//! Rewrites the schema that was sent into one of fewer keywords, which the outline and llguidance both honour.
//!
//! Every document of the rewritten schema is one of the schema that was sent. Where the reverse does not hold,
//! the module says what is left out. A schema for which no such rewriting is known is refused.
//!
//! - `references`: where a `$ref` leads. `positive`: a schema that has to match. `negative`: one that must not.
//! - `alternatives`: `if`, `dependent...` and `oneOf` as choices; `disjoint` tells which branches exclude each
//!   other. `contains`: an item somewhere. `unique`: `uniqueItems`. `names`: `propertyNames`. `constants`: all
//!   strings but some.
//! - `closing`: `unevaluated...`, and objects without members that the schema does not name. `ways` has the
//!   choices written out.

mod alternatives;
mod closing;
mod constants;
mod contains;
mod disjoint;
mod names;
mod negative;
mod positive;
mod references;
mod unique;
mod ways;

use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use serde_json::{Map, Value, json};

use super::error::SchemaError;
use super::keywords::for_each_subschema;
use references::References;

/// The place of a subschema in the schema that was sent.
pub(super) const ORIGIN: &str = "x-origin";
/// A subschema whose members and items do not count as evaluated: it stems from a negation.
const UNSEEN: &str = "x-unseen";
/// A subschema that leaves out documents: what it excludes may still match the schema that was sent.
pub(super) const NARROW: &str = "x-narrow";
/// `unevaluatedProperties` and `unevaluatedItems`, until `closing` settles them.
const REST_OF_MEMBERS: &str = "x-rest-of-members";
const REST_OF_ITEMS: &str = "x-rest-of-items";

/// Maximum number of subschemas in the rewritten schema.
const MAX_SCHEMAS: usize = 50_000;

/// Which members an object may have beside those that its schema names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Objects {
    /// None, unless the schema mentions others.
    Closed,
    /// Any, as JSON Schema has it.
    Open,
}

/// A schema in the normal form.
#[derive(Debug, Clone)]
pub struct Normal {
    schema: Value,
    sent: Value,
}

impl Normal {
    /// # Errors
    /// A keyword is malformed, or no rewriting is known for it.
    pub fn new(sent: &Value, objects: Objects) -> Result<Self, SchemaError> {
        let mut rewriter = Rewriter::new(sent);
        let root = rewriter.schema(&Place { path: String::new(), value: sent }, "schema", Sign::Is)?;
        let definitions = rewriter.definitions()?;
        let (root, definitions) = closing::close(root, definitions, objects)?;
        let mut schema = if root == Value::Bool(true) {
            json!({})
        } else if root == Value::Bool(false) && sent.is_object() {
            // Not what was sent, but what its keywords come to.
            json!({"allOf": [false]})
        } else {
            root
        };
        if let Some(members) = schema.as_object_mut()
            && !definitions.is_empty()
        {
            members.insert("$defs".to_owned(), Value::Object(definitions));
        }
        Ok(Self { schema, sent: sent.clone() })
    }

    /// The rewritten schema. Keywords that begin with `x-` are notes.
    #[must_use]
    pub fn schema(&self) -> &Value {
        &self.schema
    }

    /// The place in the schema that was sent from which the subschema at `pointer` stems.
    #[must_use]
    pub fn origin(&self, pointer: &str) -> String {
        let mut value = &self.schema;
        let mut origin = String::new();
        for step in pointer.split('/').skip(1) {
            let name = step.replace("~1", "/").replace("~0", "~");
            let next = match value.as_array() {
                Some(items) => name.parse::<usize>().ok().and_then(|index| items.get(index)),
                None => value.get(&name),
            };
            let Some(next) = next else { break };
            value = next;
            let further = format!("{origin}/{step}");
            if let Some(known) = value.get(ORIGIN).and_then(Value::as_str) {
                known.clone_into(&mut origin);
            } else if self.sent.pointer(&further).is_some() {
                // What has no notes, as `false`, may stand where it was sent.
                origin = further;
            }
        }
        origin
    }
}

/// Whether a schema has to match, or must not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Sign {
    Is,
    Not,
}

/// A subschema as it was sent.
#[derive(Clone)]
struct Place<'s> {
    path: String,
    value: &'s Value,
}

/// One schema object as it was sent.
struct Sent<'s, 'p> {
    path: &'p str,
    map: &'s Map<String, Value>,
}

impl<'s> Sent<'s, '_> {
    fn error(&self, keyword: &str, reason: impl Into<String>) -> SchemaError {
        SchemaError::new(keyword, self.path, reason)
    }

    fn unsupported(&self, keyword: &str) -> SchemaError {
        self.error(keyword, "is not supported here")
    }

    /// The subschema under `keyword`.
    fn child(&self, keyword: &str) -> Option<Place<'s>> {
        let value = self.map.get(keyword)?;
        Some(Place { path: format!("{}/{keyword}", self.path), value })
    }

    /// The subschemas under `keyword`, a list.
    fn children(&self, keyword: &str) -> Vec<Place<'s>> {
        let values = self.map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        let path = |index| format!("{}/{keyword}/{index}", self.path);
        values.enumerate().map(|(index, value)| Place { path: path(index), value }).collect()
    }

    /// The subschemas under `keyword`, by name.
    fn named(&self, keyword: &str) -> Vec<(&'s String, Place<'s>)> {
        let values = self.map.get(keyword).and_then(Value::as_object).into_iter().flatten();
        let path = |name| format!("{}/{keyword}/{}", self.path, super::keywords::escape(name));
        values.map(|(name, value)| (name, Place { path: path(name), value })).collect()
    }

    /// The names in a list under `keyword`.
    fn texts(&self, keyword: &str) -> Vec<&'s str> {
        let values = self.map.get(keyword).and_then(Value::as_array).into_iter().flatten();
        values.filter_map(Value::as_str).collect()
    }

    /// A count, which may be written as a float.
    fn count(&self, keyword: &str) -> Option<u64> {
        whole(self.map.get(keyword)?).and_then(|value| value.as_u64())
    }
}

/// A float without a fraction as a whole number.
fn whole(value: &Value) -> Option<Value> {
    let number = value.as_f64().filter(|number| number.fract() == 0.0 && number.abs() < 1e15)?;
    Some(if value.is_f64() { json!(number as i64) } else { value.clone() })
}

struct Rewriter<'s> {
    root: &'s Value,
    references: References,
    names: HashMap<Definition, String>,
    waiting: VecDeque<Definition>,
    /// What references lead to, for comparisons.
    looked_up: HashMap<String, Option<Rc<Value>>>,
    num_schemas: usize,
    /// How many negations are around the schema that is being rewritten.
    num_negations: usize,
    /// The names of members in the branches among which one is excluded.
    sibling_names: Rc<Vec<String>>,
    /// How many branches that are referred to are being excluded.
    num_excluded: usize,
}

/// A subschema that is referred to: its place, whether it has to match, whether a negation is around it.
type Definition = (String, Sign, bool);

impl<'s> Rewriter<'s> {
    fn new(root: &'s Value) -> Self {
        Self {
            root,
            references: References::new(root),
            names: HashMap::new(),
            waiting: VecDeque::new(),
            looked_up: HashMap::new(),
            num_schemas: 0,
            num_negations: 0,
            sibling_names: Rc::default(),
            num_excluded: 0,
        }
    }

    fn schema(&mut self, at: &Place<'s>, keyword: &str, sign: Sign) -> Result<Value, SchemaError> {
        self.count(1, &at.path)?;
        if let Some(allows) = at.value.as_bool() {
            return Ok(Value::Bool(allows == (sign == Sign::Is)));
        }
        let Some(map) = at.value.as_object() else {
            let kind = super::read::kind(at.value);
            let reason = format!("must be a schema (an object or a boolean), not {kind}");
            return Err(SchemaError::new(keyword, &at.path, reason));
        };
        let sent = Sent { path: &at.path, map };
        match sign {
            Sign::Is => self.positive(&sent),
            Sign::Not => self.negative(&sent),
        }
    }

    fn count(&mut self, num_schemas: usize, path: &str) -> Result<(), SchemaError> {
        self.num_schemas += num_schemas;
        if self.num_schemas <= MAX_SCHEMAS {
            return Ok(());
        }
        let reason =
            format!("is too large: it has more than {MAX_SCHEMAS} subschemas once it is written out");
        Err(SchemaError::new("schema", path, reason))
    }

    /// Another copy of a rewritten schema, which counts as well.
    fn copy(&mut self, schema: &Value, path: &str) -> Result<Value, SchemaError> {
        let mut num_schemas = 0;
        for_each_subschema(schema, |_, _| num_schemas += 1);
        self.count(num_schemas, path)?;
        Ok(schema.clone())
    }

    /// The schema under `not`, seen from its outside.
    fn negated(&mut self, at: &Place<'s>, keyword: &str, sign: Sign) -> Result<Value, SchemaError> {
        self.num_negations += 1;
        let schema = self.schema(at, keyword, sign);
        self.num_negations -= 1;
        schema
    }

    /// A schema object of the normal form that stems from `path`.
    fn object(&self, path: &str, members: Value) -> Value {
        let Value::Object(mut map) = members else { return members };
        map.insert(ORIGIN.to_owned(), Value::String(path.to_owned()));
        if self.num_negations > 0 {
            map.insert(UNSEEN.to_owned(), Value::Bool(true));
        }
        Value::Object(map)
    }

    /// A reference to the subschema that `$ref` at `path` leads to.
    fn reference(&mut self, sent: &Sent<'s, '_>, keyword: &str, sign: Sign) -> Result<Value, SchemaError> {
        let value = &sent.map[keyword];
        let Some(text) = value.as_str() else {
            let kind = super::read::kind(value);
            return Err(sent.error(keyword, format!("must be a string, not {kind}")));
        };
        let pointer = self.references.resolve(self.root, sent.path, text);
        let pointer = pointer.map_err(|reason| {
            let shown: String = text.chars().take(80).collect();
            sent.error(keyword, format!("`{shown}` {reason}"))
        })?;
        let definition = (pointer, sign, self.num_negations > 0);
        if definition == (String::new(), Sign::Is, false) {
            return Ok(json!("#"));
        }
        let next = format!("s{}", self.names.len());
        let name = self.names.entry(definition.clone()).or_insert_with(|| {
            self.waiting.push_back(definition);
            next
        });
        Ok(Value::String(format!("#/$defs/{name}")))
    }

    /// All subschemas that are referred to.
    fn definitions(&mut self) -> Result<Map<String, Value>, SchemaError> {
        let mut definitions = Map::new();
        while let Some(definition) = self.waiting.pop_front() {
            let name = self.names[&definition].clone();
            let (path, sign, is_unseen) = definition;
            let value = self.root.pointer(&path).unwrap_or(&Value::Null);
            self.num_negations = usize::from(is_unseen);
            let schema = self.schema(&Place { path, value }, "$ref", sign)?;
            definitions.insert(name, schema);
        }
        Ok(definitions)
    }
}

/// A value that has to match all of `schemas`.
fn all_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != Value::Bool(true));
    if schemas.contains(&Value::Bool(false)) {
        return Value::Bool(false);
    }
    match schemas.len() {
        0 => Value::Bool(true),
        1 => schemas.swap_remove(0),
        _ => json!({"allOf": schemas}),
    }
}

/// A value that has to match one of `schemas`, or several.
fn any_of(mut schemas: Vec<Value>) -> Value {
    schemas.retain(|schema| *schema != Value::Bool(false));
    if schemas.contains(&Value::Bool(true)) {
        return Value::Bool(true);
    }
    match schemas.len() {
        0 => Value::Bool(false),
        1 => schemas.swap_remove(0),
        _ => json!({"anyOf": schemas}),
    }
}

/// No value, though some that are left out would match.
fn never() -> Value {
    narrow(json!({"allOf": [false]}))
}

/// Marks a schema that leaves out documents.
fn narrow(mut schema: Value) -> Value {
    if let Some(map) = schema.as_object_mut() {
        map.insert(NARROW.to_owned(), Value::Bool(true));
    }
    schema
}
