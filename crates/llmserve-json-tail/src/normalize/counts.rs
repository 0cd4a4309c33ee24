//! Bounds on the number of members where some are optional, which llguidance does not follow: each choice of
//! members is an alternative.

use serde_json::{Map, Value, json};

/// Maximum number of alternatives for one object.
const MAX_CHOICES: usize = 64;

/// Replaces the bounds of a schema whose members all have names, and lets them apply where they do not.
pub(super) fn write_out(map: &mut Map<String, Value>) {
    let count = |keyword: &str| {
        map.get(keyword).and_then(Value::as_u64).and_then(|count| usize::try_from(count).ok())
    };
    let (min, max) = (count("minProperties"), count("maxProperties"));
    if min.is_none() && max.is_none() {
        return;
    }
    let is_closed = map.get("additionalProperties") == Some(&Value::Bool(false));
    let has_names_only = is_closed && !map.contains_key("patternProperties");
    let required: Vec<&str> = map
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    let members = map.get("properties").and_then(Value::as_object).into_iter().flatten();
    let optional =
        members.filter(|(name, member)| **member != Value::Bool(false) && !required.contains(&name.as_str()));
    let optional: Vec<&String> = optional.map(|(name, _)| name).collect();
    if optional.is_empty() {
        return;
    }
    if !has_names_only {
        let ways = all_choices(&optional);
        add(map, ways.into_iter().collect());
        return;
    }
    let min = min.unwrap_or(0).saturating_sub(required.len());
    let max = max.map(|max| max.saturating_sub(required.len())).filter(|max| *max < optional.len());
    let Some(at_least) = choices(optional.len(), min) else { return };
    let Some(at_most) = max.map_or(Some(Vec::new()), |max| choices(optional.len(), max)) else { return };
    let present = at_least.into_iter().map(|choice| {
        let names: Vec<&String> = choice.into_iter().map(|place| optional[place]).collect();
        json!({"required": names})
    });
    let absent = at_most.into_iter().map(|choice| {
        let names = optional.iter().enumerate().filter(|(place, _)| !choice.contains(place));
        let names: Map<String, Value> =
            names.map(|(_, name)| ((*name).clone(), Value::Bool(false))).collect();
        json!({"properties": names})
    });
    let parts = [(min > 0).then(|| present.collect::<Vec<_>>()), max.map(|_| absent.collect())];
    let parts: Vec<Value> = parts.into_iter().flatten().map(|ways| json!({"anyOf": ways})).collect();
    map.remove("minProperties");
    map.remove("maxProperties");
    add(map, parts);
}

fn add(map: &mut Map<String, Value>, parts: Vec<Value>) {
    if parts.is_empty() {
        return;
    }
    if let Some(list) = map.entry("allOf").or_insert_with(|| json!([])).as_array_mut() {
        list.extend(parts);
    }
}

/// Each optional member is there or not, so that the bounds are left to those without a name; `None` if there
/// are too many members.
fn all_choices(optional: &[&String]) -> Option<Value> {
    let num_choices = 1_usize.checked_shl(u32::try_from(optional.len()).ok()?)?;
    if num_choices > MAX_CHOICES {
        return None;
    }
    let ways = (0..num_choices).map(|bits| {
        let mut required = Vec::new();
        let mut absent = Map::new();
        for (place, name) in optional.iter().enumerate() {
            if bits >> place & 1 == 1 {
                required.push(name);
            } else {
                absent.insert((*name).clone(), Value::Bool(false));
            }
        }
        json!({"required": required, "properties": absent})
    });
    Some(json!({"anyOf": ways.collect::<Vec<_>>()}))
}

/// All choices of `count` places out of `num`; `None` if they are too many.
fn choices(num: usize, count: usize) -> Option<Vec<Vec<usize>>> {
    let mut choices = vec![Vec::new()];
    for _ in 0..count {
        let mut longer = Vec::new();
        for choice in &choices {
            let first = choice.last().map_or(0, |last: &usize| last + 1);
            longer.extend((first..num).map(|place| [&choice[..], &[place]].concat()));
        }
        if longer.len() > MAX_CHOICES {
            return None;
        }
        choices = longer;
    }
    Some(choices)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_choices_are_made() {
        assert_eq!(choices(3, 2).unwrap(), [[0, 1], [0, 2], [1, 2]]);
        assert_eq!(choices(2, 0).unwrap(), [[0_usize; 0]]);
        assert!(choices(2, 3).unwrap().is_empty());
        assert!(choices(40, 20).is_none());
    }
}
