//! An automaton as a regular expression: states are taken out one by one, and what led through them is written on
//! the edges that remain.

use super::product::{Minimal, Span, after};

/// Maximum number of states, and of bytes on one edge.
const MAX_STATES: usize = 160;
const MAX_BYTES: usize = 8 << 10;

pub(super) enum Outcome {
    Nothing,
    Text(String),
    TooLarge,
}

/// How tightly the parts of an expression hold together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Choice,
    Sequence,
    Unit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Expression {
    pub(super) text: String,
    form: Form,
}

/// The expression of all texts that lead from the first state to one that accepts.
pub(super) fn of(automaton: &Minimal) -> Outcome {
    let n = automaton.next.len();
    if n > MAX_STATES {
        return Outcome::TooLarge;
    }
    // A state in front of all, and one behind those that accept.
    let (begin, end) = (n, n + 1);
    let mut edges = vec![vec![None; n + 2]; n + 2];
    edges[begin][0] = Some(Expression::empty());
    for (state, row) in automaton.next.iter().enumerate() {
        for (target, edge) in edges[state][..n].iter_mut().enumerate() {
            let spans =
                automaton.spans.iter().zip(row).filter(|(_, to)| **to == target).map(|(span, _)| *span);
            *edge = class(spans);
        }
        edges[state][end] = automaton.accepts[state].then(Expression::empty);
    }
    let mut left: Vec<usize> = (0..n).collect();
    while let Some(place) = (0..left.len()).min_by_key(|&place| weight(&edges, left[place])) {
        let state = left.swap_remove(place);
        if !take_out(&mut edges, state) {
            return Outcome::TooLarge;
        }
    }
    edges[begin][end].take().map_or(Outcome::Nothing, |expression| Outcome::Text(expression.text))
}

type Edges = Vec<Vec<Option<Expression>>>;

/// How much is written when a state is taken out.
fn weight(edges: &Edges, state: usize) -> usize {
    let len = |edge: &Option<Expression>| edge.as_ref().map_or(0, |edge| edge.text.len() + 1);
    let others = || (0..edges.len()).filter(|&other| other != state);
    let into: usize = others().map(|other| len(&edges[other][state])).sum();
    let out: usize = others().map(|other| len(&edges[state][other])).sum();
    let num_into = others().filter(|&other| edges[other][state].is_some()).count();
    let num_out = others().filter(|&other| edges[state][other].is_some()).count();
    into * num_out + out * num_into + len(&edges[state][state]) * num_into * num_out
}

/// Writes the ways through `state` on other edges; false if one becomes too long.
fn take_out(edges: &mut Edges, state: usize) -> bool {
    let around = edges[state][state].take().map_or_else(Expression::empty, Expression::repeated);
    let out: Vec<(usize, Expression)> =
        edges[state].iter_mut().enumerate().filter_map(|(to, edge)| Some((to, edge.take()?))).collect();
    for row in edges.iter_mut() {
        let Some(into) = row[state].take() else { continue };
        let into = into.then(&around);
        for (to, last) in &out {
            let way = into.clone().then(last);
            let edge = match row[*to].take() {
                Some(edge) => edge.or(way),
                None => way,
            };
            if edge.text.len() > MAX_BYTES {
                return false;
            }
            row[*to] = Some(edge);
        }
    }
    true
}

impl Expression {
    fn empty() -> Self {
        Self { text: String::new(), form: Form::Sequence }
    }

    fn then(self, next: &Self) -> Self {
        if next.text.is_empty() {
            return self;
        }
        if self.text.is_empty() {
            return next.clone();
        }
        Self {
            text: self.within(Form::Sequence) + &next.clone().within(Form::Sequence),
            form: Form::Sequence,
        }
    }

    fn or(self, other: Self) -> Self {
        if self == other {
            return self;
        }
        let optional = |one: Self| Self { text: one.within(Form::Unit) + "?", form: Form::Sequence };
        match (self.text.is_empty(), other.text.is_empty()) {
            (true, _) => optional(other),
            (_, true) => optional(self),
            (false, false) => Self { text: format!("{}|{}", self.text, other.text), form: Form::Choice },
        }
    }

    fn repeated(self) -> Self {
        if self.text.is_empty() {
            return self;
        }
        Self { text: self.within(Form::Unit) + "*", form: Form::Sequence }
    }

    /// The text, in brackets if it holds together less tightly.
    fn within(self, form: Form) -> String {
        let is_loose = match form {
            Form::Unit => self.form != Form::Unit,
            Form::Sequence | Form::Choice => self.form == Form::Choice,
        };
        if is_loose { format!("(?:{})", self.text) } else { self.text }
    }
}

/// One character of these spans, which are in order.
pub(super) fn class(spans: impl Iterator<Item = Span>) -> Option<Expression> {
    let mut merged: Vec<Span> = Vec::new();
    for (first, last) in spans {
        match merged.last_mut() {
            Some(open) if after(open.1) == Some(first) => open.1 = last,
            _ => merged.push((first, last)),
        }
    }
    let others = gaps(&merged);
    let text = match (&merged[..], &others[..]) {
        ([], _) => return None,
        (_, []) => "[\\s\\S]".to_owned(),
        ([(first, last)], _) if first == last => character(*first),
        ([.., (_, char::MAX)], _) => format!("[^{}]", ranges(&others)),
        _ => format!("[{}]", ranges(&merged)),
    };
    Some(Expression { text, form: Form::Unit })
}

/// The spans between these.
fn gaps(spans: &[Span]) -> Vec<Span> {
    let mut gaps = Vec::new();
    let mut next = Some('\0');
    for &(first, last) in spans {
        if let Some(begin) = next.filter(|begin| *begin < first)
            && let Some(end) = ('\0'..first).next_back()
        {
            gaps.push((begin, end));
        }
        next = after(last);
    }
    gaps.extend(next.map(|begin| (begin, char::MAX)));
    gaps
}

fn ranges(spans: &[Span]) -> String {
    let range = |&(first, last): &Span| {
        if first == last { character(first) } else { format!("{}-{}", character(first), character(last)) }
    };
    spans.iter().map(range).collect()
}

pub(super) fn character(c: char) -> String {
    match u32::from(c) {
        _ if c.is_ascii_alphanumeric() => c.to_string(),
        code @ 0..=0xffff => format!("\\u{code:04X}"),
        _ => c.to_string(),
    }
}
