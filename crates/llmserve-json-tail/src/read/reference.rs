//! `$ref` within the schema.

use serde_json::Value;

use super::super::error::SchemaError;
use super::super::source::{Link, Source, SourceId};
use super::Reader;
use super::fields::Fields;

impl<'s> Reader<'s> {
    /// The schema that `value` points to.
    pub(super) fn reference(
        &mut self,
        fields: &Fields<'s, '_>,
        value: &'s Value,
    ) -> Result<Vec<Link>, SchemaError> {
        let Some(text) = value.as_str() else {
            return Err(fields.wrong("$ref", "a string", value));
        };
        let Some(fragment) = text.strip_prefix('#') else {
            return Err(fields.error("$ref", "points outside the schema, which is not supported"));
        };
        let shown: String = text.chars().take(80).collect();
        let pointer = match fragment {
            "" | "/" => "",
            pointer if pointer.starts_with('/') => pointer,
            _ => {
                let reason = format!("`{shown}`: only `#` and `#/...` are supported");
                return Err(fields.error("$ref", reason));
            }
        };
        let Some(target) = self.root.pointer(pointer) else {
            return Err(fields.error("$ref", format!("`{shown}` points to nothing")));
        };
        Ok(vec![Link::Also(self.schema(pointer.to_owned(), "$ref", target)?)])
    }
}

/// Refuses schemas that are defined as themselves, through `$ref` and `allOf` alone.
pub(super) fn refuse_empty_cycles(sources: &[Source], paths: &[String]) -> Result<(), SchemaError> {
    #[derive(Clone, Copy, PartialEq)]
    enum Mark {
        New,
        Open,
        Done,
    }
    let mut marks = vec![Mark::New; sources.len()];
    for start in 0..sources.len() {
        let mut stack = vec![(start, 0)];
        while let Some((id, next)) = stack.pop() {
            if next == 0 && marks[id] != Mark::New {
                continue;
            }
            marks[id] = Mark::Open;
            let Some(target) = also(&sources[id], next) else {
                marks[id] = Mark::Done;
                continue;
            };
            if marks[target] == Mark::Open {
                let reason = "refers to itself without anything between";
                return Err(SchemaError::new("$ref", &paths[id], reason));
            }
            stack.push((id, next + 1));
            stack.push((target, 0));
        }
    }
    Ok(())
}

/// The schema that the `index`-th link of a source always draws in.
fn also(source: &Source, index: usize) -> Option<SourceId> {
    let Source::Rules(rules) = source else { return None };
    let mut targets = rules.links.iter().filter_map(|link| match link {
        Link::Also(id) => Some(*id),
        Link::Own | Link::Choice(_) => None,
    });
    targets.nth(index)
}
