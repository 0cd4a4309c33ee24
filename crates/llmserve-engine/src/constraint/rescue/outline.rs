//! A JSON schema, as far as closing a document needs it.

use serde_json::Value;

use super::error::SchemaError;
use super::nodes::Nodes;
use super::pattern::Patterns;
use super::read::{self, Schema};
use super::search::is_in_text;
use super::shape::{NodeId, Shape};
use super::walk::Walk;
use super::witness::{self, MAX_BYTES, Witnesses, children};

/// What a JSON schema says about the shape of its documents.
#[derive(Debug)]
pub(crate) struct Outline {
    pub(super) nodes: Nodes,
    pub(super) patterns: Patterns,
    pub(super) witnesses: Witnesses,
    /// Some number has a `multipleOf`, some object a `minProperties`.
    has_multiples: bool,
    has_minimum: bool,
}

/// Digits that a double keeps.
const EXACT_DIGITS: usize = 15;

impl Outline {
    /// Reads a schema (draft 2020-12, and the forms of older drafts).
    ///
    /// # Errors
    /// A keyword is malformed or cannot be honoured, no document can keep the schema, the schema is
    /// too large, or its shortest document is.
    pub(crate) fn new(schema: &Value) -> Result<Self, SchemaError> {
        let schema = read::read(schema)?;
        let nodes = Nodes::new(&schema)?;
        let witnesses = Witnesses::new(&nodes, &schema.patterns);
        refuse_impossible(&schema, &nodes, &witnesses)?;
        let shapes = || nodes.shapes.iter().flatten();
        let has_multiples =
            shapes().any(|shape| matches!(shape, Shape::Number(rule) if !rule.multiples.is_empty()));
        let has_minimum = shapes().any(|shape| matches!(shape, Shape::Record(record) if record.min > 0));
        Ok(Self { nodes, patterns: schema.patterns, witnesses, has_multiples, has_minimum })
    }

    /// Texts that may complete `partial`, the bytes of a document that may be cut anywhere, shortest
    /// first. An empty `partial` gives whole documents. These are guesses: a matcher judges them.
    pub(crate) fn closings(&self, partial: &[u8]) -> Vec<Vec<u8>> {
        let mut walk = Walk::new(self);
        walk.feed(partial);
        walk.closings()
    }

    /// Whether the end of `partial` is something that the grammar allows and that no text can make
    /// valid any more: a number beyond a double's range, or one too long for an exact `multipleOf`,
    /// or an object whose members are too few since a name came twice. Such a token should not be
    /// taken.
    pub(crate) fn spoils(&self, partial: &[u8]) -> bool {
        let begin =
            partial.iter().rposition(|byte| !matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-'));
        let number = &partial[begin.map_or(0, |at| at + 1)..];
        if let Ok(text) = std::str::from_utf8(number)
            && spoiled_number(text, self.has_multiples)
        {
            return !is_in_text(partial);
        }
        if partial.last() != Some(&b'}') || !self.has_minimum || is_in_text(partial) {
            return false;
        }
        let mut walk = Walk::new(self);
        walk.feed(partial);
        walk.threads.is_empty()
    }

    /// Whether a `multipleOf` stands anywhere.
    pub(crate) fn has_multiples(&self) -> bool {
        self.has_multiples
    }

    /// Bytes by which the shortest tail grows at most when one more value, member or character is
    /// begun.
    pub(crate) fn dearest_frame(&self) -> usize {
        self.witnesses.dearest(&self.nodes, &self.patterns)
    }
}

/// Refuses schemas without a document, or with none of a length that could be written.
fn refuse_impossible(schema: &Schema, nodes: &Nodes, witnesses: &Witnesses) -> Result<(), SchemaError> {
    let length = witnesses.length(0);
    if length <= MAX_BYTES {
        return Ok(());
    }
    if length != witness::NONE {
        let reason = format!("its shortest document has {length} bytes; the limit is {MAX_BYTES}");
        return Err(SchemaError::new("schema", "", reason));
    }
    let is_unknown = |shape: &Shape| match shape {
        Shape::Text(rule) => rule.patterns.iter().any(|&id| schema.patterns.table(id).is_none()),
        Shape::Word(_) | Shape::Number(_) | Shape::List(_) | Shape::Record(_) => false,
    };
    if nodes.shapes.iter().flatten().any(is_unknown) {
        return Ok(());
    }
    let (node, reason) = culprit(nodes, witnesses);
    let path = nodes.keys[node].first().map_or("", |&id| schema.paths[id].as_str());
    Err(SchemaError::new("schema", path, reason))
}

/// The innermost place that has no document, and why.
fn culprit(nodes: &Nodes, witnesses: &Witnesses) -> (NodeId, &'static str) {
    let mut seen = vec![false; nodes.shapes.len()];
    let mut node = 0;
    loop {
        if std::mem::replace(&mut seen[node], true) {
            return (node, "every document would be endless: it requires itself");
        }
        let shapes = nodes.shapes[node].iter();
        let next = shapes.flat_map(needed).find(|&child| witnesses.length(child) == witness::NONE);
        match next {
            Some(child) => node = child,
            None => return (node, "no value can keep it: its keywords contradict each other"),
        }
    }
}

/// The places that a value of this shape cannot do without.
fn needed(shape: &Shape) -> Vec<NodeId> {
    match shape {
        Shape::List(list) => (0..list.min.min(list.prefix.len() + 1)).map(|at| list.item(at)).collect(),
        Shape::Record(record) => {
            let required = record.names.iter().filter(|name| name.required);
            let mut needed: Vec<_> = required.map(|name| name.node).collect();
            if needed.is_empty() {
                needed = children(shape);
            }
            needed
        }
        Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => Vec::new(),
    }
}

fn spoiled_number(text: &str, has_multiples: bool) -> bool {
    let digits = text.bytes().filter(u8::is_ascii_digit).count();
    let is_finite = text.parse::<f64>().is_ok_and(f64::is_finite);
    digits > 0 && (text.parse::<f64>().is_ok() && !is_finite || has_multiples && digits > EXACT_DIGITS)
}
