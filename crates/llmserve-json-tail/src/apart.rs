//! Whether two subschemas share a value, as far as types, constants, bounds and required members tell.

use std::collections::HashMap;
use std::rc::Rc;

use super::number::NumberRule;
use super::pattern::Patterns;
use super::read::Schema;
use super::source::{Link, ListRule, RecordRule, Rules, Source, SourceId, Types};
use super::text::TextRule;

/// Nesting to which subschemas are compared.
const MAX_DEPTH: usize = 6;

/// The first items of arrays that are compared.
const MAX_ITEMS: usize = 8;
/// Maximum number of subschemas that are looked at for one answer.
const MAX_STEPS: usize = 300;

/// Compares subschemas, each pair once.
#[derive(Debug, Default)]
pub(super) struct Apart {
    known: HashMap<(SourceId, SourceId), bool>,
    clashes: HashMap<(SourceId, SourceId), Rc<[NameId]>>,
    required: HashMap<SourceId, Rc<[NameId]>>,
    names: HashMap<String, NameId>,
}

/// Index of a member's name.
pub(super) type NameId = usize;

impl Apart {
    /// Whether no value matches the own keywords of both.
    pub(super) fn own(
        &mut self,
        schema: &Schema,
        patterns: &Patterns,
        one: SourceId,
        other: SourceId,
    ) -> bool {
        let key = (one.min(other), one.max(other));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let (Source::Rules(one), Source::Rules(other)) = (&schema.sources[one], &schema.sources[other])
        else {
            return false;
        };
        let found = Comparison { schema, patterns, depth: 0, num_steps: 0 }.rules(one, other);
        self.known.insert(key, found);
        found
    }
}

impl Apart {
    /// The names of members that no object can have which matches both.
    pub(super) fn clashes(
        &mut self,
        schema: &Schema,
        patterns: &Patterns,
        one: SourceId,
        other: SourceId,
    ) -> Rc<[NameId]> {
        let key = (one.min(other), one.max(other));
        if let Some(known) = self.clashes.get(&key) {
            return Rc::clone(known);
        }
        let mut found = Vec::new();
        if let (Source::Rules(one), Source::Rules(other)) = (&schema.sources[one], &schema.sources[other]) {
            let (one, other) = (&one.record, &other.record);
            let all =
                one.order.iter().chain(other.order.iter().filter(|name| !one.named.contains_key(*name)));
            for name in all {
                let (Some(ours), Some(theirs)) = (member(one, name), member(other, name)) else { continue };
                if (Comparison { schema, patterns, depth: 1, num_steps: 0 }).sources(ours, theirs) {
                    found.push(self.name(name));
                }
            }
        }
        let found: Rc<[NameId]> = found.into();
        self.clashes.insert(key, Rc::clone(&found));
        found
    }

    /// The names of members that a subschema's own keywords require.
    pub(super) fn required(&mut self, schema: &Schema, id: SourceId) -> Rc<[NameId]> {
        if let Some(known) = self.required.get(&id) {
            return Rc::clone(known);
        }
        let names = match &schema.sources[id] {
            Source::Rules(rules) => rules.record.required.iter().map(|name| self.name(name)).collect(),
            Source::Any | Source::Never => Rc::default(),
        };
        self.required.insert(id, Rc::clone(&names));
        names
    }

    fn name(&mut self, name: &str) -> NameId {
        let next = self.names.len();
        *self.names.entry(name.to_owned()).or_insert(next)
    }
}

/// One question; what takes too long to find out is not known.
struct Comparison<'s> {
    schema: &'s Schema,
    patterns: &'s Patterns,
    depth: usize,
    num_steps: usize,
}

