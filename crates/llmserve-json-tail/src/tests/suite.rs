//! The JSON-Schema-Test-Suite: what is accepted, and which documents the grammar allows.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::super::{ByteJudge, Normal, Objects, Outline, Walk};
use super::judge::ByteMatcher;
use super::rescue;

const DRAFTS: [(&str, &str, &str); 2] = [
    ("http://json-schema.org/draft-07/schema#", include_str!("suite/draft7.jsonl"), "draft 7"),
    (
        "https://json-schema.org/draft/2020-12/schema",
        include_str!("suite/draft2020-12.jsonl"),
        "draft 2020-12",
    ),
];
/// Maximum number of orders of members in which a document is tried.
const MAX_ORDERS: usize = 24;

#[derive(Default)]
struct Figures {
    groups: usize,
    accepted: usize,
    valid: usize,
    wrong: Vec<String>,
    refused_documents: Vec<String>,
    refused_schemas: Vec<String>,
}

/// The texts of a value with its members in all orders.
fn texts(value: &Value) -> Vec<String> {
    if let Some(items) = value.as_array() {
        let items = joined(items.iter().map(texts).collect());
        return items.into_iter().map(|items| format!("[{items}]")).collect();
    }
    let Some(map) = value.as_object() else { return vec![value.to_string()] };
    let orders = orders(map).into_iter().flat_map(joined);
    orders.take(MAX_ORDERS).map(|members| format!("{{{members}}}")).collect()
}

/// The members in all orders, each in all its texts.
fn orders(map: &Map<String, Value>) -> Vec<Vec<Vec<String>>> {
    let mut orders: Vec<Vec<Vec<String>>> = vec![vec![]];
    for (name, value) in map {
        let name = Value::from(name.as_str());
        let member: Vec<String> = texts(value).iter().map(|text| format!("{name}:{text}")).collect();
        let mut longer = Vec::new();
        for order in &orders {
            for place in (0..=order.len()).rev() {
                let mut order = order.clone();
                order.insert(place, member.clone());
                longer.push(order);
            }
        }
        longer.truncate(MAX_ORDERS);
        orders = longer;
    }
    orders
}

/// One text of each part in turn, with commas between.
fn joined(parts: Vec<Vec<String>>) -> Vec<String> {
    let mut rows = vec![Vec::new()];
    for part in parts {
        let longer = rows.iter().flat_map(|row: &Vec<String>| {
            part.iter().map(move |text| row.iter().chain([text]).cloned().collect::<Vec<String>>())
        });
        rows = longer.take(MAX_ORDERS).collect();
    }
    rows.into_iter().map(|row| row.join(",")).collect()
}

/// The grammar, and the walk, which knows what a grammar cannot.
struct Judges {
    grammar: ByteMatcher,
    walk: Walk,
}

impl Judges {
    fn new(schema: &Value, objects: Objects) -> Result<Self, String> {
        let normal = Normal::new(schema, objects).map_err(|error| error.to_string())?;
        let outline = Outline::compile(&normal).map_err(|error| error.to_string())?;
        Ok(Self { grammar: rescue::judge_of(&outline)?, walk: Walk::new(Arc::new(outline)) })
    }

    fn accept(&mut self, text: &str) -> bool {
        self.grammar.accepts(text.as_bytes()) && !self.walk.spoils(text.as_bytes())
    }
}

fn schema_of(group: &Value, draft: &str) -> Value {
    let mut schema = group["schema"].clone();
    if let Some(map) = schema.as_object_mut() {
        map.entry("$schema").or_insert_with(|| draft.into());
    }
    schema
}

fn judge_group(group: &Value, draft: &str, figures: &mut Figures) {
    let schema = schema_of(group, draft);
    let name = format!("{}: {}", group["file"], group["description"]);
    figures.groups += 1;
    let judges = Judges::new(&schema, Objects::Open);
    let mut judges = match judges {
        Ok(judges) => judges,
        // No document can match it, and it says so.
        Err(_) if group["tests"].as_array().into_iter().flatten().all(|test| test["valid"] == false) => {
            figures.accepted += 1;
            return;
        }
        Err(reason) => {
            figures.refused_schemas.push(format!("{name}: {reason}"));
            return;
        }
    };
    figures.accepted += 1;
    for test in group["tests"].as_array().into_iter().flatten() {
        let is_accepted = texts(&test["data"]).iter().any(|text| judges.accept(text));
        let is_valid = test["valid"] == true;
        figures.valid += usize::from(is_valid);
        let test = format!("{name}: {} {schema}", test["data"]);
        match (is_accepted, is_valid) {
            (true, false) => figures.wrong.push(test),
            (false, true) => figures.refused_documents.push(test),
            (true, true) | (false, false) => {}
        }
    }
}

/// The figures are printed: `cargo test -p llmserve-json-tail suite -- --nocapture`.
#[test]
fn no_document_is_allowed_that_the_suite_calls_invalid() {
    let shows_all = std::env::var_os("LLMSERVE_SHOW_SUITE").is_some();
    for (draft, lines, name) in DRAFTS {
        let mut figures = Figures::default();
        for line in lines.lines() {
            judge_group(&serde_json::from_str(line).unwrap(), draft, &mut figures);
        }
        if shows_all {
            println!("{:#?}\n{:#?}", figures.refused_schemas, figures.refused_documents);
        }
        println!(
            "{name}: {} of {} groups accepted, {} of {} valid documents refused, {} invalid ones allowed",
            figures.accepted,
            figures.groups,
            figures.refused_documents.len(),
            figures.valid,
            figures.wrong.len()
        );
        assert!(figures.wrong.is_empty(), "{:#?}", figures.wrong);
        assert!(figures.accepted * 100 >= figures.groups * 80, "{name}");
    }
}

/// Closed objects have no documents that others do not have.
#[test]
fn closed_objects_are_narrower() {
    for (draft, lines, _) in DRAFTS {
        for group in lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
            let schema = schema_of(&group, draft);
            let Ok(mut judges) = Judges::new(&schema, Objects::Closed) else { continue };
            for test in group["tests"].as_array().into_iter().flatten().filter(|test| test["valid"] == false)
            {
                let allowed = texts(&test["data"]).into_iter().find(|text| judges.accept(text));
                assert_eq!(allowed, None, "{schema}");
            }
        }
    }
}
