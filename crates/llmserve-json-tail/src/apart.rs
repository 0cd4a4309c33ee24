//! Whether two subschemas share a value, as far as types, constants, bounds and required members tell.

use std::collections::HashMap;

use super::number::NumberRule;
use super::read::Schema;
use super::source::{Link, RecordRule, Rules, Source, SourceId, Types};
use super::text::TextRule;

/// Nesting to which subschemas are compared.
const MAX_DEPTH: usize = 6;

/// Maximum number of subschemas that are looked at for one answer.
const MAX_STEPS: usize = 300;

/// Compares subschemas, each pair once.
#[derive(Debug, Default)]
pub(super) struct Apart {
    known: HashMap<(SourceId, SourceId), bool>,
}

impl Apart {
    /// Whether no value matches the own keywords of both.
    pub(super) fn own(&mut self, schema: &Schema, one: SourceId, other: SourceId) -> bool {
        let key = (one.min(other), one.max(other));
        if let Some(known) = self.known.get(&key) {
            return *known;
        }
        let (Source::Rules(one), Source::Rules(other)) = (&schema.sources[one], &schema.sources[other]) else {
            return false;
        };
        let found = Comparison { schema, depth: 0, num_steps: 0 }.rules(one, other);
        self.known.insert(key, found);
        found
    }
}

/// One question; what takes too long to find out is not known.
struct Comparison<'s> {
    schema: &'s Schema,
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
            return texts(&one.text, &other.text);
        }
        if is_only(Types::INTEGER.or(Types::FRACTION)) {
            return numbers(&one.number, &other.number);
        }
        if is_only(Types::ARRAY) {
            let (one, other) = (&one.list, &other.list);
            return one.max.is_some_and(|max| max < other.min) || other.max.is_some_and(|max| max < one.min);
        }
        is_only(Types::OBJECT)
            && (self.members(&one.record, &other.record) || self.members(&other.record, &one.record))
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

fn texts(one: &TextRule, other: &TextRule) -> bool {
    if one.max.is_some_and(|max| max < other.min) || other.max.is_some_and(|max| max < one.min) {
        return true;
    }
    match (&one.literals, &other.literals) {
        (Some(ours), Some(theirs)) => !ours.iter().any(|literal| theirs.contains(literal)),
        _ => false,
    }
}

fn numbers(one: &NumberRule, other: &NumberRule) -> bool {
    let mut both = one.clone();
    both.merge(other);
    both.settle();
    if let Some(literals) = &both.literals {
        return literals.is_empty();
    }
    both.min.zip(both.max).is_some_and(|(min, max)| min.value > max.value)
}

fn member(rule: &RecordRule, name: &str) -> Option<SourceId> {
    let rest = if rule.patterns.is_empty() { rule.additional } else { None };
    rule.named.get(name).copied().or(rest)
}
