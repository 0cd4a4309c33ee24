//! Turns subschemas into places: what all subschemas that apply to one value say together.
//!
//! A place is the list of subschemas that a value there has to match. Its members and items are
//! places again, made when they are first met, so recursive schemas come to an end; the number of
//! places is bounded.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::apart::Apart;
use super::budget::Budget;
use super::cells::{Cell, told_apart};
use super::combination::Combination;
use super::combine::combinations;
use super::error::SchemaError;
use super::number::NumberRule;
use super::pattern::{PatternId, Patterns};
use super::read::Schema;
use super::shape::{Extra, List, Name, NodeId, Record, Shape};
use super::source::{Link, RecordRule, Rules, Source, SourceId, Types};
use super::text::TextRule;

/// What a member's name costs.
const UNITS_OF_NAME: usize = 8;
/// Maximum number of patterns of an object that are compared with each other.
const MAX_TOLD_APART: usize = 16;
/// Maximum number of places in a schema.
const MAX_NODES: usize = 20_000;

/// All places that documents of a schema can reach; the first one is the document itself.
#[derive(Debug)]
pub(super) struct Nodes {
    pub(super) shapes: Vec<Vec<Shape>>,
    /// The subschemas of each place.
    pub(super) keys: Vec<Vec<SourceId>>,
    /// Whether some place has more ways to choose among branches than its shapes.
    pub(super) is_cut: bool,
}

impl Nodes {
    /// # Errors
    /// The schema is too large.
    pub(super) fn new(schema: &Schema, patterns: &mut Patterns) -> Result<Self, SchemaError> {
        let mut builder = Builder {
            schema,
            patterns,
            ids: HashMap::new(),
            keys: Vec::new(),
            cells: HashMap::new(),
            apart: Apart::default(),
            budget: Budget::new(),
            is_cut: false,
        };
        builder.node(vec![0]);
        let mut shapes = Vec::new();
        while shapes.len() < builder.keys.len() {
            shapes.push(builder.expand(shapes.len())?);
        }
        Ok(Self { shapes, keys: builder.keys, is_cut: builder.is_cut })
    }
}

struct Builder<'s> {
    schema: &'s Schema,
    patterns: &'s mut Patterns,
    ids: HashMap<Vec<SourceId>, NodeId>,
    keys: Vec<Vec<SourceId>>,
    /// Of patterns that may match the same names.
    cells: HashMap<Vec<PatternId>, Vec<Cell>>,
    apart: Apart,
    budget: Budget,
    is_cut: bool,
}

