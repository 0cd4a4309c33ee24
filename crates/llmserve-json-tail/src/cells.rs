//! Patterns of names that overlap: a pattern for each set of names that the same patterns match.

use super::language::{Language, Written};

/// Maximum number of patterns that are told apart, and of the patterns that come of it.
const MAX_PATTERNS: usize = 8;
const MAX_CELLS: usize = 16;
/// Maximum number of bytes of a pattern for names that several patterns match, or only one: llguidance compares them.
const MAX_BYTES: usize = 400;

/// Names that match some of the patterns, and none of the others.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) pattern: String,
    /// Places of the patterns that match.
    pub(super) of: Vec<usize>,
    /// Whether some of its names match only some of those.
    pub(super) is_united: bool,
}

impl Cell {
    fn of_one(pattern: String, place: usize) -> Self {
        Self { pattern, of: vec![place], is_united: false }
    }
}

/// The names of all patterns, told apart as far as they are small enough for it. `excludes` says of places of two
/// patterns whether no name matches both.
pub(super) fn told_apart(patterns: &[&str], excludes: impl Fn(usize, usize) -> bool) -> Vec<Cell> {
    let mut all = Vec::new();
    for group in groups(patterns.len(), excludes) {
        if let [alone] = group[..] {
            all.push(Cell::of_one(patterns[alone].to_owned(), alone));
            continue;
        }
        let own: Vec<&str> = group.iter().map(|&place| patterns[place]).collect();
        let place_of = |cell: Cell| Cell { of: cell.of.iter().map(|&place| group[place]).collect(), ..cell };
        match cells(&own) {
            Some(cells) => all.extend(cells.into_iter().map(place_of)),
            None => all.push(place_of(united(&own))),
        }
    }
    all
}

/// Places of patterns, together where they may match the same names.
fn groups(num_patterns: usize, excludes: impl Fn(usize, usize) -> bool) -> Vec<Vec<usize>> {
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for place in 0..num_patterns {
        let is_near = |group: &Vec<usize>| group.iter().any(|&other| !excludes(place, other));
        let (near, mut far): (Vec<_>, Vec<_>) = groups.into_iter().partition(is_near);
        far.push(near.into_iter().flatten().chain([place]).collect());
        groups = far;
    }
    groups
}

/// The names of several patterns, told apart; `None` if that is too much.
fn cells(patterns: &[&str]) -> Option<Vec<Cell>> {
    if patterns.len() > MAX_PATTERNS {
        return None;
    }
    let mut cells: Vec<Cell> = Vec::new();
    for (place, pattern) in patterns.iter().enumerate() {
        let mut rest = Written::Pattern((*pattern).to_owned());
        let mut next = Vec::new();
        for cell in cells {
            let Written::Pattern(left) = &rest else {
                next.push(cell);
                continue;
            };
            let Written::Pattern(both) = both(&cell.pattern, left)? else {
                next.push(cell);
                continue;
            };
            let (only_before, only_now) = (without(&cell.pattern, left)?, without(left, &cell.pattern)?);
            next.push(Cell { pattern: both, of: [&cell.of[..], &[place]].concat(), is_united: false });
            if let Written::Pattern(pattern) = only_before {
                next.push(Cell { pattern, of: cell.of, is_united: false });
            }
            rest = only_now;
        }
        if let Written::Pattern(pattern) = rest {
            next.push(Cell::of_one(pattern, place));
        }
        if next.len() > MAX_CELLS || next.iter().any(|cell| is_large(&cell.pattern, patterns)) {
            return None;
        }
        cells = next;
    }
    Some(cells)
}

fn is_large(pattern: &str, sent: &[&str]) -> bool {
    pattern.len() > MAX_BYTES && !sent.contains(&pattern)
}

/// One cell for the names of all patterns. Each such name is treated as if all of them matched.
fn united(patterns: &[&str]) -> Cell {
    let branches: Vec<String> = patterns.iter().map(|pattern| format!("(?:{pattern})")).collect();
    Cell { pattern: branches.join("|"), of: (0..patterns.len()).collect(), is_united: true }
}

/// A pattern for the names that match none of the patterns; `None` if that is not known.
pub(super) fn others(patterns: &[&str]) -> Option<Written> {
    Language::not(Language::Any(patterns.iter().map(|pattern| Language::of(pattern)).collect())).written()
}

fn both(one: &str, other: &str) -> Option<Written> {
    Language::All(vec![Language::of(one), Language::of(other)]).written()
}

fn without(one: &str, other: &str) -> Option<Written> {
    Language::All(vec![Language::of(one), Language::not(Language::of(other))]).written()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automaton::Automaton;

    #[test]
    fn each_name_is_in_the_cell_of_its_patterns() {
        let cells = cells(&["^a", "b$", "^[a-c]+$"]).unwrap();
        let patterns_of = |name: &str| {
            let matching =
                cells.iter().filter(|cell| Automaton::of_search(&cell.pattern).unwrap().matches(name));
            let matching: Vec<&Cell> = matching.collect();
            assert!(matching.len() < 2, "{name}");
            matching.first().map_or_else(Vec::new, |cell| cell.of.clone())
        };
        for (name, of) in
            [("x", &[][..]), ("ax", &[0]), ("xb", &[1]), ("c", &[2]), ("a-b", &[0, 1]), ("ab", &[0, 1, 2])]
        {
            assert_eq!(patterns_of(name), of, "{name}");
        }
    }

    #[test]
    fn patterns_that_exclude_each_other_are_left_alone() {
        let cells = cells(&["^a", "^b"]).unwrap();
        assert_eq!(
            cells.iter().map(|cell| (&*cell.pattern, &*cell.of)).collect::<Vec<_>>(),
            [("^a", &[0][..]), ("^b", &[1])]
        );
    }

    #[test]
    fn patterns_too_large_to_be_told_apart_are_united() {
        let excludes = |one: usize, other: usize| one == 1 || other == 1;
        let cells = told_apart(&["^.*$", "^$", "additionalProperties"], excludes);
        let of: Vec<_> = cells.iter().map(|cell| (&cell.of[..], cell.is_united)).collect();
        assert_eq!(of, [(&[1][..], false), (&[0, 2], true)]);
        let table = Automaton::of_search(&cells[1].pattern).unwrap();
        assert!(table.matches("a") && table.matches("\nadditionalProperties"));
    }

    #[test]
    fn names_that_match_no_pattern() {
        let Some(Written::Pattern(pattern)) = others(&["^a", "^[b-z]"]) else {
            unreachable!("there are some")
        };
        let table = Automaton::of_search(&pattern).unwrap();
        assert!(table.matches("A") && table.matches("") && !table.matches("a") && !table.matches("zA"));
        assert_eq!(others(&["^a", "^[^a]", "^$"]), Some(Written::Nothing));
    }
}
