//! The rules of a string, and how a string that is cut anywhere can be ended.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::automaton::{Automaton, State, readable_first};
use super::pattern::{PatternId, Patterns};
use super::quoting::{Content, escape_endings, finish_character, quote_into};

/// Maximum number of steps in one search for the end of a string.
const MAX_STEPS: usize = 20_000;
/// Maximum number of endings for one string.
const MAX_ENDINGS: usize = 4;

/// The string keywords of a schema.
#[derive(Debug, Default, Clone)]
pub(super) struct TextRule {
    /// Minimum length in characters.
    pub(super) min: usize,
    pub(super) max: Option<usize>,
    pub(super) patterns: Vec<PatternId>,
    /// `enum` and `const`.
    pub(super) literals: Option<Vec<String>>,
}

impl TextRule {
    /// Both rules at once.
    pub(super) fn merge(&mut self, other: &Self) {
        self.min = self.min.max(other.min);
        self.max = self.max.into_iter().chain(other.max).min();
        for &pattern in &other.patterns {
            if !self.patterns.contains(&pattern) {
                self.patterns.push(pattern);
            }
        }
        self.literals = match (self.literals.take(), &other.literals) {
            (Some(mut own), Some(others)) => {
                let others: HashSet<&String> = others.iter().collect();
                own.retain(|literal| others.contains(literal));
                Some(own)
            }
            (own, others) => own.or_else(|| others.clone()),
        };
    }

    /// Removes the literals that break the other rules.
    pub(super) fn settle(&mut self, patterns: &Patterns) {
        let literals = self.literals.take();
        self.literals = literals.map(|mut literals| {
            literals.retain(|literal| self.admits(patterns, &mut Content::whole(literal)));
            literals
        });
    }

    /// Whether a string of this content matches the rule, as far as the tables tell.
    pub(super) fn admits(&self, patterns: &Patterns, content: &mut Content) -> bool {
        let length = content.num_characters;
        if content.is_wrong || length < self.min || self.max.is_some_and(|max| length > max) {
            return false;
        }
        if let Some(literals) = &self.literals {
            return literals.iter().any(|literal| literal.as_bytes() == content.decoded);
        }
        let mut tables = self.patterns.iter().filter_map(|&id| Some((id, patterns.table(id)?)));
        tables.all(|(id, table)| content.run(id, table, b"").is_some_and(|state| table.accepts(state)))
    }

    /// What can follow a string that has begun with `content`, closing quote included, shortest first.
    pub(super) fn endings(&self, patterns: &Patterns, content: &mut Content) -> Vec<Vec<u8>> {
        let mut endings = Vec::new();
        if content.is_wrong {
            return endings;
        }
        if content.escape.is_empty() {
            endings.extend(self.ending(patterns, content, Vec::new(), b""));
        } else {
            for (tail, character) in escape_endings(&content.escape) {
                let character = character.encode_utf8(&mut [0; 4]).as_bytes().to_vec();
                endings.extend(self.ending(patterns, content, tail, &character));
            }
        }
        endings.sort_by_key(Vec::len);
        endings.truncate(MAX_ENDINGS);
        endings
    }

    fn ending(
        &self,
        patterns: &Patterns,
        content: &mut Content,
        mut tail: Vec<u8>,
        more: &[u8],
    ) -> Option<Vec<u8>> {
        quote_into(&self.rest(patterns, content, more)?, &mut tail);
        tail.push(b'"');
        Some(tail)
    }

