//! A schema as the validator should get it: patterns without look-ahead and of strict syntax, and references that are
//! URIs.

use serde_json::Value;

use super::ecma::strict;
use super::keywords::change_subschemas;
use super::pattern::without_lookahead;

/// Replaces what the validator does not read by what means the same: patterns with a look-ahead that are known to have
/// an equivalent without, patterns that only a lenient parser takes, and references with characters that a URI cannot
/// have.
pub fn for_validator(schema: &mut Value) {
    change_subschemas(schema, |members| {
        if let Some(Value::String(pattern)) = members.get_mut("pattern") {
            *pattern = plain(pattern);
        }
        if let Some(Value::Object(patterns)) = members.get_mut("patternProperties") {
            let old = std::mem::take(patterns).into_iter();
            *patterns = old.map(|(name, value)| (plain(&name), value)).collect();
        }
        for keyword in ["$ref", "$dynamicRef", "$id"] {
            if let Some(Value::String(reference)) = members.get_mut(keyword) {
                *reference = percent_encoded(reference);
            }
        }
    });
}

fn plain(pattern: &str) -> String {
    let strict = strict(pattern);
    without_lookahead(&strict).unwrap_or(strict)
}

/// A reference with the characters that a URI reference cannot have encoded (RFC 3986).
fn percent_encoded(reference: &str) -> String {
    let mut is_fragment = false;
    let encoded = reference.bytes().map(|byte| {
        let may_stand = byte.is_ascii_alphanumeric()
            || b"-._~:/?@!$&'()*+,;=%".contains(&byte)
            || (!is_fragment && b"[]#".contains(&byte));
        is_fragment |= byte == b'#';
        if may_stand { char::from(byte).to_string() } else { format!("%{byte:02X}") }
    });
    encoded.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn references_are_uris_for_the_validator() {
        for (sent, expected) in [
            ("#/$defs/é", "#/$defs/%C3%A9"),
            ("#/$defs/sp ace", "#/$defs/sp%20ace"),
            ("#/$defs/List<string>", "#/$defs/List%3Cstring%3E"),
            ("#/$defs/List[int]", "#/$defs/List%5Bint%5D"),
            ("#/$defs/p%25q/a~1b", "#/$defs/p%25q/a~1b"),
            ("http://[::1]/a.json#b", "http://[::1]/a.json#b"),
        ] {
            let mut schema = json!({"properties": {"$ref": {"$ref": sent}}, "const": {"$ref": sent}});
            for_validator(&mut schema);
            assert_eq!(schema["properties"]["$ref"]["$ref"], expected);
            assert_eq!(schema["const"]["$ref"], sent);
        }
    }
}
