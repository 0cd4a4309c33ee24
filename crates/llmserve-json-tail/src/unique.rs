//! `uniqueItems`: the items that an array has, and how the next one would be one of them again.

use std::collections::BTreeSet;

use serde_json::{Map, Number, Value};

use super::scan::Scanner;
use super::shape::{NodeId, Shape};
use super::threads::{Expect, Frame, FrameId, Open, Thread};
use super::walk::Walk;

/// Maximum number of different values that are thought of.
const MAX_DIFFERENT: usize = 64;

/// The one text of all values that are equal.
pub(super) fn canonical(text: &[u8]) -> String {
    match serde_json::from_slice::<Value>(text) {
        Ok(value) => sorted(value).to_string(),
        Err(_) => String::from_utf8_lossy(text).into_owned(),
    }
}

fn sorted(value: Value) -> Value {
    match value {
        Value::Number(number) => Value::Number(plain(number)),
        Value::Array(items) => items.into_iter().map(sorted).collect(),
        Value::Object(members) => {
            let mut members: Vec<_> =
                members.into_iter().map(|(name, member)| (name, sorted(member))).collect();
            members.sort_by(|one, other| one.0.cmp(&other.0));
            Value::Object(Map::from_iter(members))
        }
        Value::Null | Value::Bool(_) | Value::String(_) => value,
    }
}

/// Numbers that a reader of doubles takes for equal are.
fn plain(number: Number) -> Number {
    let value = number.as_f64().unwrap_or_default();
    if value.fract() == 0.0 && value.abs() < 1e15 {
        return Number::from(value as i64);
    }
    Number::from_f64(value).unwrap_or(number)
}

/// The items that the array of a frame has so far.
pub(super) fn items(frames: &[Frame], id: FrameId) -> impl Iterator<Item = &str> {
    let chain = std::iter::successors(Some(id), |&id| frames[id].before);
    chain.filter_map(|id| frames[id].item.as_deref())
}

impl Walk {
    /// Whether an array is open whose items have to be unique.
    #[must_use]
    pub fn is_among_unique(&self) -> bool {
        self.outline.has_unique() && self.threads().iter().any(|thread| self.num_different(thread) > 1)
    }

    /// Of how many different values for the open item one is sure to be new.
    pub(super) fn num_different(&self, thread: &Thread) -> usize {
        let around = std::iter::successors(thread.top, |&id| self.frame(id).around);
        let counts = around.map(|id| match &self.frame(id).open {
            Open::List { list, count } if list.unique => list.min.max(*count),
            Open::List { .. } | Open::Record { .. } => 0,
        });
        counts.sum::<usize>().saturating_add(1).min(MAX_DIFFERENT)
    }

    /// Texts after which the open item would be one that the array has already. Not all of them: see
    /// [`Self::spoils`].
    #[must_use]
    pub fn repetitions(&self) -> Vec<Vec<u8>> {
        if !self.outline.has_unique() {
            return Vec::new();
        }
        let mut threads = self.threads().iter().map(|thread| self.repetitions_of(thread)).collect::<Vec<_>>();
        let Some(mut common) = threads.pop() else { return Vec::new() };
        common.retain(|text| threads.iter().all(|other| other.contains(text)));
        common.into_iter().collect()
    }

    fn repetitions_of(&self, thread: &Thread) -> BTreeSet<Vec<u8>> {
        let Some((id, start)) = self.open_item(thread) else { return BTreeSet::new() };
        let begun = &self.text()[start..];
        let new = match thread.expect {
            Expect::Value(node) | Expect::FirstItem(node) if thread.top == Some(id) => {
                self.new_constants(node, id)
            }
            Expect::Value(_)
            | Expect::FirstItem(_)
            | Expect::FirstKey
            | Expect::Key
            | Expect::Colon(_)
            | Expect::Next => Vec::new(),
        };
        let mut texts = BTreeSet::new();
        for item in items(self.frames(), id).map(str::as_bytes).filter(|item| item.starts_with(begun)) {
            let is_given_up =
                |&len: &usize| !new.iter().any(|value| value.as_bytes().starts_with(&item[..len]));
            let first = if new.is_empty() { item.len() } else { begun.len() + 1 };
            match (first..=item.len()).find(is_given_up) {
                Some(len) if len < item.len() || !item.last().is_some_and(u8::is_ascii_digit) => {
                    texts.insert(item[begun.len()..len].to_vec());
                }
                // A number may go on.
                Some(_) | None => {
                    texts.extend([b",", b"]"].map(|end| [&item[begun.len()..], end].concat()));
                }
            }
        }
        texts.retain(|text| !text.is_empty());
        texts
    }

