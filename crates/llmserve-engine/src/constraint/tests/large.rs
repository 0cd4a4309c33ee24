//! Large schemas whose documents are written to their end.

use super::documents::{Random, walk};
use super::*;

fn members(n: usize, name: impl Fn(usize) -> String, schema: &str) -> String {
    (0..n).map(|i| format!("\"{}\":{schema}", name(i))).collect::<Vec<_>>().join(",")
}

fn schemas() -> Vec<String> {
    let short = |i: usize| format!("property_{i}");
    let names = |n: usize| (0..n).map(|i| format!("\"{}\"", short(i))).collect::<Vec<_>>().join(",");
    let mut nested = r#"{"type":"null"}"#.to_owned();
    for i in 0..60 {
        nested =
            format!(r#"{{"type":"object","properties":{{"level_{i}":{nested}}},"required":["level_{i}"]}}"#);
    }
    let values = (0..8000).map(|i| format!("\"the value {i}\"")).collect::<Vec<_>>().join(",");
    let long = |i: usize| format!("{i}{}", "long ".repeat(300));
    vec![
        format!(r#"{{"type":"object","properties":{{{}}}}}"#, members(1500, short, r#"{"type":"string"}"#)),
        format!(
            r#"{{"type":"object","properties":{{{}}},"additionalProperties":false}}"#,
            members(1500, short, r#"{"type":["integer","null"]}"#)
        ),
        format!(
            r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#,
            members(1500, short, r#"{"type":"boolean"}"#),
            names(1500)
        ),
        format!(
            r#"{{"type":"object","properties":{{{}}},"required":[{}]}}"#,
            members(1500, short, r#"{"type":"boolean"}"#),
            names(20)
        ),
        format!(r#"{{"type":"array","items":{{"enum":[{values}]}},"minItems":2}}"#),
        nested,
        format!(r#"{{"type":"object","properties":{{{}}}}}"#, members(100, long, r#"{"type":"integer"}"#)),
    ]
}

#[test]
fn documents_of_large_schemas_can_be_written() {
    let compiler = compiler();
    let vocabulary = WordVocabulary::default();
    for (index, schema) in schemas().iter().enumerate() {
        for seed in 0..2 {
            let mut constraint =
                start(&compiler, &json(schema)).unwrap_or_else(|error| panic!("{index}: {error}"));
            walk(&mut constraint, &vocabulary, &mut Random::new(seed + 1), 40);
        }
    }
}

#[test]
fn members_anywhere_among_many_can_be_written() {
    let names: Vec<String> = (0..1500).map(|i| format!("property_{i}")).collect();
    let schema = format!(
        r#"{{"type":"object","properties":{{{}}},"additionalProperties":false}}"#,
        members(1500, |i| names[i].clone(), r#"{"type":"integer"}"#)
    );
    let mut constraint = compile(&json(&schema));
    let text: Vec<String> =
        names.iter().step_by(300).chain(names.last()).map(|name| format!("\"{name}\":1")).collect();
    feed(&mut constraint, &WordVocabulary::default(), &format!("{{{}}}", text.join(",")));
    constraint.check_document().unwrap();
}
