//! The keywords for numbers, strings, arrays and objects.

use serde_json::Value;

use super::super::error::SchemaError;
use super::super::keywords::escape;
use super::super::number::{Bound, Decimal, NumberRule};
use super::super::source::{ListRule, RecordRule, SourceId};
use super::super::text::TextRule;
use super::Reader;
use super::fields::Fields;

/// The largest `minLength` and `minItems`: a longer document is never written.
const MAX_LEAST: usize = 1 << 20;
/// The largest `minProperties`: each of them may need a name of its own.
const MAX_LEAST_MEMBERS: usize = 500;

/// The numeric keywords.
pub(super) fn number(fields: &Fields<'_, '_>) -> Result<NumberRule, SchemaError> {
    let mut rule = NumberRule::default();
    for (keyword, exclusive) in [("minimum", false), ("exclusiveMinimum", true)] {
        let bound = bound(fields, keyword, exclusive, "minimum")?;
        rule.merge(&NumberRule { min: bound, ..NumberRule::default() });
    }
    for (keyword, exclusive) in [("maximum", false), ("exclusiveMaximum", true)] {
        let bound = bound(fields, keyword, exclusive, "maximum")?;
        rule.merge(&NumberRule { max: bound, ..NumberRule::default() });
    }
    if let (Some(min), Some(max)) = (rule.min, rule.max) {
        let is_empty = min.value >= max.value && (min.exclusive || max.exclusive);
        if min.value > max.value || is_empty {
            let reason = format!("no number lies between {} and {}", min.value, max.value);
            return Err(fields.error(if min.exclusive { "exclusiveMinimum" } else { "minimum" }, reason));
        }
    }
    if let Some(value) = fields.map.get("multipleOf") {
        let step = value.as_f64().filter(|step| *step > 0.0);
        let step = step.ok_or_else(|| fields.wrong("multipleOf", "a number above 0", value))?;
        let too_long =
            || fields.error("multipleOf", "the number has too many digits for a grammar".to_owned());
        rule.multiples.push(Decimal::new(step).ok_or_else(too_long)?);
    }
    Ok(rule)
}

/// A bound; draft 4 writes exclusive ones as a boolean beside `plain`.
fn bound(
    fields: &Fields<'_, '_>,
    keyword: &str,
    exclusive: bool,
    plain: &str,
) -> Result<Option<Bound>, SchemaError> {
    let value = match fields.map.get(keyword) {
        None | Some(Value::Bool(false)) if exclusive => return Ok(None),
        None => return Ok(None),
        Some(Value::Bool(true)) if exclusive => match fields.map.get(plain) {
            Some(value) => value,
            None => return Ok(None),
        },
        Some(value) => value,
    };
    let whole = value.as_i64().map(i128::from).or_else(|| value.as_u64().map(i128::from));
    match value.as_f64() {
        Some(value) => {
            let decimal = whole.map(Decimal::whole).or_else(|| Decimal::new(value));
            Ok(Some(Bound { value, decimal, exclusive }))
        }
        None => Err(fields.wrong(keyword, "a number", value)),
    }
}

impl<'s> Reader<'s> {
    /// The string keywords.
    pub(super) fn text(&mut self, fields: &Fields<'s, '_>) -> Result<TextRule, SchemaError> {
        let (min, max) = fields.counts("minLength", "maxLength", MAX_LEAST)?;
        let mut rule = TextRule { min, max, ..TextRule::default() };
        if let Some(pattern) = fields.text("pattern")? {
            let id = self.patterns.search(pattern);
            rule.patterns.push(id.map_err(|reason| fields.error("pattern", reason))?);
        }
        if let Some(name) = fields.text("format")? {
            rule.patterns.extend(self.patterns.format(name));
        }
        Ok(rule)
    }

    /// The array keywords.
    pub(super) fn list(&mut self, fields: &Fields<'s, '_>) -> Result<ListRule, SchemaError> {
        let (min, max) = fields.counts("minItems", "maxItems", MAX_LEAST)?;
        let mut rule = ListRule { min, max, ..ListRule::default() };
        for (index, value) in fields.list("prefixItems")?.unwrap_or_default().iter().enumerate() {
            let path = format!("{}/prefixItems/{index}", fields.path);
            rule.prefix.push(self.schema(path, "prefixItems", value)?);
        }
        rule.items = self.child(fields, "items")?;
        rule.unique = fields.map.get("uniqueItems") == Some(&Value::Bool(true));
        Ok(rule)
    }

    /// The object keywords.
    pub(super) fn record(&mut self, fields: &Fields<'s, '_>) -> Result<RecordRule, SchemaError> {
        let (min, max) = fields.counts("minProperties", "maxProperties", MAX_LEAST_MEMBERS)?;
        let mut rule = RecordRule { min, max, ..RecordRule::default() };
        for (name, value) in fields.object("properties")?.into_iter().flatten() {
            let path = format!("{}/properties/{}", fields.path, escape(name));
            let id = self.schema(path, "properties", value)?;
            rule.order.push(name.clone());
            rule.named.insert(name.clone(), id);
        }
        for (pattern, value) in fields.object("patternProperties")?.into_iter().flatten() {
            let path = format!("{}/patternProperties/{}", fields.path, escape(pattern));
            let id = self.patterns.search(pattern);
            let id = id.map_err(|reason| fields.error("patternProperties", reason))?;
            rule.patterns.push((id, self.schema(path, "patternProperties", value)?));
        }
        rule.additional = self.child(fields, "additionalProperties")?;
        for name in fields.list("required")?.unwrap_or_default() {
            let Some(text) = name.as_str() else {
                return Err(fields.wrong("required", "an array of strings", name));
            };
            rule.required.push(text.to_owned());
        }
        Ok(rule)
    }

    fn child(
        &mut self,
        fields: &Fields<'s, '_>,
        keyword: &'static str,
    ) -> Result<Option<SourceId>, SchemaError> {
        let Some(value) = fields.map.get(keyword) else { return Ok(None) };
        self.schema(format!("{}/{keyword}", fields.path), keyword, value).map(Some)
    }
}