    /// A shortest continuation of the content and the whole characters `more`.
    fn rest(&self, patterns: &Patterns, content: &mut Content, more: &[u8]) -> Option<Vec<u8>> {
        if let Some(literals) = &self.literals {
            let rest = |text: &'_ String| {
                text.as_bytes().strip_prefix(&content.decoded[..])?.strip_prefix(more).map(<[u8]>::len)
            };
            let rests = literals.iter().filter_map(|text| Some((rest(text)?, text)));
            let (len, text) = rests.min_by_key(|(len, _)| *len)?;
            return Some(text.as_bytes()[text.len() - len..].to_vec());
        }
        let length = content.num_characters + usize::from(!more.is_empty());
        if self.patterns.is_empty() {
            return self.padding(length, if more.is_empty() { &content.decoded } else { b"" });
        }
        if let Some(rest) = self.expected(patterns, content, more, length) {
            return Some(rest);
        }
        let tables = self.patterns.iter().map(|&id| Some((id, patterns.table(id)?)));
        let tables: Vec<_> = tables.collect::<Option<_>>()?;
        let states = tables.iter().map(|(id, table)| content.run(*id, table, more));
        let states = states.collect::<Option<_>>()?;
        let tables = tables.into_iter().map(|(_, table)| table).collect();
        Search { rule: self, tables }.shortest(states, length)
    }

    /// The rest of the text that a reader would expect, if the string has begun like it.
    fn expected(
        &self,
        patterns: &Patterns,
        content: &Content,
        more: &[u8],
        length: usize,
    ) -> Option<Vec<u8>> {
        let [only] = self.patterns[..] else { return None };
        let text = patterns.example(only)?.as_bytes();
        let fits = self.min <= text.len() && self.max.is_none_or(|max| text.len() <= max);
        let rest = text.strip_prefix(&content.decoded[..])?.strip_prefix(more)?;
        (fits && length <= text.len()).then(|| rest.to_vec())
    }

    /// Bytes of the longest rest that one more character can ask for.
    pub(super) fn longest(&self, patterns: &Patterns) -> usize {
        let literal = self.literals.iter().flatten().map(String::len).max().unwrap_or(0);
        let tables = self.patterns.iter().filter_map(|&id| patterns.table(id));
        literal.max(tables.map(Automaton::farthest).max().unwrap_or(0)) + 2
    }

    /// What follows `length` characters, of which `last` has the last one.
    fn padding(&self, length: usize, last: &[u8]) -> Option<Vec<u8>> {
        if self.max.is_some_and(|max| length > max) {
            return None;
        }
        let mut rest = finish_character(last);
        rest.resize(rest.len() + self.min.saturating_sub(length), b'a');
        Some(rest)
    }
}

/// Best-first search through the product of all tables and the length.
struct Search<'a> {
    rule: &'a TextRule,
    tables: Vec<&'a Automaton>,
}

/// One place of the search.
struct Place {
    states: Box<[State]>,
    length: usize,
    from: usize,
    byte: u8,
}

impl Search<'_> {
    fn shortest(&self, states: Box<[State]>, length: usize) -> Option<Vec<u8>> {
        let mut places = vec![Place { states, length, from: 0, byte: 0 }];
        let mut seen = HashSet::new();
        let mut open = BinaryHeap::from([(Reverse(self.bound(&places[0])), 0, 0)]);
        while let Some((_, depth, index)) = open.pop() {
            if self.is_end(&places[index]) {
                return Some(path(&places, index));
            }
            if places.len() > MAX_STEPS {
                return None;
            }
            for place in self.successors(&places[index], index) {
                if seen.insert((place.states.clone(), self.kept_length(place.length))) {
                    let bound = depth + 1 + self.bound(&place);
                    places.push(place);
                    open.push((Reverse(bound), depth + 1, places.len() - 1));
                }
            }
        }
        None
    }

    fn successors(&self, place: &Place, from: usize) -> Vec<Place> {
        let next = |&(byte, _): &(u8, State)| {
            let length = place.length + usize::from(byte & 0xc0 != 0x80);
            if self.rule.max.is_some_and(|max| length > max) {
                return None;
            }
            let states = self.tables.iter().zip(&place.states);
            let states = states.map(|(table, &state)| table.step(state, byte));
            Some(Place { states: states.collect::<Option<_>>()?, length, from, byte })
        };
        if let ([table], [state]) = (&self.tables[..], &place.states[..]) {
            return table.moves(*state).iter().filter_map(next).collect();
        }
        // What several tables allow together none of them may propose alone.
        let mut seen = HashSet::new();
        let places = readable_first().filter_map(|byte| next(&(byte, 0)));
        places.filter(|place| seen.insert(place.states.clone())).collect()
    }

    fn is_end(&self, place: &Place) -> bool {
        let accepted = self.tables.iter().zip(&place.states).all(|(table, &state)| table.accepts(state));
        accepted && place.length >= self.rule.min
    }

    /// Minimum number of bytes that are still needed.
    fn bound(&self, place: &Place) -> usize {
        let distances = self.tables.iter().zip(&place.states);
        let farthest = distances.map(|(table, &state)| table.distance(state) as usize).max();
        farthest.unwrap_or(0).max(self.rule.min.saturating_sub(place.length))
    }

    /// The length, as far as it matters to what may follow.
    fn kept_length(&self, length: usize) -> usize {
        if self.rule.max.is_some() { length } else { length.min(self.rule.min) }
    }
}

