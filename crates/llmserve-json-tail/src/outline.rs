//! A JSON schema, as far as closing a document needs it.

use serde_json::Value;

use super::error::SchemaError;
use super::grammar::{self, Schemas};
use super::keywords::for_each_subschema;
use super::nodes::Nodes;
use super::normalize::{NARROW, Normal};
use super::pattern::Patterns;
use super::read::{self, Schema};
use super::shape::{NodeId, Shape};
use super::source::SourceId;
use super::witness::{self, MAX_BYTES, UNKNOWN, Witnesses, Writer, children};

/// What a JSON schema says about the shape of its documents.
#[derive(Debug)]
pub struct Outline {
    pub(super) nodes: Nodes,
    pub(super) patterns: Patterns,
    pub(super) witnesses: Witnesses,
    /// Some number has a `multipleOf`, some object a `minProperties`.
    has_multiples: bool,
    has_minimum: bool,
    /// Some array's items are unique.
    has_unique: bool,
    dearest_frame: usize,
    /// JSON pointers of the places in the schema that was read.
    paths: Vec<String>,
}

impl Outline {
    /// Reads a schema.
    ///
    /// # Errors
    /// A keyword is malformed or cannot be honoured, no document can match the schema, the schema is
    /// too large, or its shortest document is. The path is one in the schema that was sent.
    pub fn compile(schema: &Normal) -> Result<Self, SchemaError> {
        Self::read(schema.schema()).map_err(|error| SchemaError { path: schema.origin(&error.path), ..error })
    }

    fn read(schema: &Value) -> Result<Self, SchemaError> {
        let mut is_narrow = false;
        for_each_subschema(schema, |_, map| is_narrow |= map.contains_key(NARROW));
        let (schema, mut patterns) = read::read(schema)?;
        let nodes = Nodes::new(&schema, &mut patterns)?;
        let witnesses = Witnesses::new(&nodes, &patterns);
        refuse_impossible(&schema, &nodes, &witnesses, is_narrow)?;
        let shapes = || nodes.shapes.iter().flatten();
        let has_multiples =
            shapes().any(|shape| matches!(shape, Shape::Number(rule) if !rule.multiples.is_empty()));
        let has_minimum = shapes().any(|shape| matches!(shape, Shape::Record(record) if record.min > 0));
        let has_unique = shapes().any(|shape| matches!(shape, Shape::List(list) if list.unique));
        let dearest_frame = witnesses.dearest(&nodes, &patterns);
        let path = |key: &Vec<SourceId>| key.first().map(|&id| schema.paths[id].clone()).unwrap_or_default();
        let paths = nodes.keys.iter().map(path).collect();
        Ok(Self { nodes, patterns, witnesses, has_multiples, has_minimum, has_unique, dearest_frame, paths })
    }

    /// The schema that a matcher should compile: it has the same documents, without white space between tokens and
    /// without some numbers at the very ends of their ranges.
    ///
    /// # Errors
    /// The number of an object's members is bounded, and there are too many choices of them.
    pub fn grammar(&self) -> Result<Value, SchemaError> {
        let schemas = Schemas::new(&self.nodes, &self.patterns, &self.witnesses);
        schemas.root().map_err(|(node, keyword)| {
            SchemaError::new(
                keyword,
                &self.paths[node],
                "it is not supported beside that many optional properties",
            )
        })
    }

    /// The place in the schema that was compiled from which a subschema of [`Self::grammar`] stems.
    #[must_use]
    pub fn origin(&self, pointer: &str) -> String {
        let (name, rest) = match pointer.strip_prefix("/$defs/") {
            Some(inner) => inner.find('/').map_or((inner, ""), |end| inner.split_at(end)),
            None => ("", pointer),
        };
        // The shapes of a place are alternatives there.
        let rest = rest
            .strip_prefix("/anyOf/")
            .map_or(rest, |inner| inner.find('/').map_or("", |end| &inner[end..]));
        let path = grammar::node_of(name).and_then(|node| self.paths.get(node));
        format!("{}{rest}", path.map_or("", String::as_str))
    }

    /// Whether there is a `multipleOf` anywhere.
    #[must_use]
    pub fn has_multiples(&self) -> bool {
        self.has_multiples
    }

    /// Whether some object has a least number of members.
    pub(super) fn has_minimum(&self) -> bool {
        self.has_minimum
    }

    /// Whether the items of some array are unique.
    pub(super) fn has_unique(&self) -> bool {
        self.has_unique
    }

    pub(super) fn writer(&self) -> Writer<'_> {
        Writer { witnesses: &self.witnesses, nodes: &self.nodes, patterns: &self.patterns }
    }

    /// Bytes by which the shortest tail grows at most when one more value, member or character is
    /// begun.
    #[must_use]
    pub fn dearest_frame(&self) -> usize {
        self.dearest_frame
    }
}

const CONTRADICTION: &str = "no value can match it: its keywords contradict each other";
const NOT_FOUND: &str = "no value was found that matches it among those that can be written: it has too many alternatives, \
                         or excludes what is not supported";

/// Refuses schemas without a document, or with none of a length that could be written.
fn refuse_impossible(
    schema: &Schema,
    nodes: &Nodes,
    witnesses: &Witnesses,
    is_narrow: bool,
) -> Result<(), SchemaError> {
    let length = witnesses.length(0);
    if length <= MAX_BYTES {
        return Ok(());
    }
    if length >= UNKNOWN && length != witness::NONE {
        return Ok(());
    }
    if length != witness::NONE {
        let reason = format!("its shortest document has {length} bytes; the limit is {MAX_BYTES}");
        return Err(SchemaError::new("schema", "", reason));
    }
    let (node, mut reason) = culprit(nodes, witnesses);
    if reason == CONTRADICTION && (is_narrow || nodes.is_cut) {
        reason = NOT_FOUND;
    }
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
            None => return (node, CONTRADICTION),
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
