//! `contains`: which of the first items match. Left out are arrays whose matches come later.

use serde_json::{Value, json};

use super::super::error::SchemaError;
use super::{Rewriter, Sent, Sign, any_of, narrow};

/// The items among which the matches are.
pub(super) const MAX_PLACES: usize = 6;

/// How many items match.
struct Matches {
    min: usize,
    max: Option<usize>,
}

impl<'s> Rewriter<'s> {
    pub(super) fn contains(&mut self, sent: &Sent<'s, '_>) -> Result<Option<Value>, SchemaError> {
        let matches = bounds(sent)?;
        if matches.min == 0 && matches.max.is_none() {
            return Ok(None);
        }
        self.with_matches(sent, &matches).map(Some)
    }

    /// Too few matches, or too many.
    pub(super) fn not_contains(&mut self, sent: &Sent<'s, '_>) -> Result<Vec<Value>, SchemaError> {
        let matches = bounds(sent)?;
        let mut ways = Vec::new();
        if let Some(fewer) = matches.min.checked_sub(1) {
            ways.push(self.with_matches(sent, &Matches { min: 0, max: Some(fewer) })?);
        }
        if let Some(max) = matches.max {
            ways.push(self.with_matches(sent, &Matches { min: max + 1, max: None })?);
        }
        let is_array = |mut way: Value| {
            way.as_object_mut().map(|way| way.insert("type".to_owned(), json!("array")));
            way
        };
        Ok(ways.into_iter().map(is_array).collect())
    }

    fn with_matches(&mut self, sent: &Sent<'s, '_>, matches: &Matches) -> Result<Value, SchemaError> {
        if matches.min > MAX_PLACES {
            return Err(sent.error("minContains", format!("at most {MAX_PLACES} is supported")));
        }
        let Some(at) = sent.child("contains") else { return Ok(Value::Bool(true)) };
        let is = self.schema(&at, "contains", Sign::Is)?;
        let not = match matches.max {
            Some(_) => self.negated(&at, "contains", Sign::Not).map_err(|error| {
                sent.error("maxContains", format!("excluding `{}` is not supported", error.keyword))
            })?,
            None => Value::Bool(true),
        };
        let mut ways = Vec::new();
        for row in rows(matches) {
            let items = row.iter().map(|matches| self.copy(if *matches { &is } else { &not }, sent.path));
            let prefix: Vec<Value> = items.collect::<Result<_, _>>()?;
            let rest = self.copy(&not, sent.path)?;
            ways.push(narrow(json!({"minItems": row.len(), "prefixItems": prefix, "items": rest})));
        }
        // What an item is looked at for does not evaluate the array's other items.
        self.num_negations += 1;
        let ways = ways.into_iter().map(|way| self.object(sent.path, way)).collect();
        self.num_negations -= 1;
        Ok(any_of(ways))
    }
}

fn bounds(sent: &Sent<'_, '_>) -> Result<Matches, SchemaError> {
    let count = |keyword: &str| {
        if !sent.map.contains_key(keyword) {
            return Ok(None);
        }
        let count = sent.count(keyword).and_then(|count| usize::try_from(count).ok());
        count.map(Some).ok_or_else(|| sent.error(keyword, "must be a whole number of 0 or more"))
    };
    Ok(Matches { min: count("minContains")?.unwrap_or(1), max: count("maxContains")? })
}

/// Which of the first items match, up to the last one that does.
fn rows(matches: &Matches) -> Vec<Vec<bool>> {
    let most = matches.max.unwrap_or(matches.min);
    let mut rows = Vec::new();
    for length in 0..=MAX_PLACES {
        for bits in 0..1_usize << length {
            let row: Vec<bool> = (0..length).map(|place| bits >> place & 1 == 1).collect();
            let count = row.iter().filter(|matches| **matches).count();
            if row.last().is_none_or(|last| *last) && (matches.min..=most).contains(&count) {
                rows.push(row);
            }
        }
    }
    rows
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_end_with_their_last_match() {
        let rows_of = |min, max| rows(&Matches { min, max });
        assert_eq!(rows_of(0, Some(0)), [Vec::<bool>::new()]);
        assert_eq!(rows_of(1, None).len(), MAX_PLACES);
        assert_eq!(rows_of(1, None)[1], [false, true]);
        assert_eq!(rows_of(2, None)[0], [true, true]);
        assert_eq!(rows_of(2, None).len(), 15);
    }
}
