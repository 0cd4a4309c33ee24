use super::*;

/// Letters as tokens, special tokens by their texts, one BOS; like llama.cpp with an eye for all or none
/// of the control tokens.
struct Letters(Vec<SpecialToken>);

const BOS: TokenId = TokenId(1000);

impl Vocabulary for Letters {
    fn size(&self) -> usize {
        2000
    }

    fn special_tokens(&self) -> &[SpecialToken] {
        &self.0
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        assert!(!parse_special, "without a mark only");
        let letters = text.bytes().map(|byte| TokenId(i32::from(byte)));
        Ok(add_special.then_some(BOS).into_iter().chain(letters).collect())
    }

    fn piece(&self, _: TokenId, _: bool) -> &[u8] {
        &[]
    }

    fn max_piece_bytes(&self) -> usize {
        1
    }

    fn end_of_generation(&self) -> &[TokenId] {
        &[]
    }
}

fn special(id: i32, text: &str, is_control: bool) -> SpecialToken {
    SpecialToken {
        id: TokenId(id),
        text: text.to_owned(),
        is_control,
        strips_left: false,
        strips_right: false,
    }
}

fn vocabulary() -> Letters {
    Letters(vec![
        special(1000, "<s>", true),
        special(1001, "<|end|>", true),
        special(1002, "|end", true),
        special(1003, "<think>", false),
        SpecialToken { strips_left: true, strips_right: true, ..special(1004, "[M]", true) },
    ])
}

/// Tokens as text: letters, and special tokens as numbers in brackets.
fn shown(text: &str, add_special: bool) -> String {
    let tokens = tokenize(&vocabulary(), text, add_special).unwrap();
    let show = |token: &TokenId| match u8::try_from(token.0) {
        Ok(letter) => char::from(letter).to_string(),
        Err(_) => format!("({})", token.0),
    };
    tokens.iter().map(show).collect()
}

#[test]
fn a_mark_breaks_the_token_it_stands_in_and_no_other() {
    assert_eq!(shown("<|end|>a<\u{FDD0}|end|>", false), "(1001)a<(1002)|>");
    assert_eq!(shown("<|end|>a<\u{FDD0}|\u{FDD0}end|>", false), "(1001)a<|end|>");
    assert_eq!(shown("<|end|>\u{FDD0}b|end", false), "<(1002)|>b(1002)");
}

#[test]
fn longer_tokens_come_first() {
    assert_eq!(shown("a\u{FDD0}|end<|end|>|end|end", false), "a(1002)(1001)(1002)(1002)");
}

#[test]
fn tokens_that_are_no_control_tokens_are_always_found() {
    assert_eq!(shown("<\u{FDD0}think>", false), "(1003)");
}

#[test]
fn white_space_is_dropped_where_a_token_drops_it() {
    assert_eq!(shown("a\u{FDD0} \n[M]\t b [M] ", false), "a(1004)b(1004)");
    assert_eq!(shown("a\u{FDD0} [\u{FDD0}M] ", false), "a [M] ");
    assert_eq!(shown("a\u{FDD0}[M] [M]", false), "a(1004)(1004)");
}

#[test]
fn bos_is_added_once() {
    assert_eq!(shown("a\u{FDD0}", true), "(1000)a");
    assert_eq!(shown("<s>a\u{FDD0}", true), "(1000)a");
    assert_eq!(shown("<s><s>a\u{FDD0}", true), "(1000)(1000)a");
}

#[test]
fn two_marks_are_one_letter_of_the_text() {
    let clean = |text: &str| {
        let (clean, marks) = take_marks_out(text);
        (clean.into_owned(), marks.into_iter().collect::<Vec<_>>())
    };
    assert_eq!(clean("a"), ("a".to_owned(), vec![]));
    assert_eq!(clean("a\u{FDD0}\u{FDD0}b"), ("a\u{FDD0}b".to_owned(), vec![]));
    assert_eq!(clean("a\u{FDD0}\u{FDD0}\u{FDD0}b\u{FDD0}"), ("a\u{FDD0}b".to_owned(), vec![1, 5]));
}
