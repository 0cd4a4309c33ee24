//! The keywords of one schema object, with their types checked.

use serde_json::{Map, Value};

use super::super::error::SchemaError;
use super::super::source::Types;

/// One schema object and its place.
pub(super) struct Fields<'s, 'p> {
    pub(super) path: &'p str,
    pub(super) map: &'s Map<String, Value>,
}

impl<'s> Fields<'s, '_> {
    pub(super) fn error(&self, keyword: &str, reason: impl Into<String>) -> SchemaError {
        SchemaError::new(keyword, self.path, reason)
    }

    /// The error of a keyword whose value has the wrong type.
    pub(super) fn wrong(&self, keyword: &str, due: &str, value: &Value) -> SchemaError {
        self.error(keyword, format!("must be {due}, not {}", kind(value)))
    }

    /// A count, such as `minLength`.
    pub(super) fn count(&self, keyword: &str) -> Result<Option<usize>, SchemaError> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        match value.as_u64() {
            Some(count) => Ok(Some(usize::try_from(count).unwrap_or(usize::MAX))),
            None => Err(self.wrong(keyword, "a whole number of 0 or more", value)),
        }
    }

    /// A least and a greatest count, in order. The least is at most `limit`.
    pub(super) fn counts(
        &self,
        least: &str,
        most: &str,
        limit: usize,
    ) -> Result<(usize, Option<usize>), SchemaError> {
        let (min, max) = (self.count(least)?.unwrap_or(0), self.count(most)?);
        if let Some(max) = max
            && min > max
        {
            return Err(self.error(least, format!("{min} is more than `{most}`, which is {max}")));
        }
        if min > limit {
            return Err(self.error(least, format!("{min} is more than the limit of {limit}")));
        }
        Ok((min, max))
    }

    pub(super) fn text(&self, keyword: &str) -> Result<Option<&'s str>, SchemaError> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| self.wrong(keyword, "a string", value))
    }

    pub(super) fn list(&self, keyword: &str) -> Result<Option<&'s [Value]>, SchemaError> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        match value.as_array() {
            Some(values) => Ok(Some(values)),
            None => Err(self.wrong(keyword, "an array", value)),
        }
    }

    pub(super) fn object(&self, keyword: &str) -> Result<Option<&'s Map<String, Value>>, SchemaError> {
        let Some(value) = self.map.get(keyword) else { return Ok(None) };
        value.as_object().map(Some).ok_or_else(|| self.wrong(keyword, "an object", value))
    }

    /// The keyword `type`; all types if it is missing.
    pub(super) fn types(&self) -> Result<Types, SchemaError> {
        let Some(value) = self.map.get("type") else { return Ok(Types::ALL) };
        let names = match value.as_array() {
            Some(names) if names.is_empty() => {
                return Err(self.wrong("type", "a name or a list of names", value));
            }
            Some(names) => names,
            None => std::slice::from_ref(value),
        };
        let mut types = Types::NONE;
        for name in names {
            let Some(text) = name.as_str() else {
                return Err(self.wrong("type", "a name or a list of names", name));
            };
            types = types.or(Types::named(text).ok_or_else(|| self.unknown_type(text))?);
        }
        Ok(types)
    }

    fn unknown_type(&self, name: &str) -> SchemaError {
        let name: String = name.chars().take(40).collect();
        let known = "null, boolean, integer, number, string, array, object";
        self.error("type", format!("`{name}` is not a type; the types are {known}"))
    }
}

/// The name of a value's kind in messages.
pub(in super::super) fn kind(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => number.to_string(),
        Value::String(_) => "a string".to_owned(),
        Value::Array(values) if values.is_empty() => "an empty array".to_owned(),
        Value::Array(_) => "an array".to_owned(),
        Value::Object(_) => "an object".to_owned(),
    }
}
