//! Schemas of all kinds: whatever the masks lead to is a document.

use super::*;

/// One schema a line.
const CORPUS: &str = include_str!("../../../../llmserve-json-tail/src/tests/corpus.jsonl");

/// More, for what the masks and the check must agree on.
const FURTHER: [&str; 38] = [
    r#"{"properties":{"n":{"type":["string","null"]}},"required":["n"]}"#,
    r#"{"type":"string","pattern":"^\\d{3}-\\w+$"}"#,
    r#"{"type":"string","pattern":"\\S","maxLength":6}"#,
    r#"{"type":"string","pattern":"abc"}"#,
    r#"{"type":"string","pattern":"^a|b$"}"#,
    r#"{"type":"string","pattern":"[^\\s\"]+"}"#,
    r#"{"type":"string","pattern":"^go\\!$"}"#,
    r#"{"type":"string","pattern":"^.{1,4}$"}"#,
    r#"{"type":"string","pattern":"^[\\w.]+@[\\w.]+$","maxLength":12}"#,
    r#"{"type":"string","maxLength":0}"#,
    r#"{"type":"string","minLength":50}"#,
    r#"{"type":"string","maxLength":1999}"#,
    r#"{"type":"string","minLength":2000,"maxLength":2001}"#,
    r#"{"type":"array","maxItems":0}"#,
    r#"{"type":"array","items":{"type":"boolean"},"minItems":1,"maxItems":1}"#,
    r#"{"type":"array","items":{"type":"null"},"maxItems":1998}"#,
    r##"{"type":"object","properties":{"items":{"type":"array","items":{"$ref":"#/$defs/Item"},"minItems":1}},
        "required":["items"],"$defs":{"Kind":{"enum":["big","small"],"type":"string"},
        "Item":{"type":"object","properties":{"kind":{"$ref":"#/$defs/Kind"},"n":{"type":"integer"}},"required":["kind","n"]}}}"##,
    r##"{"anyOf":[{"$ref":"#/$defs/leaf"},{"type":"array","items":{"$ref":"#"}}],"$defs":{"leaf":{"type":"integer"}}}"##,
    r##"{"type":"object","properties":{"a":{"$ref":"#/$defs/é"},"b":{"$ref":"#/$defs/List<sp ace>"}},"required":["a","b"],
    "$defs":{"é":{"enum":["u","v"]},"List<sp ace>":{"type":"array","items":{"type":"null"},"maxItems":2}}}"##,
    r##"{"$ref":"#/definitions/a","definitions":{"a":{"type":"object","properties":{"b":{"$ref":"#/definitions/a"}},"additionalProperties":false}}}"##,
    r#"{"const":{"b":[1,"x",null],"a":{}}}"#,
    r#"{"enum":["\"quoted\"","\\","\n","\u0001","\u00e9\u4f60\ud83d\ude00"]}"#,
    r#"{"oneOf":[{"type":"string"},{"type":"integer"}]}"#,
    r#"{"oneOf":[{"properties":{"t":{"const":"a"}},"required":["t"],"type":"object"},{"properties":{"t":{"const":"b"}},"required":["t"],"type":"object"}]}"#,
    r#"{"type":"number","minimum":-1.5,"maximum":2.25}"#,
    r#"{"type":"number","exclusiveMinimum":0,"exclusiveMaximum":1}"#,
    r#"{"type":"integer","multipleOf":7}"#,
    r#"{"type":"number","multipleOf":0.01,"minimum":0}"#,
    r#"{"type":"array","prefixItems":[{"type":"string"},{"type":"integer"}],"items":false}"#,
    r#"{"$schema":"http://json-schema.org/draft-07/schema#","type":"array","items":[{"type":"null"}],"additionalItems":{"type":"boolean"}}"#,
    r#"{"$schema":"http://json-schema.org/draft-04/schema#","type":"integer","minimum":0,"exclusiveMinimum":true}"#,
    r#"{"$schema":"https://example.com/unknown","type":"boolean"}"#,
    r#"{"patternProperties":{"^x_":{"type":"integer"}},"additionalProperties":false,"type":"object"}"#,
    r#"{"type":"object","properties":{"a":{"type":"null"}},"maxProperties":1,"additionalProperties":{"type":"null"},"required":["a"]}"#,
    r#"{"type":"string","format":"date"}"#,
    r#"{"type":"array","items":[{"type":"null"},{"type":"integer"}],"minItems":1}"#,
    r#"{"type":"string","allOf":[{"pattern":"^([a-z][0-9])+$"},{"pattern":"(t|8){2}$"}]}"#,
    r#"{"type":"string","pattern":"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$"}"#,
];

pub(super) fn corpus() -> impl Iterator<Item = &'static str> {
    CORPUS.lines().filter(|line| !line.is_empty()).chain(FURTHER)
}

