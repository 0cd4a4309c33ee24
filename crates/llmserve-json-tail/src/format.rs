//! The string formats that llguidance knows, as regular expressions for whole strings.

const DATE: &str = "[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])\
    |(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|[12][0-9]))";
const TIME: &str = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:(?:[0-5][0-9]|60)(?:\\.[0-9]+)?\
    (?:[zZ]|[+-](?:[01][0-9]|2[0-3]):[0-5][0-9])";
const OCTET: &str = "(?:[0-9]|[1-9][0-9]|1[0-9][0-9]|2[0-4][0-9]|25[0-5])";
const LABEL: &str = "[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?";
const HEX4: &str = "[0-9a-fA-F]{1,4}";
const UUID: &str = "[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}";

/// The names of all formats, for messages.
pub(super) const NAMES: &str = "date-time, time, date, duration, email, hostname, ipv4, ipv6, uuid, uri";

/// The expression of the format `name`: `None` if it is unknown, empty if it asks for nothing.
pub(super) fn expression(name: &str) -> Option<String> {
    Some(match name {
        "date-time" => format!("{DATE}[tT]{TIME}"),
        "time" => TIME.to_owned(),
        "date" => DATE.to_owned(),
        "duration" => duration(),
        "email" => email(),
        "hostname" => format!("{LABEL}(?:\\.{LABEL})*"),
        "ipv4" => ipv4(),
        "ipv6" => ipv6(),
        "uuid" => UUID.to_owned(),
        "uri" => uri(),
        "unknown" => String::new(),
        _ => return None,
    })
}

/// ISO 8601 as in RFC 3339, appendix A: no unit is left out between two others.
fn duration() -> String {
    let units = |a: char, b: char, c: char| {
        format!("(?:[0-9]+{a}(?:[0-9]+{b}(?:[0-9]+{c})?)?|[0-9]+{b}(?:[0-9]+{c})?|[0-9]+{c})")
    };
    let (date, time) = (units('Y', 'M', 'D'), units('H', 'M', 'S'));
    format!("P(?:{date}(?:T{time})?|T{time}|[0-9]+W)")
}

/// `Mailbox` of RFC 5321 without quoted local parts.
fn email() -> String {
    let atom = "[a-zA-Z0-9!#$%&'*+\\-/=?\\^_`{|}~]+";
    format!("{atom}(?:\\.{atom})*@(?:{LABEL}(?:\\.{LABEL})*|\\[{}\\])", ipv4())
}

fn ipv4() -> String {
    format!("(?:{OCTET}\\.){{3}}{OCTET}")
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

    fn matches(name: &str, text: &str) -> bool {
        Automaton::new(&expression(name).unwrap()).unwrap().matches(text)
    }

    #[test]
    fn every_format_is_a_table() {
        for name in NAMES.split(", ") {
            assert!(Automaton::new(&expression(name).unwrap()).is_some(), "{name}");
        }
    }

    #[test]
    fn examples_of_the_formats() {
        for (name, text) in [
            ("date-time", "2024-02-29T23:59:60.25+01:00"),
            ("duration", "P1Y2M3DT4H5M6S"),
            ("duration", "P2W"),
            ("email", "a.b+c@example.org"),
            ("email", "a@[127.0.0.1]"),
            ("ipv4", "255.249.199.0"),
            ("ipv6", "1:2:3:4:5:6:7:8"),
            ("ipv6", "::"),
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
            ("time", "24:00:00Z"),
            ("duration", "P1YT"),
            ("duration", "P1Y1D"),
            ("ipv4", "256.0.0.1"),
            ("ipv4", "01.0.0.1"),
            ("ipv6", "1:2:3:4:5:6:7"),
            ("ipv6", "1::2::3"),
            ("uri", "no scheme"),
        ] {
            assert!(!matches(name, text), "{name} {text}");
        }
    }
}
