//! `patternProperties` in which several patterns match one name: a pattern for each set of names that the same
//! schemas apply to.

use serde_json::{Map, Value};

use super::super::error::SchemaError;
use super::super::language::{Language, Written};
use super::{Rewriter, Sent, all_of};

/// Maximum number of patterns that are told apart, and of the patterns that come of it.
const MAX_PATTERNS: usize = 8;
const MAX_CELLS: usize = 16;

/// Names, and the schemas that apply to their members.
struct Cell {
    pattern: String,
    schemas: Vec<Value>,
}

impl<'s> Rewriter<'s> {
    /// The same members, by patterns that exclude each other; unchanged if they do already, or if that would be
    /// too large.
    pub(super) fn told_apart(
        &mut self,
        sent: &Sent<'s, '_>,
        members: Map<String, Value>,
    ) -> Result<Map<String, Value>, SchemaError> {
        let Some(cells) = cells(&members) else { return Ok(members) };
        let mut apart = Map::new();
        for Cell { pattern, schemas } in cells {
            let schemas =
                schemas.iter().map(|schema| self.copy(schema, sent.path)).collect::<Result<_, _>>()?;
            let schema = all_of(schemas);
            apart.insert(pattern, if schema.is_object() { self.object(sent.path, schema) } else { schema });
        }
        Ok(apart)
    }
}

/// `None` if no two patterns overlap, or if that is not known.
fn cells(members: &Map<String, Value>) -> Option<Vec<Cell>> {
    if !(2..=MAX_PATTERNS).contains(&members.len()) {
        return None;
    }
    let mut cells: Vec<Cell> = Vec::new();
    for (pattern, schema) in members {
        let mut rest = Written::Pattern(pattern.clone());
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
            let schemas = [&cell.schemas[..], std::slice::from_ref(schema)].concat();
            next.push(Cell { pattern: both, schemas });
            if let Written::Pattern(pattern) = only_before {
                next.push(Cell { pattern, schemas: cell.schemas });
            }
            rest = only_now;
        }
        if let Written::Pattern(pattern) = rest {
            next.push(Cell { pattern, schemas: vec![schema.clone()] });
        }
        if next.len() > MAX_CELLS {
            return None;
        }
        cells = next;
    }
    let is_changed = cells.len() != members.len() || cells.iter().any(|cell| cell.schemas.len() > 1);
    is_changed.then_some(cells)
}

fn both(one: &str, other: &str) -> Option<Written> {
    Language::All(vec![Language::of(one), Language::of(other)]).written()
}

fn without(one: &str, other: &str) -> Option<Written> {
    Language::All(vec![Language::of(one), Language::not(Language::of(other))]).written()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::automaton::Automaton;

    #[test]
    fn each_name_has_one_pattern_with_all_its_schemas() {
        let members = json!({"^a": 1, "b$": 2, "^[a-c]+$": 3});
        let cells = cells(members.as_object().unwrap()).unwrap();
        let schemas_of = |name: &str| {
            let matching =
                cells.iter().filter(|cell| Automaton::of_search(&cell.pattern).unwrap().matches(name));
            let matching: Vec<&Cell> = matching.collect();
            assert!(matching.len() < 2, "{name}");
            matching.first().map_or_else(Vec::new, |cell| cell.schemas.clone())
        };
        for (name, schemas) in
            [("x", &[][..]), ("ax", &[1]), ("xb", &[2]), ("c", &[3]), ("a-b", &[1, 2]), ("ab", &[1, 2, 3])]
        {
            assert_eq!(json!(schemas_of(name)), json!(schemas), "{name}");
        }
    }

    #[test]
    fn patterns_that_exclude_each_other_are_left_alone() {
        assert!(cells(json!({"^a": 1, "^b": 2}).as_object().unwrap()).is_none());
        assert!(cells(json!({"a": 1}).as_object().unwrap()).is_none());
    }
}