impl Comparison<'_> {
    /// Whether no value matches both, whatever they draw in.
    fn sources(&mut self, one: SourceId, other: SourceId) -> bool {
        self.num_steps += 1;
        match (&self.schema.sources[one], &self.schema.sources[other]) {
            (Source::Never, _) | (_, Source::Never) => true,
            (Source::Any, _) | (_, Source::Any) => false,
            (Source::Rules(own), Source::Rules(others)) => {
                if self.depth == MAX_DEPTH || self.num_steps > MAX_STEPS || one == other {
                    return false;
                }
                self.depth += 1;
                let found = (own.types & others.types).is_empty()
                    || self.drawn(own, other)
                    || self.drawn(others, one);
                self.depth -= 1;
                found
            }
        }
    }

    /// Whether something that `rules` draw in excludes `other`.
    fn drawn(&mut self, own: &Rules, other: SourceId) -> bool {
        let schema = self.schema;
        own.links.iter().any(|link| match link {
            Link::Own => match &schema.sources[other] {
                Source::Rules(others) => {
                    let has_own = others.links.iter().any(|link| matches!(link, Link::Own));
                    has_own && self.rules(own, others)
                }
                Source::Any | Source::Never => false,
            },
            Link::Also(target) => self.sources(*target, other),
            Link::Choice(branches) => branches.iter().all(|branch| self.sources(*branch, other)),
        })
    }

    fn rules(&mut self, one: &Rules, other: &Rules) -> bool {
        let types = one.types & other.types;
        let is_only = |kind: Types| (types & kind) == types;
        if types.is_empty() {
            return true;
        }
        if is_only(Types::STRING) {
            return self.texts(&one.text, &other.text);
        }
        if is_only(Types::INTEGER.or(Types::FRACTION)) {
            return numbers(&one.number, &other.number);
        }
        if is_only(Types::ARRAY) {
            return self.lists(&one.list, &other.list);
        }
        is_only(Types::OBJECT)
            && (self.members(&one.record, &other.record) || self.members(&other.record, &one.record))
    }

    fn texts(&self, one: &TextRule, other: &TextRule) -> bool {
        let mut both = one.clone();
        both.merge(other);
        if both.max.is_some_and(|max| max < both.min) {
            return true;
        }
        both.settle(self.patterns);
        if let Some(literals) = &both.literals {
            return literals.is_empty();
        }
        let mut pairs =
            one.patterns.iter().flat_map(|one| other.patterns.iter().map(move |other| (*one, *other)));
        pairs.any(|(one, other)| {
            let tables = (self.patterns.table(one), self.patterns.table(other));
            one != other && matches!(tables, (Some(one), Some(other)) if one.excludes(other))
        })
    }

    fn lists(&mut self, one: &ListRule, other: &ListRule) -> bool {
        let min = one.min.max(other.min);
        let max = one.max.into_iter().chain(other.max).min();
        max.is_some_and(|max| max < min)
            || (0..min.min(MAX_ITEMS)).any(|place| match (one.item(place), other.item(place)) {
                (Some(ours), Some(theirs)) => self.sources(ours, theirs),
                (Some(only), None) | (None, Some(only)) => matches!(self.schema.sources[only], Source::Never),
                (None, None) => false,
            })
    }

    /// Whether a member that `one` requires excludes the other.
    fn members(&mut self, one: &RecordRule, other: &RecordRule) -> bool {
        one.required.iter().any(|name| match (member(one, name), member(other, name)) {
            (Some(ours), Some(theirs)) => self.sources(ours, theirs),
            (Some(only), None) | (None, Some(only)) => matches!(self.schema.sources[only], Source::Never),
            (None, None) => false,
        })
    }
}

fn numbers(one: &NumberRule, other: &NumberRule) -> bool {
    let mut both = one.clone();
    both.merge(other);
    both.settle();
    if let Some(literals) = &both.literals {
        return literals.is_empty();
    }
    both.min.zip(both.max).is_some_and(|(min, max)| {
        min.value > max.value || min.value >= max.value && (min.exclusive || max.exclusive)
    })
}

fn member(rule: &RecordRule, name: &str) -> Option<SourceId> {
    let rest = if rule.patterns.is_empty() { rule.additional } else { None };
    rule.named.get(name).copied().or(rest)
}
