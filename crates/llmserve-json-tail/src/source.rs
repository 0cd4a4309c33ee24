//! The subschemas of a text, one entry for each place, with keywords read and typed.

use std::collections::HashMap;
use std::ops::BitAnd;

use super::number::NumberRule;
use super::pattern::PatternId;
use super::text::TextRule;

/// Index of a [`Source`].
pub(super) type SourceId = usize;

/// A set of JSON types. `true` and `false` are told apart, whole numbers and others too, so that a
/// constant is a type as well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Types(u8);

impl Types {
    pub(super) const NONE: Self = Self(0);
    pub(super) const NULL: Self = Self(1);
    pub(super) const TRUE: Self = Self(2);
    pub(super) const FALSE: Self = Self(4);
    pub(super) const INTEGER: Self = Self(8);
    pub(super) const FRACTION: Self = Self(16);
    pub(super) const STRING: Self = Self(32);
    pub(super) const ARRAY: Self = Self(64);
    pub(super) const OBJECT: Self = Self(128);
    pub(super) const ALL: Self = Self(255);

    /// The types that a name of the keyword `type` means.
    pub(super) fn named(name: &str) -> Option<Self> {
        Some(match name {
            "null" => Self::NULL,
            "boolean" => Self::TRUE.or(Self::FALSE),
            "integer" => Self::INTEGER,
            "number" => Self::INTEGER.or(Self::FRACTION),
            "string" => Self::STRING,
            "array" => Self::ARRAY,
            "object" => Self::OBJECT,
            _ => return None,
        })
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) fn has(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }

    pub(super) fn is_empty(self) -> bool {
        self.0 == 0
    }
}

impl BitAnd for Types {
    type Output = Self;

    fn bitand(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }
}

/// What one subschema says.
#[derive(Debug)]
pub(super) enum Source {
    /// Any value.
    Any,
    /// No value.
    Never,
    /// Values that match these rules.
    Rules(Box<Rules>),
}

/// The keywords of one subschema.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) types: Types,
    pub(super) number: NumberRule,
    pub(super) text: TextRule,
    pub(super) list: ListRule,
    pub(super) record: RecordRule,
    /// The links in the order of the text, in which llguidance merges properties.
    pub(super) links: Vec<Link>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            types: Types::ALL,
            number: NumberRule::default(),
            text: TextRule::default(),
            list: ListRule::default(),
            record: RecordRule::default(),
            links: Vec::new(),
        }
    }
}

/// How a subschema draws on others for the same value.
#[derive(Debug)]
pub(super) enum Link {
    /// The source's own keywords.
    Own,
    /// `$ref`, or one entry of `allOf`.
    Also(SourceId),
    /// `anyOf`, `oneOf`, or an `enum` of arrays and objects.
    Choice(Vec<SourceId>),
}

#[derive(Debug, Default)]
pub(super) struct ListRule {
    pub(super) prefix: Vec<SourceId>,
    pub(super) items: Option<SourceId>,
    pub(super) min: usize,
    pub(super) max: Option<usize>,
    pub(super) unique: bool,
}

impl ListRule {
    /// The rules of the item at `index`.
    pub(super) fn item(&self, index: usize) -> Option<SourceId> {
        self.prefix.get(index).copied().or(self.items)
    }
}

#[derive(Debug, Default)]
pub(super) struct RecordRule {
    pub(super) order: Vec<String>,
    pub(super) named: HashMap<String, SourceId>,
    pub(super) patterns: Vec<(PatternId, SourceId)>,
    pub(super) additional: Option<SourceId>,
    pub(super) required: Vec<String>,
    pub(super) min: usize,
    pub(super) max: Option<usize>,
}
