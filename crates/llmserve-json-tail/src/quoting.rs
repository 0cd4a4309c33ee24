//! JSON strings that end in the middle: of an escape, of a surrogate pair, of a character.

use super::automaton::{Automaton, State};
use super::pattern::PatternId;

/// The content of a string that is being written.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(super) struct Content {
    /// Whole escapes decoded; may end inside a UTF-8 character.
    pub(super) decoded: Vec<u8>,
    /// Number of bytes that it was read from.
    pub(super) num_raw: usize,
    /// Number of characters begun in it.
    pub(super) num_characters: usize,
    /// An escape that is not whole, from its backslash on. A high surrogate waits here for its
    /// low one.
    pub(super) escape: Vec<u8>,
    /// Whether the text cannot be part of a JSON string, whatever follows.
    pub(super) is_wrong: bool,
    /// For each pattern that was asked about: how much of the content its table has followed, and to
    /// which state.
    runs: Vec<(PatternId, usize, Option<State>)>,
}

impl Content {
    /// The content of the text after an opening quote.
    #[cfg(test)]
    pub(super) fn of(raw: &[u8]) -> Self {
        let mut content = Self::default();
        content.feed(raw);
        content
    }

    /// The content of a whole text.
    pub(super) fn whole(text: &str) -> Self {
        let num_characters = text.chars().count();
        Self { decoded: text.as_bytes().to_vec(), num_characters, ..Self::default() }
    }

    pub(super) fn feed(&mut self, raw: &[u8]) {
        self.num_raw += raw.len();
        for &byte in raw {
            if self.escape.is_empty() && byte != b'\\' {
                self.decoded.push(byte);
                self.num_characters += usize::from(byte & 0xc0 != 0x80);
                continue;
            }
            self.escape.push(byte);
            match escape(&self.escape) {
                Ok(character) => {
                    self.decoded.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
                    self.num_characters += 1;
                    self.escape.clear();
                }
                Err(Fault::Cut) => {}
                Err(Fault::Wrong) => self.is_wrong = true,
            }
        }
    }

    /// The state of the pattern's table after the content and `more`; `None` if no match can follow.
    /// What was followed before is not followed again.
    pub(super) fn run(&mut self, id: PatternId, table: &Automaton, more: &[u8]) -> Option<State> {
        let at = self.runs.iter().position(|run| run.0 == id).unwrap_or_else(|| {
            self.runs.push((id, 0, Some(Automaton::START)));
            self.runs.len() - 1
        });
        let (_, followed, state) = &mut self.runs[at];
        *state = state.and_then(|state| table.run(state, &self.decoded[*followed..]));
        *followed = self.decoded.len();
        state.and_then(|state| table.run(state, more))
    }
}

/// Why an escape gives no character.
#[derive(Debug, PartialEq, Eq)]
enum Fault {
    /// The string may go on.
    Cut,
    /// The text is not a string, whatever follows.
    Wrong,
}

/// The character that the escape `raw` stands for.
fn escape(raw: &[u8]) -> Result<char, Fault> {
    let letter = *raw.get(1).ok_or(Fault::Cut)?;
    if letter != b'u' {
        return short(letter).ok_or(Fault::Wrong);
    }
    let first = code(&raw[2..])?;
    if !(0xd800..0xe000).contains(&first) {
        return char::from_u32(first).ok_or(Fault::Wrong);
    }
    let low = &raw[6..];
    if !low.iter().zip(b"\\u").all(|(a, b)| a == b) {
        return Err(Fault::Wrong);
    }
    let second = code(low.get(2..).ok_or(Fault::Cut)?)?;
    pair(first, second).ok_or(Fault::Wrong)
}

fn pair(first: u32, second: u32) -> Option<char> {
    if !(0xd800..0xdc00).contains(&first) || !(0xdc00..0xe000).contains(&second) {
        return None;
    }
    char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00))
}

fn short(letter: u8) -> Option<char> {
    Some(match letter {
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'"' | b'\\' | b'/' => char::from(letter),
        _ => return None,
    })
}

/// Four hex digits.
fn code(raw: &[u8]) -> Result<u32, Fault> {
    let mut value = 0;
    for index in 0..4 {
        let digit = char::from(*raw.get(index).ok_or(Fault::Cut)?).to_digit(16);
        value = value * 16 + digit.ok_or(Fault::Wrong)?;
    }
    Ok(value)
}

