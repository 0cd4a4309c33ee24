//! The schema that llguidance compiles: each place of the outline is a definition in which nothing is left to combine.
//!
//! llguidance would combine `allOf`, `anyOf` and `$ref` itself, by copies that grow without bounds, and could not tell
//! a reference that leads to no value. Here each place was combined once, and what leads to no value is left out.

mod bounds;
mod counts;

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value, json};

use super::cells::others;
use super::language::Written;
use super::nodes::Nodes;
use super::number::{Bound, NumberRule};
use super::pattern::{PatternId, Patterns};
use super::shape::{Extra, List, Name, NodeId, Record, Shape};
use super::text::TextRule;
use super::witness::{NONE, Witnesses};

/// Writes places as schemas.
pub(super) struct Schemas<'o> {
    pub(super) nodes: &'o Nodes,
    pub(super) patterns: &'o Patterns,
    pub(super) witnesses: &'o Witnesses,
    waiting: Vec<NodeId>,
    seen: HashSet<NodeId>,
    definitions: Map<String, Value>,
    /// Places without arrays and objects, by what is written for them: each text is a definition once.
    plain: HashMap<String, NodeId>,
    plain_of: HashMap<NodeId, NodeId>,
    /// The names that no pattern of an object matches, by the patterns.
    others: HashMap<Vec<PatternId>, Option<Written>>,
    /// The first place with too many choices, and the keyword that asks for them.
    refused: Option<(NodeId, &'static str)>,
}

/// The name of a place's definition.
fn name(node: NodeId) -> String {
    format!("n{node}")
}

/// The place that a definition is of.
pub(super) fn node_of(name: &str) -> Option<NodeId> {
    name.strip_prefix('n')?.parse().ok()
}

impl<'o> Schemas<'o> {
    pub(super) fn new(nodes: &'o Nodes, patterns: &'o Patterns, witnesses: &'o Witnesses) -> Self {
        Self {
            nodes,
            patterns,
            witnesses,
            waiting: Vec::new(),
            seen: HashSet::new(),
            definitions: Map::new(),
            plain: HashMap::new(),
            plain_of: HashMap::new(),
            others: HashMap::new(),
            refused: None,
        }
    }

