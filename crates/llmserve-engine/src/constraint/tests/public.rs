//! Public schemas: how many are compiled, why the others are not, and how long it takes.
//!
//! `LLMSERVE_SCHEMAS=FILE cargo test --release -p llmserve-engine public -- --nocapture` prints the figures
//! of a file with a JSON object `{"name", "schema"}` on each line.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use serde_json::Value;

use super::*;

/// A part of `SchemaStore`.
const SCHEMAS: &str = include_str!("public/schemas.jsonl");

#[derive(Default)]
struct Figures {
    times: Vec<(Duration, String)>,
    /// Names and reasons, by the keyword that is refused.
    refused: BTreeMap<String, Vec<String>>,
}

impl Figures {
    fn num_refused(&self) -> usize {
        self.refused.values().map(Vec::len).sum()
    }
}

fn compile_all(lines: &str) -> Figures {
    let compiler = compiler();
    let mut figures = Figures::default();
    for line in lines.split('\n').filter(|line| !line.is_empty()) {
        let entry: Value = serde_json::from_str(line).unwrap();
        let name = entry["name"].as_str().unwrap().to_owned();
        let begin = Instant::now();
        let outcome = start(&compiler, &json(&entry["schema"].to_string())).map(|_| ());
        figures.times.push((begin.elapsed(), name.clone()));
        if let Err(error) = outcome {
            let reason = error.to_string();
            println!("refused {name}: {reason}");
            let keyword = reason.split('`').nth(1).unwrap_or("schema").to_owned();
            figures.refused.entry(keyword).or_default().push(format!("{name}: {reason}"));
        }
    }
    figures.times.sort();
    figures
}

fn show(figures: &Figures) {
    let all = figures.times.len();
    let at = |share: usize| figures.times[(all - 1) * share / 100].0;
    println!("{} of {all} schemas compiled", all - figures.num_refused());
    println!("p50 {:?}, p90 {:?}, p99 {:?}; the slowest:", at(50), at(90), at(99));
    for (time, name) in figures.times.iter().rev().take(25) {
        println!("  {time:?} {name}");
    }
    for (keyword, reasons) in &figures.refused {
        println!("{keyword}: {}\n  {}", reasons.len(), reasons.join("\n  "));
    }
}

#[test]
fn public_schemas_are_compiled() {
    if let Some(file) = std::env::var_os("LLMSERVE_SCHEMAS") {
        show(&compile_all(&std::fs::read_to_string(file).unwrap()));
    }
    let figures = compile_all(SCHEMAS);
    assert!(figures.refused.is_empty(), "{:#?}", figures.refused);
}
