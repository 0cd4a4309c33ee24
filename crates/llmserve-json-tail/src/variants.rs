//! Different values, where the shortest alone is not enough: names that are taken, items that must be unique.

use std::collections::HashSet;
use std::ops::Range;

use super::members::{self, FreeNames, Member, State};
use super::number::NumberRule;
use super::pattern::Patterns;
use super::quoting::{Content, quote_into};
use super::shape::{List, NodeId, Record, Shape};
use super::text::TextRule;
use super::unique::canonical;
use super::witness::Writer;

/// Rounds of longer strings that are tried.
const MAX_ROUNDS: usize = 64;
/// Nesting in which one member or item is varied.
const MAX_DEPTH: usize = 3;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_";

impl TextRule {
    /// Endings of a string that are `round` characters longer than needed, or differ in a letter from such.
    pub(super) fn variants(&self, patterns: &Patterns, content: &mut Content, round: usize) -> Vec<Vec<u8>> {
        if self.patterns.is_empty() {
            return self.suffixed(patterns, content, round);
        }
        let min = self.min.max(content.num_characters + round);
        let rule = Self { min, ..self.clone() };
        let mut endings = rule.endings(patterns, content);
        let Some(first) = endings.first().cloned() else { return endings };
        for place in (0..first.len()).filter(|&place| first[place].is_ascii_alphanumeric()) {
            for letter in LETTERS {
                let mut changed = first.clone();
                changed[place] = *letter;
                let mut whole = content.clone();
                whole.feed(&changed[..changed.len() - 1]);
                if rule.admits(patterns, &mut whole) {
                    endings.push(changed);
                }
            }
        }
        endings
    }

    /// Endings with the `round`-th suffix.
    fn suffixed(&self, patterns: &Patterns, content: &mut Content, round: usize) -> Vec<Vec<u8>> {
        let mut suffix = Vec::new();
        let mut rest = round;
        while rest > 0 {
            suffix.push(LETTERS[(rest - 1) % LETTERS.len()]);
            rest = (rest - 1) / LETTERS.len();
        }
        let mut endings = self.endings(patterns, content);
        for ending in &mut endings {
            ending.pop();
            quote_into(&suffix, ending);
            ending.push(b'"');
        }
        endings
    }

    /// Endings of at least `count` different strings, if there are as many.
    pub(super) fn different(&self, patterns: &Patterns, content: &mut Content, count: usize) -> Vec<Vec<u8>> {
        if let Some(literals) = &self.literals {
            let rests = literals.iter().filter_map(|text| text.as_bytes().strip_prefix(&content.decoded[..]));
            let quoted = rests.map(|rest| {
                let mut ending = Vec::new();
                quote_into(rest, &mut ending);
                ending.push(b'"');
                ending
            });
            return if content.escape.is_empty() {
                quoted.collect()
            } else {
                self.endings(patterns, content)
            };
        }
        let mut found: Vec<Vec<u8>> = Vec::new();
        for round in 0..MAX_ROUNDS {
            if found.len() >= count {
                break;
            }
            for ending in self.variants(patterns, content, round) {
                let mut whole = content.clone();
                whole.feed(&ending[..ending.len() - 1]);
                if self.admits(patterns, &mut whole) && !found.contains(&ending) {
                    found.push(ending);
                }
            }
        }
        found
    }
}

impl NumberRule {
    /// Endings of at least `count` different numbers, if there are as many.
    pub(super) fn different(&self, begun: &str, count: usize) -> Vec<String> {
        if let Some(literals) = &self.literals {
            return literals.iter().filter_map(|text| text.strip_prefix(begun)).map(str::to_owned).collect();
        }
        let mut found = self.endings(begun);
        let first = if begun.is_empty() { found.first().and_then(|text| text.parse().ok()) } else { None };
        let first = first.unwrap_or(0_i64);
        for further in 0..i64::try_from(count).unwrap_or(i64::MAX) {
            for number in [first.saturating_add(further), first.saturating_sub(further)] {
                let ending = number.to_string();
                if self.admits(&format!("{begun}{ending}")) && !found.contains(&ending) {
                    found.push(ending);
                }
            }
        }
        found
    }
}

