//! At every byte of random documents a tail is found that is allowed, parses and validates.

use llguidance::api::GrammarInit;
use std::sync::Arc;

use serde_json::Value;

use super::super::{ByteJudge, Outline, Progress, Search, Walk, find_tail};
use super::compiled;
use super::corpus::schemas;
use super::judge::ByteMatcher;
use super::random::{Random, legal_byte};

const FUEL: usize = 3000;
const WALKS: u64 = 6;
const STEPS: usize = 120;

/// Walks of each schema; more for a thorough run.
fn walks() -> u64 {
    let asked = std::env::var("LLMSERVE_RESCUE_WALKS").ok();
    asked.and_then(|text| text.parse().ok()).unwrap_or(WALKS)
}

pub(super) fn judge(schema: &Value) -> Result<ByteMatcher, String> {
    judge_of(&compiled(schema).map_err(|error| error.to_string())?)
}

pub(super) fn judge_of(outline: &Outline) -> Result<ByteMatcher, String> {
    let factory = ByteMatcher::factory().map_err(|error| error.to_string())?;
    let grammar = outline.grammar().map_err(|error| error.to_string())?;
    let grammar = llguidance::api::TopLevelGrammar::from_json_schema(grammar);
    ByteMatcher::new(&factory, GrammarInit::Serialized(grammar)).map_err(|error| error.to_string())
}

pub(super) fn validator(schema: &Value) -> jsonschema::Validator {
    jsonschema::options().should_validate_formats(false).build(schema).unwrap()
}

#[derive(Debug, Default)]
struct Tally {
    places: usize,
    guessed: usize,
    searched: usize,
    longest: usize,
    /// Walks that ended where no text can make the document valid any more.
    spoiled: usize,
    /// Walks into a repetition of unique items, which the engine would not have taken.
    dead: usize,
    failures: Vec<String>,
}

/// Checks the tail at one place; false if there is none, and need not be.
fn check(
    tally: &mut Tally,
    judge: &mut ByteMatcher,
    walk: &mut Walk,
    validator: &jsonschema::Validator,
) -> bool {
    tally.places += 1;
    let partial = walk.text().to_vec();
    let shown = String::from_utf8_lossy(&partial).into_owned();
    let is_guessed = judge.is_complete() || walk.closings().iter().any(|guess| judge.accepts(guess));
    tally.guessed += usize::from(is_guessed);
    tally.searched += usize::from(!is_guessed);
    if !is_guessed && std::env::var_os("LLMSERVE_SHOW_SEARCHED").is_some() {
        println!(
            "searched: {shown:?} {:?}",
            walk.closings().first().map(|c| String::from_utf8_lossy(c).into_owned())
        );
    }
    let Some(tail) = find_tail(judge, Some(walk), FUEL, &mut || true) else {
        if walk.is_among_unique() {
            tally.dead += 1;
            return false;
        }
        tally.failures.push(format!("no tail: {shown:?}"));
        return true;
    };
    tally.longest = tally.longest.max(tail.len());
    assert!(judge.accepts(&tail), "{shown} {tail:?}");
    assert_eq!(walk.text(), partial);
    let document = [partial, tail].concat();
    let text = String::from_utf8_lossy(&document).into_owned();
    match serde_json::from_slice::<Value>(&document) {
        Ok(value) if validator.is_valid(&value) => {}
        Ok(_) => tally.failures.push(format!("invalid: {text}")),
        Err(error) => tally.failures.push(format!("not JSON: {text} {error}")),
    }
    true
}

