//! The members that an object still needs, and names for free ones.

use std::collections::HashSet;
use std::sync::Arc;

use super::pattern::Patterns;
use super::quoting::Content;
use super::shape::{Extra, NodeId, Record};
use super::text::TextRule;
use super::witness::{NONE, Witnesses};

/// Rounds of free names that are tried before a place is given up.
const MAX_ROUNDS: usize = 64;
const MAX_SUFFIXES: usize = 1000;

/// How far an object has been written.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    /// Named members before this place are written or left out.
    pub(super) at: usize,
    pub(super) count: usize,
    /// Free names that are taken, quotes included; kept only while their number matters.
    pub(super) taken: Arc<HashSet<Vec<u8>>>,
}

impl State {
    /// The members with one more, whose name is `free` if it is a free one; members before `at` are done.
    pub(super) fn with_member(mut self, record: &Record, at: usize, free: Option<&[u8]>) -> Self {
        self.at = at;
        let is_new = match free {
            Some(name) if self.count < record.min => Arc::make_mut(&mut self.taken).insert(name.to_vec()),
            Some(_) | None => true,
        };
        self.count += usize::from(is_new);
        self
    }
}

/// A member to write.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// The member's name, with quotes.
    pub(super) key: Vec<u8>,
    pub(super) node: NodeId,
}

/// The members that `record` needs before it can be closed. `None` if one of them has no known
/// document.
pub(super) fn missing(
    witnesses: &Witnesses,
    patterns: &Patterns,
    record: &Record,
    state: &State,
) -> Option<Vec<Member>> {
    let mut places: Vec<usize> = Vec::new();
    let mut at = record.next_required[state.at];
    while at < record.names.len() {
        if witnesses.length(record.names[at].node) == NONE {
            return None;
        }
        places.push(at);
        at = record.next_required[at + 1];
    }
    let mut lacking = record.min.saturating_sub(state.count + places.len());
    if lacking > 0 {
        let mut optional = optional(witnesses, record, state.at);
        optional.truncate(lacking);
        lacking -= optional.len();
        places.extend(optional);
        places.sort_unstable();
    }
    let name = |place: usize| &record.names[place];
    let mut members: Vec<Member> = places
        .into_iter()
        .map(|place| Member { key: name(place).quoted.clone(), node: name(place).node })
        .collect();
    if lacking > 0 {
        members.extend(free(witnesses, patterns, record, state, lacking)?);
    }
    Some(members)
}

/// Places of optional members that may come after `at`, shortest first.
pub(super) fn optional(witnesses: &Witnesses, record: &Record, at: usize) -> Vec<usize> {
    let length = |place: usize| {
        let name = &record.names[place];
        witnesses.length(name.node).saturating_add(name.quoted.len() as u64)
    };
    let mut places: Vec<usize> = (at..record.names.len())
        .filter(|&place| !record.names[place].required && length(place) != NONE)
        .collect();
    places.sort_by_key(|&place| length(place));
    places
}

/// `count` members with free names.
fn free(
    witnesses: &Witnesses,
    patterns: &Patterns,
    record: &Record,
    state: &State,
    count: usize,
) -> Option<Vec<Member>> {
    let mut taken = HashSet::clone(&state.taken);
    let mut extras: Vec<&Extra> = record.extras.iter().collect();
    extras.sort_by_key(|extra| witnesses.length(extra.node));
    let mut members = Vec::new();
    while members.len() < count {
        let next = extras.iter().find_map(|extra| {
            if witnesses.length(extra.node) == NONE {
                return None;
            }
            let names = FreeNames { patterns, record, extra, taken: &taken };
            let ending = names.after(b"", &mut Content::default(), 1).pop()?;
            Some(Member { key: [b"\"", &ending[..]].concat(), node: extra.node })
        })?;
        taken.insert(next.key.clone());
        members.push(next);
    }
    Some(members)
}

/// The free names of an object that are of one kind.
pub(super) struct FreeNames<'a> {
    pub(super) patterns: &'a Patterns,
    pub(super) record: &'a Record,
    pub(super) extra: &'a Extra,
    /// Names that cannot come again, quotes included.
    pub(super) taken: &'a HashSet<Vec<u8>>,
}

impl FreeNames<'_> {
    /// At most `count` texts that can follow the raw bytes `begun` behind the opening quote, closing quote
    /// included. `content` is what these bytes say.
    pub(super) fn after(&self, begun: &[u8], content: &mut Content, count: usize) -> Vec<Vec<u8>> {
        let mut found = Vec::new();
        let mut key = [b"\"", begun].concat();
        let patterns = self.extra.pattern.into_iter().collect();
        let rule = TextRule { patterns, ..TextRule::default() };
        let rounds = if self.extra.pattern.is_some() { MAX_ROUNDS } else { MAX_SUFFIXES };
        for round in 0..rounds {
            for ending in rule.variants(self.patterns, content, round) {
                key.truncate(1 + begun.len());
                key.extend(&ending);
                if self.is_free(&key) {
                    found.push(ending);
                    if found.len() == count {
                        return found;
                    }
                }
            }
        }
        found
    }

    fn is_free(&self, key: &[u8]) -> bool {
        !self.record.index.contains_key(key)
            && !self.taken.contains(key)
            && (self.extra.pattern.is_some() || !matches_pattern(self.patterns, self.record, key))
    }
}

fn matches_pattern(patterns: &Patterns, record: &Record, key: &[u8]) -> bool {
    let mut tables = record.extras.iter().filter_map(|extra| patterns.table(extra.pattern?)).peekable();
    if tables.peek().is_none() {
        return false;
    }
    let Ok(name) = serde_json::from_slice::<String>(key) else { return true };
    tables.any(|table| table.matches(&name))
}

/// The places of the free members that may have a name of this content.
pub(super) fn extras(patterns: &Patterns, record: &Record, content: &mut Content) -> Vec<NodeId> {
    let mut is_known = false;
    let mut nodes = Vec::new();
    for extra in &record.extras {
        let Some(id) = extra.pattern else { continue };
        let matches = patterns
            .table(id)
            .map(|table| content.run(id, table, b"").is_some_and(|state| table.accepts(state)));
        is_known |= matches == Some(true);
        if matches.unwrap_or(true) {
            nodes.push(extra.node);
        }
    }
    let others = record.extras.iter().filter(|extra| extra.pattern.is_none() && !is_known);
    nodes.extend(others.map(|extra| extra.node));
    nodes
}
