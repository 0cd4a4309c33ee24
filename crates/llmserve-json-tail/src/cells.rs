//! Patterns of names that overlap: a pattern for each set of names that the same patterns match.

use super::language::{Language, Written};

/// Maximum number of patterns that are told apart, and of the patterns that come of it.
const MAX_PATTERNS: usize = 8;
const MAX_CELLS: usize = 16;

/// Names that match some of the patterns, and none of the others.
#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub(super) pattern: String,
    /// Places of the patterns that match.
    pub(super) of: Vec<usize>,
}

/// `None` if no two patterns overlap, or if that is not known.
pub(super) fn cells(patterns: &[&str]) -> Option<Vec<Cell>> {
    if !(2..=MAX_PATTERNS).contains(&patterns.len()) {
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
            next.push(Cell { pattern: both, of: [&cell.of[..], &[place]].concat() });
            if let Written::Pattern(pattern) = only_before {
                next.push(Cell { pattern, of: cell.of });
            }
            rest = only_now;
        }
        if let Written::Pattern(pattern) = rest {
            next.push(Cell { pattern, of: vec![place] });
        }
        if next.len() > MAX_CELLS {
            return None;
        }
        cells = next;
    }
    let is_changed = cells.len() != patterns.len() || cells.iter().any(|cell| cell.of.len() > 1);
    is_changed.then_some(cells)
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
        assert!(cells(&["^a", "^b"]).is_none());
        assert!(cells(&["a"]).is_none());
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
