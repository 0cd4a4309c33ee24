//! `const` and `enum`: values as schemas that allow nothing else.

use std::collections::HashMap;

use serde_json::Value;

use super::super::error::SchemaError;
use super::super::number::NumberRule;
use super::super::source::{Link, ListRule, RecordRule, Rules, Source, SourceId, Types};
use super::super::text::TextRule;
use super::Reader;
use super::fields::Fields;

impl<'s> Reader<'s> {
    /// A link that allows `values`: all scalars stand in one source.
    pub(super) fn choice_of_constants(
        &mut self,
        fields: &Fields<'s, '_>,
        keyword: &str,
        values: &'s [Value],
    ) -> Result<Vec<Link>, SchemaError> {
        if values.is_empty() {
            return Err(fields.error(keyword, "must have at least one value"));
        }
        if let Some(number) = inexact_number(values) {
            let reason = format!("{number} has more digits than a double keeps");
            return Err(fields.error(keyword, reason));
        }
        let mut choice = Vec::new();
        if let Some(scalars) = scalars(values) {
            let id = self.allocate(fields.path)?;
            self.sources[id] = scalars;
            choice.push(id);
        }
        for value in values.iter().filter(|value| value.is_array() || value.is_object()) {
            choice.push(self.constant(fields.path, value)?);
        }
        Ok(vec![Link::Choice(choice)])
    }

    /// The schema of one constant.
    pub(super) fn read_constant(&mut self, value: &'s Value) -> Result<Source, SchemaError> {
        let mut rules = Rules { links: vec![Link::Own], ..Rules::default() };
        if let Some(items) = value.as_array() {
            rules.types = Types::ARRAY;
            let prefix = items.iter().map(|item| self.constant("", item));
            let prefix = prefix.collect::<Result<Vec<SourceId>, _>>()?;
            let count = prefix.len();
            rules.list = ListRule { prefix, items: None, min: count, max: Some(count), unique: false };
        } else if let Some(map) = value.as_object() {
            rules.types = Types::OBJECT;
            rules.record = self.constant_record(map)?;
        } else {
            return Ok(scalars(std::slice::from_ref(value)).unwrap_or(Source::Never));
        }
        Ok(Source::Rules(Box::new(rules)))
    }

    fn constant_record(
        &mut self,
        map: &'s serde_json::Map<String, Value>,
    ) -> Result<RecordRule, SchemaError> {
        let mut named = HashMap::new();
        for (name, value) in map {
            named.insert(name.clone(), self.constant("", value)?);
        }
        let never = self.allocate("")?;
        self.sources[never] = Source::Never;
        let order: Vec<String> = map.keys().cloned().collect();
        let required = order.clone();
        Ok(RecordRule { order, named, required, additional: Some(never), ..RecordRule::default() })
    }
}

/// A whole number within `values` that llguidance would write differently.
fn inexact_number(values: &[Value]) -> Option<&serde_json::Number> {
    let mut open: Vec<&Value> = values.iter().collect();
    while let Some(value) = open.pop() {
        match value {
            Value::Number(number) if !is_exact(number) => return Some(number),
            Value::Array(items) => open.extend(items),
            Value::Object(map) => open.extend(map.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    None
}

/// Whether the number that is written is the number that was meant.
fn is_exact(number: &serde_json::Number) -> bool {
    let text = number_text(number);
    if number.is_f64() {
        // In whole numbers the digits after the seventeenth are written as zeros, and validators
        // read numbers of up to 64 bits exactly.
        let value = number.as_f64().unwrap_or_default();
        let digits = text.parse::<i128>().ok().filter(|digits| digits.abs() < 1 << 64);
        return digits.is_none_or(|digits| digits == value as i128);
    }
    text == number.to_string()
}

/// One source for all null, boolean, numeric and string `values`.
fn scalars(values: &[Value]) -> Option<Source> {
    let mut types = Types::NONE;
    let (mut texts, mut numbers) = (Vec::new(), Vec::new());
    for value in values {
        types = types.or(match value {
            Value::Null => Types::NULL,
            Value::Bool(true) => Types::TRUE,
            Value::Bool(false) => Types::FALSE,
            Value::String(text) => {
                texts.push(text.clone());
                Types::STRING
            }
            Value::Number(number) => {
                numbers.push(number_text(number));
                Types::INTEGER.or(Types::FRACTION)
            }
            Value::Array(_) | Value::Object(_) => Types::NONE,
        });
    }
    let rules = Rules {
        types,
        text: TextRule { literals: Some(texts), ..TextRule::default() },
        number: NumberRule { literals: Some(numbers), ..NumberRule::default() },
        links: vec![Link::Own],
        ..Rules::default()
    };
    (!types.is_empty()).then(|| Source::Rules(Box::new(rules)))
}

/// The number as llguidance writes it: through a double.
fn number_text(number: &serde_json::Number) -> String {
    let value = number.as_f64().unwrap_or_default();
    if number.is_i64() { (value as i64).to_string() } else { value.to_string() }
}
