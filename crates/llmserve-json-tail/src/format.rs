//! The string formats that are enforced, as regular expressions for whole strings.

// Dates and times are the ones that all libraries read: RFC 3339's without small letters, leap seconds, more
// than microseconds, years below 1000 and days that do not exist.
const DATE: &str = "(?:[1-9][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
    |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))\
    |(?:[1-9][0-9](?:0[48]|[2468][048]|[13579][26])|(?:[2468][048]|[13579][26])00)-02-29)";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9](?:\\.[0-9]{1,6})?\
    (?:Z|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const N: &str = "[0-9]{1,4}";
const OCTET: &str = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
const HEX4: &str = "[0-9a-fA-F]{1,4}";
const UUID: &str = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

/// The expression of the format `name`: `None` if it is unknown, empty if it asks for nothing.
pub(super) fn expression(name: &str) -> Option<String> {
    Some(match name {
        "date-time" => format!("{DATE}T{TIME}"),
        "time" => TIME.to_owned(),
        "date" => DATE.to_owned(),
        "duration" => duration(),
        "email" => email(),
        "hostname" => format!("{LABEL}(?:\\.{LABEL})*"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "ipv4network" => ipv4_network(),
        "ipv6network" => format!("(?:{}/128|::/0)", ipv6()),
        "ipv4interface" => format!("{}/(?:[0-9]|[12][0-9]|3[0-2])", ipv4()),
        "ipv6interface" => format!("{}/(?:[0-9]|[1-9][0-9]|1[01][0-9]|12[0-8])", ipv6()),
        "uuid" => UUID.to_owned(),
        "uri" => uri(),
        "unknown" => String::new(),
        _ => return None,
    })
}

/// The shortest text of the format `name` that a reader would expect, where a search would find another.
pub(super) fn example(name: &str) -> Option<&'static str> {
    Some(match name {
        "date-time" => "2000-01-01T00:00:00Z",
        "date" => "2000-01-01",
        "time" => "00:00:00Z",
        "duration" => "P0D",
        _ => return None,
    })
}

/// ISO 8601 as in RFC 3339, appendix A: no unit is left out between two others. A count has few digits, so that
/// it fits every reader.
fn duration() -> String {
    let units =
        |a: char, b: char, c: char| format!("(?:{N}{a}(?:{N}{b}(?:{N}{c})?)?|{N}{b}(?:{N}{c})?|{N}{c})");
    let (date, time) = (units('Y', 'M', 'D'), units('H', 'M', 'S'));
    format!("P(?:{date}(?:T{time})?|T{time}|{N}W)")
}

/// `Mailbox` of RFC 5321 without quoted local parts.
fn email() -> String {
    let atom = "[a-zA-Z0-9!#$%&'*+\\-/=?\\^_`{|}~]+";
    format!("{atom}(?:\\.{atom})*@(?:{LABEL}(?:\\.{LABEL})*|\\[{}\\])", ipv4())
}

fn ipv4() -> String {
    format!("(?:{OCTET}\\.){{3}}{OCTET}")
}

/// A network as Pydantic reads it: no address within it, so that the bits behind its prefix are zeros.
fn ipv4_network() -> String {
    format!(
        "(?:{OCTET}(?:\\.{OCTET}){{3}}/32|{OCTET}(?:\\.{OCTET}){{2}}\\.0/24|{OCTET}\\.{OCTET}\\.0\\.0/16|{OCTET}\\.0\\.0\\.0/8|0\\.0\\.0\\.0/0)"
    )
}

/// Eight groups, or at most seven around one `::` (RFC 4291, without the mixed form).
fn ipv6() -> String {
    let groups = |most: usize| match most {
        0 => String::new(),
        1 => format!("(?:{HEX4})?"),
        more => format!("(?:{HEX4}(?::{HEX4}){{0,{}}})?", more - 1),
    };
    let mut forms = vec![format!("{HEX4}(?::{HEX4}){{7}}")];
    for before in 0..=7 {
        let left = match before {
            0 => String::new(),
            more => format!("{HEX4}(?::{HEX4}){{{}}}", more - 1),
        };
        forms.push(format!("{left}::{}", groups(7 - before)));
    }
    format!("(?:{})", forms.join("|"))
}

