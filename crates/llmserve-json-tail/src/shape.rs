//! The kinds of value that a place in a document may have.

use std::collections::HashMap;
use std::sync::Arc;

use super::number::NumberRule;
use super::pattern::PatternId;
use super::text::TextRule;

/// Index of a place in the schema: the set of subschemas that a value there has to match.
pub(super) type NodeId = usize;

/// One alternative of a place.
#[derive(Debug)]
pub(super) enum Shape {
    /// `null`, `true` or `false`.
    Word(&'static str),
    Number(NumberRule),
    Text(TextRule),
    List(Arc<List>),
    Record(Arc<Record>),
}

#[derive(Debug)]
pub(super) struct List {
    pub(super) prefix: Vec<NodeId>,
    pub(super) items: NodeId,
    pub(super) min: usize,
    pub(super) max: Option<usize>,
    /// No item comes twice.
    pub(super) unique: bool,
}

impl List {
    pub(super) fn item(&self, index: usize) -> NodeId {
        self.prefix.get(index).copied().unwrap_or(self.items)
    }
}

/// An object. Its members have a fixed order: the named ones first, then the others.
#[derive(Debug)]
pub(super) struct Record {
    pub(super) names: Vec<Name>,
    /// Places in `names`, by the name as it is written, quotes included.
    pub(super) index: HashMap<Vec<u8>, usize>,
    /// For each place in `names`, the next one that is required; `names.len()` if none is.
    pub(super) next_required: Vec<usize>,
    pub(super) extras: Vec<Extra>,
    pub(super) min: usize,
    pub(super) max: Option<usize>,
}

#[derive(Debug)]
pub(super) struct Name {
    /// The name with quotes and escapes.
    pub(super) quoted: Vec<u8>,
    pub(super) node: NodeId,
    pub(super) required: bool,
}

/// Members whose names are free.
#[derive(Debug)]
pub(super) struct Extra {
    /// `None`: names that match no pattern of the object.
    pub(super) pattern: Option<PatternId>,
    pub(super) node: NodeId,
}

impl Record {
    pub(super) fn new(names: Vec<Name>, extras: Vec<Extra>) -> Self {
        let index = names.iter().enumerate().map(|(i, name)| (name.quoted.clone(), i)).collect();
        let mut next_required = vec![names.len(); names.len() + 1];
        for (place, name) in names.iter().enumerate().rev() {
            next_required[place] = if name.required { place } else { next_required[place + 1] };
        }
        Self { names, index, next_required, extras, min: 0, max: None }
    }

    /// Whether the named member at `place` may be the next one if all before `at` are done.
    pub(super) fn may_come(&self, at: usize, place: usize) -> bool {
        at <= place && place <= self.next_required[at]
    }

    /// Whether members with free names may come.
    pub(super) fn may_be_free(&self, at: usize) -> bool {
        self.next_required[at] == self.names.len()
    }
}
