//! For each place, a shortest document that keeps to it.

use std::collections::{HashMap, HashSet, VecDeque};

use super::automaton::Automaton;
use super::members::{self, Member, State};
use super::nodes::Nodes;
use super::pattern::Patterns;
use super::quoting::Content;
use super::shape::{NodeId, Record, Shape};

/// The length if no document is known.
pub(super) const NONE: u64 = u64::MAX;
/// The length if there may be documents, but none is known.
pub(super) const UNKNOWN: u64 = 1 << 41;
/// Longer lengths are not told apart.
const TOO_LONG: u64 = 1 << 40;
/// Maximum length of a document that is written out, in bytes.
pub(super) const MAX_BYTES: u64 = 1 << 20;

/// Bytes by which an item that differs from the others is longer than the shortest: an estimate.
const BYTES_OF_DIFFERENCE: u64 = 2;

/// The length of two parts together.
pub(super) fn together(one: u64, other: u64) -> u64 {
    if one == NONE || other == NONE {
        NONE
    } else if one >= UNKNOWN || other >= UNKNOWN {
        UNKNOWN
    } else {
        (one + other).min(TOO_LONG)
    }
}

fn times(count: u64, length: u64) -> u64 {
    match length {
        _ if count == 0 => 0,
        NONE | UNKNOWN => length,
        _ => count.saturating_mul(length).min(TOO_LONG),
    }
}

/// The shortest known documents.
#[derive(Debug)]
pub(super) struct Witnesses {
    /// Bytes of each shape's shortest document, or [`NONE`].
    lengths: Vec<Vec<u64>>,
    /// The shape of each place with the shortest document.
    best: Vec<Option<usize>>,
    /// The documents of numbers and strings.
    leaves: HashMap<(NodeId, usize), Vec<u8>>,
}

/// A piece of a document that is being written.
enum Part {
    Bytes(Vec<u8>),
    Node(NodeId),
    /// There is no document.
    Nothing,
}

impl Witnesses {
    /// Lengths go down from "none" until nothing changes, so recursion needs no special care.
    pub(super) fn new(nodes: &Nodes, patterns: &Patterns) -> Self {
        let lengths = nodes.shapes.iter().map(|shapes| vec![NONE; shapes.len()]).collect();
        let best = vec![None; nodes.shapes.len()];
        let mut witnesses = Self { lengths, best, leaves: HashMap::new() };
        witnesses.find_leaves(nodes, patterns);
        let parents = parents(nodes);
        let mut queue: VecDeque<NodeId> = (0..nodes.shapes.len()).rev().collect();
        let mut queued = vec![true; nodes.shapes.len()];
        while let Some(node) = queue.pop_front() {
            queued[node] = false;
            if witnesses.improve(nodes, patterns, node) {
                for &parent in &parents[node] {
                    if !std::mem::replace(&mut queued[parent], true) {
                        queue.push_back(parent);
                    }
                }
            }
        }
        witnesses
    }

    fn find_leaves(&mut self, nodes: &Nodes, patterns: &Patterns) {
        for (node, shapes) in nodes.shapes.iter().enumerate() {
            for (index, shape) in shapes.iter().enumerate() {
                let leaf = match shape {
                    Shape::Word(word) => Some(word.as_bytes().to_vec()),
                    Shape::Number(rule) => rule.endings("").into_iter().next().map(String::into_bytes),
                    Shape::Text(rule) => {
                        let ending = rule.endings(patterns, &mut Content::default()).into_iter().next();
                        ending.map(|ending| [b"\"", &ending[..]].concat())
                    }
                    Shape::List(_) | Shape::Record(_) => None,
                };
                if let Some(leaf) = leaf {
                    self.lengths[node][index] = leaf.len() as u64;
                    self.leaves.insert((node, index), leaf);
                } else if is_unknown(shape, patterns) {
                    self.lengths[node][index] = UNKNOWN;
                }
            }
        }
    }