/// RFC 3986 `URI`.
fn uri() -> String {
    let unit = "[a-zA-Z0-9\\-._~!$&'()*+,;=";
    let escape = "%[0-9a-fA-F]{2}";
    let path = format!("(?:{unit}:@]|{escape})");
    let more = format!("(?:/{path}*)*");
    let literal = format!("\\[(?:{}|v[0-9a-fA-F]+\\.{unit}:]+)\\]", ipv6());
    let host = format!("(?:{literal}|(?:{unit}]|{escape})*)");
    let authority = format!("(?:(?:{unit}:]|{escape})*@)?{host}(?::[0-9]*)?");
    let tail = format!("(?:{unit}:@/?]|{escape})*");
    format!(
        "[a-zA-Z][a-zA-Z0-9+\\-.]*:(?://{authority}{more}|/(?:{path}+{more})?|{path}+{more}|)\
         (?:\\?{tail})?(?:#{tail})?"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automaton::Automaton;

    const NAMES: [&str; 14] = [
        "date-time",
        "time",
        "date",
        "duration",
        "email",
        "hostname",
        "ipv4",
        "ipv6",
        "ipv4network",
        "ipv6network",
        "ipv4interface",
        "ipv6interface",
        "uuid",
        "uri",
    ];

    fn matches(name: &str, text: &str) -> bool {
        Automaton::new(&expression(name).unwrap()).unwrap().matches(text)
    }

    #[test]
    fn every_format_is_a_table() {
        for name in NAMES {
            assert!(Automaton::new(&expression(name).unwrap()).is_some(), "{name}");
            assert!(example(name).is_none_or(|example| matches(name, example)), "{name}");
        }
    }

    #[test]
    fn examples_of_the_formats() {
        for (name, text) in [
            ("date-time", "2024-02-29T23:59:59.25+01:00"),
            ("duration", "P1Y2M3DT4H5M6S"),
            ("duration", "P2W"),
            ("date", "2000-02-29"),
            ("date", "2004-02-29"),
            ("email", "a.b+c@example.org"),
            ("email", "a@[127.0.0.1]"),
            ("ipv4", "255.249.199.0"),
            ("ipv6", "1:2:3:4:5:6:7:8"),
            ("ipv6", "::"),
            ("ipv4network", "10.0.0.0/8"),
            ("ipv4network", "1.2.3.4/32"),
            ("ipv6network", "::/0"),
            ("ipv4interface", "1.2.3.4/24"),
            ("ipv6", "1::8"),
            ("uri", "http://u@h.org:80/p/q?x=%20#f"),
            ("uri", "mailto:a@b"),
            ("uri", "http://[::1]/"),
            ("uuid", "123e4567-e89b-12d3-a456-426614174000"),
        ] {
            assert!(matches(name, text), "{name} {text}");
        }
    }

    #[test]
    fn counterexamples_of_the_formats() {
        for (name, text) in [
            ("date", "2023-02-30"),
            ("date", "2023-02-29"),
            ("date", "2100-02-29"),
            ("date", "0000-01-01"),
            ("date-time", "2000-01-01t00:00:00z"),
            ("time", "23:59:60Z"),
            ("time", "00:00:00.1234567Z"),
            ("duration", "P12345Y"),
            ("time", "24:00:00Z"),
            ("duration", "P1YT"),
            ("duration", "P1Y1D"),
            ("ipv4", "256.0.0.1"),
            ("ipv4", "01.0.0.1"),
            ("ipv4network", "1.2.3.4/24"),
            ("ipv6interface", "::1/129"),
            ("ipv6", "1:2:3:4:5:6:7"),
            ("ipv6", "1::2::3"),
            ("uri", "no scheme"),
        ] {
            assert!(!matches(name, text), "{name} {text}");
        }
    }
}
