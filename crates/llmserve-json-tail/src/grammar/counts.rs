//! Bounds on the number of members where some are optional, which llguidance does not follow: each choice of
//! members is an alternative.

/// Maximum number of members in all alternatives of one object. llguidance takes some microseconds for each.
const MAX_MEMBERS: usize = 12_000;

/// What becomes of an optional member.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    Optional,
    Required,
    Absent,
}

/// One alternative.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Choice {
    /// Of the members that have names, in their order.
    pub(super) optional: Vec<Part>,
    /// The number of the others: at least, at most.
    pub(super) free: (usize, Option<usize>),
}

/// The choices of `num` optional members, so that their number and that of the free ones together is within `bounds`;
/// `None` if there would be too many.
pub(super) fn choices(num: usize, bounds: (usize, Option<usize>), has_free: bool) -> Option<Vec<Choice>> {
    let (min, max) = bounds;
    let max = max.filter(|&max| has_free || max < num);
    if num == 0 || min == 0 && max.is_none() {
        return Some(vec![Choice { optional: vec![Part::Optional; num], free: (min, max) }]);
    }
    let mut choices = Choices { num, has_free, left: MAX_MEMBERS, found: Vec::new() };
    let is_whole = match max {
        None => choices.at_least(min),
        Some(max) if has_free => (0..=max.min(num))
            .all(|count| choices.exactly(count, (min.saturating_sub(count), Some(max - count)))),
        Some(max) => (min..=max).all(|count| choices.exactly(count, (0, None))),
    };
    is_whole.then_some(choices.found)
}

struct Choices {
    num: usize,
    has_free: bool,
    /// How many members may still be written.
    left: usize,
    found: Vec<Choice>,
}

impl Choices {
    /// The members that are there are told apart by the first of them.
    fn at_least(&mut self, min: usize) -> bool {
        let is_whole = self.each_row(min, |parts, last| {
            parts[last..].fill(Part::Optional);
            (0, None)
        });
        let mut fewer = if self.has_free { 0..min } else { 0..0 };
        is_whole && fewer.all(|count| self.exactly(count, (min - count, None)))
    }

    fn exactly(&mut self, count: usize, free: (usize, Option<usize>)) -> bool {
        self.each_row(count, |_, _| free)
    }

    /// All choices of `count` members; `rest` changes what is behind the last one. False if there are too many.
    fn each_row(
        &mut self,
        count: usize,
        rest: impl Fn(&mut [Part], usize) -> (usize, Option<usize>),
    ) -> bool {
        if count > self.num {
            return true;
        }
        let mut row: Vec<usize> = (0..count).collect();
        loop {
            let mut optional = vec![Part::Absent; self.num];
            for &place in &row {
                optional[place] = Part::Required;
            }
            let free = rest(&mut optional, row.last().map_or(0, |last| last + 1));
            let num_members = optional.iter().filter(|part| **part != Part::Absent).count();
            let Some(left) = self.left.checked_sub(num_members + 1) else { return false };
            self.left = left;
            self.found.push(Choice { optional, free });
            let Some(at) = (0..count).rfind(|&at| row[at] < self.num - count + at) else { return true };
            row[at] += 1;
            for place in at + 1..count {
                row[place] = row[place - 1] + 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sets of members with which an object of `num_free` others matches a choice.
    fn matching(choices: &[Choice], num: usize, num_free: usize) -> Vec<usize> {
        let fits = |set: usize, choice: &Choice| {
            let (min, max) = choice.free;
            let parts = choice.optional.iter().enumerate().all(|(place, part)| match part {
                Part::Optional => true,
                Part::Required => set >> place & 1 == 1,
                Part::Absent => set >> place & 1 == 0,
            });
            parts && num_free >= min && max.is_none_or(|max| num_free <= max)
        };
        (0..1 << num).filter(|&set| choices.iter().any(|choice| fits(set, choice))).collect()
    }

    #[test]
    fn choices_are_all_sets_of_that_size() {
        let num = 4;
        for (min, max) in [
            (0, Some(0)),
            (0, Some(1)),
            (0, Some(3)),
            (1, None),
            (2, None),
            (4, None),
            (1, Some(1)),
            (2, Some(3)),
            (5, None),
        ] {
            for num_free in 0..4 {
                let has_free = num_free > 0;
                let choices = choices(num, (min, max), has_free).unwrap();
                let is_within = |set: &usize| {
                    let count = set.count_ones() as usize + num_free;
                    count >= min && max.is_none_or(|max| count <= max)
                };
                let expected: Vec<usize> = (0..1 << num).filter(is_within).collect();
                assert_eq!(matching(&choices, num, num_free), expected, "{min} {max:?} {num_free}");
            }
        }
    }

    #[test]
    fn too_many_choices_are_none() {
        assert!(choices(40, (20, None), false).is_none());
        assert_eq!(choices(76, (1, None), false).unwrap().len(), 76);
        assert_eq!(choices(100, (0, Some(1)), false).unwrap().len(), 101);
    }
}