impl Writer<'_> {
    /// Documents of a place: `count` different ones, if as many are known.
    pub(super) fn values(&self, node: NodeId, count: usize) -> Vec<Vec<u8>> {
        self.nested(node, count, MAX_DEPTH)
    }

    fn nested(&self, node: NodeId, count: usize, depth: usize) -> Vec<Vec<u8>> {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for shape in &self.nodes.shapes[node] {
            match shape {
                Shape::Word(word) => found.push(word.as_bytes().to_vec()),
                Shape::Number(rule) => {
                    found.extend(rule.different("", count).into_iter().map(String::into_bytes));
                }
                Shape::Text(rule) => {
                    let endings = rule.different(self.patterns, &mut Content::default(), count);
                    found.extend(endings.into_iter().map(|ending| [b"\"", &ending[..]].concat()));
                }
                Shape::List(list) => {
                    let more = if depth == 0 { 1 } else { count };
                    let items = (0..more).filter_map(|more| {
                        let items = self.items(list, 0..list.min + more, &mut HashSet::new())?;
                        Some([b"[", &items[..], b"]"].concat())
                    });
                    found.extend(items);
                }
                Shape::Record(record) => {
                    let rests = self.rests(record, &State::default(), count, depth);
                    found.extend(rests.into_iter().map(|rest| [b"{", &rest[..]].concat()));
                }
            }
        }
        found.sort();
        found.dedup();
        found.sort_by_key(Vec::len);
        found.truncate(count);
        found
    }

    /// Items of an array, with the commas in front of them; those that have to be unique are none of `taken`.
    pub(super) fn items(
        &self,
        list: &List,
        places: Range<usize>,
        taken: &mut HashSet<String>,
    ) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for at in places {
            if at > 0 {
                out.push(b',');
            }
            if !list.unique {
                out.extend(self.shortest(list.item(at))?);
                continue;
            }
            let values = self.values(list.item(at), taken.len() + 1);
            out.extend(values.into_iter().find(|value| taken.insert(canonical(value)))?);
        }
        Some(out)
    }

    /// The rest of an object and its end: `count` different ones, if as many are known.
    pub(super) fn all_rests(&self, record: &Record, state: &State, count: usize) -> Vec<Vec<u8>> {
        self.rests(record, state, count, MAX_DEPTH)
    }

    fn rests(&self, record: &Record, state: &State, count: usize, depth: usize) -> Vec<Vec<u8>> {
        let is_first = state.count == 0;
        let Some(missing) = members::missing(self.witnesses, self.patterns, record, state) else {
            return Vec::new();
        };
        let mut ways: Vec<Vec<u8>> = self.members(&missing, None, is_first).into_iter().collect();
        if depth == 0 {
            return ways;
        }
        for (place, member) in missing.iter().enumerate() {
            if ways.len() >= count {
                return ways;
            }
            let values = self.nested(member.node, count, depth - 1);
            ways.extend(
                values.iter().filter_map(|value| self.members(&missing, Some((place, value)), is_first)),
            );
        }
        self.add_optional(record, state, (count, depth), &mut ways);
        if ways.len() < count {
            self.add_free(record, state, count, &mut ways);
        }
        ways
    }

    /// Ways with a further member that may come next.
    fn add_optional(
        &self,
        record: &Record,
        state: &State,
        (count, depth): (usize, usize),
        ways: &mut Vec<Vec<u8>>,
    ) {
        let end = record.next_required[state.at];
        for place in members::optional(self.witnesses, record, state.at) {
            if ways.len() >= count {
                return;
            }
            if place > end {
                continue;
            }
            let name = &record.names[place];
            let after = state.clone().with_member(record, place + 1, None);
            let Some(missing) = members::missing(self.witnesses, self.patterns, record, &after) else {
                continue;
            };
            let Some(rest) = self.members(&missing, None, false) else { continue };
            let comma: &[u8] = if state.count == 0 { b"" } else { b"," };
            let values = self.nested(name.node, count, depth - 1);
            ways.extend(values.iter().map(|value| [comma, &name.quoted, b":", value, &rest].concat()));
        }
    }

    /// Ways with a further member of a free name, behind all others.
    fn add_free(&self, record: &Record, state: &State, count: usize, ways: &mut Vec<Vec<u8>>) {
        let Some(mut rest) = ways.first().cloned() else { return };
        rest.pop();
        let comma: &[u8] = if state.count == 0 && rest.is_empty() { b"" } else { b"," };
        for extra in &record.extras {
            let Some(value) = self.shortest(extra.node) else { continue };
            let names = FreeNames { patterns: self.patterns, record, extra, taken: &state.taken };
            let names = names.after(b"", &mut Content::default(), count);
            ways.extend(names.iter().map(|name| [&rest, comma, b"\"", name, b":", &value, b"}"].concat()));
        }
    }

    /// Members and the end of their object; the one at a place with a value of its own.
    fn members(&self, members: &[Member], own: Option<(usize, &Vec<u8>)>, is_first: bool) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        for (place, member) in members.iter().enumerate() {
            if !(is_first && place == 0) {
                out.push(b',');
            }
            out.extend(&member.key);
            out.push(b':');
            match own.filter(|(own, _)| *own == place) {
                Some((_, value)) => out.extend(value),
                None => out.extend(self.shortest(member.node)?),
            }
        }
        out.push(b'}');
        Some(out)
    }
}
