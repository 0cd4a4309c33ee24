//! What is refused, and whether the client learns why.

use super::*;

/// Schema, and what its refusal says: keyword, JSON pointer, or a part of the reason.
const SCHEMAS: [(&str, &[&str]); 57] = [
    ("5", &["object", "a number"]),
    ("[]", &["object", "an array"]),
    ("null", &["null"]),
    ("\"x\"", &["a string"]),
    ("false", &["no document"]),
    ("{", &["not valid JSON", "line 1"]),
    ("", &["not valid JSON"]),
    (r#"{"properties":{"a":"string"}}"#, &["`properties`", "/properties/a"]),
    (r#"{"type":"strin"}"#, &["`type`", "strin"]),
    (r#"{"properties":{"a":{"type":"strin"}}}"#, &["`type`", "/properties/a"]),
    (r#"{"type":["string","nil"]}"#, &["`type`", "nil"]),
    (r#"{"type":5}"#, &["`type`"]),
    (r#"{"not":{"pattern":"a[a-c]{12}$"}}"#, &["`not`", "`pattern`"]),
    (r#"{"properties":{"a":{"not":{"multipleOf":3}}}}"#, &["`not`", "/properties/a"]),
    (r#"{"contains":{},"minContains":7}"#, &["`minContains`"]),
    (r#"{"contains":{"multipleOf":2},"maxContains":1}"#, &["`maxContains`"]),
    (r#"{"items":{"items":{"uniqueItems":5}}}"#, &["`uniqueItems`", "/items/items"]),
    (r#"{"type":"array","uniqueItems":true,"minItems":3,"items":{"type":"boolean"}}"#, &["contradict"]),
    (r#"{"$ref":"https://example.com/a.json"}"#, &["`$ref`"]),
    (r#"{"$ref":"file:///etc/passwd"}"#, &["`$ref`"]),
    (r##"{"properties":{"a":{"$ref":"#/$defs/none"}}}"##, &["`$ref`", "/properties/a"]),
    (r##"{"$ref":"#"}"##, &["`$ref`"]),
    (r#"{"propertyNames":{"pattern":"a","maxLength":900}}"#, &["`propertyNames`"]),
    (r#"{"oneOf":[{"multipleOf":2},{"multipleOf":3}]}"#, &["`oneOf`", "0 and 1"]),
    (r#"{"items":{"pattern":"^+[a-z]$"}}"#, &["`pattern`", "/items"]),
    (r#"{"pattern":"^{2}x$"}"#, &["`pattern`"]),
    (r#"{"pattern":"(?<=a)*"}"#, &["`pattern`"]),
    (r#"{"pattern":"["}"#, &["`pattern`"]),
    (r#"{"pattern":"("}"#, &["`pattern`"]),
    (r#"{"pattern":"a{3,1}"}"#, &["`pattern`"]),
    (r#"{"pattern":"(a)\\1"}"#, &["`pattern`"]),
    (r#"{"pattern":"(?=a)b"}"#, &["`pattern`"]),
    (r#"{"pattern":5}"#, &["`pattern`"]),
    (r#"{"patternProperties":{"(":{}}}"#, &["`patternProperties`"]),
    (r#"{"minLength":-1}"#, &["`minLength`"]),
    (r#"{"minLength":5,"maxLength":4,"type":"string"}"#, &["`minLength`", "5", "4"]),
    (r#"{"minLength":100001}"#, &["`minLength`", "100000", "100001"]),
    (r#"{"minItems":"3"}"#, &["`minItems`"]),
    (r#"{"minItems":3,"maxItems":2}"#, &["`minItems`"]),
    (r#"{"minimum":3,"maximum":2}"#, &["`minimum`"]),
    (r#"{"type":"number","minimum":1e300}"#, &["`minimum` at the root", "too large"]),
    (
        r#"{"properties":{"a":{"type":"number","maximum":-1e300}}}"#,
        &["`maximum` at /properties/a", "too large"],
    ),
    (r#"{"type":"integer","minimum":9223372036854775808}"#, &["`minimum` at the root", "too large"]),
    (r#"{"type":"number","multipleOf":1e-300}"#, &["`multipleOf` at the root", "too many digits"]),
    (r#"{"type":"number","multipleOf":1e300}"#, &["`multipleOf` at the root", "too many digits"]),
    (r#"{"multipleOf":0}"#, &["`multipleOf`"]),
    (r#"{"multipleOf":1000003}"#, &["`multipleOf`", "1000003"]),
    (r#"{"enum":[]}"#, &["`enum`"]),
    (r#"{"anyOf":[]}"#, &["`anyOf`"]),
    (r#"{"anyOf":{"type":"string"}}"#, &["`anyOf`"]),
    (r#"{"required":["a",1]}"#, &["`required`"]),
    (r#"{"properties":[]}"#, &["`properties`"]),
    (r#"{"allOf":[{"type":"string"},{"type":"integer"}]}"#, &["contradict"]),
    (r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##, &["endless"]),
    (r#"{"type":"string","pattern":"^a$","minLength":2}"#, &["contradict"]),
    (r#"{"required":["a"],"properties":{"a":false},"type":"object"}"#, &["/properties/a"]),
    (r#"{"type":"string","const":5}"#, &["contradict"]),
];

#[test]
fn a_refused_schema_says_keyword_and_place() {
    let compiler = compiler();
    for (schema, parts) in SCHEMAS {
        let reason = refusal(&compiler, &json(schema));
        for part in parts {
            assert!(reason.contains(part), "{schema}: {reason} (without {part})");
        }
    }
}

#[test]
fn a_refusal_leaves_the_compiler_usable() {
    let compiler = compiler();
    let bad = json(r#"{"type":"strin"}"#);
    let first = refusal(&compiler, &bad);
    assert_eq!(refusal(&compiler, &bad), first);
    assert!(start(&compiler, &json("true")).is_ok());
}

#[test]
fn what_llguidance_panics_on_is_a_refusal() {
    // It cuts a message inside a character.
    let text = format!(r#"{{"items":{{"type":"object","required":["{}",{{}}]}}}}"#, "\u{e9}".repeat(200));
    let _reason = refusal(&compiler(), &json(&text));
    let text = format!(r#"{{"$ref":{{"a":"{}"}}}}"#, "\u{e9}".repeat(200));
    let _reason = refusal(&compiler(), &json(&text));
}

#[test]
fn long_texts_are_cut_in_messages() {
    let compiler = compiler();
    let long = "x\u{e9}".repeat(5000);
    for schema in [
        format!(r#"{{"pattern":"({long}"}}"#),
        format!(r##"{{"$ref":"#/{long}"}}"##),
        format!(r#"{{"properties":{{"{long}":{{"not":{{"multipleOf":3}}}}}}}}"#),
        format!(r#"{{"type":"{long}"}}"#),
    ] {
        let _reason = refusal(&compiler, &json(&schema));
    }
}

#[test]
fn texts_beyond_the_limits_are_refused_at_once() {
    let compiler = compiler();
    let long = "a".repeat(256 << 10);
    let reason = refusal(&compiler, &json(&format!("\"{long}\"")));
    assert!(reason.contains("262144") && reason.contains("262146"), "{reason}");
    assert!(refusal(&compiler, &regex(&long)).contains("65536"));
    assert!(refusal(&compiler, &lark(&format!("start: \"{long}\""))).contains("262144"));
    assert!(refusal(&compiler, &json(&"[".repeat(200_000))).contains("recursion limit"));
}

#[test]
fn regular_expressions_that_are_none() {
    let compiler = compiler();
    for text in [
        "",
        "(",
        "[",
        "a{3,1}",
        "+a",
        "(?=a)",
        "(a)\\1",
        "a\\",
        "\\",
        "a\\\\\\",
        "(?<n",
        "\\p{None}",
        "[b-a]",
    ] {
        let _reason = refusal(&compiler, &regex(text));
    }
    for text in ["a\\\\", "/", "//", "a/b", "\\/", "a\nb", "/i", "#", "\\d+", "[^/]*x"] {
        assert!(start(&compiler, &regex(text)).is_ok(), "{text:?}");
    }
}

#[test]
fn a_slash_does_not_end_a_regular_expression() {
    let mut constraint = compile(&regex("a/i\nstart: /b"));
    for byte in *b"a/i\nstart: /b" {
        constraint.consume(TokenId(i32::from(byte))).unwrap();
    }
    assert!(constraint.is_finished());
}

#[test]
fn grammars_that_are_none() {
    let compiler = compiler();
    for text in [
        "",
        "x: \"a\"",
        "start: x",
        "start: \"a",
        "start: /(/",
        "start: A\nA: B\nB: A",
        "start: start",
        "start: %json {",
    ] {
        let _reason = refusal(&compiler, &lark(text));
    }
    let bars = format!("start: {}", vec!["\"a\""; 10_002].join("|"));
    assert!(refusal(&compiler, &lark(&bars)).contains("10000"));
}

#[test]
fn grammars_may_not_ask_for_what_a_sequence_cannot_do() {
    let compiler = compiler();
    let reasons = [
        ("start: a\na[stop=\"x\"]: /[a-z]+/", "stop"),
        ("start: a\na[max_tokens=3]: /[a-z]+/", "max_tokens"),
        ("start: \"a\" <|control|>", "tokens"),
        ("start: \"a\" <[258]>", "tokens"),
        ("start: \"a\" <[*]>", "tokens"),
        ("start: \"a\" <[^1]>", "tokens"),
    ];
    for (text, part) in reasons {
        let reason = refusal(&compiler, &lark(text));
        assert!(reason.contains(part), "{text}: {reason}");
    }
}

#[test]
fn no_option_of_a_grammar_lets_control_tokens_in() {
    let grammars = [
        "%llguidance {\"allow_invalid_utf8\": true}\nstart: /(?s-u:.)*/",
        "%llguidance {\"allow\\u005finvalid_utf8\": true}\nstart: /(?s-u:.)*/",
        "%llguidance {\"no_forcing\": true}\nstart: /(?s:.)*/",
        "%llguidance {\"max_items_in_row\": 100000000}\nstart: /(?s:.)*/",
    ];
    let compiler = compiler();
    for text in grammars {
        let Ok(mut constraint) = start(&compiler, &lark(text)) else { continue };
        let mask = constraint.mask().unwrap();
        assert!(!mask.allows(vocabulary::CONTROL), "{text}");
        assert_eq!(constraint.num_valid(&[vocabulary::CONTROL]), 0, "{text}");
        assert!(constraint.consume(vocabulary::CONTROL).is_err(), "{text}");
    }
}

#[test]
fn a_grammar_may_hold_a_schema() {
    let mut constraint = compile(&lark("start: \"x\" %json {\"enum\": [12, true]} \"y\""));
    feed(&mut constraint, &WordVocabulary::default(), "xtruey");
    assert!(constraint.is_finished() && !constraint.is_json());
    constraint.check_document().unwrap();
}
