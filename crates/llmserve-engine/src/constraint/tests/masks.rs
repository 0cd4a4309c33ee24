//! What may come next, and what changes it.

use std::sync::Arc;

use super::vocabulary::{CONTROL, END, OTHER_END, WordVocabulary};
use super::*;

const RECORD: &str = r#"{"type":"object","properties":{"name":{"type":"string","maxLength":8},"n":{"type":"integer"}},
    "required":["name","n"],"additionalProperties":false}"#;

fn byte(byte: u8) -> TokenId {
    WordVocabulary::byte(byte)
}

fn word(text: &str) -> TokenId {
    WordVocabulary::word(text)
}

fn allowed(constraint: &mut Constraint) -> Vec<TokenId> {
    tokens(constraint, WordVocabulary::default().size())
}

#[test]
fn a_constraint_can_go_to_another_thread() {
    fn assert_send<T: Send>() {}
    fn assert_shared<T: Send + Sync>() {}
    assert_send::<Constraint>();
    assert_shared::<Compiler>();
}

#[test]
fn a_mask_holds_exactly_what_may_come_next() {
    let mut constraint = compile(&json(r#"{"enum":[true,"tr",12]}"#));
    assert_eq!(allowed(&mut constraint), [byte(b'"'), byte(b'1'), byte(b't'), word("tr"), word("true")]);
    constraint.consume(byte(b't')).unwrap();
    let forced = constraint.forced();
    assert_eq!(forced, [byte(b'r'), byte(b'u'), byte(b'e')]);
    assert_eq!(allowed(&mut constraint), [byte(b'r')]);
}

#[test]
fn tokens_that_end_are_allowed_exactly_where_the_text_may_end() {
    let mut constraint = compile(&json(r#"{"type":"integer","minimum":1,"maximum":12}"#));
    assert!(!allowed(&mut constraint).contains(&END));
    constraint.consume(byte(b'1')).unwrap();
    assert!(constraint.is_complete() && !constraint.is_finished());
    assert_eq!(allowed(&mut constraint), [byte(b'0'), byte(b'1'), byte(b'2'), END, OTHER_END]);
    constraint.consume(byte(b'2')).unwrap();
    assert!(constraint.is_complete() && constraint.is_finished());
    assert_eq!(allowed(&mut constraint), [END, OTHER_END]);
    assert!(constraint.forced().is_empty());
    constraint.consume(OTHER_END).unwrap();
    assert_eq!(allowed(&mut constraint), [END, OTHER_END]);
    constraint.check_document().unwrap();
}

#[test]
fn each_token_that_ends_is_taken_and_taken_back() {
    for end in [END, OTHER_END] {
        let mut constraint = compile(&regex("[a-c]{1,2}"));
        constraint.consume(byte(b'a')).unwrap();
        let before = allowed(&mut constraint);
        constraint.consume(end).unwrap();
        assert!(constraint.is_finished());
        constraint.rollback(1).unwrap();
        assert!(!constraint.is_finished() && constraint.is_complete());
        assert_eq!(allowed(&mut constraint), before);
        constraint.consume(byte(b'b')).unwrap();
        constraint.consume(end).unwrap();
        constraint.rollback(3).unwrap();
        assert_eq!(
            allowed(&mut constraint),
            [byte(b'a'), byte(b'b'), byte(b'c'), word("a1"), word("a2")][..3]
        );
    }
}

#[test]
fn a_text_that_may_not_end_takes_no_end() {
    let mut constraint = compile(&json(RECORD));
    assert_eq!(constraint.num_valid(&[END]), 0);
    assert!(matches!(constraint.consume(END), Err(Error::ConstraintFailed { .. })));
    assert!(constraint.mask().is_err());
    assert!(constraint.check_document().is_err());
}

#[test]
fn a_failed_constraint_stays_failed() {
    let mut constraint = compile(&json(RECORD));
    constraint.consume(byte(b'{')).unwrap();
    assert!(matches!(constraint.consume(byte(b'x')), Err(Error::ConstraintFailed { .. })));
    assert!(constraint.mask().is_err());
    assert!(constraint.consume(byte(b'"')).is_err());
    assert!(constraint.rollback(1).is_err());
    assert!(constraint.forced().is_empty());
    assert_eq!(constraint.num_valid(&[byte(b'"')]), 0);
    assert!(!constraint.is_complete() && !constraint.is_finished());
    assert_eq!(constraint.tail(), None);
}

#[test]
fn tokens_beyond_the_vocabulary_are_refused() {
    for token in [TokenId(-1), TokenId(277), TokenId(i32::MAX)] {
        let mut constraint = compile(&json("true"));
        assert_eq!(constraint.num_valid(&[byte(b'1'), token]), 1);
        assert!(!constraint.mask().unwrap().allows(token));
        assert!(matches!(constraint.consume(token), Err(Error::ConstraintFailed { .. })));
    }
}

#[test]
fn control_tokens_are_no_text() {
    let mut constraint = compile(&json(r#"{"type":"string"}"#));
    let text = "\"<|control|> <|end|> <|other end|>\"";
    for byte in text.bytes() {
        let mask = constraint.mask().unwrap();
        assert!(!mask.allows(CONTROL) && !mask.allows(END) && !mask.allows(OTHER_END));
        assert!(mask.allows(TokenId(i32::from(byte))), "{byte}");
        assert_eq!(constraint.num_valid(&[CONTROL]), 0);
        constraint.consume(TokenId(i32::from(byte))).unwrap();
    }
    constraint.check_document().unwrap();
    let mut constraint = compile(&regex("(?s:.*)"));
    assert!(constraint.consume(CONTROL).is_err());
}

#[test]
fn a_text_of_a_control_token_that_is_forced_stays_text() {
    let mut constraint = compile(&json(r#"{"const":"<|control|><|end|>"}"#));
    let forced = constraint.forced();
    assert!(!forced.is_empty());
    assert!(forced.iter().all(|&token| token != CONTROL && token != END));
    let vocabulary = WordVocabulary::default();
    let text: Vec<u8> = forced.iter().flat_map(|&token| vocabulary.piece(token, true)).copied().collect();
    assert_eq!(text, b"\"<|control|><|end|>\"");
}

#[test]
fn tokens_are_forced_where_the_schema_leaves_no_choice() {
    let mut constraint = compile(&json(RECORD));
    let forced = constraint.forced();
    let vocabulary = WordVocabulary::default();
    let text: Vec<u8> = forced.iter().flat_map(|&token| vocabulary.piece(token, false)).copied().collect();
    assert!(b"{\"name\":\"".starts_with(&text) && text.len() >= 6, "{}", String::from_utf8_lossy(&text));
    assert_eq!(forced[0], word("{\""));
    assert_eq!(allowed(&mut constraint), [forced[0]]);
    assert_eq!(constraint.num_valid(&forced), forced.len());
    for token in forced {
        assert_eq!(constraint.num_valid(&[token]), 1);
        constraint.consume(token).unwrap();
    }
}

#[test]
fn a_space_that_the_vocabulary_adds_is_not_forced() {
    let vocabularies = [
        WordVocabulary { adds_space: true, ..WordVocabulary::default() },
        WordVocabulary { normalizes: true, ..WordVocabulary::default() },
        WordVocabulary { adds_space: true, normalizes: true, has_no_end: false },
    ];
    for vocabulary in vocabularies {
        let compiler = Compiler::new(Arc::new(vocabulary));
        let mut constraint = start(&compiler, &json(r#"{"const":{"name":" a B"}}"#)).unwrap();
        let mut text = Vec::new();
        while !constraint.is_finished() {
            let forced = constraint.forced();
            assert!(!forced.is_empty(), "after {}", String::from_utf8_lossy(&text));
            for token in forced {
                text.extend(WordVocabulary::default().piece(token, false));
                constraint.consume(token).unwrap();
            }
        }
        assert_eq!(text, br#"{"name":" a B"}"#);
        constraint.check_document().unwrap();
    }
}

#[test]
fn a_vocabulary_without_an_end_can_finish() {
    let compiler = Compiler::new(Arc::new(WordVocabulary { has_no_end: true, ..WordVocabulary::default() }));
    let mut constraint = start(&compiler, &json(r#"{"type":"boolean"}"#)).unwrap();
    constraint.consume(word("true")).unwrap();
    assert!(constraint.is_finished() && constraint.mask().unwrap().words().iter().all(|&word| word == 0));
    constraint.check_document().unwrap();
}

#[test]
fn a_draft_is_counted_up_to_the_end_and_not_beyond() {
    let short = [r#"{"const":1}"#, r#"{"type":"boolean"}"#, r#"{"enum":["a1","a2"]}"#];
    let texts = ["1", "true", "\"a1\""];
    for (schema, text) in short.into_iter().zip(texts) {
        let mut constraint = compile(&json(schema));
        let mut draft = WordVocabulary::default().tokenize(text, false, false).unwrap();
        let len = draft.len();
        assert_eq!(constraint.num_valid(&draft), len);
        draft.extend([byte(b'x'), END]);
        assert_eq!(constraint.num_valid(&draft), len, "{schema}");
        draft.truncate(len);
        draft.extend([OTHER_END, END, byte(b'x')]);
        assert_eq!(constraint.num_valid(&draft), len + 1, "{schema}");
        feed(&mut constraint, &WordVocabulary::default(), text);
        assert_eq!(constraint.num_valid(&draft), 0);
        assert_eq!(constraint.num_valid(&[END, byte(b'x')]), 1);
        constraint.consume(END).unwrap();
        assert_eq!(constraint.num_valid(&[byte(b'x')]), 0);
    }
}

#[test]
fn what_is_taken_back_was_never_there() {
    // Both lead to equal lexer states in different rows.
    let spec = lark("start: \"x\" LETTER \"1\" | \"y\" LETTER \"2\"\nLETTER: /[a-c]/\n");
    let mut constraint = compile(&spec);
    let mut masks = Vec::new();
    for (first, last) in [(b'x', b'1'), (b'y', b'2'), (b'x', b'1')] {
        constraint.consume(byte(first)).unwrap();
        masks.push(allowed(&mut constraint));
        constraint.consume(byte(b'a')).unwrap();
        assert_eq!(allowed(&mut constraint), [byte(last)]);
        constraint.consume(byte(last)).unwrap();
        assert!(constraint.is_finished());
        constraint.rollback(3).unwrap();
    }
    assert_eq!(masks[0], [byte(b'a'), byte(b'b'), byte(b'c'), word("a1")]);
    assert_eq!(masks[1], [byte(b'a'), byte(b'b'), byte(b'c'), word("a2")]);
    assert_eq!(masks[0], masks[2]);
    assert!(constraint.rollback(1).is_err());
}

#[test]
fn white_space_is_none() {
    let mut constraint = compile(&json(RECORD));
    feed(&mut constraint, &WordVocabulary::default(), "{\"name\":");
    assert_eq!(constraint.num_valid(&[byte(b' ')]), 0);
    feed(&mut constraint, &WordVocabulary::default(), "\" a\"");
    for blank in *b" \t\r\n" {
        assert_eq!(constraint.num_valid(&[byte(blank)]), 0);
    }
    // A client's own options change nothing.
    let loose = r#"{"type":"object","x-guidance":{"whitespace_flexible":true,"lenient":true}}"#;
    let mut constraint = compile(&json(loose));
    assert_eq!(constraint.num_valid(&[byte(b'{'), byte(b' ')]), 1);
    let mut constraint =
        compile(&json(r#"{"properties":{"x-guidance":{"const":1}},"required":["x-guidance"]}"#));
    assert!(constraint.mask().is_ok());
}

#[test]
fn three_documents_come_of_one_grammar() {
    let compiler = compiler();
    let spec = json(RECORD);
    let texts = [r#"{"name":"a","n":1}"#, r#"{"name":"","n":-20}"#, r#"{"name":"a","n":1}"#];
    let mut constraints: Vec<_> = texts.iter().map(|_| start(&compiler, &spec).unwrap()).collect();
    for (constraint, text) in constraints.iter_mut().zip(texts) {
        feed(constraint, &WordVocabulary::default(), text);
        assert!(constraint.is_finished());
        constraint.check_document().unwrap();
    }
}

#[test]
fn a_tail_completes_the_text() {
    let mut constraint = compile(&json(RECORD));
    let minimum = constraint.num_minimum_tokens().unwrap();
    assert_eq!(constraint.tail().unwrap().len(), minimum);
    for text in ["{\"", "na", "me\":\"", "a\\", "n", "\u{4f60}", "\",", "\"n\":", "-"] {
        feed(&mut constraint, &WordVocabulary::default(), text);
        let before = allowed(&mut constraint);
        let tail = constraint.tail().unwrap();
        assert_eq!(allowed(&mut constraint), before);
        for &token in &tail {
            constraint.consume(token).unwrap();
        }
        constraint.check_document().unwrap();
        constraint.rollback(tail.len()).unwrap();
        assert_eq!(allowed(&mut constraint), before);
    }
    feed(&mut constraint, &WordVocabulary::default(), "7}");
    assert_eq!(constraint.tail(), Some(Vec::new()));
}

#[test]
fn a_tail_goes_on_inside_a_character() {
    let mut constraint = compile(&json(r#"{"type":"string"}"#));
    for first in [b'"', 0xe4, 0xbd] {
        constraint.consume(byte(first)).unwrap();
    }
    for token in constraint.tail().unwrap() {
        constraint.consume(token).unwrap();
    }
    constraint.check_document().unwrap();
}
