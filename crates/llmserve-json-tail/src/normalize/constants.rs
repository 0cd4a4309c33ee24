//! All values but some.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::any_of;

/// Alternatives for a value that is none of `values`.
pub(super) fn others(values: &[Value]) -> Vec<Value> {
    let mut ways = Vec::new();
    if !values.contains(&Value::Null) {
        ways.push(json!({"type": "null"}));
    }
    for word in [true, false] {
        if !values.contains(&Value::Bool(word)) {
            ways.push(json!({"const": word}));
        }
    }
    let texts: Vec<&str> = values.iter().filter_map(Value::as_str).collect();
    ways.push(if texts.is_empty() {
        json!({"type": "string"})
    } else {
        json!({"type": "string", "pattern": format!("^(?:{})$", other_texts(&texts))})
    });
    ways.extend(other_numbers(values));
    ways.push(all(values, Value::is_array, "array", not_array));
    ways.push(all(values, Value::is_object, "object", not_object));
    ways
}

/// Values of one type that are none of those.
fn all(values: &[Value], is_one: fn(&Value) -> bool, kind: &str, not: fn(&Value) -> Vec<Value>) -> Value {
    let mut parts = vec![json!({"type": kind})];
    parts.extend(values.iter().filter(|value| is_one(value)).map(|value| any_of(not(value))));
    super::all_of(parts)
}

fn not_array(value: &Value) -> Vec<Value> {
    let items = value.as_array().map_or(&[][..], Vec::as_slice);
    let mut ways = vec![json!({"type": "array", "minItems": items.len() + 1})];
    for (index, item) in items.iter().enumerate() {
        ways.push(json!({"type": "array", "maxItems": index, "minItems": index}));
        let mut prefix = vec![Value::Bool(true); index];
        prefix.push(any_of(others(std::slice::from_ref(item))));
        ways.push(json!({"type": "array", "minItems": index + 1, "prefixItems": prefix}));
    }
    ways
}

fn not_object(value: &Value) -> Vec<Value> {
    let members = value.as_object().into_iter().flatten();
    let mut ways = Vec::new();
    let mut count = 0;
    for (name, member) in members {
        count += 1;
        let other = any_of(others(std::slice::from_ref(member)));
        ways.push(json!({"type": "object", "properties": {name: false}}));
        ways.push(json!({"type": "object", "properties": {name: other}, "required": [name]}));
    }
    ways.push(json!({"type": "object", "minProperties": count + 1}));
    ways
}

/// The gaps between the numbers.
fn other_numbers(values: &[Value]) -> Vec<Value> {
    let mut numbers: Vec<&Value> = values.iter().filter(|value| value.is_number()).collect();
    numbers.sort_by(|a, b| a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(std::cmp::Ordering::Equal));
    numbers.dedup_by_key(|number| number.as_f64());
    let (Some(first), Some(last)) = (numbers.first(), numbers.last()) else {
        return vec![json!({"type": "number"})];
    };
    let mut ways = vec![json!({"type": "number", "exclusiveMaximum": first})];
    let gap =
        |pair: &[&Value]| json!({"type": "number", "exclusiveMinimum": pair[0], "exclusiveMaximum": pair[1]});
    ways.extend(numbers.windows(2).map(gap));
    ways.push(json!({"type": "number", "exclusiveMinimum": last}));
    ways
}

/// The characters of some texts, by what they share in front.
#[derive(Default)]
struct Trie {
    next: BTreeMap<char, Trie>,
    is_end: bool,
}

impl Trie {
    /// A regular expression for all texts that are not in the trie.
    fn others(&self) -> String {
        let mut ways = Vec::new();
        if !self.is_end {
            ways.push(String::new());
        }
        if self.next.is_empty() {
            ways.push("[\\s\\S]+".to_owned());
        } else {
            let known: String = self.next.keys().map(|c| escaped(*c)).collect();
            ways.push(format!("[^{known}][\\s\\S]*"));
        }
        for (c, next) in &self.next {
            ways.push(format!("{}{}", escaped(*c), next.others()));
        }
        format!("(?:{})", ways.join("|"))
    }
}

fn other_texts(texts: &[&str]) -> String {
    let mut root = Trie::default();
    for text in texts {
        let mut at = &mut root;
        for c in text.chars() {
            at = at.next.entry(c).or_default();
        }
        at.is_end = true;
    }
    root.others()
}

/// A regular expression for one text.
pub(super) fn quoted(text: &str) -> String {
    text.chars().map(escaped).collect()
}

fn escaped(c: char) -> String {
    if c.is_alphanumeric() || c == '_' || c == ' ' || !c.is_ascii() {
        return c.to_string();
    }
    if c.is_ascii_control() { format!("\\x{:02x}", c as u32) } else { format!("\\{c}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automaton::Automaton;

    #[test]
    fn other_texts_are_all_but_those() {
        let texts = ["", "ab", "abc", "b-", "\n", "]^\\", "é"];
        let automaton = Automaton::new(&other_texts(&texts)).unwrap();
        for text in texts {
            assert!(!automaton.matches(text), "{text:?}");
        }
        for text in ["a", "abd", "abcd", "b", "b-x", "\n\n", "]", "è", "\u{2028}"] {
            assert!(automaton.matches(text), "{text:?}");
        }
    }

    #[test]
    fn other_numbers_lie_in_the_gaps() {
        let gaps = other_numbers(&[json!(3), json!("x"), json!(1.5), json!(3.0)]);
        assert_eq!(gaps.len(), 3);
        assert_eq!(gaps[1], json!({"type": "number", "exclusiveMinimum": 1.5, "exclusiveMaximum": 3}));
    }
}
