//! Which members an object still needs, and names for those that are free.

use std::collections::HashSet;

use super::pattern::{PatternId, Patterns};
use super::quoting::{decode, quote_into};
use super::shape::{Extra, NodeId, Record};
use super::text::TextRule;
use super::witness::{NONE, Witnesses};

/// Rounds of free names that are tried before a place is given up.
const MAX_ROUNDS: usize = 64;
const MAX_SUFFIXES: usize = 1000;
const LETTERS: &[u8] = b"abcdefghijklmnopqrstuvwxyz0123456789_";

/// How far an object has been written.
#[derive(Debug, Default, Clone)]
pub(super) struct State {
    /// Named members before this place are written or left out.
    pub(super) at: usize,
    pub(super) count: usize,
    /// Free names that are taken, quotes included; kept only where their number matters.
    pub(super) taken: HashSet<Vec<u8>>,
}

/// A member to write.
#[derive(Debug, Clone)]
pub(super) struct Member {
    /// With quotes.
    pub(super) key: Vec<u8>,
    pub(super) node: NodeId,
}

/// The members that `record` needs before it can be closed. `None` where one of them has no known
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
    let mut taken = state.taken.clone();
    let mut extras: Vec<&Extra> = record.extras.iter().collect();
    extras.sort_by_key(|extra| witnesses.length(extra.node));
    let mut members = Vec::new();
    while members.len() < count {
        let next = extras.iter().find_map(|extra| {
            if witnesses.length(extra.node) == NONE {
                return None;
            }
            let ending = free_names(patterns, record, extra, &taken, b"").next()?;
            Some(Member { key: [b"\"", &ending[..]].concat(), node: extra.node })
        })?;
        taken.insert(next.key.clone());
        members.push(next);
    }
    Some(members)
}

/// What can follow the raw bytes `begun` behind the opening quote of a free name, closing quote
/// included.
pub(super) fn free_names<'a>(
    patterns: &'a Patterns,
    record: &'a Record,
    extra: &'a Extra,
    taken: &'a HashSet<Vec<u8>>,
    begun: &'a [u8],
) -> impl Iterator<Item = Vec<u8>> + 'a {
    let rounds = if extra.pattern.is_some() { MAX_ROUNDS } else { MAX_SUFFIXES };
    let endings = (0..rounds).flat_map(move |round| match extra.pattern {
        Some(pattern) => matching(patterns, pattern, begun, round),
        None => suffixed(patterns, begun, round),
    });
    endings.filter(move |ending| {
        let key = [b"\"", begun, &ending[..]].concat();
        !record.index.contains_key(&key)
            && !taken.contains(&key)
            && (extra.pattern.is_some() || !matches_pattern(patterns, record, &key))
    })
}

/// Endings of a name that matches `pattern`: of `round` characters at least, and such with one
/// letter changed.
fn matching(patterns: &Patterns, pattern: PatternId, begun: &[u8], round: usize) -> Vec<Vec<u8>> {
    let rule = TextRule { min: round, patterns: vec![pattern], ..TextRule::default() };
    let mut endings = rule.endings(patterns, begun);
    let Some(first) = endings.first().cloned() else { return endings };
    let places = (0..first.len()).filter(|&place| first[place].is_ascii_alphanumeric());
    for place in places {
        for letter in LETTERS {
            let mut changed = first.clone();
            changed[place] = *letter;
            let content = decode(&[begun, &changed[..changed.len() - 1]].concat());
            if content.is_some_and(|content| rule.admits(patterns, &content.decoded)) {
                endings.push(changed);
            }
        }
    }
    endings
}

/// Endings of a name that needs to keep no pattern: the `round`-th suffix.
fn suffixed(patterns: &Patterns, begun: &[u8], round: usize) -> Vec<Vec<u8>> {
    let mut suffix = Vec::new();
    let mut rest = round;
    while rest > 0 {
        suffix.push(LETTERS[(rest - 1) % LETTERS.len()]);
        rest = (rest - 1) / LETTERS.len();
    }
    let ended = TextRule::default().endings(patterns, begun);
    let with_suffix = |mut ending: Vec<u8>| {
        ending.pop();
        quote_into(&suffix, &mut ending);
        ending.push(b'"');
        ending
    };
    ended.into_iter().map(with_suffix).collect()
}

fn matches_pattern(patterns: &Patterns, record: &Record, key: &[u8]) -> bool {
    let Ok(name) = serde_json::from_slice::<String>(key) else { return true };
    let mut tables = record.extras.iter().filter_map(|extra| patterns.table(extra.pattern?));
    tables.any(|table| table.matches(&name))
}