fn walk(tally: &mut Tally, schema: &Value, seed: u64) {
    let outline = compiled(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let mut judge = judge(schema).unwrap_or_else(|error| panic!("{schema}: {error}"));
    let validator = validator(schema);
    let mut random = Random::new(seed);
    let mut walk = Walk::new(Arc::new(outline));
    for _ in 0..STEPS + random.below(STEPS) {
        if !check(tally, &mut judge, &mut walk, &validator) {
            return;
        }
        let Some(byte) = legal_byte(&mut judge, &mut random) else { return };
        assert!(judge.push(byte), "{schema} {:?} {byte}", walk.text());
        let is_spoiled = walk.spoils(&[byte]);
        walk.feed(&[byte]);
        if is_spoiled {
            tally.spoiled += 1;
            return;
        }
    }
}

#[test]
fn a_tail_is_found_at_every_byte_of_random_documents() {
    let mut total = Tally::default();
    let schemas = schemas();
    for (index, schema) in schemas.iter().enumerate() {
        let mut tally = Tally::default();
        let started = std::time::Instant::now();
        for seed in 0..walks() {
            walk(&mut tally, schema, seed * 1000 + index as u64 + 1);
        }
        if !tally.failures.is_empty() || tally.searched > 0 {
            let line = schema.to_string().chars().take(150).collect::<String>();
            println!(
                "{line}\n  places {} searched {} failures {} {:?} ({:?})",
                tally.places,
                tally.searched,
                tally.failures.len(),
                tally.failures.iter().take(3).collect::<Vec<_>>(),
                started.elapsed()
            );
        }
        total.places += tally.places;
        total.guessed += tally.guessed;
        total.searched += tally.searched;
        total.longest = total.longest.max(tally.longest);
        total.spoiled += tally.spoiled;
        total.dead += tally.dead;
        total.failures.extend(tally.failures);
    }
    println!(
        "{} schemas, {} places: {} closed by the outline, {} by search; longest tail {} bytes; {} walks spoiled, {} dead; {} failures",
        schemas.len(),
        total.places,
        total.guessed,
        total.searched,
        total.longest,
        total.spoiled,
        total.dead,
        total.failures.len()
    );
    assert!(total.dead * 500 < total.places, "{} of {}", total.dead, total.places);
    assert!(total.failures.is_empty(), "{:#?}", total.failures.iter().take(20).collect::<Vec<_>>());
}

#[test]
fn patterns_without_a_table_are_searched_with_the_judge() {
    let large = "^(?:[a-z]{1,80}x){4}[0-9]$";
    let schema = serde_json::json!({
        "type": "object",
        "properties": {"a": {"type": "string", "pattern": large}, "b": {"type": "integer"}},
        "required": ["a", "b"],
    });
    let outline = compiled(&schema).unwrap();
    let mut walk = Walk::new(Arc::new(outline));
    walk.feed(b"{\"a\":\"");
    assert!(walk.closings().is_empty(), "the pattern has a table after all");
    walk.rollback(1);
    let mut judge = judge(&schema).unwrap();
    let validator = validator(&schema);
    let text = b"{\"a\":\"hexqxoxzx5\",\"b\":12";
    let mut tally = Tally::default();
    for end in 0..text.len() {
        check(&mut tally, &mut judge, &mut walk, &validator);
        assert!(judge.push(text[end]));
        walk.feed(&text[end..=end]);
    }
    assert!(tally.failures.is_empty(), "{:?}", tally.failures);
    assert!(tally.searched > 5);
}

#[test]
fn the_tail_grows_by_no_more_than_the_dearest_frame_and_what_is_around() {
    // One byte at a time: a bound for what a byte may open.
    for (index, schema) in schemas().iter().enumerate() {
        let outline = compiled(schema).unwrap();
        let mut judge = judge(schema).unwrap();
        let mut random = Random::new(index as u64 + 77);
        let dearest_frame = outline.dearest_frame();
        let mut walk = Walk::new(Arc::new(outline));
        let mut before = usize::MAX;
        for _ in 0..STEPS {
            let Some(tail) = find_tail(&mut judge, Some(&mut walk), FUEL, &mut || true) else { break };
            let limit = before.saturating_add(dearest_frame + 2);
            assert!(
                tail.len() <= limit,
                "{schema} {:?} {before} {}",
                String::from_utf8_lossy(walk.text()),
                tail.len()
            );
            before = tail.len();
            let Some(byte) = legal_byte(&mut judge, &mut random) else { break };
            assert!(judge.push(byte));
            walk.feed(&[byte]);
        }
    }
}

/// Random schemas that both the outline and llguidance take: the two agree on their documents.
#[test]
fn random_schemas_are_closed_too() {
    use proptest::strategy::{Strategy as _, ValueTree as _};
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let strategy = super::bounds::arbitrary();
    let asked = std::env::var("LLMSERVE_RESCUE_SCHEMAS").ok().and_then(|text| text.parse().ok());
    let (mut tally, mut num_compiled) = (Tally::default(), 0);
    for seed in 0..asked.unwrap_or(3000) {
        let schema = strategy.new_tree(&mut runner).unwrap().current();
        if !schema.is_object() {
            continue;
        }
        let Ok(outline) = compiled(&schema) else { continue };
        let Ok(mut judge) = judge(&schema) else { continue };
        let options = jsonschema::options().should_validate_formats(false);
        let Ok(validator) = options.build(&schema) else { continue };
        num_compiled += 1;
        let mut random = Random::new(seed);
        let mut walk = Walk::new(Arc::new(outline));
        for _ in 0..30 {
            let failures = tally.failures.len();
            if !check(&mut tally, &mut judge, &mut walk, &validator) {
                break;
            }
            if tally.failures.len() > failures {
                println!("{schema}");
                break;
            }
            let Some(byte) = legal_byte(&mut judge, &mut random) else { break };
            assert!(judge.push(byte));
            let is_spoiled = walk.spoils(&[byte]);
            walk.feed(&[byte]);
            if is_spoiled {
                break;
            }
        }
    }
    println!("{num_compiled} schemas, {} places, {} searched", tally.places, tally.searched);
    assert!(tally.failures.is_empty(), "{:#?}", tally.failures);
    assert!(num_compiled > 100);
}

#[test]
fn a_search_that_is_interrupted_finds_the_same() {
    let schema = serde_json::json!({
        "type": "array",
        "items": {"type": "string", "pattern": "^(?:[a-z]{1,80}x){4}[0-9]$"},
    });
    let mut judge = judge(&schema).unwrap();
    let mut walk = Walk::new(Arc::new(compiled(&schema).unwrap()));
    for &byte in b"[\"axbxcxdx1\",\"hexqxo" {
        assert!(judge.push(byte));
        walk.feed(&[byte]);
    }
    let begun = walk.text().to_vec();
    let whole = find_tail(&mut judge, Some(&mut walk), FUEL, &mut || true).unwrap();
    let mut search = Search::new(FUEL);
    let mut num_pauses = 0;
    let found = loop {
        let mut is_first = true;
        match search.advance(&mut judge, Some(&mut walk), &mut || std::mem::take(&mut is_first)) {
            Progress::Paused => num_pauses += 1,
            Progress::Found(tail) => break tail,
            Progress::Nothing => panic!("nothing was found"),
        }
    };
    assert!(num_pauses > 5, "{num_pauses}");
    assert_eq!(found, whole);
    assert_eq!(walk.text(), begun);
    // Given up, it leaves nothing behind.
    let mut search = Search::new(FUEL);
    while walk.text().len() == begun.len() {
        let mut is_first = true;
        let progress = search.advance(&mut judge, Some(&mut walk), &mut || std::mem::take(&mut is_first));
        assert_eq!(progress, Progress::Paused);
    }
    search.unwind(&mut judge, Some(&mut walk));
    assert_eq!(walk.text(), begun);
    assert!(judge.accepts(&whole));
}
