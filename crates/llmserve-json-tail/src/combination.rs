//! Subschemas that apply to a value together.

use super::read::Schema;
use super::source::{Rules, Source, SourceId, Types};

/// The subschemas of one way to choose, in the order of the text.
#[derive(Debug, Clone)]
pub(super) struct Combination {
    pub(super) own: Vec<SourceId>,
    pub(super) types: Types,
}

impl Combination {
    pub(super) fn num_sources(&self) -> usize {
        self.own.len()
    }

    pub(super) fn rules<'s>(&self, schema: &'s Schema) -> Vec<&'s Rules> {
        let rules = self.own.iter().map(|&id| match &schema.sources[id] {
            Source::Rules(rules) => Some(&**rules),
            Source::Any | Source::Never => None,
        });
        rules.flatten().collect()
    }
}

/// The ways to choose at a place.
pub(super) struct Combinations {
    pub(super) ways: Vec<Combination>,
    /// Whether there are more.
    pub(super) is_cut: bool,
}
