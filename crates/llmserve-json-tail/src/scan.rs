//! The scanner of JSON texts, byte by byte.

/// The position inside a token at which a text ends.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scanner {
    #[default]
    Between,
    Text {
        is_escaped: bool,
    },
    Number,
    /// `left`: letters to the end of the word.
    Word {
        left: u8,
    },
}

/// The role of a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Step {
    /// The byte is not part of the number in front of it, which has ended.
    pub(crate) ends_number: bool,
    pub(crate) part: Part,
}

/// The part of a text that a byte is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Space,
    /// A bracket, a brace, a comma or a colon.
    Mark,
    /// The first byte of a token; of a string the quote.
    Begin,
    Inside,
    /// The last byte of a word or of a string: the quote.
    End,
}

impl Scanner {
    pub(crate) fn step(&mut self, byte: u8) -> Step {
        let (next, part) = match *self {
            Self::Text { is_escaped: false } if byte == b'"' => (Self::Between, Part::End),
            Self::Text { is_escaped } => {
                (Self::Text { is_escaped: !is_escaped && byte == b'\\' }, Part::Inside)
            }
            Self::Word { left: 1 } => (Self::Between, Part::End),
            Self::Word { left } => (Self::Word { left: left - 1 }, Part::Inside),
            Self::Number if matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                (Self::Number, Part::Inside)
            }
            Self::Between | Self::Number => begin(byte),
        };
        let ends_number = *self == Self::Number && part != Part::Inside;
        *self = next;
        Step { ends_number, part }
    }
}

fn begin(byte: u8) -> (Scanner, Part) {
    match byte {
        b'{' | b'}' | b'[' | b']' | b',' | b':' => (Scanner::Between, Part::Mark),
        b' ' | b'\t' | b'\n' | b'\r' => (Scanner::Between, Part::Space),
        b'"' => (Scanner::Text { is_escaped: false }, Part::Begin),
        b'-' | b'0'..=b'9' => (Scanner::Number, Part::Begin),
        b'f' => (Scanner::Word { left: 4 }, Part::Begin),
        // Anything but a word of JSON ends somewhere, and is refused then.
        _ => (Scanner::Word { left: 3 }, Part::Begin),
    }
}

/// The numbers of a JSON text, as written.
pub fn numbers(text: &str) -> impl Iterator<Item = &str> {
    let mut scanner = Scanner::default();
    let mut start = 0;
    text.bytes().chain([b' ']).enumerate().filter_map(move |(at, byte)| {
        let step = scanner.step(byte);
        let number = step.ends_number.then(|| text.get(start..at)).flatten();
        if step.part == Part::Begin {
            start = at;
        }
        number
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_outside_strings() {
        let found = |text| numbers(text).collect::<Vec<_>>();
        assert_eq!(found(r#"{"1":-2,"\"3":[4.5e6,true,7]}"#), ["-2", "4.5e6", "7"]);
        assert_eq!(found("12"), ["12"]);
        assert_eq!(found(r#"["\\",1"#), ["1"]);
        assert!(found("\"1").is_empty() && found("").is_empty());
    }
}
