//! Searching for several stop strings at once, byte by byte.

use std::collections::VecDeque;

/// A place in the automaton.
pub(crate) type State = u32;
/// The state that has matched nothing.
pub(crate) const START: State = 0;
/// No node, or no stop string: no edge leads back to the start, and each stop string has a node.
const NONE: u32 = u32::MAX;

/// The automaton of Aho and Corasick ("Efficient string matching", 1975).
///
/// Its state is the longest end of the text that is a beginning of a stop string. It takes time
/// in proportion to the text, whatever the number of stop strings, and 24 bytes for each byte of
/// them.
#[derive(Debug, Clone)]
pub(crate) struct StopStrings {
    nodes: Vec<Node>,
    /// The edges of the start, where most of a text is spent.
    first: Box<[State; 256]>,
    /// The length of each stop string.
    lens: Vec<usize>,
}

/// A beginning of a stop string.
#[derive(Debug, Clone)]
struct Node {
    /// The last byte.
    byte: u8,
    /// The number of bytes.
    depth: u32,
    /// The longest other node that ends this one.
    fallback: State,
    /// The index of the longest stop string that ends this node.
    stop: u32,
    /// The first of the nodes that are one byte longer.
    child: State,
    /// The next child of the same node.
    sibling: State,
}

/// A stop string that is complete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct StopMatch {
    /// The stop string's index.
    pub(crate) index: usize,
    /// The match's length in bytes.
    pub(crate) len: usize,
    /// Where the match ends in the bytes that were searched.
    pub(crate) end: usize,
}

impl StopStrings {
    /// `None` if there is nothing to search for. Empty strings are ignored; of two equal
    /// ones the first counts.
    pub(crate) fn new(stops: &[String]) -> Option<Self> {
        let mut automaton = Self {
            nodes: vec![Node::new(0, 0)],
            first: Box::new([START; 256]),
            lens: stops.iter().map(String::len).collect(),
        };
        for (index, stop) in stops.iter().enumerate() {
            automaton.insert(stop.as_bytes(), index as u32);
        }
        if automaton.nodes.len() == 1 {
            return None;
        }
        automaton.link();
        Some(automaton)
    }

    /// Continues with the next bytes of the text, up to the end of the first stop string to end
    /// there. Of several that end together the longest counts.
    pub(crate) fn search(&self, state: &mut State, bytes: &[u8]) -> Option<StopMatch> {
        for (offset, &byte) in bytes.iter().enumerate() {
            *state = self.next(*state, byte);
            let index = self.node(*state).stop;
            if index != NONE {
                let index = index as usize;
                return Some(StopMatch { index, len: self.lens[index], end: offset + 1 });
            }
        }
        None
    }

    /// How many bytes at the end of the text may belong to a stop string.
    pub(super) fn held_len(&self, state: State) -> usize {
        self.node(state).depth as usize
    }

    fn insert(&mut self, stop: &[u8], index: u32) {
        let mut state = START;
        for &byte in stop {
            state = match self.child(state, byte) {
                NONE => self.add_child(state, byte),
                child => child,
            };
        }
        if state != START && self.node(state).stop == NONE {
            self.nodes[state as usize].stop = index;
        }
    }

    fn add_child(&mut self, parent: State, byte: u8) -> State {
        let added = self.nodes.len() as State;
        let mut node = Node::new(byte, self.node(parent).depth + 1);
        node.sibling = self.node(parent).child;
        self.nodes.push(node);
        self.nodes[parent as usize].child = added;
        if parent == START {
            self.first[usize::from(byte)] = added;
        }
        added
    }

    /// Sets the fallbacks, shorter nodes first: a fallback is always shorter.
    fn link(&mut self) {
        let mut queue = VecDeque::from([START]);
        while let Some(parent) = queue.pop_front() {
            let mut child = self.node(parent).child;
            while child != NONE {
                if parent != START {
                    let fallback = self.next(self.node(parent).fallback, self.node(child).byte);
                    let stop = self.node(fallback).stop;
                    let node = &mut self.nodes[child as usize];
                    node.fallback = fallback;
                    if node.stop == NONE {
                        node.stop = stop;
                    }
                }
                queue.push_back(child);
                child = self.node(child).sibling;
            }
        }
    }

    fn next(&self, mut state: State, byte: u8) -> State {
        while state != START {
            match self.child(state, byte) {
                NONE => state = self.node(state).fallback,
                child => return child,
            }
        }
        self.first[usize::from(byte)]
    }

    fn child(&self, state: State, byte: u8) -> State {
        let mut child = self.node(state).child;
        while child != NONE && self.node(child).byte != byte {
            child = self.node(child).sibling;
        }
        child
    }

    fn node(&self, state: State) -> &Node {
        &self.nodes[state as usize]
    }
}

impl Node {
    fn new(byte: u8, depth: u32) -> Self {
        Self { byte, depth, fallback: START, stop: NONE, child: NONE, sibling: NONE }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn strings(stops: &[&str]) -> Vec<String> {
        stops.iter().map(ToString::to_string).collect()
    }

    fn search(stops: &[&str], text: &str) -> Option<(usize, usize, usize)> {
        let stops = StopStrings::new(&strings(stops))?;
        let found = stops.search(&mut START.clone(), text.as_bytes())?;
        Some((found.index, found.len, found.end))
    }

    #[test]
    fn the_earliest_end_counts_then_the_earliest_start() {
        assert_eq!(search(&["bcd", "abcde", "c"], "xabcde"), Some((2, 1, 4)));
        assert_eq!(search(&["bc", "abc", "c"], "xabc"), Some((1, 3, 4)));
        assert_eq!(search(&["abcd", "bc"], "abcd"), Some((1, 2, 3)));
        assert_eq!(search(&["abab"], "abaabab"), Some((0, 4, 7)));
        assert_eq!(search(&["abc"], "ababab"), None);
    }

    #[test]
    fn empty_and_equal_stop_strings() {
        assert!(StopStrings::new(&[]).is_none());
        assert!(StopStrings::new(&strings(&["", ""])).is_none());
        assert_eq!(search(&["", "a", "a"], "xa"), Some((1, 1, 2)));
    }

    #[test]
    fn held_is_the_longest_possible_beginning() {
        let stops = StopStrings::new(&strings(&["abcabd", "bcx"]));
        let held = |text: &str| {
            let mut state = START;
            stops.as_ref().map(|stops| {
                assert_eq!(stops.search(&mut state, text.as_bytes()), None);
                stops.held_len(state)
            })
        };
        assert_eq!(held("zabcab"), Some(5));
        assert_eq!(held("zabcabc"), Some(3));
        assert_eq!(held("zabcz"), Some(0));
        assert_eq!(held("bc"), Some(2));
    }

    proptest! {
        #[test]
        fn equals_a_search_of_every_prefix(
            stops in prop::collection::vec("[ab]{1,4}|[abc]{1,6}", 1..5), text in "[abc]{0,40}",
        ) {
            let expected = (1..=text.len()).find_map(|end| {
                let ending = stops.iter().enumerate().filter(|(_, stop)| text[..end].ends_with(stop.as_str()));
                let (index, stop) = ending.rev().max_by_key(|(_, stop)| stop.len())?;
                let index = stops.iter().position(|other| other == stop).unwrap_or(index);
                Some(StopMatch { index, len: stop.len(), end })
            });
            let found = StopStrings::new(&stops).and_then(|automaton| automaton.search(&mut START.clone(), text.as_bytes()));
            prop_assert_eq!(found, expected);
        }
    }
}
