//! `uniqueItems`: every choice of a few values. Left out are arrays with the values in another order.

use serde_json::{Value, json};

use super::super::error::SchemaError;
use super::super::read::kind;
use super::{Rewriter, Sent, any_of, narrow};

/// The largest number of different items: each choice of them is an alternative.
const MAX_VALUES: usize = 6;
/// References that are followed to the values.
const MAX_REFERENCES: usize = 16;

impl<'s> Rewriter<'s> {
    pub(super) fn unique_items(&self, sent: &Sent<'s, '_>) -> Result<Option<Value>, SchemaError> {
        let value = &sent.map["uniqueItems"];
        let Some(is_asked) = value.as_bool() else {
            return Err(sent.error("uniqueItems", format!("must be a boolean, not {}", kind(value))));
        };
        if !is_asked || sent.count("maxItems").is_some_and(|max| max <= 1) {
            return Ok(None);
        }
        let Some(values) = self.values(sent).filter(|values| values.len() <= MAX_VALUES) else {
            let reason = format!("is supported for items of `enum` with at most {MAX_VALUES} values only");
            return Err(sent.error("uniqueItems", reason));
        };
        let ways = (0..1_usize << values.len()).map(|bits| {
            let chosen = values.iter().enumerate().filter(|(place, _)| bits >> place & 1 == 1);
            let items: Vec<Value> = chosen.map(|(_, value)| json!({"const": value})).collect();
            let count = items.len();
            let way = json!({"prefixItems": items, "minItems": count, "maxItems": count});
            self.object(sent.path, narrow(way))
        });
        Ok(Some(any_of(ways.collect())))
    }

    /// The values that an item may have, if they are listed.
    fn values(&self, sent: &Sent<'s, '_>) -> Option<Vec<Value>> {
        let mut items = sent.map.get("items")?;
        let mut path = format!("{}/items", sent.path);
        for _ in 0..MAX_REFERENCES {
            let Some(target) = items.get("$ref").and_then(Value::as_str) else { break };
            path = self.references.resolve(self.root, &path, target).ok()?;
            items = self.root.pointer(&path)?;
        }
        if items.get("type").is_some_and(|kind| kind == "boolean") && items.get("enum").is_none() {
            return Some(vec![json!(false), json!(true)]);
        }
        let mut values: Vec<Value> = Vec::new();
        for value in items.get("enum")?.as_array()? {
            let is_same =
                |known: &Value| known == value || (known.is_number() && known.as_f64() == value.as_f64());
            if value.is_array() || value.is_object() {
                return None;
            }
            if !values.iter().any(is_same) {
                values.push(value.clone());
            }
        }
        Some(values)
    }
}
