//! `propertyNames`: names that a pattern or a list describes, and no others.

use serde_json::{Map, Value, json};

use super::super::error::SchemaError;
use super::{Rewriter, Sent, Sign};

impl<'s> Rewriter<'s> {
    pub(super) fn property_names(&mut self, sent: &Sent<'s, '_>) -> Result<Option<Value>, SchemaError> {
        let Some(at) = sent.child("propertyNames") else { return Ok(None) };
        let rules = self.schema(&at, "propertyNames", Sign::Is)?;
        let members = match rules.as_object() {
            Some(rules) => allowed(rules).ok_or_else(|| {
                let reason = "names are supported by one `pattern`, `enum` or `const`, or by their lengths";
                sent.error("propertyNames", reason)
            })?,
            None if rules == Value::Bool(true) => return Ok(None),
            None => json!({"maxProperties": 0}),
        };
        if members == json!({}) {
            return Ok(None);
        }
        // Nothing is evaluated by its name.
        self.num_negations += 1;
        let schema = self.object(sent.path, members);
        self.num_negations -= 1;
        Ok(Some(schema))
    }
}

/// Objects whose names match `names`.
fn allowed(names: &Map<String, Value>) -> Option<Value> {
    let rules: Vec<&String> =
        names.keys().filter(|keyword| *keyword != "type" && !keyword.starts_with("x-")).collect();
    let takes_texts = names.get("type").is_none_or(|kind| {
        kind == "string" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"))
    });
    if !takes_texts {
        return Some(json!({"maxProperties": 0}));
    }
    match rules.iter().map(|rule| rule.as_str()).collect::<Vec<_>>()[..] {
        [] => Some(json!({})),
        ["const"] => Some(listed(std::slice::from_ref(&names["const"]))),
        ["enum"] => Some(listed(names["enum"].as_array()?)),
        ["pattern"] => Some(matching(names["pattern"].as_str()?)),
        ["minLength" | "maxLength"] | ["minLength", "maxLength"] | ["maxLength", "minLength"] => {
            let min = names.get("minLength").map_or(Some(0), Value::as_u64)?;
            let max = names.get("maxLength").map(|max| max.as_u64().map(|max| max.to_string()));
            let max = max.map_or(Some(String::new()), |max| max)?;
            Some(matching(&format!("^[\\s\\S]{{{min},{max}}}$")))
        }
        _ => None,
    }
}

fn matching(pattern: &str) -> Value {
    json!({"patternProperties": {pattern: true}, "additionalProperties": false})
}

fn listed(names: &[Value]) -> Value {
    let names = names.iter().filter_map(Value::as_str);
    let members: Map<String, Value> = names.map(|name| (name.to_owned(), Value::Bool(true))).collect();
    json!({"properties": members, "additionalProperties": false})
}