    /// The schema of the document.
    ///
    /// # Errors
    /// A place with too many choices, and the keyword that asks for them.
    pub(super) fn root(mut self) -> Result<Value, (NodeId, &'static str)> {
        let mut root = match self.at(0) {
            Value::Object(members) => members,
            Value::Bool(false) => Map::from_iter([("allOf".to_owned(), json!([false]))]),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
                Map::new()
            }
        };
        while let Some(node) = self.waiting.pop() {
            let place = self.place(node);
            self.definitions.insert(name(node), place);
        }
        if let Some(refused) = self.refused {
            return Err(refused);
        }
        if !self.definitions.is_empty() {
            root.insert("$defs".to_owned(), Value::Object(self.definitions));
        }
        let compact = json!({"whitespace_flexible": false, "item_separator": ",", "key_separator": ":"});
        root.insert("x-guidance".to_owned(), compact);
        Ok(Value::Object(root))
    }

    /// A place where it is used.
    fn at(&mut self, node: NodeId) -> Value {
        if self.nodes.keys[node].is_empty() {
            return Value::Bool(true);
        }
        if self.is_impossible(node) {
            return Value::Bool(false);
        }
        let node = if self.nodes.shapes[node].iter().all(is_plain) { self.plain(node) } else { node };
        if self.seen.insert(node) {
            self.waiting.push(node);
        }
        json!({"$ref": format!("#/$defs/{}", name(node))})
    }

    /// The first place that is written like this one.
    fn plain(&mut self, node: NodeId) -> NodeId {
        if let Some(&first) = self.plain_of.get(&node) {
            return first;
        }
        let place = self.place(node);
        let first = *self.plain.entry(place.to_string()).or_insert(node);
        self.plain_of.insert(node, first);
        if self.seen.insert(first) {
            self.definitions.insert(name(first), place);
        }
        first
    }

    fn is_impossible(&self, node: NodeId) -> bool {
        self.witnesses.length(node) == NONE
    }

    fn place(&mut self, node: NodeId) -> Value {
        let nodes = self.nodes;
        let mut ways: Vec<Value> = Vec::new();
        let mut seen = HashSet::new();
        for (index, shape) in nodes.shapes[node].iter().enumerate() {
            if self.witnesses.length_of(node, index) == NONE {
                continue;
            }
            for way in self.shape(node, shape) {
                if seen.insert(way.to_string()) {
                    ways.push(way);
                }
            }
        }
        one_of(ways)
    }

    fn shape(&mut self, node: NodeId, shape: &Shape) -> Vec<Value> {
        match shape {
            Shape::Word("null") => vec![json!({"type": "null"})],
            Shape::Word(word) => vec![json!({"const": *word == "true"})],
            Shape::Number(rule) => vec![number(rule)],
            Shape::Text(rule) => vec![self.text(rule)],
            Shape::List(list) => vec![self.list(list)],
            Shape::Record(record) => self.record(node, record),
        }
    }

    fn text(&self, rule: &TextRule) -> Value {
        let pattern = |id: &usize| Value::from(self.patterns.written(*id));
        let mut out = Map::from_iter([("type".to_owned(), json!("string"))]);
        // Constants were looked up in the tables that there are.
        let open = |id: &&usize| rule.literals.is_none() || self.patterns.table(**id).is_none();
        let mut patterns = rule.patterns.iter().filter(open).map(pattern);
        out.extend(patterns.next().map(|first| ("pattern".to_owned(), first)));
        if let Some(literals) = &rule.literals {
            out.insert("enum".to_owned(), json!(literals));
        } else {
            bounded(&mut out, ("minLength", rule.min), ("maxLength", rule.max));
        }
        let more: Vec<Value> = patterns.map(|more| json!({"type": "string", "pattern": more})).collect();
        if !more.is_empty() {
            out.insert("allOf".to_owned(), Value::Array(more));
        }
        Value::Object(out)
    }

    fn list(&mut self, list: &List) -> Value {
        let mut out = Map::from_iter([("type".to_owned(), json!("array"))]);
        bounded(&mut out, ("minItems", list.min), ("maxItems", list.max));
        if !list.prefix.is_empty() {
            out.insert("prefixItems".to_owned(), list.prefix.iter().map(|&node| self.at(node)).collect());
        }
        out.insert("items".to_owned(), self.at(list.items));
        Value::Object(out)
    }

    /// Alternatives for an object: one for each choice of members, where their number is bounded.
    fn record(&mut self, node: NodeId, record: &Record) -> Vec<Value> {
        let free = self.free(record);
        let has_free = record.extras.iter().any(|extra| !self.is_impossible(extra.node));
        let is_optional = |name: &&Name| !name.required && !self.is_impossible(name.node);
        let num_optional = record.names.iter().filter(is_optional).count();
        let num_required = record.names.iter().filter(|name| name.required).count();
        let min = record.min.saturating_sub(num_required);
        let max = record.max.map(|max| max.saturating_sub(num_required));
        let Some(ways) = counts::choices(num_optional, (min, max), has_free) else {
            self.refused = Some((node, if min > 0 { "minProperties" } else { "maxProperties" }));
            return Vec::new();
        };
        ways.into_iter().map(|choice| self.chosen(record, &choice, &free)).collect()
    }

    fn chosen(&mut self, record: &Record, choice: &counts::Choice, free: &Map<String, Value>) -> Value {
        let mut out = Map::from_iter([("type".to_owned(), json!("object"))]);
        let (mut members, mut required) = (Map::new(), Vec::new());
        let mut optional = choice.optional.iter();
        for name in &record.names {
            let Ok(text) = serde_json::from_slice::<String>(&name.quoted) else { continue };
            let schema = self.at(name.node);
            let is_open = !name.required && schema != Value::Bool(false);
            let part = if is_open { optional.next() } else { None };
            if name.required || part == Some(&counts::Part::Required) {
                required.push(text.clone());
            }
            let is_left_out = part == Some(&counts::Part::Absent);
            members.insert(text, if is_left_out { Value::Bool(false) } else { schema });
        }
        let num_required = required.len();
        out.insert("properties".to_owned(), Value::Object(members));
        out.insert("required".to_owned(), json!(required));
        out.extend(free.iter().map(|(keyword, value)| (keyword.clone(), value.clone())));
        let (min, max) = choice.free;
        if min > 0 {
            out.insert("minProperties".to_owned(), json!(num_required + min));
        }
        if let Some(max) = max {
            out.insert("maxProperties".to_owned(), json!(num_required + max));
        }
        Value::Object(out)
    }

    /// The keywords for members without names of their own.
    ///
    /// llguidance combines what a name and a pattern that matches it say, though that was done here. Where names match
    /// only one pattern, their members are all that no other pattern is for.
    fn free(&mut self, record: &Record) -> Map<String, Value> {
        let mut patterns = Map::new();
        let mut rest = Value::Bool(true);
        let with_names = self.with_names(record);
        for (place, extra) in record.extras.iter().enumerate() {
            let schema = self.at(extra.node);
            match extra.pattern {
                Some(_) if with_names.as_ref().is_some_and(|(at, _)| *at == place) => rest = schema,
                Some(id) => _ = patterns.insert(self.patterns.written(id).to_owned(), schema),
                None => match &with_names {
                    Some((_, Written::Pattern(others))) => _ = patterns.insert(others.clone(), schema),
                    Some((_, Written::Nothing)) => {}
                    None => rest = schema,
                },
            }
        }
        let mut out = Map::new();
        if !patterns.is_empty() {
            out.insert("patternProperties".to_owned(), Value::Object(patterns));
        }
        out.insert("additionalProperties".to_owned(), rest);
        out
    }

    /// The place among the extras of the pattern that most names match, and the names that no pattern matches.
    fn with_names(&mut self, record: &Record) -> Option<(usize, Written)> {
        let table = |extra: &Extra| extra.pattern.and_then(|id| self.patterns.table(id));
        let names: Vec<String> =
            record.names.iter().filter_map(|name| serde_json::from_slice(&name.quoted).ok()).collect();
        let count = |extra: &Extra| {
            table(extra).map_or(0, |table| names.iter().filter(|name| table.matches(name)).count())
        };
        let (place, count) =
            record.extras.iter().map(count).enumerate().max_by_key(|(place, count)| (*count, !place))?;
        if count == 0 {
            return None;
        }
        let ids: Vec<PatternId> = record.extras.iter().filter_map(|extra| extra.pattern).collect();
        if let Some(known) = self.others.get(&ids) {
            return Some((place, known.clone()?));
        }
        let patterns: Vec<&str> = ids.iter().map(|&id| self.patterns.sent(id)).collect();
        let others = others(&patterns).map(|others| match others {
            Written::Pattern(others) => Written::Pattern(super::pattern::from_ecma(&others)),
            Written::Nothing => Written::Nothing,
        });
        self.others.insert(ids, others.clone());
        Some((place, others?))
    }
}

