//! `uniqueItems`: kept for the walk, which forbids what comes twice. Of constants there are only so many.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::super::error::SchemaError;
use super::super::read::kind;
use super::super::unique::canonical;
use super::{Rewriter, Sent};

/// References that are followed to the constants.
const MAX_REFERENCES: usize = 16;

impl<'s> Rewriter<'s> {
    pub(super) fn unique_items(
        &self,
        sent: &Sent<'s, '_>,
        out: &mut Map<String, Value>,
        parts: &mut Vec<Value>,
    ) -> Result<(), SchemaError> {
        let value = &sent.map["uniqueItems"];
        let Some(is_asked) = value.as_bool() else {
            return Err(sent.error("uniqueItems", format!("must be a boolean, not {}", kind(value))));
        };
        if is_asked && sent.count("maxItems").is_none_or(|max| max > 1) {
            out.insert("uniqueItems".to_owned(), json!(true));
            parts.extend(
                self.num_values(sent).map(|count| self.object(sent.path, json!({"maxItems": count}))),
            );
        }
        Ok(())
    }

    /// How many values the items may have, if they are listed.
    fn num_values(&self, sent: &Sent<'s, '_>) -> Option<u64> {
        let mut items = sent.map.get("items")?;
        let mut path = format!("{}/items", sent.path);
        for _ in 0..MAX_REFERENCES {
            let Some(target) = items.get("$ref").and_then(Value::as_str) else { break };
            path = self.references.resolve(self.root, &path, target).ok()?;
            items = self.root.pointer(&path)?;
        }
        if sent.map.contains_key("prefixItems") {
            return None;
        }
        if let Some(values) = items.get("enum") {
            let values = values.as_array()?.iter().map(|value| canonical(value.to_string().as_bytes()));
            return Some(values.collect::<BTreeSet<_>>().len() as u64);
        }
        let is_constant = items.get("const").is_some();
        let is_boolean = items.get("type").is_some_and(|kind| kind == "boolean");
        if is_constant { Some(1) } else { is_boolean.then_some(2) }
    }
}
