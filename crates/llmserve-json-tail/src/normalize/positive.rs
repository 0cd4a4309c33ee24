//! A schema that has to match.

use serde_json::{Map, Value, json};

use super::super::error::SchemaError;
use super::super::format;
use super::{REST_OF_ITEMS, REST_OF_MEMBERS, Rewriter, Sent, Sign, whole};

/// Which forms of keywords a schema may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Draft {
    /// Nothing applies beside `$ref`.
    UpTo7,
    /// `items` may be a list.
    From2019,
    From2020,
}

impl Draft {
    pub(super) fn of(root: &Value) -> Self {
        let named = root.get("$schema").and_then(Value::as_str).unwrap_or_default();
        if ["draft-04", "draft-06", "draft-07"].iter().any(|name| named.contains(name)) {
            Self::UpTo7
        } else if named.contains("2019-09") {
            Self::From2019
        } else {
            Self::From2020
        }
    }
}

impl<'s> Rewriter<'s> {
    pub(super) fn positive(&mut self, sent: &Sent<'s, '_>) -> Result<Value, SchemaError> {
        let mut out = Map::new();
        let mut parts = Vec::new();
        let draft = Draft::of(self.root);
        for (keyword, value) in sent.map {
            if draft == Draft::UpTo7 && sent.map.contains_key("$ref") && keyword != "$ref" {
                continue;
            }
            match keyword.as_str() {
                "type" | "minimum" | "maximum" | "multipleOf" | "pattern" | "const" | "enum" | "required" => {
                    out.insert(keyword.clone(), value.clone());
                }
                "minLength" | "maxLength" | "minItems" | "maxItems" | "minProperties" | "maxProperties" => {
                    out.insert(keyword.clone(), whole(value).unwrap_or_else(|| value.clone()));
                }
                "exclusiveMinimum" => exclusive(sent, "minimum", keyword, &mut out),
                "exclusiveMaximum" => exclusive(sent, "maximum", keyword, &mut out),
                "format" if is_note(value) => {}
                "format" => _ = out.insert(keyword.clone(), value.clone()),
                "properties" | "patternProperties" => {
                    out.insert(keyword.clone(), self.members(sent, keyword)?);
                }
                "items" | "prefixItems" | "additionalItems" => self.items(sent, keyword, draft, &mut out)?,
                "uniqueItems" => self.unique_items(sent, &mut out, &mut parts)?,
                "allOf" | "anyOf" => _ = out.insert(keyword.clone(), self.list(sent, keyword)?),
                "additionalProperties" => self.child(sent, keyword, keyword, &mut out)?,
                "unevaluatedProperties" => self.child(sent, keyword, REST_OF_MEMBERS, &mut out)?,
                "unevaluatedItems" => self.child(sent, keyword, REST_OF_ITEMS, &mut out)?,
                "$ref" => _ = out.insert("$ref".to_owned(), self.reference(sent, "$ref", Sign::Is)?),
                _ => self.part(sent, keyword, &mut parts)?,
            }
        }
        parts.retain(|part| *part != Value::Bool(true));
        if !parts.is_empty()
            && let Some(list) = out.entry("allOf").or_insert_with(|| json!([])).as_array_mut()
        {
            list.extend(parts);
        }
        Ok(if out.is_empty() { Value::Bool(true) } else { self.object(sent.path, Value::Object(out)) })
    }

