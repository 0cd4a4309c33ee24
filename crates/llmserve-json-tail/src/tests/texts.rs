//! Grammars other than JSON, which are searched alone.

use llguidance::api::{GrammarInit, TopLevelGrammar};

use super::super::{ByteJudge, find_tail};
use super::judge::ByteMatcher;
use super::random::{Random, legal_byte};

const REGEXES: [&str; 16] = [
    "[a-z]{3}@[a-z]+\\.com",
    "(ab)*c",
    "(a|b)*c",
    "[a-z]*!",
    "\\d{4}-\\d{2}-\\d{2}",
    "(yes|no|maybe)",
    "(foo|bar)+ (baz|qux){2,3}",
    "[^\\n]{5,10}\\n",
    "\"[^\"]*\"",
    "a{50}",
    "(x+y)+z",
    "-?\\d+(\\.\\d{2})?",
    "[A-Z][a-z]+( [A-Z][a-z]+)*\\.",
    "(\\([0-9]{3}\\))?[0-9]{3}-[0-9]{4}",
    "日本(語|人)+",
    "<b>[a-z ]*</b>",
];

const GRAMMARS: [&str; 5] = [
    "start: \"answer: \" (\"yes\" | \"no\") \".\"",
    "start: expr\nexpr: NUM | \"(\" expr (\"+\" | \"*\") expr \")\"\nNUM: /[0-9]+/",
    "start: item (\", \" item)* \" end\"\nitem: /[a-z]+/ \"=\" /[0-9]{1,3}/",
    "start: \"begin\" stmt* \"end\"\nstmt: \" x\" | \" (\" stmt+ \")\"",
    "start: \"<\" NAME \">\" text \"</x>\"\nNAME: /[a-z]{1,5}/\ntext: /[^<]*/",
];

fn walk(grammar: TopLevelGrammar, name: &str, seed: u64) -> usize {
    let factory = ByteMatcher::factory().unwrap();
    let mut judge = ByteMatcher::new(&factory, GrammarInit::Serialized(grammar)).unwrap();
    let mut random = Random::new(seed);
    let mut partial = Vec::new();
    let mut longest = 0;
    for _ in 0..40 {
        let tail = find_tail(&mut judge, None, 3000, &mut || true);
        let shown = String::from_utf8_lossy(&partial);
        let tail = tail.unwrap_or_else(|| panic!("{name}: no tail for {shown:?}"));
        assert!(judge.accepts(&tail), "{name} {shown:?}");
        longest = longest.max(tail.len());
        let Some(byte) = legal_byte(&mut judge, &mut random) else { break };
        assert!(judge.push(byte));
        partial.push(byte);
    }
    longest
}

#[test]
fn regular_expressions_are_completed_from_anywhere() {
    for regex in REGEXES {
        for seed in 0..2 {
            let longest = walk(TopLevelGrammar::from_regex(regex), regex, seed);
            assert!(longest <= 60, "{regex} {longest}");
        }
    }
}

#[test]
fn grammars_are_completed_from_anywhere() {
    for grammar in GRAMMARS {
        for seed in 0..2 {
            walk(TopLevelGrammar::from_lark(grammar.to_owned()), grammar, seed);
        }
    }
}

#[test]
fn a_short_text_is_found_among_many_beginnings() {
    let factory = ByteMatcher::factory().unwrap();
    for shortest in ["a", "ac", "bcab"] {
        let grammar = format!("start: /[^ab]/* \"{shortest}\" | \"(\" start \")\"");
        let grammar = TopLevelGrammar::from_lark(grammar);
        let mut judge = ByteMatcher::new(&factory, GrammarInit::Serialized(grammar)).unwrap();
        let tail = find_tail(&mut judge, None, 3000, &mut || true).unwrap();
        assert_eq!(String::from_utf8(tail).unwrap(), shortest);
    }
}

#[test]
fn a_search_leaves_the_judge_where_it_was() {
    let factory = ByteMatcher::factory().unwrap();
    let mut judge =
        ByteMatcher::new(&factory, GrammarInit::Serialized(TopLevelGrammar::from_regex("(ab)*c"))).unwrap();
    assert!(judge.push(b'a'));
    let before = judge.allowed();
    find_tail(&mut judge, None, 1000, &mut || true).unwrap();
    assert_eq!(judge.allowed(), before);
    assert!(judge.push(b'b') && judge.push(b'c'));
    assert!(judge.is_complete() && !judge.push(b'c'));
    judge.pop(1);
    assert!(judge.push(b'a'));
}

#[test]
fn without_fuel_nothing_is_found_and_nothing_hangs() {
    let factory = ByteMatcher::factory().unwrap();
    let mut judge =
        ByteMatcher::new(&factory, GrammarInit::Serialized(TopLevelGrammar::from_regex("a{500}"))).unwrap();
    assert_eq!(find_tail(&mut judge, None, 0, &mut || true), None);
}
