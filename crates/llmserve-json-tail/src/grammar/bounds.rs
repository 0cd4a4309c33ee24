//! Numeric bounds as llguidance honours them: narrowed a little where it would misread them.
//! Every document of the drawn-in schema is one of the schema.

use serde_json::{Map, Number, Value};

/// Whole numbers up to here are exact in every reader; llguidance takes bounds of 64 bits and fails at their
/// ends.
const MAX_EXACT: f64 = 9_007_199_254_740_991.0;
/// The share of a range by which an excluded end is drawn in: llguidance lets some of them through.
const DRAWN_IN: f64 = 1.0 / 1024.0;

/// Rewrites the bounds of one schema.
pub(super) fn draw_in(map: &mut Map<String, Value>) {
    if is_integer_only(map) {
        draw_in_integers(map);
    } else {
        draw_in_excluded(map);
    }
}

fn is_integer_only(map: &Map<String, Value>) -> bool {
    let is_integer = |kind: &Value| kind == "integer";
    match map.get("type") {
        Some(Value::Array(kinds)) => {
            kinds.iter().any(is_integer) && !kinds.iter().any(|kind| kind == "number")
        }
        Some(kind) => is_integer(kind),
        None => false,
    }
}

fn draw_in_integers(map: &mut Map<String, Value>) {
    for (keyword, end) in [
        ("minimum", -MAX_EXACT),
        ("exclusiveMinimum", -MAX_EXACT),
        ("maximum", MAX_EXACT),
        ("exclusiveMaximum", MAX_EXACT),
    ] {
        let is_beyond = bound(map, keyword).is_some_and(|value| value.abs() > MAX_EXACT && value * end > 0.0);
        if is_beyond && let Some(exact) = Number::from_i128(end as i128) {
            map.insert(keyword.to_owned(), Value::Number(exact));
        }
    }
}

fn draw_in_excluded(map: &mut Map<String, Value>) {
    let lowest = [bound(map, "minimum"), bound(map, "exclusiveMinimum")].into_iter().flatten();
    let highest = [bound(map, "maximum"), bound(map, "exclusiveMaximum")].into_iter().flatten();
    let (Some(low), Some(high)) = (lowest.reduce(f64::max), highest.reduce(f64::min)) else {
        return;
    };
    let step = (high - low) * DRAWN_IN;
    for (excluded, included, end) in
        [("exclusiveMinimum", "minimum", low + step), ("exclusiveMaximum", "maximum", high - step)]
    {
        let is_inside = low < end && end < high;
        if bound(map, excluded).is_some()
            && is_inside
            && let Some(end) = Number::from_f64(end)
        {
            map.remove(excluded);
            map.insert(included.to_owned(), Value::Number(end));
        }
    }
}

fn bound(map: &Map<String, Value>, keyword: &str) -> Option<f64> {
    map.get(keyword)?.as_f64()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn drawn_in(mut schema: Value) -> Value {
        draw_in(schema.as_object_mut().unwrap());
        schema
    }

    #[test]
    fn excluded_ends_of_a_range_are_drawn_in() {
        let range = json!({"type": "number", "exclusiveMinimum": 0, "maximum": 1024});
        assert_eq!(drawn_in(range), json!({"type": "number", "minimum": 1.0, "maximum": 1024}));
        let both = json!({"exclusiveMinimum": 0, "exclusiveMaximum": 1024});
        assert_eq!(drawn_in(both), json!({"minimum": 1.0, "maximum": 1023.0}));
        for same in [json!({"exclusiveMinimum": 0}), json!({"minimum": 0, "maximum": 1})] {
            assert_eq!(drawn_in(same.clone()), same);
        }
        let integers = json!({"type": "integer", "exclusiveMinimum": 0, "maximum": 3});
        assert_eq!(drawn_in(integers.clone()), integers);
    }

    #[test]
    fn bounds_of_64_bits_become_exact_ones() {
        let long = json!({"type": "integer", "minimum": i64::MIN, "maximum": i64::MAX});
        let exact = json!({
            "type": "integer", "minimum": -9_007_199_254_740_991_i64, "maximum": 9_007_199_254_740_991_i64,
        });
        assert_eq!(drawn_in(long), exact);
        let beyond = json!({"type": "integer", "minimum": 1e20});
        assert_eq!(drawn_in(beyond.clone()), beyond, "there is nothing below it");
    }
}
