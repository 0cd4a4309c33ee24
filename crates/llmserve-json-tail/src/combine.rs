//! Which subschemas apply to a value together, for each way to choose among branches.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashSet};

use super::apart::{Apart, NameId};
use super::budget::Budget;
use super::combination::{Combination, Combinations};
use super::error::SchemaError;
use super::pattern::Patterns;
use super::read::Schema;
use super::source::{Link, Rules, Source, SourceId, Types};

/// Maximum number of ways that are followed for one place, if more than one choice falls on a later branch.
const MAX_STEPS: usize = 500;
/// Maximum number of ways that are kept of one place.
const MAX_WAYS: usize = 2000;
/// More ways than that are not compared with each other.
const MAX_COMPARED: usize = 256;
/// How far references are followed for a first look at a branch.
const MAX_LOOK: usize = 3;

/// A choice: the subschema that has it, and its place among the links there.
type ChoiceId = (SourceId, usize);

/// A choice that is still to be made.
#[derive(Clone, Copy)]
struct Choice<'s> {
    id: ChoiceId,
    branches: &'s [SourceId],
    from: usize,
    /// The outermost choice in whose branches it stands.
    outermost: ChoiceId,
}

/// A way to choose that is still being followed.
#[derive(Clone)]
struct Open<'s> {
    types: Types,
    own: Vec<SourceId>,
    /// Names of members that an object needs, and of those that it cannot have.
    required: Vec<NameId>,
    clashing: Vec<NameId>,
    /// What has been drawn in, and by which earlier entry.
    drawn: Vec<(SourceId, Option<usize>)>,
    choices: Vec<Choice<'s>>,
    chosen: Vec<(ChoiceId, SourceId)>,
    /// Outermost choices that fell on another branch than the first one that may match, or that did so within.
    later: Vec<ChoiceId>,
}

/// All ways to choose for a value that has to match `sources`; none if they contradict each other. Of very many, those
/// that choose first branches most often.
///
/// # Errors
/// The budget is spent.
pub(super) fn combinations(
    schema: &Schema,
    sources: &[SourceId],
    patterns: &Patterns,
    (apart, budget): (&mut Apart, &mut Budget),
) -> Result<Combinations, SchemaError> {
    let path = sources.first().map_or("", |&id| schema.paths[id].as_str());
    let (num_kept, max_objects) = (budget.num_kept(), budget.num_objects());
    let (share, begin_left) = (budget.share(), budget.left());
    let mut search = Search { schema, patterns, apart, budget, path };
    let mut begin = Open {
        types: Types::ALL,
        own: Vec::new(),
        required: Vec::new(),
        clashing: Vec::new(),
        drawn: Vec::new(),
        choices: Vec::new(),
        chosen: Vec::new(),
        later: Vec::new(),
    };
    let mut is_alive = true;
    for &id in sources {
        is_alive = is_alive && search.draw(&mut begin, id, None, None)?;
    }
    // Of those with the fewest later branches, the newest.
    let mut open = BinaryHeap::from([(Reverse(0), 0)]);
    let mut ways = vec![is_alive.then_some(begin)];
    let mut done = Vec::new();
    let (mut num_steps, mut num_objects, mut is_cut) = (0, 0, false);
    // The first whole one is found by following the newest.
    let mut newest = vec![0];
    while let Some(index) = if done.is_empty() { newest.pop() } else { open.pop().map(|(_, index)| index) } {
        let Some(mut way) = ways[index].take() else { continue };
        let spent = begin_left - search.budget.left();
        let is_full = done.len() >= num_kept || num_steps >= MAX_STEPS || spent > share / 2;
        let is_over = done.len() >= MAX_WAYS || num_objects >= max_objects || spent > share;
        if !done.is_empty() && (is_over || way.later.len() > 1 && is_full) {
            is_cut = true;
            break;
        }
        num_steps += 1;
        match search.next(&mut way)? {
            Next::Dead => {}
            Next::Whole => {
                num_objects += usize::from(way.types.has(Types::OBJECT));
                done.push(way);
            }
            Next::Branches(choice, live) => {
                for (place, &branch) in live.iter().enumerate().rev() {
                    search.pay(1 + way.size() / 8)?;
                    let mut next = way.clone();
                    if place > 0 && !next.later.contains(&choice.outermost) {
                        next.later.push(choice.outermost);
                    }
                    if search.choose(&mut next, choice, branch)? {
                        open.push((Reverse(next.later.len()), ways.len()));
                        newest.push(ways.len());
                        ways.push(Some(next));
                    }
                }
            }
        }
    }
    // In the order of the text.
    let mut ways = widest(done);
    ways.sort_by_cached_key(|way| way.places(schema));
    let ways = ways.iter().map(|way| way.in_order(schema, sources)).collect();
    Ok(Combinations { ways, is_cut })
}