impl Builder<'_> {
    /// The place of `sources`; those that allow anything are left out.
    fn node(&mut self, sources: Vec<SourceId>) -> NodeId {
        let mut key: Vec<SourceId> = Vec::new();
        let mut seen = HashSet::new();
        for id in sources.into_iter().map(|id| self.behind_reference(id)) {
            if !matches!(self.schema.sources[id], Source::Any) && seen.insert(id) {
                key.push(id);
            }
        }
        *self.ids.entry(key).or_insert_with_key(|key| {
            self.keys.push(key.clone());
            self.keys.len() - 1
        })
    }

    /// The source that a mere `$ref` stands for, so that all places that refer to it are one.
    fn behind_reference(&self, mut id: SourceId) -> SourceId {
        while let Source::Rules(rules) = &self.schema.sources[id]
            && let [Link::Also(target)] = rules.links[..]
        {
            id = target;
        }
        id
    }

    fn expand(&mut self, node: NodeId) -> Result<Vec<Shape>, SchemaError> {
        let key = self.keys[node].clone();
        let found = combinations(self.schema, &key, self.patterns, (&mut self.apart, &mut self.budget))?;
        let path = key.first().map_or("", |&id| self.schema.paths[id].as_str());
        let mut shapes = Vec::new();
        self.is_cut |= found.is_cut;
        for combination in found.ways {
            let before = shapes.len();
            self.add_shapes(&combination, &mut shapes);
            let cost = shapes[before..].iter().map(size).sum::<usize>();
            self.budget.write(cost, path)?;
            self.budget.pay(cost.saturating_mul(combination.num_sources()) / UNITS_OF_NAME, path)?;
        }
        if self.keys.len() > MAX_NODES {
            let reason = format!("is too large: it has more than {MAX_NODES} different places");
            return Err(SchemaError::new("schema", path, reason));
        }
        Ok(shapes)
    }

    fn add_shapes(&mut self, combination: &Combination, shapes: &mut Vec<Shape>) {
        let rules: Vec<&Rules> = combination.rules(self.schema);
        let types = combination.types;
        let words = [("null", Types::NULL), ("true", Types::TRUE), ("false", Types::FALSE)];
        for (word, _) in words.into_iter().filter(|(_, one)| types.has(*one)) {
            if !shapes.iter().any(|shape| matches!(shape, Shape::Word(old) if *old == word)) {
                shapes.push(Shape::Word(word));
            }
        }
        if types.has(Types::INTEGER.or(Types::FRACTION)) {
            let whole = !types.has(Types::FRACTION);
            let mut number = NumberRule { whole, ..NumberRule::default() };
            for rules in &rules {
                number.merge(&rules.number);
            }
            number.settle();
            shapes.push(Shape::Number(number));
        }
        if types.has(Types::STRING) {
            shapes.push(Shape::Text(text(&rules, self.patterns)));
        }
        if types.has(Types::ARRAY) {
            shapes.extend(self.list(&rules).map(Arc::new).map(Shape::List));
        }
        if types.has(Types::OBJECT) {
            shapes.extend(self.record(&rules).map(Arc::new).map(Shape::Record));
        }
    }

    /// `None` if no length is allowed.
    fn list(&mut self, rules: &[&Rules]) -> Option<List> {
        let rules: Vec<_> = rules.iter().map(|rules| &rules.list).collect();
        let num_prefix = rules.iter().map(|rule| rule.prefix.len()).max().unwrap_or(0);
        let min = rules.iter().map(|rule| rule.min).max().unwrap_or(0);
        let max = rules.iter().filter_map(|rule| rule.max).min();
        if max.is_some_and(|max| min > max) {
            return None;
        }
        let item = |index| rules.iter().filter_map(|rule| rule.item(index)).collect();
        let prefix: Vec<Vec<SourceId>> = (0..num_prefix).map(item).collect();
        let items = rules.iter().filter_map(|rule| rule.items).collect();
        let prefix = prefix.into_iter().map(|sources| self.node(sources)).collect();
        let unique = rules.iter().any(|rule| rule.unique);
        Some(List { prefix, items: self.node(items), min, max, unique })
    }

    /// `None` if no number of members is allowed.
    fn record(&mut self, rules: &[&Rules]) -> Option<Record> {
        let rules: Vec<_> = rules.iter().map(|rules| &rules.record).collect();
        let required: HashSet<&String> = rules.iter().flat_map(|rule| &rule.required).collect();
        let min = rules.iter().map(|rule| rule.min).max().unwrap_or(0);
        let max = rules.iter().filter_map(|rule| rule.max).min();
        if max.is_some_and(|max| max < min.max(required.len())) {
            return None;
        }
        let mut names = Vec::new();
        for name in ordered_names(&rules) {
            let sources = rules.iter().flat_map(|rule| self.member(rule, name)).collect();
            let node = self.node(sources);
            let quoted = serde_json::to_vec(name).ok()?;
            names.push(Name { quoted, node, required: required.contains(name) });
        }
        let extras = self.extras(&rules, &names);
        Some(Record { min, max, ..Record::new(names, extras) })
    }

    /// What one object schema says about the member `name`.
    fn member(&self, rule: &RecordRule, name: &str) -> Vec<SourceId> {
        let matching = rule
            .patterns
            .iter()
            .filter(|(pattern, _)| self.patterns.table(*pattern).is_some_and(|table| table.matches(name)));
        let mut sources: Vec<SourceId> = rule.named.get(name).copied().into_iter().collect();
        sources.extend(matching.map(|(_, source)| *source));
        if sources.is_empty() {
            sources.extend(rule.additional);
        }
        sources
    }

    fn extras(&mut self, rules: &[&RecordRule], names: &[Name]) -> Vec<Extra> {
        let mut patterns = Vec::new();
        for (pattern, _) in rules.iter().flat_map(|rule| &rule.patterns) {
            if !patterns.contains(pattern) {
                patterns.push(*pattern);
            }
        }
        let mut extras = Vec::new();
        for (pattern, of) in self.told_apart(&patterns, names) {
            let sources = |rule: &&RecordRule| {
                let own = rule.patterns.iter().filter(|(id, _)| of.contains(id)).map(|(_, source)| *source);
                let own: Vec<SourceId> = own.collect();
                if own.is_empty() { rule.additional.into_iter().collect() } else { own }
            };
            let sources = rules.iter().flat_map(sources).collect();
            extras.push(Extra { pattern: Some(pattern), node: self.node(sources) });
        }
        let additional = rules.iter().filter_map(|rule| rule.additional).collect();
        extras.push(Extra { pattern: None, node: self.node(additional) });
        extras
    }

    /// Patterns that exclude each other, and which of `patterns` apply to their names.
    fn told_apart(&mut self, patterns: &[PatternId], names: &[Name]) -> Vec<(PatternId, Vec<PatternId>)> {
        let as_sent = || patterns.iter().map(|&id| (id, vec![id])).collect();
        if !(2..=MAX_TOLD_APART).contains(&patterns.len()) {
            return as_sent();
        }
        if !self.cells.contains_key(patterns) {
            let texts: Vec<&str> = patterns.iter().map(|&id| self.patterns.sent(id)).collect();
            let table = |place: usize| self.patterns.table(patterns[place]);
            let excludes = |one: usize, other: usize| {
                table(one).zip(table(other)).is_some_and(|(one, other)| one.excludes(other))
            };
            let cells = told_apart(&texts, excludes);
            self.is_cut |= cells.iter().any(|cell| cell.is_united);
            self.cells.insert(patterns.to_vec(), cells);
        }
        let mut apart = Vec::new();
        for cell in self.cells[patterns].clone() {
            let Ok(id) = self.patterns.search(&cell.pattern) else { continue };
            // llguidance would ask a named member for what all of the united patterns say.
            if cell.is_united && names.iter().any(|name| self.may_match(id, name)) {
                return as_sent();
            }
            apart.push((id, cell.of.into_iter().map(|place| patterns[place]).collect()));
        }
        apart
    }

    fn may_match(&self, pattern: PatternId, name: &Name) -> bool {
        let text = serde_json::from_slice::<String>(&name.quoted);
        let table = self.patterns.table(pattern);
        table.zip(text.ok()).is_none_or(|(table, text)| table.matches(&text))
    }
}

/// The cost of a shape, for the budget: about a unit for 20 bytes.
fn size(shape: &Shape) -> usize {
    match shape {
        Shape::Word(_) => 1,
        Shape::Number(rule) => 4 + 2 * rule.literals.as_ref().map_or(0, Vec::len),
        Shape::Text(rule) => 4 + 2 * rule.literals.as_ref().map_or(0, Vec::len),
        Shape::List(list) => 1 + list.prefix.len(),
        Shape::Record(record) => 1 + UNITS_OF_NAME * record.names.len() + record.extras.len(),
    }
}

/// The names that have a place of their own: those of `properties` in the order of the schemas,
/// then those that are only required.
fn ordered_names<'r>(rules: &[&'r RecordRule]) -> Vec<&'r String> {
    let listed = rules.iter().flat_map(|rule| &rule.order);
    let required = rules.iter().flat_map(|rule| &rule.required);
    let mut seen = HashSet::new();
    listed.chain(required).filter(|name| seen.insert(*name)).collect()
}

fn text(rules: &[&Rules], patterns: &Patterns) -> TextRule {
    let mut text = TextRule::default();
    for rules in rules {
        text.merge(&rules.text);
    }
    text.settle(patterns);
    text
}