    /// A keyword that becomes schemas beside the others.
    fn part(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        parts: &mut Vec<Value>,
    ) -> Result<(), SchemaError> {
        match keyword {
            "$dynamicRef" | "$recursiveRef" => {
                self.check_static(sent, keyword)?;
                let target = self.reference(sent, keyword, Sign::Is)?;
                parts.push(self.object(sent.path, json!({"$ref": target})));
            }
            "not" => {
                let not = sent.child("not").map(|at| self.negated(&at, "not", Sign::Not)).transpose();
                parts.extend(not.map_err(|error| {
                    sent.error("not", format!("excludes `{}`, which is not supported", error.keyword))
                })?);
            }
            "oneOf" => parts.push(self.one_of(sent)?),
            "if" => parts.extend(self.conditional(sent)?),
            "dependentRequired" | "dependentSchemas" | "dependencies" => {
                parts.extend(self.dependencies(sent, keyword)?);
            }
            "contains" => parts.extend(self.contains(sent)?),
            "propertyNames" => parts.extend(self.property_names(sent)?),
            _ => {}
        }
        Ok(())
    }

    /// Refuses dynamic references that mean different places on different ways.
    pub(super) fn check_static(&self, sent: &Sent<'s, '_>, keyword: &str) -> Result<(), SchemaError> {
        let text = sent.map[keyword].as_str().unwrap_or_default();
        let name = text.split_once('#').map_or("", |(_, fragment)| fragment);
        let is_pointer = name.starts_with('/');
        if is_pointer || self.references.is_static(name) || self.references.num_resources() == 1 {
            return Ok(());
        }
        Err(sent.error(keyword, "may lead to several places, which is not supported"))
    }

    fn child(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        name: &str,
        out: &mut Map<String, Value>,
    ) -> Result<(), SchemaError> {
        if let Some(at) = sent.child(keyword) {
            out.insert(name.to_owned(), self.schema(&at, keyword, Sign::Is)?);
        }
        Ok(())
    }

    fn members(&mut self, sent: &Sent<'s, '_>, keyword: &str) -> Result<Value, SchemaError> {
        if !sent.map[keyword].is_object() {
            return Ok(sent.map[keyword].clone());
        }
        let mut members = Map::new();
        for (name, at) in sent.named(keyword) {
            members.insert(name.clone(), self.schema(&at, keyword, Sign::Is)?);
        }
        Ok(Value::Object(members))
    }

    /// A list of schemas; what is malformed stays as it is, to be refused where it is read.
    fn list(&mut self, sent: &Sent<'s, '_>, keyword: &str) -> Result<Value, SchemaError> {
        if !sent.map[keyword].is_array() {
            return Ok(sent.map[keyword].clone());
        }
        let schemas = sent.children(keyword);
        schemas.iter().map(|at| self.schema(at, keyword, Sign::Is)).collect()
    }

    /// `items` in all its forms, as `prefixItems` and `items`.
    fn items(
        &mut self,
        sent: &Sent<'s, '_>,
        keyword: &str,
        draft: Draft,
        out: &mut Map<String, Value>,
    ) -> Result<(), SchemaError> {
        let is_tuple = sent.map.get("items").is_some_and(Value::is_array);
        let is_old = draft < Draft::From2020;
        match keyword {
            "items" if is_tuple => _ = out.insert("prefixItems".to_owned(), self.list(sent, "items")?),
            "items" => self.child(sent, "items", "items", out)?,
            "additionalItems" if is_tuple => self.child(sent, "additionalItems", "items", out)?,
            "prefixItems" if !is_tuple && !is_old => {
                out.insert("prefixItems".to_owned(), self.list(sent, "prefixItems")?);
            }
            _ => {}
        }
        Ok(())
    }
}

/// A format that asks for nothing: one of those that only describe the value.
fn is_note(format: &Value) -> bool {
    format.as_str().is_some_and(|name| format::expression(name).is_none_or(|regex| regex.is_empty()))
}

/// An exclusive bound; draft 4 writes it as a boolean beside `plain`.
fn exclusive(sent: &Sent<'_, '_>, plain: &str, keyword: &str, out: &mut Map<String, Value>) {
    let value = match sent.map[keyword].as_bool() {
        Some(true) => sent.map.get(plain),
        Some(false) => None,
        None => sent.map.get(keyword),
    };
    if let Some(value) = value {
        out.insert(keyword.to_owned(), value.clone());
    }
}
