//! Prompts in which control tokens stand beside text of users that must not become any: a mark
//! (U+FDD0, a noncharacter) breaks each control token's text that a user wrote.
//!
//! llama.cpp reads either all control tokens of a text or none. So the text is split here as llama.cpp
//! splits it: special tokens with longer texts first, each from the left, and what lies between them
//! is tokenized by itself.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::ops::Range;

use crate::error::Error;
use crate::ids::TokenId;
use crate::model::{SpecialToken, Vocabulary};

/// The mark. Two in a row stand for one U+FDD0 of the text.
pub(crate) const MARK: char = '\u{FDD0}';

/// Tokenizes a marked text; without a mark exactly as with `parse_special`.
pub(crate) fn tokenize(
    vocabulary: &dyn Vocabulary,
    text: &str,
    add_special: bool,
) -> Result<Vec<TokenId>, Error> {
    let (text, marks) = take_marks_out(text);
    if marks.is_empty() {
        return vocabulary.tokenize(&text, add_special, true);
    }
    let mut tokens = Vec::new();
    for fragment in split(&text, &marks, vocabulary.special_tokens()) {
        match fragment {
            Fragment::Token(token) => tokens.push(token),
            Fragment::Text(range) => tokens.extend(vocabulary.tokenize(&text[range], false, false)?),
        }
    }
    if add_special {
        add_frame(vocabulary, &mut tokens)?;
    }
    Ok(tokens)
}

/// The text without marks, and the offsets in it where marks stood.
fn take_marks_out(text: &str) -> (Cow<'_, str>, BTreeSet<usize>) {
    let mut marks = BTreeSet::new();
    if !text.contains(MARK) {
        return (Cow::Borrowed(text), marks);
    }
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(start) = rest.find(MARK) {
        clean.push_str(&rest[..start]);
        let after = rest[start..].trim_start_matches(MARK);
        let num_marks = (rest.len() - start - after.len()) / MARK.len_utf8();
        if num_marks % 2 == 1 {
            marks.insert(clean.len());
        }
        clean.extend(std::iter::repeat_n(MARK, num_marks / 2));
        rest = after;
    }
    clean.push_str(rest);
    (Cow::Owned(clean), marks)
}

#[derive(Debug, PartialEq)]
enum Fragment {
    Token(TokenId),
    Text(Range<usize>),
}

/// An occurrence of a special token's text.
struct Occurrence<'a> {
    start: usize,
    token: &'a SpecialToken,
}

impl Occurrence<'_> {
    fn range(&self) -> Range<usize> {
        self.start..self.start + self.token.text.len()
    }
}

/// Splits a text at its special tokens.
fn split(text: &str, marks: &BTreeSet<usize>, special: &[SpecialToken]) -> Vec<Fragment> {
    let mut found = occurrences(text, marks, special);
    found.sort_by_key(|found| (Reverse(found.token.text.len()), found.token.id, found.start));
    // Which bytes belong to a token, or are white space that one drops.
    let mut is_taken = vec![false; text.len()];
    found.retain(|found| {
        let is_free = !is_taken[found.range()].contains(&true);
        if is_free {
            take(text, &mut is_taken, found);
        }
        is_free
    });
    found.sort_by_key(|found| found.start);
    let mut fragments = Vec::new();
    let mut end = 0;
    for found in &found {
        push_text(&mut fragments, &is_taken, end..found.start);
        fragments.push(Fragment::Token(found.token.id));
        end = found.range().end;
    }
    push_text(&mut fragments, &is_taken, end..text.len());
    fragments
}

/// All occurrences that no mark breaks.
fn occurrences<'a>(text: &str, marks: &BTreeSet<usize>, special: &'a [SpecialToken]) -> Vec<Occurrence<'a>> {
    let mut by_text: HashMap<&[u8], &SpecialToken> = HashMap::new();
    for token in special {
        by_text.entry(token.text.as_bytes()).or_insert(token);
    }
    let lengths: BTreeSet<usize> = by_text.keys().map(|text| text.len()).collect();
    let mut can_begin = [false; 256];
    for text in by_text.keys() {
        can_begin[text[0] as usize] = true;
    }
    let is_broken = |found: &Occurrence<'_>| {
        let Range { start, end } = found.range();
        found.token.is_control && marks.range(start + 1..=end).next().is_some()
    };
    let bytes = text.as_bytes();
    let starts = (0..bytes.len()).filter(|&start| can_begin[bytes[start] as usize]);
    let at =
        |start: usize| lengths.iter().filter_map(move |&len| Some((start, bytes.get(start..start + len)?)));
    let found = starts.flat_map(at).filter_map(|(start, word)| {
        let token = by_text.get(word)?;
        Some(Occurrence { start, token })
    });
    found.filter(|found| !is_broken(found)).collect()
}

/// Takes an occurrence's bytes, and the white space beside it that it drops.
fn take(text: &str, is_taken: &mut [bool], found: &Occurrence<'_>) {
    // C's `isspace`.
    let is_space = |byte: u8| matches!(byte, b' ' | b'\t'..=b'\r');
    let bytes = text.as_bytes();
    let Range { start, end } = found.range();
    is_taken[start..end].fill(true);
    if found.token.strips_left {
        let spaces = (0..start).rev().take_while(|&at| !is_taken[at] && is_space(bytes[at])).count();
        is_taken[start - spaces..start].fill(true);
    }
    if found.token.strips_right {
        let spaces = (end..bytes.len()).take_while(|&at| !is_taken[at] && is_space(bytes[at])).count();
        is_taken[end..end + spaces].fill(true);
    }
}

/// Adds what is left of the text between two tokens.
fn push_text(fragments: &mut Vec<Fragment>, is_taken: &[bool], between: Range<usize>) {
    let free = |at: &usize| !is_taken[*at];
    let Some(start) = between.clone().find(free) else {
        return;
    };
    let end = between.rev().find(free).map_or(start, |last| last + 1);
    fragments.push(Fragment::Text(start..end));
}

/// Adds what the vocabulary puts around a text (BOS, EOS); BOS is not doubled.
fn add_frame(vocabulary: &dyn Vocabulary, tokens: &mut Vec<TokenId>) -> Result<(), Error> {
    // llama.cpp does not say what it adds, which depends on the kind of vocabulary: a text shows it.
    let bare = vocabulary.tokenize("a", false, false)?;
    let mut framed = vocabulary.tokenize("a", true, false)?;
    let num_added = framed.len().saturating_sub(bare.len());
    let num_before = (0..=num_added).rev().find(|&n| framed[n..].starts_with(&bare)).unwrap_or(0);
    let after = framed.split_off((num_before + bare.len()).min(framed.len()));
    framed.truncate(num_before);
    if framed.len() == 1 && tokens.first() == framed.first() {
        framed.clear();
    }
    tokens.splice(0..0, framed);
    tokens.extend(after);
    Ok(())
}

#[cfg(test)]
mod tests;
