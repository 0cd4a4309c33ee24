//! Token sequences that are never generated.

use std::collections::{HashMap, VecDeque};

use crate::ids::TokenId;

const ROOT: u32 = 0;

/// Bans the last token of a sequence where the output ends with the tokens before it.
///
/// An automaton of Aho and Corasick (1975) over the sequences without their last tokens: its state is the longest
/// of their beginnings that the output ends with. A token costs the same for any number of sequences.
#[derive(Debug, Clone)]
pub(super) struct SequenceBans {
    children: HashMap<(u32, TokenId), u32>,
    /// The root stands for no token.
    nodes: Vec<Node>,
    state: u32,
}

/// A beginning of a sequence.
#[derive(Debug, Clone, Default)]
struct Node {
    /// Tokens that would complete a sequence.
    last: Vec<TokenId>,
    /// The longest proper suffix that is a beginning, too.
    suffix: u32,
    /// The longest of the suffixes that have a `last`, or the root.
    next_with_last: u32,
}

impl SequenceBans {
    /// At the start of the output. Each sequence has two tokens or more; `None` without any.
    pub(super) fn new<'a>(sequences: impl Iterator<Item = &'a [TokenId]>) -> Option<Self> {
        let mut bans = Self { children: HashMap::new(), nodes: vec![Node::default()], state: ROOT };
        for sequence in sequences {
            bans.add(sequence);
        }
        if bans.nodes.len() == 1 {
            return None;
        }
        bans.link();
        Some(bans)
    }

    fn add(&mut self, sequence: &[TokenId]) {
        let Some((&last, beginning)) = sequence.split_last() else { return };
        let mut at = ROOT;
        for &token in beginning {
            let new = self.nodes.len() as u32;
            at = *self.children.entry((at, token)).or_insert(new);
            if at == new {
                self.nodes.push(Node::default());
            }
        }
        let known = &mut self.nodes[at as usize].last;
        if !known.contains(&last) {
            known.push(last);
        }
    }

    /// Finds the suffixes, the shorter nodes first.
    fn link(&mut self) {
        let mut children = vec![Vec::new(); self.nodes.len()];
        for (&(parent, token), &child) in &self.children {
            children[parent as usize].push((token, child));
        }
        let mut waiting = VecDeque::from([ROOT]);
        while let Some(parent) = waiting.pop_front() {
            for &(token, child) in &children[parent as usize] {
                waiting.push_back(child);
                let suffix =
                    if parent == ROOT { ROOT } else { self.after(self.nodes[parent as usize].suffix, token) };
                let Node { last, next_with_last, .. } = &self.nodes[suffix as usize];
                let next_with_last = if last.is_empty() { *next_with_last } else { suffix };
                let node = &mut self.nodes[child as usize];
                (node.suffix, node.next_with_last) = (suffix, next_with_last);
            }
        }
    }

    /// The state after a token.
    fn after(&self, mut state: u32, token: TokenId) -> u32 {
        loop {
            if let Some(&child) = self.children.get(&(state, token)) {
                return child;
            }
            if state == ROOT {
                return ROOT;
            }
            state = self.nodes[state as usize].suffix;
        }
    }

    /// Adds a token of the output.
    pub(super) fn push(&mut self, token: TokenId) {
        self.state = self.after(self.state, token);
    }

    /// The tokens that would complete a sequence; some of them more than once.
    pub(super) fn banned(&self) -> impl Iterator<Item = TokenId> + '_ {
        let node = |index: u32| self.nodes.get(index as usize).filter(|_| index != ROOT);
        let suffixes = std::iter::successors(node(self.state), move |at| node(at.next_with_last));
        suffixes.flat_map(|at| at.last.iter().copied())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn ids(tokens: &[i32]) -> Vec<TokenId> {
        tokens.iter().map(|&token| TokenId(token)).collect()
    }

    fn bans_of(sequences: &[Vec<TokenId>]) -> Option<SequenceBans> {
        SequenceBans::new(sequences.iter().map(Vec::as_slice))
    }

    fn banned_by_search(sequences: &[Vec<TokenId>], output: &[TokenId]) -> BTreeSet<TokenId> {
        let split = sequences.iter().filter_map(|sequence| sequence.split_last());
        split.filter(|(_, beginning)| output.ends_with(beginning)).map(|(&last, _)| last).collect()
    }

    proptest! {
        #[test]
        fn equals_a_search(
            sequences in prop::collection::vec(prop::collection::vec(0i32..3, 2..6), 1..12),
            output in prop::collection::vec(0i32..3, 0..40),
        ) {
            let sequences: Vec<_> = sequences.iter().map(|tokens| ids(tokens)).collect();
            let output = ids(&output);
            let mut bans = bans_of(&sequences).unwrap();
            for end in 0..=output.len() {
                let banned: BTreeSet<TokenId> = bans.banned().collect();
                prop_assert_eq!(banned, banned_by_search(&sequences, &output[..end]));
                if let Some(&token) = output.get(end) {
                    bans.push(token);
                }
            }
        }
    }

    #[test]
    fn without_sequences_there_is_nothing_to_keep() {
        assert!(bans_of(&[]).is_none());
    }

    #[test]
    fn beginnings_are_shared() {
        let bans = bans_of(&[ids(&[1, 2, 3]), ids(&[1, 2, 4]), ids(&[1, 2, 4])]).unwrap();
        assert_eq!((bans.nodes.len(), bans.nodes[2].last.len()), (3, 2));
    }
}