/// Follows masks at random, as a model that knows nothing would, and completes what is left.
pub(super) fn walk(
    constraint: &mut Constraint,
    vocabulary: &dyn Vocabulary,
    random: &mut Random,
    steps: usize,
) {
    for _ in 0..steps {
        if constraint.is_finished() {
            break;
        }
        let allowed = tokens(constraint, vocabulary.size());
        let token = allowed[random.below(allowed.len())];
        assert_eq!(constraint.num_valid(&[token]), 1);
        if constraint.spoils(&[token]) {
            break;
        }
        constraint.consume(token).unwrap();
        // As with a token that is settled: one that leaves no new item is not taken.
        if constraint.is_among_unique() && constraint.tail().is_none() {
            constraint.rollback(1).unwrap();
            break;
        }
    }
    let tail = constraint.tail().expect("there is a tail");
    assert_eq!(constraint.num_valid(&tail), tail.len());
    for &token in &tail {
        constraint.consume(token).unwrap();
    }
    constraint.check_document().unwrap();
    constraint.rollback(tail.len()).unwrap();
    assert_eq!(constraint.tail().as_ref(), Some(&tail));
}

#[test]
fn every_walk_ends_in_a_document() {
    let compiler = compiler();
    let vocabulary = WordVocabulary::default();
    assert!(corpus().count() > 150);
    for (index, schema) in corpus().enumerate() {
        for seed in 0..4 {
            let mut random = Random::new(index as u64 * 100 + seed);
            let mut constraint = start(&compiler, &json(schema)).unwrap_or_else(|e| panic!("{schema}: {e}"));
            assert!(constraint.is_json());
            assert!(constraint.num_minimum_tokens().is_some(), "{schema}");
            walk(&mut constraint, &vocabulary, &mut random, 40);
        }
    }
}

#[test]
fn what_is_rolled_back_changes_no_mask() {
    let compiler = compiler();
    let size = WordVocabulary::default().size();
    for (index, schema) in corpus().enumerate().step_by(5) {
        let mut random = Random::new(index as u64);
        let mut straight = start(&compiler, &json(schema)).unwrap();
        let mut wandering = start(&compiler, &json(schema)).unwrap();
        for _ in 0..12 {
            if straight.is_finished() {
                break;
            }
            // Goes astray for some tokens, and comes back.
            let mut num_astray = 0;
            while num_astray < 3 && !wandering.is_finished() {
                let allowed = tokens(&mut wandering, size);
                wandering.consume(allowed[random.below(allowed.len())]).unwrap();
                let _forced = wandering.forced();
                num_astray += 1;
            }
            let _tail = wandering.tail();
            wandering.rollback(num_astray).unwrap();
            let allowed = tokens(&mut straight, size);
            assert_eq!(tokens(&mut wandering, size), allowed, "{schema}");
            assert_eq!(wandering.forced(), straight.forced(), "{schema}");
            let token = allowed[random.below(allowed.len())];
            straight.consume(token).unwrap();
            wandering.consume(token).unwrap();
        }
    }
}

#[test]
fn members_come_in_the_order_of_the_schema() {
    let schema = r#"{"properties":{"z_reason":{"type":"integer"},"a_answer":{"type":"integer"}},
        "required":["a_answer","z_reason"],"type":"object"}"#;
    let mut constraint = compile(&json(schema));
    feed(&mut constraint, &WordVocabulary::default(), r#"{"z_reason":1,"a_answer":2}"#);
    constraint.check_document().unwrap();
    let mut constraint = compile(&json(schema));
    feed(&mut constraint, &WordVocabulary::default(), "{\"");
    assert_eq!(constraint.num_valid(&[TokenId(i32::from(b'a'))]), 0);
}

#[test]
fn regular_expressions_and_grammars_can_be_completed() {
    let compiler = compiler();
    let specs = [
        regex(r"\d{3}-\w+"),
        regex("(yes|no|maybe) [a-c]{2,5}\\."),
        lark("start: expr\nexpr: NUMBER | \"(\" expr \"+\" expr \")\"\nNUMBER: /[0-9]+/\n"),
        lark("start: line+\nline: /[a-z]{1,6}/ \"=\" /[0-9]/ \"\\n\"\n"),
    ];
    for spec in &specs {
        for seed in 0..10 {
            let mut constraint = start(&compiler, spec).unwrap();
            assert!(!constraint.is_json());
            walk(&mut constraint, &WordVocabulary::default(), &mut Random::new(seed), 12);
        }
    }
}

/// The full check sees what a mask cannot.
#[test]
fn the_check_does_not_trust_the_masks() {
    let schema = r#"{"type":"object","additionalProperties":{"type":"null"},"minProperties":2}"#;
    let mut constraint = compile(&json(schema));
    feed(&mut constraint, &WordVocabulary::default(), r#"{"a":null,"a":null"#);
    let end = TokenId(i32::from(b'}'));
    assert!(constraint.spoils(&[end]));
    constraint.consume(end).unwrap();
    assert!(matches!(constraint.check_document(), Err(Error::ConstraintFailed { .. })));
    let mut constraint = compile(&json(r#"{"type":"number"}"#));
    feed(&mut constraint, &WordVocabulary::default(), "1e999");
    assert!(matches!(constraint.check_document(), Err(Error::ConstraintFailed { .. })));
}

/// A small generator (`SplitMix64`), so that a failure can be repeated.
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }
}
