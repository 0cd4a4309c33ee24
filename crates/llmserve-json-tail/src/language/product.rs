//! The automaton of several patterns over characters.

use std::collections::HashMap;

use regex_syntax::hir::{Class, Hir, HirKind, Look};

use super::super::automaton::{Automaton, State};
use super::super::pattern::parse;

/// Maximum number of states, and of spans of characters that are told apart.
const MAX_STATES: usize = 400;
const MAX_SPANS: usize = 120;

/// First and last of characters that follow each other.
pub(super) type Span = (char, char);

/// An automaton over characters, in which no state lacks a successor.
#[derive(Debug)]
pub(super) struct Product {
    spans: Vec<Span>,
    /// For each state, the state after a character of each span.
    next: Vec<Vec<usize>>,
    /// For each state, which patterns match there.
    matches: Vec<Vec<bool>>,
}

/// The automaton of a language with the fewest states; it begins in the first one.
#[derive(Debug)]
pub(super) struct Minimal {
    pub(super) spans: Vec<Span>,
    pub(super) next: Vec<Vec<usize>>,
    pub(super) accepts: Vec<bool>,
}

impl Product {
    /// `None` if it would be too large.
    pub(super) fn new(patterns: &[&str], tables: &[Automaton]) -> Option<Self> {
        let spans = spans(patterns)?;
        let begin: Vec<Option<State>> = vec![Some(Automaton::START); tables.len()];
        let mut ids = HashMap::from([(begin.clone(), 0)]);
        let mut order = vec![begin];
        let mut next = Vec::new();
        while let Some(states) = order.get(next.len()).cloned() {
            let mut row = Vec::with_capacity(spans.len());
            for (first, _) in &spans {
                let mut bytes = [0; 4];
                let bytes = first.encode_utf8(&mut bytes).as_bytes();
                let step = |(table, state): (&Automaton, &Option<State>)| table.run((*state)?, bytes);
                let target: Vec<_> = tables.iter().zip(&states).map(step).collect();
                row.push(*ids.entry(target).or_insert_with_key(|target| {
                    order.push(target.clone());
                    order.len() - 1
                }));
            }
            if order.len() > MAX_STATES {
                return None;
            }
            next.push(row);
        }
        let matches = |states: &Vec<Option<State>>| {
            tables
                .iter()
                .zip(states)
                .map(|(table, state)| state.is_some_and(|state| table.accepts(state)))
                .collect()
        };
        Some(Self { spans, next, matches: order.iter().map(matches).collect() })
    }

    /// States that lead to the same texts are one (Moore).
    pub(super) fn minimal(&self, is_in: impl Fn(&[bool]) -> bool) -> Minimal {
        let accepts: Vec<bool> = self.matches.iter().map(|matches| is_in(matches)).collect();
        let mut class: Vec<usize> = accepts.iter().map(|accepts| usize::from(*accepts)).collect();
        let mut num_classes = 0;
        loop {
            let mut ids = HashMap::new();
            let mut finer = Vec::with_capacity(class.len());
            for (state, row) in self.next.iter().enumerate() {
                let signature: Vec<usize> =
                    [class[state]].into_iter().chain(row.iter().map(|&target| class[target])).collect();
                let id = ids.len();
                finer.push(*ids.entry(signature).or_insert(id));
            }
            class = finer;
            if ids.len() == num_classes {
                break;
            }
            num_classes = ids.len();
        }
        let mut minimal = Minimal { spans: self.spans.clone(), next: Vec::new(), accepts: Vec::new() };
        for (state, row) in self.next.iter().enumerate() {
            // Classes are numbered in the order of their first states.
            if class[state] == minimal.next.len() {
                minimal.next.push(row.iter().map(|&target| class[target]).collect());
                minimal.accepts.push(accepts[state]);
            }
        }
        minimal
    }
}

/// Characters that no pattern tells apart.
fn spans(patterns: &[&str]) -> Option<Vec<Span>> {
    let mut starts = vec!['\0'];
    for pattern in patterns {
        boundaries(&parse(pattern).ok()?, &mut starts);
    }
    starts.sort_unstable();
    starts.dedup();
    if starts.len() > MAX_SPANS {
        return None;
    }
    let ends = starts[1..].iter().filter_map(|&next| before(next)).chain([char::MAX]);
    Some(starts.iter().copied().zip(ends).collect())
}

/// Adds the characters at which another span may begin.
fn boundaries(expression: &Hir, out: &mut Vec<char>) {
    let mut add = |first: char, last: char| out.extend([Some(first), after(last)].into_iter().flatten());
    match expression.kind() {
        HirKind::Literal(literal) => {
            for c in String::from_utf8_lossy(&literal.0).chars() {
                add(c, c);
            }
        }
        HirKind::Class(Class::Unicode(class)) => {
            class.iter().for_each(|range| add(range.start(), range.end()));
        }
        HirKind::Class(Class::Bytes(class)) => {
            class.iter().for_each(|range| add(char::from(range.start()), char::from(range.end())));
        }
        HirKind::Repetition(repetition) => boundaries(&repetition.sub, out),
        HirKind::Capture(capture) => boundaries(&capture.sub, out),
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            for part in parts {
                boundaries(part, out);
            }
        }
        HirKind::Look(Look::WordUnicode | Look::WordUnicodeNegate) => {
            add('\0', '\x7f');
            for (first, last) in [('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')] {
                add(first, last);
            }
        }
        HirKind::Empty | HirKind::Look(_) => {}
    }
}

/// The next character; those of surrogates are left out.
pub(super) fn after(c: char) -> Option<char> {
    (c..=char::MAX).nth(1)
}

fn before(c: char) -> Option<char> {
    ('\0'..c).next_back()
}