    /// The innermost array of unique items, and where its open item begins.
    fn open_item(&self, thread: &Thread) -> Option<(FrameId, usize)> {
        let mut start = match (self.scanner(), thread.expect) {
            (Scanner::Between, Expect::Value(_) | Expect::FirstItem(_)) => Some(self.text().len()),
            (Scanner::Between, _) => None,
            (Scanner::Text { .. }, _) => Some(self.text().len() - self.token().len() - 1),
            (Scanner::Number | Scanner::Word { .. }, _) => Some(self.text().len() - self.token().len()),
        };
        let mut id = thread.top?;
        loop {
            let frame = self.frame(id);
            if matches!(&frame.open, Open::List { list, .. } if list.unique) {
                return Some((id, start?));
            }
            start = Some(frame.start);
            id = frame.around?;
        }
    }

    /// The values that an item may still have, if the schema lists them.
    fn new_constants(&self, node: NodeId, list: FrameId) -> Vec<String> {
        let mut values = Vec::new();
        for shape in &self.outline.nodes.shapes[node] {
            match shape {
                Shape::Word(word) => values.push((*word).to_owned()),
                Shape::Number(rule) if rule.literals.is_some() => {
                    values.extend(rule.literals.iter().flatten().map(|text| canonical(text.as_bytes())));
                }
                Shape::Text(rule) if rule.literals.is_some() => {
                    values.extend(
                        rule.literals.iter().flatten().map(|text| Value::from(text.as_str()).to_string()),
                    );
                }
                Shape::Number(_) | Shape::Text(_) | Shape::List(_) | Shape::Record(_) => return Vec::new(),
            }
        }
        values.retain(|value| !items(self.frames(), list).any(|item| item == value));
        values
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::*;
    use crate::{Normal, Objects, Outline};

    fn after(schema: &Value, text: &str) -> Walk {
        let outline = Outline::compile(&Normal::new(schema, Objects::Open).unwrap()).unwrap();
        let mut walk = Walk::new(Arc::new(outline));
        walk.feed(text.as_bytes());
        walk
    }

    fn repetitions(items: &Value, text: &str) -> Vec<String> {
        let schema = json!({"type": "array", "uniqueItems": true, "items": items});
        let texts = after(&schema, text).repetitions().into_iter();
        texts.map(|text| String::from_utf8(text).unwrap()).collect()
    }

    #[test]
    fn equal_values_have_one_text() {
        for (one, other) in [
            (r#"{"a":1,"b":[2.0]}"#, r#"{"b":[2],"a":1.0}"#),
            (r#""\u0061""#, r#""a""#),
            ("-0", "0.0"),
            ("100", "1e2"),
        ] {
            assert_eq!(canonical(one.as_bytes()), canonical(other.as_bytes()));
        }
        assert_ne!(canonical(b"1"), canonical(b"\"1\""));
    }

    #[test]
    fn a_repetition_is_seen_at_its_last_byte() {
        let any = json!(true);
        assert_eq!(repetitions(&any, r#"["ab","a"#), ["b\""]);
        assert_eq!(repetitions(&any, r#"["ab","ab"#), ["\""]);
        assert_eq!(repetitions(&any, r#"["ab""#), [""; 0]);
        assert_eq!(repetitions(&any, r#"["ab","b"#), [""; 0]);
        assert_eq!(repetitions(&any, "[12,1"), ["2,", "2]"]);
        assert_eq!(repetitions(&any, r#"[{"a":true},{"a":t"#), ["rue}"]);
    }

    #[test]
    fn constants_that_are_used_up_are_given_up_at_their_first_byte() {
        let values = json!({"enum": ["ab", "ac", "b", 1, 12]});
        assert_eq!(repetitions(&values, r#"["ab","#), ["\"ab"]);
        assert_eq!(repetitions(&values, r#"["ab","ac","#), ["\"a"]);
        assert_eq!(repetitions(&values, "[1,"), ["1,", "1]"]);
        assert_eq!(repetitions(&json!({"type": "boolean"}), "[true,"), ["t"]);
    }

    #[test]
    fn an_item_that_comes_twice_spoils_the_document() {
        let schema = json!({"anyOf": [
            {"type": "array", "uniqueItems": true},
            {"type": "array", "items": {"type": "integer"}},
        ]});
        assert!(!after(&schema, "[1,1").spoils(b","));
        assert!(after(&schema, "[\"a\",1,1").spoils(b","));
        assert!(after(&schema, "[\"a\",1,1.").spoils(b"0]"));
        assert!(after(&schema, "[{},[],{").spoils(b"}"));
        assert!(!after(&schema, "[{},[],{").spoils(b"\""));
    }
}
