//! A regular expression as a table that knows how far each state is from a match.

use std::collections::{HashMap, HashSet, VecDeque};

use regex_automata::dfa::{Automaton as _, StartKind, dense};
use regex_automata::nfa::thompson;
use regex_automata::util::primitives::StateID;
use regex_automata::util::start;
use regex_automata::{Anchored, MatchKind};

use super::pattern::search_expression;

const NFA_BYTES: usize = 1 << 20;
const DFA_BYTES: usize = 1 << 20;
const DETERMINIZE_BYTES: usize = 4 << 20;
/// Maximum number of pairs of states that a comparison looks at.
const MAX_PAIRS: usize = 500;
/// The distance of a state from which no match can be reached.
pub(super) const FAR: u32 = u32::MAX;
const DEAD: u32 = u32::MAX;

/// A state of an [`Automaton`].
pub(super) type State = u32;

/// Matches whole byte strings.
#[derive(Debug)]
pub(super) struct Automaton {
    class: [u8; 256],
    num_classes: usize,
    /// `next[state * num_classes + class]`.
    next: Vec<State>,
    accepts: Vec<bool>,
    distance: Vec<u32>,
    /// For each state, the states that lead nearer to a match or keep away from none, each once,
    /// with the most readable byte that leads there.
    moves: Vec<Vec<(u8, State)>>,
}

impl Automaton {
    /// The state in front of all bytes.
    pub(super) const START: State = 0;

    /// `None` if the expression is too large for a table, or cannot be one.
    pub(super) fn new(expression: &str) -> Option<Self> {
        let dfa = dense::Builder::new()
            .configure(
                dense::Config::new()
                    .match_kind(MatchKind::All)
                    .start_kind(StartKind::Anchored)
                    .accelerate(false)
                    // Beside a word boundary there are ASCII's characters only.
                    .unicode_word_boundary(true)
                    .dfa_size_limit(Some(DFA_BYTES))
                    .determinize_size_limit(Some(DETERMINIZE_BYTES)),
            )
            .thompson(thompson::Config::new().nfa_size_limit(Some(NFA_BYTES)))
            .build(expression)
            .ok()?;
        let begin = dfa.start_state(&start::Config::new().anchored(Anchored::Yes)).ok()?;
        Some(Self::tabulate(&dfa, begin))
    }

    /// What a JSON Schema `pattern` matches; `None` if it is ill-formed as well.
    pub(super) fn of_search(pattern: &str) -> Option<Self> {
        Self::new(&search_expression(pattern).ok()?)
    }

    fn tabulate(dfa: &dense::DFA<Vec<u32>>, begin: StateID) -> Self {
        let (class, bytes) = classes(dfa);
        let mut ids = HashMap::from([(begin, 0)]);
        let mut order = vec![begin];
        let mut next = Vec::new();
        let mut accepts = Vec::new();
        let mut at = 0;
        while at < order.len() {
            let id = order[at];
            at += 1;
            accepts.push(dfa.is_match_state(dfa.next_eoi_state(id)));
            for &byte in &bytes {
                let target = dfa.next_state(id, byte);
                if dfa.is_dead_state(target) || dfa.is_quit_state(target) {
                    next.push(DEAD);
                    continue;
                }
                next.push(*ids.entry(target).or_insert_with(|| {
                    order.push(target);
                    order.len() as State - 1
                }));
            }
        }
        let distance = distances(&next, &accepts, bytes.len());
        let moves = moves(&next, &distance, &bytes);
        Self { class, num_classes: bytes.len(), next, accepts, distance, moves }
    }

    /// The state after `byte`; `None` if no match can follow.
    pub(super) fn step(&self, state: State, byte: u8) -> Option<State> {
        let class = usize::from(self.class[usize::from(byte)]);
        let next = self.next[state as usize * self.num_classes + class];
        (next != DEAD && self.distance[next as usize] != FAR).then_some(next)
    }

    /// The state after `bytes`.
    pub(super) fn run(&self, from: State, bytes: &[u8]) -> Option<State> {
        bytes.iter().try_fold(from, |state, &byte| self.step(state, byte))
    }

    pub(super) fn accepts(&self, state: State) -> bool {
        self.accepts[state as usize]
    }

    pub(super) fn matches(&self, text: &str) -> bool {
        self.run(Self::START, text.as_bytes()).is_some_and(|state| self.accepts(state))
    }

    /// Minimum number of bytes to a match, or [`FAR`].
    pub(super) fn distance(&self, state: State) -> u32 {
        self.distance[state as usize]
    }

    /// The longest of all states' distances to a match.
    pub(super) fn farthest(&self) -> usize {
        let distances = self.distance.iter().filter(|distance| **distance != FAR);
        distances.max().map_or(0, |distance| *distance as usize)
    }

    pub(super) fn moves(&self, state: State) -> &[(u8, State)] {
        &self.moves[state as usize]
    }

