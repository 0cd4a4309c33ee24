//! Specifications that cost much: each is compiled or refused, with bounded time and memory, and what
//! is compiled can be used on a thread with a small stack, as the engine's is.

use super::*;
use std::fmt::Write as _;

fn list(n: usize, item: impl Fn(usize) -> String) -> String {
    (0..n).map(item).collect::<Vec<_>>().join(",")
}

fn nested(open: &str, inner: &str, close: &str, n: usize) -> String {
    format!("{}{inner}{}", open.repeat(n), close.repeat(n))
}

fn definitions(n: usize, definition: impl Fn(usize) -> String, last: &str) -> String {
    let inner = list(n, |i| format!("\"a{i}\":{}", definition(i + 1)));
    format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{inner},"a{n}":{last}}}}}"##)
}

fn schemas() -> Vec<String> {
    [counts(), patterns(), wide(), references(), deep()].concat()
}

fn counts() -> Vec<String> {
    let mut schemas = Vec::new();
    for n in [0, 1, 1999, 100_000, 4_000_000_000_u64, u64::MAX] {
        for keyword in ["minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties"] {
            schemas.push(format!(r#"{{"{keyword}":{n}}}"#));
        }
        schemas.push(format!(r#"{{"type":"array","items":{{"const":0}},"minItems":{n}}}"#));
        schemas.push(format!(r#"{{"type":"string","minLength":{n},"pattern":"^[a-z]+$"}}"#));
        schemas.push(format!(r#"{{"type":"integer","multipleOf":{n}}}"#));
    }
    schemas.push(r#"{"type":"integer","minimum":-1e300,"maximum":1e300}"#.to_owned());
    schemas
}

fn patterns() -> Vec<String> {
    let mut schemas = Vec::new();
    for pattern in [
        "((a{1,100}){1,100}){1,100}",
        "(((a|b)*c)*d)*[ab]{200}",
        "^(a+)+$",
        "(.*a.{30})",
        ".*a.{14}b.*c.{14}d",
        "(?i)(abc|def){5000}",
        "[\\\\p{L}]{1,5000}",
    ] {
        schemas.push(format!(r#"{{"type":"string","pattern":"{pattern}"}}"#));
        schemas.push(format!(
            r#"{{"type":"string","allOf":[{{"pattern":"{pattern}"}},{{"pattern":"b.{{5}}$"}}]}}"#
        ));
    }
    schemas
}

fn wide() -> Vec<String> {
    let mut schemas = Vec::new();
    for n in [40, 1000, 8000] {
        schemas.push(format!(r#"{{"properties":{{{}}}}}"#, list(n, |i| format!("\"p{i}\":{{}}"))));
        let members = list(n, |i| format!("\"p{i}\":{{\"enum\":[{i}]}}"));
        schemas.push(format!(
            r#"{{"type":"object","minProperties":1,"additionalProperties":false,"properties":{{{members}}}}}"#
        ));
        schemas.push(format!(r#"{{"patternProperties":{{{}}}}}"#, list(n, |i| format!("\"^p{i}x\":{{}}"))));
        schemas.push(format!(r#"{{"enum":[{}]}}"#, list(n, |i| format!("\"value {i}\""))));
        let branch = |i| format!(r#"{{"properties":{{"v{i}":{{"const":{i}}}}},"required":["v{i}"]}}"#);
        for keyword in ["anyOf", "oneOf", "allOf"] {
            schemas.push(format!(r#"{{"{keyword}":[{}]}}"#, list(n / 4, branch)));
        }
    }
    for len in [1000, 5000] {
        let text = "lorem ipsum ".repeat(len);
        schemas.push(format!(r#"{{"const":"{text}"}}"#));
        schemas.push(format!(r#"{{"properties":{{"{text}":{{}}}}}}"#));
    }
    schemas
}

fn references() -> Vec<String> {
    let mut schemas = Vec::new();
    for n in [16, 40] {
        let twice = |i| format!(r##"{{"allOf":[{{"$ref":"#/$defs/a{i}"}},{{"$ref":"#/$defs/a{i}"}}]}}"##);
        schemas.push(definitions(n, twice, r#"{"type":"object"}"#));
        let branches = |i| {
            format!(
                r##"{{"anyOf":[{{"allOf":[{{"$ref":"#/$defs/a{i}"}},{{"minLength":{i}}}]}},{{"allOf":[{{"$ref":"#/$defs/a{i}"}},{{"maxLength":9{i}}}]}}]}}"##
            )
        };
        schemas.push(definitions(n, branches, r#"{"type":"string"}"#));
        let pair = |i| {
            format!(
                r##"{{"properties":{{"x":{{"$ref":"#/$defs/a{i}"}},"y":{{"$ref":"#/$defs/a{i}"}}}},"required":["x","y"],"type":"object"}}"##
            )
        };
        schemas.push(definitions(n, pair, r#"{"type":"object"}"#));
    }
    schemas.push(definitions(5000, |i| format!(r##"{{"$ref":"#/$defs/a{i}"}}"##), "{}"));
    schemas.push(definitions(
        3000,
        |i| format!(r##"{{"anyOf":[{{"$ref":"#/$defs/a{i}"}},{{"type":"null"}}]}}"##),
        "{}",
    ));
    let itself = r##"{"minProperties":1,"anyOf":[{"type":"string"},{"$ref":"#/$defs/r"}]}"##;
    schemas.push(format!(
        r#"{{"additionalProperties":{itself},"$defs":{{"r":{{"type":"object","additionalProperties":{itself}}}}}}}"#
    ));
    schemas
}

fn deep() -> Vec<String> {
    let mut schemas = Vec::new();
    for n in [60, 120, 5000] {
        schemas.push(nested("{\"items\":", "{}", "}", n));
        schemas.push(nested("{\"anyOf\":[{\"type\":\"string\"},", "{}", "]}", n / 2));
        schemas.push(nested("{\"allOf\":[{\"maxLength\":9},", "{}", "]}", n / 2));
    }
    schemas
}

fn grammars() -> Vec<ConstraintSpec> {
    let mut specs = Vec::new();
    for n in [100, 20_000] {
        specs.push(lark(&format!("start: {}", nested("(", "\"a\"", ")", n))));
        specs.push(lark(&format!("start: A\nA: {}", nested("[", "\"a\"", "]", n))));
        specs.push(lark(&format!("start: A\nA: {}\"a\"", "~".repeat(n))));
        specs.push(lark(&format!("start: {}", "\"ab\" ".repeat(n / 2))));
        specs.push(regex(&nested("(", "a", ")", n)));
        specs.push(regex(&"a1 ".repeat(n)));
        specs.push(regex(&"(a*b*)*".repeat(n / 4)));
    }
    for (rule, last) in [("r", "\"a\""), ("R", "\"a\"")] {
        let mut chain = format!("start: {rule}0\n");
        for i in 0..17_000 {
            writeln!(chain, "{rule}{i}: {rule}{}", i + 1).unwrap();
        }
        writeln!(chain, "{rule}17000: {last}").unwrap();
        specs.push(lark(&chain));
    }
    specs.push(lark("start: (((b{1,1000}){1,1000}){1,1000}){1,1000}\nb: \"a\" \"b\" | \"c\""));
    specs.push(lark("start: s\ns: s s | \"a\" | \"a\" \"b\" |"));
    specs.push(lark(&format!("start: {}", vec!["\"a\""; 9000].join("|"))));
    specs.push(regex("(((((a{1,100}){1,100}){1,100}){1,100}){1,100}){1,100}"));
    specs.push(regex("(.{1,5000}x){1,500}"));
    specs
}

#[test]
fn each_is_compiled_or_refused() {
    let compiler = compiler();
    let size = WordVocabulary::default().size();
    let specs = schemas().into_iter().map(ConstraintSpec::JsonSchema).chain(grammars());
    let mut num_compiled = 0;
    for spec in specs {
        let mut constraint = match start(&compiler, &spec) {
            Ok(constraint) => constraint,
            Err(Error::InvalidConstraint { reason, .. }) => {
                assert!(reason.len() <= 300 && !reason.contains("panic"), "{reason}");
                continue;
            }
            Err(error) => panic!("{error}"),
        };
        num_compiled += 1;
        // A step may cost more than its limit; then the request fails, and nothing else.
        for step in 0..20 {
            if constraint.is_finished() || constraint.mask().is_err() {
                break;
            }
            let allowed = tokens(&mut constraint, size);
            assert!(!allowed.is_empty());
            let _is_taken = constraint.consume(allowed[step * 7 % allowed.len()]);
        }
        let _tail = constraint.tail();
    }
    assert!(num_compiled > 60, "{num_compiled}");
}

#[test]
fn counts_on_both_sides_of_a_round_number_are_kept() {
    for max in [0, 1, 1999, 2000, 2001] {
        let mut constraint = compile(&json(&format!(r#"{{"type":"string","maxLength":{max}}}"#)));
        feed(&mut constraint, &WordVocabulary::default(), &format!("\"{}", "x".repeat(max)));
        assert_eq!(constraint.num_valid(&[TokenId(i32::from(b'x'))]), 0, "{max}");
        feed(&mut constraint, &WordVocabulary::default(), "\"");
        constraint.check_document().unwrap();
    }
    for min in [0, 1, 1998, 3000] {
        let mut constraint =
            compile(&json(&format!(r#"{{"type":"array","items":{{"enum":[7]}},"minItems":{min}}}"#)));
        let tail = constraint.tail().unwrap();
        assert_eq!(tail.len(), constraint.num_minimum_tokens().unwrap());
        for token in tail {
            constraint.consume(token).unwrap();
        }
        constraint.check_document().unwrap();
    }
}