    /// Computes a place again; returns whether its shortest document became shorter.
    fn improve(&mut self, nodes: &Nodes, patterns: &Patterns, node: NodeId) -> bool {
        let before = self.length(node);
        for (index, shape) in nodes.shapes[node].iter().enumerate() {
            let length = match shape {
                Shape::List(list) => {
                    let first = (0..list.min.min(list.prefix.len())).map(|at| list.item(at));
                    let first = first.fold(2, |sum, item| together(sum, self.length(item)));
                    let more = list.min.saturating_sub(list.prefix.len()) as u64;
                    let rest = times(more, self.length(list.items));
                    let commas = (list.min as u64).saturating_sub(1);
                    let different = if list.unique { commas.saturating_mul(BYTES_OF_DIFFERENCE) } else { 0 };
                    together(together(first, rest), commas + different)
                }
                Shape::Record(record) => self.record_length(record, patterns),
                Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => continue,
            };
            self.lengths[node][index] = length;
        }
        let lengths = &self.lengths[node];
        self.best[node] =
            (0..lengths.len()).filter(|&index| lengths[index] != NONE).min_by_key(|&index| lengths[index]);
        self.length(node) < before
    }

    fn record_length(&self, record: &Record, patterns: &Patterns) -> u64 {
        let Some(members) = members::missing(self, patterns, record, &State::default()) else {
            return NONE;
        };
        let member = |sum: u64, member: &Member| {
            together(together(sum, member.key.len() as u64 + 2), self.length(member.node))
        };
        members.iter().fold(2 - u64::from(!members.is_empty()), member)
    }

    /// Bytes of the shortest document of a place, or [`NONE`].
    pub(super) fn length(&self, node: NodeId) -> u64 {
        self.best[node].map_or(NONE, |index| self.lengths[node][index])
    }

    /// Bytes of the shortest document of one of its shapes, or [`NONE`].
    pub(super) fn length_of(&self, node: NodeId, shape: usize) -> u64 {
        self.lengths[node][shape]
    }

    /// The shortest documents of a place's shapes, shortest first, at most `count`.
    pub(super) fn of_node(
        &self,
        nodes: &Nodes,
        patterns: &Patterns,
        node: NodeId,
        count: usize,
    ) -> Vec<Vec<u8>> {
        let lengths = &self.lengths[node];
        let mut order: Vec<usize> = (0..lengths.len()).filter(|&i| lengths[i] != NONE).collect();
        order.sort_by_key(|&index| lengths[index]);
        order.truncate(count);
        let writer = Writer { witnesses: self, nodes, patterns };
        order.into_iter().filter_map(|index| writer.shape(node, index)).collect()
    }

    /// Writes the shortest document of a place; false if there is none or it is too long.
    pub(super) fn write(&self, nodes: &Nodes, patterns: &Patterns, node: NodeId, out: &mut Vec<u8>) -> bool {
        let Some(best) = self.best[node] else { return false };
        let writer = Writer { witnesses: self, nodes, patterns };
        let text = writer.shape(node, best);
        out.extend(text.iter().flatten());
        text.is_some()
    }

    /// Bytes by which one choice can lengthen the rest of a document: the longest of all shapes'
    /// shortest documents, a member's name counted in.
    pub(super) fn dearest(&self, nodes: &Nodes, patterns: &Patterns) -> usize {
        let mut dearest = 0;
        for (node, shapes) in nodes.shapes.iter().enumerate() {
            for (index, shape) in shapes.iter().enumerate() {
                let length = self.lengths[node][index];
                dearest = dearest.max(if length <= MAX_BYTES { length as usize } else { 0 });
                dearest = dearest.max(match shape {
                    Shape::Text(rule) => rule.longest(patterns),
                    Shape::Record(record) => self.dearest_member(record, patterns),
                    Shape::Word(_) | Shape::Number(_) | Shape::List(_) => 0,
                });
            }
        }
        dearest
    }

    fn dearest_member(&self, record: &Record, patterns: &Patterns) -> usize {
        let named = record.names.iter().map(|name| (name.quoted.len(), name.node));
        let free = record.extras.iter().map(|extra| {
            let table = extra.pattern.and_then(|pattern| patterns.table(pattern));
            (table.map_or(0, Automaton::farthest) + 2, extra.node)
        });
        let length = |(name, node): (usize, NodeId)| (name as u64 + 2).checked_add(self.length(node));
        let lengths = named.chain(free).filter_map(length);
        lengths.filter(|length| *length <= MAX_BYTES).max().unwrap_or(0) as usize
    }
}