/// The ways without those that ask for more than another one.
fn widest(mut ways: Vec<Open<'_>>) -> Vec<Open<'_>> {
    if ways.len() > MAX_COMPARED {
        return ways;
    }
    ways.sort_by_key(|way| way.own.len());
    let mut kept: Vec<(Open<'_>, HashSet<SourceId>)> = Vec::new();
    for way in ways {
        let own: HashSet<SourceId> = way.own.iter().copied().collect();
        if !kept.iter().any(|(_, fewer)| fewer.is_subset(&own)) {
            kept.push((way, own));
        }
    }
    kept.into_iter().map(|(way, _)| way).collect()
}

/// What is left of a way.
enum Next<'s> {
    Dead,
    Whole,
    /// A choice to be made, and its branches that may match.
    Branches(Choice<'s>, Vec<SourceId>),
}

fn is_object(types: Types) -> bool {
    (types & Types::OBJECT) == types
}

struct Search<'s, 'a> {
    schema: &'s Schema,
    patterns: &'a Patterns,
    apart: &'a mut Apart,
    budget: &'a mut Budget,
    path: &'a str,
}

impl<'s> Search<'s, '_> {
    fn pay(&mut self, cost: usize) -> Result<(), SchemaError> {
        self.budget.pay(cost, self.path)
    }

    /// Takes in what `id` says. False if nothing can match it: it contradicts what was taken in, or a branch leads
    /// back to its own choice.
    fn draw(
        &mut self,
        way: &mut Open<'s>,
        id: SourceId,
        from: Option<usize>,
        outermost: Option<ChoiceId>,
    ) -> Result<bool, SchemaError> {
        let mut todo = vec![(id, from)];
        while let Some((id, from)) = todo.pop() {
            let rules = match &self.schema.sources[id] {
                Source::Any => continue,
                Source::Never => return Ok(false),
                Source::Rules(rules) => rules,
            };
            self.pay(1 + way.drawn.len() / 64)?;
            if way.drawn.iter().any(|(drawn, _)| *drawn == id) {
                if way.is_above(id, from) {
                    return Ok(false);
                }
                continue;
            }
            way.types = way.types & rules.types;
            way.drawn.push((id, from));
            let here = way.drawn.len() - 1;
            for (place, link) in rules.links.iter().enumerate() {
                match link {
                    Link::Own => {
                        let Some(clashing) = self.beside(way, id, rules)? else { return Ok(false) };
                        way.clashing.extend(clashing);
                        way.required.extend_from_slice(&self.apart.required(self.schema, id));
                        way.own.push(id);
                    }
                    Link::Also(target) => todo.push((*target, Some(here))),
                    Link::Choice(branches) => {
                        way.choices.push(Choice {
                            id: (id, place),
                            branches,
                            from: here,
                            outermost: outermost.unwrap_or((id, place)),
                        });
                    }
                }
            }
        }
        Ok(!way.types.is_empty())
    }

    /// The members that an object cannot have any more beside the own keywords of `id`; `None` if these match nothing
    /// beside those that were taken in.
    fn beside(
        &mut self,
        way: &Open<'s>,
        id: SourceId,
        rules: &Rules,
    ) -> Result<Option<Vec<NameId>>, SchemaError> {
        self.pay(way.own.len())?;
        let mut clashing = Vec::new();
        for &other in &way.own {
            if self.apart.own(self.schema, self.patterns, id, other) {
                return Ok(None);
            }
            clashing.extend_from_slice(&self.apart.clashes(self.schema, self.patterns, id, other));
        }
        let required = self.apart.required(self.schema, id);
        let is_required = |name: &NameId| way.required.contains(name) || required.contains(name);
        let is_dead = is_object(way.types & rules.types)
            && (clashing.iter().any(is_required) || way.clashing.iter().any(|name| required.contains(name)));
        Ok((!is_dead).then_some(clashing))
    }

    fn choose(
        &mut self,
        way: &mut Open<'s>,
        choice: Choice<'s>,
        branch: SourceId,
    ) -> Result<bool, SchemaError> {
        way.choices.retain(|other| other.id != choice.id);
        way.chosen.push((choice.id, branch));
        self.draw(way, branch, Some(choice.from), Some(choice.outermost))
    }

    /// Makes the choices that are none, and finds the one with the fewest branches.
    fn next(&mut self, way: &mut Open<'s>) -> Result<Next<'s>, SchemaError> {
        loop {
            self.pay(1)?;
            let mut best: Option<(Choice<'s>, Vec<SourceId>)> = None;
            let mut settled = None;
            for &choice in &way.choices {
                let met = choice.branches.iter().find(|&&branch| way.meets(self.schema, branch, choice.from));
                if let Some(&branch) = met {
                    settled = Some((choice, branch));
                    break;
                }
                let mut live: Vec<SourceId> = Vec::new();
                for &branch in choice.branches {
                    if self.may_match(way, branch, 0)? {
                        live.push(branch);
                    }
                }
                match live[..] {
                    [] => return Ok(Next::Dead),
                    [only] => {
                        settled = Some((choice, only));
                        break;
                    }
                    _ => {}
                }
                if best.as_ref().is_none_or(|(_, fewest)| live.len() < fewest.len()) {
                    best = Some((choice, live));
                }
            }
            if let Some((choice, branch)) = settled {
                if !self.choose(way, choice, branch)? {
                    return Ok(Next::Dead);
                }
                continue;
            }
            let is_dead = is_object(way.types) && way.clashing.iter().any(|name| way.required.contains(name));
            return Ok(match best {
                _ if is_dead => Next::Dead,
                Some((choice, live)) => Next::Branches(choice, live),
                None => Next::Whole,
            });
        }
    }

    /// Whether a branch may match beside what was taken in, as far as a first look tells.
    fn may_match(&mut self, way: &Open<'s>, branch: SourceId, depth: usize) -> Result<bool, SchemaError> {
        let rules = match &self.schema.sources[branch] {
            Source::Any => return Ok(true),
            Source::Never => return Ok(false),
            Source::Rules(rules) => rules,
        };
        if (way.types & rules.types).is_empty() {
            return Ok(false);
        }
        for link in &rules.links {
            let may_match = match link {
                Link::Own => self.beside(way, branch, rules)?.is_some(),
                Link::Also(target) if depth < MAX_LOOK => self.may_match(way, *target, depth + 1)?,
                Link::Also(_) | Link::Choice(_) => true,
            };
            if !may_match {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl<'s> Open<'s> {
    fn size(&self) -> usize {
        self.own.len() + self.drawn.len() + self.choices.len()
    }

    /// Whether what was taken in matches a branch already.
    fn meets(&self, schema: &Schema, branch: SourceId, from: usize) -> bool {
        matches!(schema.sources[branch], Source::Any)
            || self.drawn.iter().any(|(drawn, _)| *drawn == branch) && !self.is_above(branch, Some(from))
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

    fn branch(&self, id: ChoiceId) -> Option<SourceId> {
        self.chosen.iter().find(|(known, _)| *known == id).map(|(_, branch)| *branch)
    }

    /// The places of the branches that were chosen, choices in the order of the text.
    fn places(&self, schema: &Schema) -> Vec<(ChoiceId, usize)> {
        let mut places: Vec<(ChoiceId, usize)> = self
            .chosen
            .iter()
            .filter_map(|&((id, link), branch)| match &schema.sources[id] {
                Source::Rules(rules) => match &rules.links[link] {
                    Link::Choice(branches) => {
                        Some(((id, link), branches.iter().position(|one| *one == branch)?))
                    }
                    Link::Own | Link::Also(_) => None,
                },
                Source::Any | Source::Never => None,
            })
            .collect();
        places.sort_unstable();
        places
    }

    /// The way with its subschemas in the order of the text.
    fn in_order(&self, schema: &'s Schema, sources: &[SourceId]) -> Combination {
        let mut own = Vec::new();
        let mut seen = HashSet::new();
        let mut todo: Vec<(SourceId, usize)> = sources.iter().rev().map(|&id| (id, 0)).collect();
        while let Some((id, place)) = todo.pop() {
            let Source::Rules(rules) = &schema.sources[id] else { continue };
            if place == 0 && !seen.insert(id) {
                continue;
            }
            let Some(link) = rules.links.get(place) else { continue };
            todo.push((id, place + 1));
            match link {
                Link::Own => own.push(id),
                Link::Also(target) => todo.push((*target, 0)),
                Link::Choice(_) => todo.extend(self.branch((id, place)).map(|branch| (branch, 0))),
            }
        }
        Combination { own, types: self.types }
    }
}