fn one_of(mut ways: Vec<Value>) -> Value {
    if ways.len() == 1 { ways.swap_remove(0) } else { json!({"anyOf": ways}) }
}

fn bounded(out: &mut Map<String, Value>, least: (&str, usize), most: (&str, Option<usize>)) {
    if least.1 > 0 {
        out.insert(least.0.to_owned(), json!(least.1));
    }
    out.extend(most.1.map(|max| (most.0.to_owned(), json!(max))));
}

fn is_plain(shape: &Shape) -> bool {
    !matches!(shape, Shape::List(_) | Shape::Record(_))
}

fn number(rule: &NumberRule) -> Value {
    let mut out = Map::from_iter([("type".to_owned(), json!(if rule.whole { "integer" } else { "number" }))]);
    let mut bound = |bound: Option<Bound>, keyword: &str, exclusive: &str| {
        let Some(bound) = bound else { return };
        let keyword = if bound.exclusive { exclusive } else { keyword };
        out.insert(keyword.to_owned(), json!(bound.value));
    };
    bound(rule.min, "minimum", "exclusiveMinimum");
    bound(rule.max, "maximum", "exclusiveMaximum");
    bounds::draw_in(&mut out);
    let mut multiples = rule.multiples.iter().map(|step| json!(step.to_f64()));
    out.extend(multiples.next().map(|step| ("multipleOf".to_owned(), step)));
    let more: Vec<Value> = multiples.map(|step| json!({"type": out["type"], "multipleOf": step})).collect();
    if let Some(literals) = &rule.literals {
        let numbers = literals.iter().filter_map(|text| serde_json::from_str::<Value>(text).ok());
        out.insert("enum".to_owned(), numbers.collect());
    }
    if !more.is_empty() {
        out.insert("allOf".to_owned(), Value::Array(more));
    }
    Value::Object(out)
}
