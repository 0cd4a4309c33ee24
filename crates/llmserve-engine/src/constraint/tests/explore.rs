use std::fmt::Write as _;
use std::time::Instant;

use super::real_vocabulary::default_vocabulary;
use super::*;

fn rss() -> (usize, usize) {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let get = |name: &str| {
        let line = status.lines().find(|line| line.starts_with(name)).unwrap();
        line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() / 1024
    };
    (get("VmRSS:"), get("VmHWM:"))
}

fn nested(open: &str, inner: &str, close: &str, n: usize) -> String {
    format!("{}{inner}{}", open.repeat(n), close.repeat(n))
}

fn specs() -> Vec<(String, ConstraintSpec)> {
    let mut v: Vec<(String, ConstraintSpec)> = Vec::new();
    let mut j = |name: &str, s: String| v.push((name.to_owned(), json(&s)));
    for n in [1998, 3000, 100_000, 10_000_000, 4_000_000_000_u64] {
        j(
            &format!("minItems {n}"),
            format!(r#"{{"type":"array","items":{{"type":"integer"}},"minItems":{n}}}"#),
        );
        j(
            &format!("maxItems {n}"),
            format!(r#"{{"type":"array","items":{{"type":"integer"}},"maxItems":{n}}}"#),
        );
        j(
            &format!("const minItems {n}"),
            format!(r#"{{"type":"array","items":{{"const":0}},"minItems":{n}}}"#),
        );
        j(&format!("minLength {n}"), format!(r#"{{"type":"string","minLength":{n}}}"#));
        j(&format!("maxLength {n}"), format!(r#"{{"type":"string","maxLength":{n}}}"#));
        j(
            &format!("pattern maxLength {n}"),
            format!(r#"{{"type":"string","maxLength":{n},"pattern":"^[a-z]+$"}}"#),
        );
        j(&format!("minProperties {n}"), format!(r#"{{"type":"object","minProperties":{n}}}"#));
        j(&format!("maxProperties {n}"), format!(r#"{{"type":"object","maxProperties":{n}}}"#));
    }
    for p in [
        "(a{1,1000}){1,1000}",
        "((a{1,100}){1,100}){1,100}",
        "(((a|b)*c)*d)*[ab]{200}",
        "^(a+)+$",
        "(a|aa)*.{1000}",
        "(.*a.{30})",
        ".*a.{14}b.*c.{14}d",
        "(?i)(abc|def){5000}",
        "[\\p{L}]{1,5000}",
        "(\\w+\\s?){1,1000}",
        "(x{0,50}y{0,50}){0,50}z",
        "^(([a-z]{1,30}\\.){1,30}){1,30}$",
    ] {
        j(&format!("pattern {p}"), serde_json::json!({"type":"string","pattern":p}).to_string());
        j(&format!("two patterns {p}"), serde_json::json!({"allOf":[{"type":"string","pattern":p},{"type":"string","pattern":"b.{5}$"},{"maxLength":500}]}).to_string());
    }
    for n in [100, 1000, 3000, 6000] {
        let mut props = String::new();
        for i in 0..n {
            let _ = write!(props, "{}\"property{i}\":{{\"type\":\"string\"}}", if i > 0 { "," } else { "" });
        }
        j(&format!("{n} properties"), format!(r#"{{"type":"object","properties":{{{props}}}}}"#));
        j(
            &format!("{n} properties closed"),
            format!(r#"{{"type":"object","additionalProperties":false,"properties":{{{props}}}}}"#),
        );
        let mut props = String::new();
        for i in 0..n {
            let _ = write!(props, "{}\"p{i}\":{{\"enum\":[{i},\"a{i}\"]}}", if i > 0 { "," } else { "" });
        }
        j(
            &format!("{n} enum properties"),
            format!(
                r#"{{"type":"object","additionalProperties":false,"minProperties":1,"properties":{{{props}}}}}"#
            ),
        );
        let mut props = String::new();
        for i in 0..n {
            let _ = write!(
                props,
                "{}{{\"properties\":{{\"k\":{{\"const\":{i}}},\"v{i}\":{{\"type\":\"number\",\"minimum\":{i}.5}}}},\"required\":[\"k\"]}}",
                if i > 0 { "," } else { "" }
            );
        }
        j(&format!("{n} anyOf"), format!(r#"{{"anyOf":[{props}]}}"#));
        j(&format!("{n} oneOf"), format!(r#"{{"oneOf":[{props}]}}"#));
        j(&format!("{n} allOf"), format!(r#"{{"allOf":[{props}]}}"#));
        let items = (0..n).map(|i| format!("\"value number {i}\"")).collect::<Vec<_>>().join(",");
        j(&format!("{n} enum"), format!(r#"{{"enum":[{items}]}}"#));
    }
    for n in [20, 60, 120] {
        j(&format!("nested {n}"), nested("{\"properties\":{\"a\":", "{}", "}}", n / 2));
        j(&format!("nested arrays {n}"), nested("{\"items\":", "{}", "}", n));
        j(&format!("nested anyOf {n}"), nested("{\"anyOf\":[{\"type\":\"string\"},", "{}", "]}", n / 2));
        j(&format!("nested allOf {n}"), nested("{\"allOf\":[{\"maxLength\":9},", "{}", "]}", n / 2));
    }
    for n in [10, 16, 24, 40] {
        let mut defs = String::new();
        for i in 0..n {
            let _ = write!(
                defs,
                "\"a{i}\":{{\"allOf\":[{{\"$ref\":\"#/$defs/a{k}\"}},{{\"$ref\":\"#/$defs/a{k}\"}}]}},",
                k = i + 1
            );
        }
        j(
            &format!("exponential allOf ref {n}"),
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{defs}"a{n}":{{"type":"object"}}}}}}"##),
        );
        let mut defs = String::new();
        for i in 0..n {
            let _ = write!(
                defs,
                "\"a{i}\":{{\"anyOf\":[{{\"allOf\":[{{\"$ref\":\"#/$defs/a{k}\"}},{{\"minLength\":{i}}}]}},{{\"allOf\":[{{\"$ref\":\"#/$defs/a{k}\"}},{{\"maxLength\":{l}}}]}}]}},",
                k = i + 1,
                l = 1000 + i
            );
        }
        j(
            &format!("exponential anyOf ref {n}"),
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{defs}"a{n}":{{"type":"string"}}}}}}"##),
        );
        let mut defs = String::new();
        for i in 0..n {
            let _ = write!(
                defs,
                "\"a{i}\":{{\"properties\":{{\"x\":{{\"$ref\":\"#/$defs/a{k}\"}},\"y\":{{\"$ref\":\"#/$defs/a{k}\"}}}},\"required\":[\"x\",\"y\"]}},",
                k = i + 1
            );
        }
        j(
            &format!("exponential witness {n}"),
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{defs}"a{n}":{{"type":"object"}}}}}}"##),
        );
        let mut defs = String::new();
        for i in 0..n {
            let _ = write!(
                defs,
                "\"a{i}\":{{\"allOf\":[{{\"properties\":{{\"x\":{{\"$ref\":\"#/$defs/a{k}\"}}}}}},{{\"properties\":{{\"x\":{{\"$ref\":\"#/$defs/a{k}\"}}}}}}]}},",
                k = i + 1
            );
        }
        j(
            &format!("nested allOf ref {n}"),
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{defs}"a{n}":{{"type":"object"}}}}}}"##),
        );
    }
    for n in [100, 1000, 5000] {
        let mut defs = String::new();
        for i in 0..n {
            let _ = write!(defs, "\"a{i}\":{{\"$ref\":\"#/$defs/a{}\"}},", i + 1);
        }
        j(
            &format!("ref chain {n}"),
            format!(r##"{{"$ref":"#/$defs/a0","$defs":{{{defs}"a{n}":{{"type":"object"}}}}}}"##),
        );
        j(&format!("pointer chain {n}"), format!(r##"{{"$ref":"#/$defs{}"}}"##, "/a".repeat(n)));
    }
    j("self ref", r##"{"$ref":"#"}"##.into());
    j(
        "ref loop",
        r##"{"$ref":"#/$defs/a","$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}"##.into(),
    );
    j("recursive only", r##"{"type":"object","properties":{"a":{"$ref":"#"}},"required":["a"]}"##.into());
    j("any of itself", r##"{"anyOf":[{"$ref":"#"},{"type":"null"}]}"##.into());
    j("multipleOf", r#"{"type":"integer","multipleOf":1000003}"#.into());
    j("multipleOf2", r#"{"type":"number","multipleOf":0.00001}"#.into());
    for n in [60, 100, 1000, 3600, 10_000, 86_400, 100_000] {
        j(&format!("multipleOf {n}"), format!(r#"{{"type":"integer","multipleOf":{n}}}"#));
    }
    for n in ["0.01", "0.25", "0.001", "0.05"] {
        j(&format!("multipleOf {n}"), format!(r#"{{"type":"number","multipleOf":{n}}}"#));
    }
    for n in [10, 20, 30, 50] {
        j(
            &format!("{n} patternProperties"),
            format!(
                r#"{{"patternProperties":{{{}}}}}"#,
                (0..n).map(|i| format!("\"^a{i}x\":{{\"type\":\"integer\"}}")).collect::<Vec<_>>().join(",")
            ),
        );
    }
    for n in [16, 32, 64] {
        let mut props = String::new();
        for i in 0..n {
            let _ = write!(props, "{}\"p{i}\":{{\"enum\":[{i},\"a{i}\"]}}", if i > 0 { "," } else { "" });
        }
        j(
            &format!("{n} enum properties"),
            format!(
                r#"{{"type":"object","additionalProperties":false,"minProperties":1,"properties":{{{props}}}}}"#
            ),
        );
    }
    j("multipleOf3", r#"{"allOf":[{"type":"integer","multipleOf":99991},{"multipleOf":99989}]}"#.into());
    j("long const", format!(r#"{{"const":"{}"}}"#, "lorem ipsum ".repeat(20_000)));
    j("long key", format!(r#"{{"properties":{{"{}":{{}}}}}}"#, "lorem ipsum ".repeat(20_000)));
    j("deep json", nested("[", "1", "]", 100_000));
    j(
        "patternProperties",
        format!(
            r#"{{"patternProperties":{{{}}}}}"#,
            (0..400).map(|i| format!("\"^a{i}x\":{{\"type\":\"integer\"}}")).collect::<Vec<_>>().join(",")
        ),
    );
    j("range", r#"{"type":"number","minimum":0.123456789012345,"maximum":98765432109876.5}"#.into());
    j("range2", r#"{"type":"integer","minimum":-9007199254740991,"maximum":9007199254740991}"#.into());
    j("big range", r#"{"type":"integer","minimum":-1e300,"maximum":1e300}"#.into());
    let mut l = |name: &str, s: String| v.push((name.to_owned(), lark(&s)));
    for n in [1000, 10_000, 100_000] {
        l(&format!("lark parens {n}"), format!("start: {}", nested("(", "\"a\"", ")", n)));
        l(&format!("lark brackets {n}"), format!("start: {}", nested("[", "\"a\"", "]", n)));
        l(&format!("lark not {n}"), format!("start: A\nA: {}\"a\"", "~".repeat(n)));
        l(&format!("lark TOKEN parens {n}"), format!("start: A\nA: {}", nested("(", "\"a\"", ")", n)));
        l(&format!("lark long alternatives {n}"), format!("start: {}", vec!["\"a\""; n / 2].join("|")));
        l(&format!("lark long seq {n}"), format!("start: {}", "\"ab\" ".repeat(n / 3)));
    }
    for n in [1000, 10_000, 20_000] {
        l(
            &format!("lark rule chain {n}"),
            format!(
                "start: r0\n{}r{n}: \"a\"\n",
                (0..n).map(|i| format!("r{i}: r{}\n", i + 1)).collect::<String>()
            ),
        );
        l(
            &format!("lark rule chain2 {n}"),
            format!(
                "start: r0\n{}r{n}: \"a\"\n",
                (0..n).map(|i| format!("r{i}: \"x\" r{}\n", i + 1)).collect::<String>()
            ),
        );
        l(
            &format!("lark token chain {n}"),
            format!(
                "start: R0\n{}R{n}: \"a\"\n",
                (0..n).map(|i| format!("R{i}: R{}\n", i + 1)).collect::<String>()
            ),
        );
        l(
            &format!("lark double chain {n}"),
            format!(
                "start: r0\n{}r{n}: \"a\"\n",
                (0..n).map(|i| format!("r{i}: r{k} r{k}\n", k = i + 1)).collect::<String>()
            ),
        );
    }
    l("lark ranges", "start: \"a\"{1,1000000}".into());
    l("lark ranges2", "start: ((A{1,1000}){1,1000}){1,1000}\nA: \"a\"".into());
    l("lark ranges3", "start: (((b{1,1000}){1,1000}){1,1000}){1,1000}\nb: \"a\" \"b\" | \"c\"".into());
    l("lark ambiguous", "start: s\ns: s s | \"a\" | \"a\" \"b\" |".into());
    l("lark left", "start: s\ns: s \"a\" | s \"b\" | \"c\"".into());
    l("lark json deep", format!("start: %json {}", nested("[", "1", "]", 50_000)));
    let mut r = |name: &str, s: String| v.push((name.to_owned(), regex(&s)));
    for n in [100, 1000, 20_000] {
        r(&format!("regex parens {n}"), nested("(", "a", ")", n));
        r(&format!("regex alternatives {n}"), vec!["ab"; n].join("|"));
        r(
            &format!("regex alternatives2 {n}"),
            (0..n / 4).map(|i| format!("a{i}b")).collect::<Vec<_>>().join("|"),
        );
        r(&format!("regex literal {n}"), "lorem ipsum "[..].repeat(n / 4));
        r(&format!("regex stars {n}"), "(a*b*)*".repeat(n / 4));
    }
    r("regex counts", "((a{1,1000}){1,1000}){1,1000}".into());
    r("regex counts3", "(((((a{1,100}){1,100}){1,100}){1,100}){1,100}){1,100}".into());
    r("regex counts2", "(.{1,5000}x){1,500}".into());
    r("regex exp", "(.*)a.{25}".into());
    r("regex unicode", "(\\p{L}|\\p{N}){1,10000}".into());
    v
}

#[test]
fn explore() {
    let only = std::env::var("EXPLORE").unwrap_or_default();
    let compiler = Compiler::new(default_vocabulary());
    let start = Instant::now();
    drop(compiler.compile(&json("true")).unwrap());
    println!("tools: {:?}", start.elapsed());
    for (name, spec) in specs() {
        if only == "LIST" {
            println!("NAME {name}");
            continue;
        }
        if !only.is_empty() && name != only {
            continue;
        }
        let _ = std::fs::write("/proc/self/clear_refs", "5");
        let (before, _) = rss();
        print!("{name:30} ");
        use std::io::Write;
        std::io::stdout().flush().unwrap();
        let start = Instant::now();
        let result = compiler.compile(&spec);
        let elapsed = start.elapsed();
        let (after, peak) = rss();
        let mark = if elapsed.as_millis() > 1000 || peak - before > 150 { "!!" } else { "" };
        let what = match result {
            Ok(mut c) => {
                let start = Instant::now();
                let f = c.forced().len();
                let ft = start.elapsed();
                let start = Instant::now();
                let clone = compiler.compile(&spec).map(drop);
                format!(
                    "ok minimum {:?} forced {f} in {ft:?}; again {:?} {}",
                    c.num_minimum_tokens(),
                    start.elapsed(),
                    clone.is_ok()
                )
            }
            Err(e) => e.to_string(),
        };
        println!(
            "{elapsed:10.1?} +{:4} MB peak +{:4} MB {mark} {what}",
            after as i64 - before as i64,
            peak as i64 - before as i64
        );
    }
}
