//! Decodes bytes to text, across boundaries inside a character.

use std::str;

/// Decodes bytes that come in pieces. The text is that which `String::from_utf8_lossy` gives for
/// all of them together.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Utf8Decoder {
    /// The beginning of a character whose rest has not arrived.
    incomplete: [u8; 3],
    len: u8,
}

impl Utf8Decoder {
    /// Appends the characters that are certain now.
    pub(super) fn decode(&mut self, bytes: &[u8], text: &mut String) {
        if self.len == 0 {
            self.decode_joined(bytes, text);
        } else if !bytes.is_empty() {
            let joined = [self.incomplete(), bytes].concat();
            self.len = 0;
            self.decode_joined(&joined, text);
        }
    }

    /// The end of the bytes: an incomplete character becomes U+FFFD.
    pub(super) fn finish(&mut self, text: &mut String) {
        if self.len > 0 {
            self.len = 0;
            text.push(char::REPLACEMENT_CHARACTER);
        }
    }

    fn decode_joined(&mut self, bytes: &[u8], text: &mut String) {
        let mut chunks = bytes.utf8_chunks().peekable();
        while let Some(chunk) = chunks.next() {
            text.push_str(chunk.valid());
            if chunk.invalid().is_empty() {
                continue;
            }
            if chunks.peek().is_none() && is_beginning(chunk.invalid()) {
                self.keep(chunk.invalid());
            } else {
                text.push(char::REPLACEMENT_CHARACTER);
            }
        }
    }

    fn incomplete(&self) -> &[u8] {
        &self.incomplete[..usize::from(self.len)]
    }

    fn keep(&mut self, bytes: &[u8]) {
        // The beginning of a character has at most three bytes.
        for (kept, byte) in self.incomplete.iter_mut().zip(bytes) {
            *kept = *byte;
        }
        self.len = bytes.len() as u8;
    }
}

/// Whether these bytes, which are not a whole character, can become one.
fn is_beginning(bytes: &[u8]) -> bool {
    str::from_utf8(bytes).is_err_and(|error| error.error_len().is_none())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn decoded(pieces: &[&[u8]]) -> Vec<String> {
        let mut decoder = Utf8Decoder::default();
        let mut texts: Vec<String> = pieces
            .iter()
            .map(|piece| {
                let mut text = String::new();
                decoder.decode(piece, &mut text);
                text
            })
            .collect();
        let mut end = String::new();
        decoder.finish(&mut end);
        texts.push(end);
        texts
    }

    #[test]
    fn a_character_comes_with_its_last_byte() {
        assert_eq!(decoded(&[b"a\xF0", b"\x9F", b"", b"\x98", b"\x80b"]), ["a", "", "", "", "😀b", ""]);
    }

    #[test]
    fn ill_formed_bytes_are_replaced_as_soon_as_certain() {
        assert_eq!(decoded(&[b"\xFF", b"\xE2\x82", b"A"]), ["\u{FFFD}", "", "\u{FFFD}A", ""]);
        assert_eq!(decoded(&[b"\xE2", b"\xE2\x82", b"\xAC"]), ["", "\u{FFFD}", "€", ""]);
        // A surrogate is wrong from its second byte.
        assert_eq!(decoded(&[b"\xED", b"\xA0", b"\x80"]), ["", "\u{FFFD}\u{FFFD}", "\u{FFFD}", ""]);
        assert_eq!(decoded(&[b"x\xF0\x9F"]), ["x", "\u{FFFD}"]);
    }

    /// Bytes that are well-formed, nearly so, or not at all.
    fn pieces() -> impl Strategy<Value = Vec<Vec<u8>>> {
        let byte = prop_oneof![
            any::<u8>(),
            prop::sample::select(vec![0x80, 0xA0, 0xBF, 0xC2, 0xE0, 0xE2, 0xED, 0xF0, 0xF4, b'a']),
        ];
        let bytes = prop_oneof![
            prop::collection::vec(byte, 0..6),
            any::<char>().prop_map(|c| c.to_string().into_bytes()),
        ];
        prop::collection::vec(bytes, 0..12)
    }

    proptest! {
        #[test]
        fn equals_from_utf8_lossy(pieces in pieces()) {
            let slices: Vec<&[u8]> = pieces.iter().map(Vec::as_slice).collect();
            let all = pieces.concat();
            prop_assert_eq!(decoded(&slices).concat(), String::from_utf8_lossy(&all));
        }

        #[test]
        fn equals_from_utf8_lossy_byte_by_byte(pieces in pieces()) {
            let all = pieces.concat();
            let bytes: Vec<&[u8]> = all.chunks(1).collect();
            prop_assert_eq!(decoded(&bytes).concat(), String::from_utf8_lossy(&all));
        }
    }
}