/// Writes documents of places.
#[derive(Clone, Copy)]
pub(super) struct Writer<'w> {
    pub(super) witnesses: &'w Witnesses,
    pub(super) nodes: &'w Nodes,
    pub(super) patterns: &'w Patterns,
}

impl Writer<'_> {
    /// The shortest document of a place.
    pub(super) fn shortest(&self, node: NodeId) -> Option<Vec<u8>> {
        self.shape(node, self.witnesses.best[node]?)
    }

    /// The shortest document of one shape, written without recursion.
    fn shape(&self, node: NodeId, index: usize) -> Option<Vec<u8>> {
        if self.witnesses.lengths[node][index] > MAX_BYTES {
            return None;
        }
        let mut out = Vec::new();
        let mut parts = Vec::new();
        self.open(node, index, &mut parts);
        while let Some(part) = parts.pop() {
            match part {
                Part::Bytes(bytes) => out.extend(bytes),
                Part::Node(node) => self.open(node, self.witnesses.best[node]?, &mut parts),
                Part::Nothing => return None,
            }
        }
        Some(out)
    }

    /// Pushes the parts of a shape, last first.
    fn open(&self, node: NodeId, index: usize, parts: &mut Vec<Part>) {
        let start = parts.len();
        match &self.nodes.shapes[node][index] {
            Shape::List(list) if list.unique && list.min > 1 => {
                let items = self.items(list, 0..list.min, &mut HashSet::new());
                parts.push(
                    items.map_or(Part::Nothing, |items| Part::Bytes([b"[", &items[..], b"]"].concat())),
                );
            }
            Shape::List(list) => {
                parts.push(Part::Bytes(b"[".to_vec()));
                for at in 0..list.min {
                    if at > 0 {
                        parts.push(Part::Bytes(b",".to_vec()));
                    }
                    parts.push(Part::Node(list.item(at)));
                }
                parts.push(Part::Bytes(b"]".to_vec()));
            }
            Shape::Record(record) => {
                parts.push(Part::Bytes(b"{".to_vec()));
                let missing = members::missing(self.witnesses, self.patterns, record, &State::default());
                for (at, member) in missing.into_iter().flatten().enumerate() {
                    let comma: &[u8] = if at > 0 { b"," } else { b"" };
                    parts.push(Part::Bytes([comma, &member.key, b":"].concat()));
                    parts.push(Part::Node(member.node));
                }
                parts.push(Part::Bytes(b"}".to_vec()));
            }
            Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => {
                parts.extend(self.witnesses.leaves.get(&(node, index)).cloned().map(Part::Bytes));
            }
        }
        parts[start..].reverse();
    }
}

/// Whether a scalar may have values though none was found: its pattern has no table, or its bounds are too large to
/// compute with.
fn is_unknown(shape: &Shape, patterns: &Patterns) -> bool {
    match shape {
        Shape::Text(rule) => {
            rule.literals.is_none() && rule.patterns.iter().any(|&id| patterns.table(id).is_none())
        }
        Shape::Number(rule) => rule.is_large(),
        Shape::Word(_) | Shape::List(_) | Shape::Record(_) => false,
    }
}

/// For each place, the places whose documents may contain one of it.
fn parents(nodes: &Nodes) -> Vec<Vec<NodeId>> {
    let mut parents = vec![Vec::new(); nodes.shapes.len()];
    for (node, shapes) in nodes.shapes.iter().enumerate() {
        for child in shapes.iter().flat_map(children) {
            if parents[child].last() != Some(&node) {
                parents[child].push(node);
            }
        }
    }
    parents
}

/// The places within a shape.
pub(super) fn children(shape: &Shape) -> Vec<NodeId> {
    match shape {
        Shape::List(list) => list.prefix.iter().copied().chain([list.items]).collect(),
        Shape::Record(record) => {
            let names = record.names.iter().map(|name| name.node);
            names.chain(record.extras.iter().map(|extra| extra.node)).collect()
        }
        Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => Vec::new(),
    }
}