/// Ways to complete a cut escape: what has to be written, and the character that it then means.
pub(super) fn escape_endings(cut: &[u8]) -> Vec<(Vec<u8>, char)> {
    if cut.len() < 2 {
        let mut endings: Vec<_> =
            b"nrtbf\\\"".iter().filter_map(|&letter| Some((vec![letter], short(letter)?))).collect();
        endings.extend(control_endings("").map(|(tail, c)| ([b"u", &tail[..]].concat(), c)));
        return endings;
    }
    let digits = String::from_utf8_lossy(&cut[2..cut.len().min(6)]).to_lowercase();
    if matches!(digits.as_bytes(), [b'd', b'8'..=b'f', ..]) {
        return pair_ending(cut).into_iter().collect();
    }
    let mut endings: Vec<_> = control_endings(&digits).collect();
    if endings.is_empty() {
        let zeros = "0".repeat(4 - digits.len().min(4));
        let code = u32::from_str_radix(&format!("{digits}{zeros}"), 16).ok();
        endings.extend(code.and_then(char::from_u32).map(|c| (zeros.into_bytes(), c)));
    }
    endings
}

/// The `\u00XX` escapes of control characters that go on from `digits`.
fn control_endings(digits: &str) -> impl Iterator<Item = (Vec<u8>, char)> {
    (0..=0x7f_u8).filter(u8::is_ascii_control).filter_map(move |byte| {
        let tail = format!("{byte:04x}").strip_prefix(digits)?.as_bytes().to_vec();
        Some((tail, char::from(byte)))
    })
}

fn pair_ending(cut: &[u8]) -> Option<(Vec<u8>, char)> {
    let model = b"\\ud800\\udc00";
    let tail = model.get(cut.len()..)?.to_vec();
    let whole = [cut, &tail].concat();
    let (first, second) = (code(&whole[2..]).ok()?, code(&whole[8..]).ok()?);
    Some((tail, pair(first, second)?))
}

/// Writes `bytes` as the content of a JSON string.
pub(super) fn quote_into(bytes: &[u8], out: &mut Vec<u8>) {
    for &byte in bytes {
        match byte {
            b'"' | b'\\' => out.extend([b'\\', byte]),
            b'\n' => out.extend(b"\\n"),
            b'\r' => out.extend(b"\\r"),
            b'\t' => out.extend(b"\\t"),
            0x08 => out.extend(b"\\b"),
            0x0c => out.extend(b"\\f"),
            0..=0x1f | 0x7f => out.extend(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
}

/// The shortest bytes that complete the last character of `bytes`.
pub(super) fn finish_character(bytes: &[u8]) -> Vec<u8> {
    let Some(start) = bytes.iter().rposition(|byte| byte & 0xc0 != 0x80) else {
        return Vec::new();
    };
    let begun = &bytes[start..];
    let (len, second) = match begun[0] {
        0xc2..=0xdf => (2, 0x80),
        0xe0 => (3, 0xa0),
        0xe1..=0xef => (3, 0x80),
        0xf0 => (4, 0x90),
        0xf1..=0xf4 => (4, 0x80),
        _ => return Vec::new(),
    };
    (begun.len()..len).map(|index| if index == 1 { second } else { 0x80 }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cut_of_an_escape_has_an_ending_that_parses() {
        for whole in ["\\n", "\\u001f", "\\u1234", "\\ud83d\\ude00", "\\\"", "\\uABCD"] {
            for end in 1..whole.len() {
                let content = Content::of(&whole.as_bytes()[..end]);
                assert!(!content.is_wrong);
                assert_eq!(content.escape, &whole.as_bytes()[..end]);
                for (tail, character) in escape_endings(&content.escape) {
                    let text = format!("\"{}{}\"", &whole[..end], String::from_utf8(tail).unwrap());
                    let parsed: String = serde_json::from_str(&text).unwrap();
                    assert_eq!(parsed, character.to_string(), "{text}");
                }
                assert!(!escape_endings(&content.escape).is_empty(), "{whole} {end}");
            }
        }
    }

    #[test]
    fn every_cut_of_a_character_can_be_finished() {
        for whole in ["é", "ࠀ", "€", "\u{d7ff}", "𐀀", "😀", "\u{10ffff}"] {
            for end in 1..=whole.len() {
                let mut bytes = whole.as_bytes()[..end].to_vec();
                bytes.extend(finish_character(&bytes));
                assert!(std::str::from_utf8(&bytes).is_ok(), "{whole} {end}");
            }
        }
    }

    #[test]
    fn quoting_gives_back_the_text() {
        let text: String = (0..0x100).filter_map(char::from_u32).collect();
        let mut quoted = vec![b'"'];
        quote_into(text.as_bytes(), &mut quoted);
        quoted.push(b'"');
        assert_eq!(serde_json::from_slice::<String>(&quoted).unwrap(), text);
    }
}
