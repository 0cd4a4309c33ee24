//! Which subschemas apply to a value together, for each way to choose among branches.

use super::error::SchemaError;
use super::read::Schema;
use super::source::{Link, Rules, Source, SourceId, Types};

/// Maximum number of ways to choose that are followed for one place.
const MAX_COMBINATIONS: usize = 10_000;

/// Bounds the work and the memory that a whole schema takes: everything that is visited or kept
/// is paid for.
#[derive(Debug)]
pub(super) struct Budget(usize);

impl Budget {
    pub(super) fn new() -> Self {
        Self(4_000_000)
    }

    /// # Errors
    /// The budget is spent; `path` is where.
    pub(super) fn pay(&mut self, cost: usize, path: &str) -> Result<(), SchemaError> {
        let left = self.0.checked_sub(cost);
        let reason = "is too large: its alternatives and merged members are too many";
        self.0 = left.ok_or_else(|| SchemaError::new("schema", path, reason))?;
        Ok(())
    }
}

/// The subschemas of one way to choose, in the order of the text.
#[derive(Debug, Clone)]
pub(super) struct Combination {
    own: Vec<SourceId>,
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

/// A way to choose that is still being followed.
#[derive(Clone)]
struct Open<'s> {
    result: Combination,
    /// What has been drawn in, and by which earlier entry.
    drawn: Vec<(SourceId, Option<usize>)>,
    todo: Vec<Step<'s>>,
}

#[derive(Clone, Copy)]
enum Step<'s> {
    Draw(SourceId, Option<usize>),
    Own(SourceId),
    Choose(&'s [SourceId], usize),
}

/// All ways to choose for a value that has to match `sources`; none if they contradict each other.
///
/// # Errors
/// There are too many ways.
pub(super) fn combinations(
    schema: &Schema,
    sources: &[SourceId],
    budget: &mut Budget,
) -> Result<Vec<Combination>, SchemaError> {
    let path = sources.first().map_or("", |&id| schema.paths[id].as_str());
    let todo = sources.iter().rev().map(|&id| Step::Draw(id, None)).collect();
    let result = Combination { own: Vec::new(), types: Types::ALL };
    let mut open = vec![Open { result, drawn: Vec::new(), todo }];
    let mut done = Vec::new();
    while let Some(mut way) = open.pop() {
        let end = way.follow(schema);
        // Each entry was compared with those before it.
        budget.pay(1 + way.drawn.len() + way.drawn.len().pow(2) / 64, path)?;
        match end {
            End::Dead => {}
            End::Whole => done.push(way.result),
            End::Choice(branches, from) => {
                budget.pay(branches.len().saturating_mul(way.size()), path)?;
                for &branch in branches.iter().rev() {
                    let mut next = way.clone();
                    next.todo.push(Step::Draw(branch, Some(from)));
                    open.push(next);
                }
            }
        }
        if done.len() + open.len() > MAX_COMBINATIONS {
            let reason = format!("more than {MAX_COMBINATIONS} ways to choose among branches");
            return Err(SchemaError::new("anyOf", path, reason));
        }
    }
    Ok(done)
}

/// Where following a way stops.
enum End<'s> {
    Dead,
    Whole,
    Choice(&'s [SourceId], usize),
}

impl<'s> Open<'s> {
    fn size(&self) -> usize {
        1 + self.result.own.len() + self.drawn.len() + self.todo.len()
    }

    fn follow(&mut self, schema: &'s Schema) -> End<'s> {
        while let Some(step) = self.todo.pop() {
            match step {
                Step::Own(id) => self.result.own.push(id),
                Step::Choose(branches, from) => return End::Choice(branches, from),
                Step::Draw(id, from) => match &schema.sources[id] {
                    Source::Any => {}
                    Source::Never => return End::Dead,
                    Source::Rules(rules) => {
                        if !self.draw(id, from, rules) {
                            return End::Dead;
                        }
                    }
                },
            }
        }
        End::Whole
    }

    /// Takes in the rules of `id`. False if nothing can match them: the types contradict each other, or a
    /// branch leads back to its own choice.
    fn draw(&mut self, id: SourceId, from: Option<usize>, rules: &'s Rules) -> bool {
        if self.drawn.iter().any(|(drawn, _)| *drawn == id) {
            return !self.is_above(id, from);
        }
        self.result.types = self.result.types & rules.types;
        self.drawn.push((id, from));
        let here = self.drawn.len() - 1;
        for link in rules.links.iter().rev() {
            self.todo.push(match link {
                Link::Own => Step::Own(id),
                Link::Also(target) => Step::Draw(*target, Some(here)),
                Link::Choice(branches) => Step::Choose(branches, here),
            });
        }
        !self.result.types.is_empty()
    }

    fn is_above(&self, id: SourceId, mut from: Option<usize>) -> bool {
        while let Some(index) = from {
            let (drawn, above) = self.drawn[index];
            if drawn == id {
                return true;
            }
            from = above;
        }
        false
    }
}
