//! `propertyNames`: names that patterns, lists and lengths describe together, and no others.

use serde_json::{Map, Value, json};

use super::super::error::SchemaError;
use super::super::language::{Language, Written};
use super::{Rewriter, Sent, Sign, constants};

impl<'s> Rewriter<'s> {
    pub(super) fn property_names(&mut self, sent: &Sent<'s, '_>) -> Result<Option<Value>, SchemaError> {
        let Some(at) = sent.child("propertyNames") else { return Ok(None) };
        let rules = self.schema(&at, "propertyNames", Sign::Is)?;
        let members = match rules.as_object() {
            Some(map) => match allowed(map) {
                Some(members) => members,
                None => self.matching_all(&rules).ok_or_else(|| {
                    sent.error("propertyNames", "its rules together are not supported, or too large")
                })?,
            },
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

    /// Objects whose names match a schema of the normal form.
    fn matching_all(&mut self, names: &Value) -> Option<Value> {
        Some(match self.language(names)?.written()? {
            Written::Nothing => json!({"maxProperties": 0}),
            Written::Pattern(pattern) => matching(&pattern),
        })
    }

    /// The texts that match a schema of the normal form; `None` if that takes more than patterns.
    fn language(&mut self, schema: &Value) -> Option<Language> {
        let Some(rules) = schema.as_object() else {
            return Some(if *schema == Value::Bool(true) {
                Language::All(Vec::new())
            } else {
                Language::Any(Vec::new())
            });
        };
        if !takes_texts(rules) {
            return Some(Language::Any(Vec::new()));
        }
        let mut parts = Vec::new();
        for (keyword, value) in rules {
            let part = match keyword.as_str() {
                "pattern" => Language::of(value.as_str()?),
                "const" => one_of(std::slice::from_ref(value)),
                "enum" => one_of(value.as_array()?),
                "minLength" => Language::Matching(counted(value.as_u64()?, None)),
                "maxLength" => Language::Matching(counted(0, Some(value.as_u64()?))),
                "allOf" => Language::All(self.languages(value)?),
                "anyOf" => Language::Any(self.languages(value)?),
                "$ref" => {
                    let target = self.look_up(value.as_str()?)?;
                    self.language(&target)?
                }
                "format" => return None,
                // What is said of values of other types.
                _ => continue,
            };
            parts.push(part);
        }
        Some(Language::All(parts))
    }

    fn languages(&mut self, schemas: &Value) -> Option<Vec<Language>> {
        schemas.as_array()?.iter().map(|schema| self.language(schema)).collect()
    }
}

fn takes_texts(rules: &Map<String, Value>) -> bool {
    rules.get("type").is_none_or(|kind| {
        kind == "string" || kind.as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind == "string"))
    })
}

fn one_of(values: &[Value]) -> Language {
    let texts: Vec<String> = values.iter().filter_map(Value::as_str).map(constants::quoted).collect();
    if texts.is_empty() {
        Language::Any(Vec::new())
    } else {
        Language::Matching(format!("^(?:{})$", texts.join("|")))
    }
}

/// Texts of these lengths.
fn counted(min: u64, max: Option<u64>) -> String {
    let max = max.map_or_else(String::new, |max| max.to_string());
    format!("^[\\s\\S]{{{min},{max}}}$")
}

/// Objects whose names match `names`.
fn allowed(names: &Map<String, Value>) -> Option<Value> {
    let rules: Vec<&String> =
        names.keys().filter(|keyword| *keyword != "type" && !keyword.starts_with("x-")).collect();
    if !takes_texts(names) {
        return Some(json!({"maxProperties": 0}));
    }
    match rules.iter().map(|rule| rule.as_str()).collect::<Vec<_>>()[..] {
        [] => Some(json!({})),
        ["const"] => Some(listed(std::slice::from_ref(&names["const"]))),
        ["enum"] => Some(listed(names["enum"].as_array()?)),
        ["pattern"] => Some(matching(names["pattern"].as_str()?)),
        ["minLength" | "maxLength"] | ["minLength", "maxLength"] | ["maxLength", "minLength"] => {
            let min = names.get("minLength").map_or(Some(0), Value::as_u64)?;
            let max = names.get("maxLength").map(|max| max.as_u64().ok_or(()));
            Some(matching(&counted(min, max.transpose().ok()?)))
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