fn path(places: &[Place], mut index: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while index != 0 {
        bytes.push(places[index].byte);
        index = places[index].from;
    }
    bytes.reverse();
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(pattern: &str) -> (TextRule, Patterns) {
        let mut patterns = Patterns::default();
        let id = patterns.search(pattern).unwrap();
        (TextRule { patterns: vec![id], ..TextRule::default() }, patterns)
    }

    fn first(rule: &TextRule, patterns: &Patterns, raw: &str) -> Option<String> {
        let endings = rule.endings(patterns, &mut Content::of(raw.as_bytes()));
        endings.into_iter().next().map(|ending| String::from_utf8(ending).unwrap())
    }

    #[test]
    fn a_pattern_is_continued_to_its_match() {
        let (rule, patterns) = rule(r"^\d{3}-\w+$");
        assert_eq!(first(&rule, &patterns, "").unwrap(), "000-a\"");
        assert_eq!(first(&rule, &patterns, "12").unwrap(), "0-a\"");
        assert_eq!(first(&rule, &patterns, "1x"), None);
    }

    #[test]
    fn lengths_count_characters_and_go_with_patterns() {
        let (mut rule, patterns) = rule("^é+x$");
        rule.min = 4;
        assert_eq!(first(&rule, &patterns, "").unwrap(), "éééx\"");
        rule.max = Some(3);
        assert_eq!(first(&rule, &patterns, ""), None);
    }

    #[test]
    fn patterns_meet_in_a_byte_that_neither_proposes() {
        let (mut rule, mut patterns) = rule("^([a-z][0-9])+$");
        rule.patterns.push(patterns.search("[m-u]8$").unwrap());
        rule.patterns.push(patterns.search("[s-z][5-9]$").unwrap());
        assert_eq!(first(&rule, &patterns, "").unwrap(), "s8\"");
    }

    #[test]
    fn what_needs_an_escape_is_escaped() {
        let (rule, patterns) = rule("^\\n\"$");
        assert_eq!(first(&rule, &patterns, "").unwrap(), "\\n\\\"\"");
        assert_eq!(first(&rule, &patterns, "\\").unwrap(), "n\\\"\"");
        assert_eq!(first(&rule, &patterns, "\\u0").unwrap(), "00a\\\"\"");
    }

    #[test]
    fn literals_go_on_from_their_beginning() {
        let literals = Some(vec!["añejo".to_owned(), "b\"c".to_owned()]);
        let rule = TextRule { literals, ..TextRule::default() };
        let patterns = Patterns::default();
        assert_eq!(first(&rule, &patterns, "a").unwrap(), "ñejo\"");
        assert_eq!(first(&rule, &patterns, "b").unwrap(), "\\\"c\"");
        assert_eq!(first(&rule, &patterns, "b\\").unwrap(), "\"c\"");
        assert_eq!(first(&rule, &patterns, "c"), None);
    }

    #[test]
    fn a_long_minimum_with_a_pattern_is_found() {
        let (mut rule, patterns) = rule("^[a-z]+$");
        rule.min = 3000;
        assert_eq!(first(&rule, &patterns, "").unwrap().len(), 3001);
    }
}