    /// Whether no text matches both; false if that would take too long to find out.
    pub(super) fn excludes(&self, other: &Self) -> bool {
        let mut seen = HashSet::from([(Self::START, Self::START)]);
        let mut open = vec![(Self::START, Self::START)];
        while let Some((one, two)) = open.pop() {
            if self.accepts(one) && other.accepts(two) || seen.len() > MAX_PAIRS {
                return false;
            }
            for byte in 0..=u8::MAX {
                if let Some(pair) = self.step(one, byte).zip(other.step(two, byte))
                    && seen.insert(pair)
                {
                    open.push(pair);
                }
            }
        }
        true
    }

    /// Size of the tables in bytes.
    pub(super) fn memory(&self) -> usize {
        4 * self.next.len() + 8 * self.moves.iter().map(Vec::len).sum::<usize>()
    }
}

/// The class of each byte, and the most readable byte of each class.
fn classes(dfa: &dense::DFA<Vec<u32>>) -> ([u8; 256], Vec<u8>) {
    let mut class = [0; 256];
    let mut seen = HashMap::new();
    let mut bytes = Vec::new();
    for byte in readable_first() {
        let id = dfa.byte_classes().get(byte);
        class[usize::from(byte)] = *seen.entry(id).or_insert_with(|| {
            bytes.push(byte);
            (bytes.len() - 1) as u8
        });
    }
    (class, bytes)
}

/// All bytes: letters and digits first, those that JSON escapes last.
pub(super) fn readable_first() -> impl Iterator<Item = u8> {
    let rank = |byte: u8| match byte {
        b'a'..=b'z' => 0,
        b'0'..=b'9' => 1,
        b'A'..=b'Z' => 2,
        b'"' | b'\\' | 0x7f | 0..=0x1f => 5,
        b' '..=b'~' => 3,
        0x80..=0xff => 4,
    };
    let mut bytes: Vec<u8> = (0..=255).collect();
    bytes.sort_by_key(|&byte| (rank(byte), byte));
    bytes.into_iter()
}

fn distances(next: &[State], accepts: &[bool], num_classes: usize) -> Vec<u32> {
    let mut before = vec![Vec::new(); accepts.len()];
    for (index, &target) in next.iter().enumerate() {
        let from = (index / num_classes) as State;
        if target != DEAD && before[target as usize].last() != Some(&from) {
            before[target as usize].push(from);
        }
    }
    let mut distance = vec![FAR; accepts.len()];
    let mut queue: VecDeque<State> = VecDeque::new();
    for (state, _) in accepts.iter().enumerate().filter(|(_, accepts)| **accepts) {
        distance[state] = 0;
        queue.push_back(state as State);
    }
    while let Some(state) = queue.pop_front() {
        for &from in &before[state as usize] {
            if distance[from as usize] == FAR {
                distance[from as usize] = distance[state as usize] + 1;
                queue.push_back(from);
            }
        }
    }
    distance
}

fn moves(next: &[State], distance: &[u32], bytes: &[u8]) -> Vec<Vec<(u8, State)>> {
    let row = |row: &[State]| {
        let mut moves: Vec<(u8, State)> = Vec::new();
        let mut seen = HashSet::new();
        for (&byte, &target) in bytes.iter().zip(row) {
            if target != DEAD && distance[target as usize] != FAR && seen.insert(target) {
                moves.push((byte, target));
            }
        }
        moves
    };
    next.chunks(bytes.len().max(1)).map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distance_counts_the_bytes_to_a_whole_match() {
        let automaton = Automaton::new("(?s:.*)(?:^ab+c$)(?s:.*)").unwrap();
        let state = automaton.run(Automaton::START, b"ab").unwrap();
        assert_eq!(automaton.distance(state), 1);
        assert!(!automaton.accepts(state));
        assert!(automaton.matches("abbc"));
        assert_eq!(automaton.run(Automaton::START, b"x"), None);
    }

    #[test]
    fn what_excludes_each_other() {
        let excludes = |one: &str, other: &str| {
            let [one, other] = [one, other].map(|pattern| Automaton::of_search(pattern).unwrap());
            one.excludes(&other)
        };
        assert!(excludes("^a", "^b") && excludes("^[a-z]+$", "[0-9]"));
        assert!(!excludes("^a", "b$") && !excludes("", "^$"));
    }

    #[test]
    fn a_state_inside_a_character_leads_on() {
        let automaton = Automaton::new("é+").unwrap();
        let state = automaton.run(Automaton::START, &[0xc3]).unwrap();
        assert_eq!(
            automaton.moves(state),
            [(0xa9, automaton.run(Automaton::START, "é".as_bytes()).unwrap())]
        );
    }

    #[test]
    fn an_expression_too_large_for_a_table_is_none() {
        assert!(Automaton::new("((a{100}){100}){100}").is_none());
    }
}
