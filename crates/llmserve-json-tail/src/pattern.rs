//! The patterns and formats of a schema, each compiled once.

use std::borrow::Cow;
use std::collections::HashMap;

use jsonschema_regex::to_rust_regex;
use regex_automata::util::syntax;
use regex_syntax::hir::{Hir, HirKind, Look};

use super::automaton::Automaton;
use super::format;
use super::language::{Language, Written};

/// Index of a pattern.
pub(super) type PatternId = usize;

/// Maximum size of all tables of one schema; patterns beyond that are left to the guided search.
const TABLE_BYTES: usize = 16 << 20;
/// Patterns too large for a table cost the most time: after this many no more are tried.
const MAX_FAILURES: usize = 8;

#[derive(Debug)]
struct Pattern {
    /// As it was sent (ECMA-262); a format has none.
    sent: String,
    /// In the syntax of Rust's parser, for a search.
    written: String,
    table: Option<Automaton>,
}

/// The compiled patterns of a schema.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    ids: HashMap<String, PatternId>,
    known: Vec<Pattern>,
    examples: HashMap<PatternId, &'static str>,
    bytes: usize,
    failures: usize,
}

impl Patterns {
    /// A JSON Schema `pattern`, which may match anywhere in the string.
    ///
    /// # Errors
    /// The parser's message about an ill-formed expression.
    pub(super) fn search(&mut self, pattern: &str) -> Result<PatternId, String> {
        let expression = search_expression(pattern)?;
        Ok(self.add(expression, pattern.to_owned(), for_search(pattern)?))
    }

    /// A `format`; `None` if it asks for nothing.
    pub(super) fn format(&mut self, name: &str) -> Option<PatternId> {
        let expression = format::expression(name).filter(|expression| !expression.is_empty())?;
        let written = format!("^(?:{expression})$");
        let id = self.add(expression, String::new(), written);
        self.examples.extend(format::example(name).map(|example| (id, example)));
        Some(id)
    }

    /// A text that matches and is preferred.
    pub(super) fn example(&self, id: PatternId) -> Option<&'static str> {
        self.examples.get(&id).copied()
    }

    /// The table; `None` if the pattern is too large for one.
    pub(super) fn table(&self, id: PatternId) -> Option<&Automaton> {
        self.known[id].table.as_ref()
    }

    /// The pattern as it was sent.
    pub(super) fn sent(&self, id: PatternId) -> &str {
        &self.known[id].sent
    }

    /// The pattern for a search in the syntax of Rust's parser.
    pub(super) fn written(&self, id: PatternId) -> &str {
        &self.known[id].written
    }

    fn add(&mut self, expression: String, sent: String, written: String) -> PatternId {
        if let Some(&id) = self.ids.get(&expression) {
            return id;
        }
        let open = self.bytes < TABLE_BYTES && self.failures < MAX_FAILURES;
        let table = if open { Automaton::new(&expression) } else { None };
        self.bytes += table.as_ref().map_or(0, Automaton::memory);
        self.failures += usize::from(open && table.is_none());
        self.known.push(Pattern { sent, written, table });
        self.ids.insert(expression, self.known.len() - 1);
        self.known.len() - 1
    }
}

/// An expression for the whole texts in which a JSON Schema `pattern` matches somewhere.
///
/// # Errors
/// The parser's message about an ill-formed pattern.
pub(super) fn search_expression(pattern: &str) -> Result<String, String> {
    parse(pattern)?;
    Ok(format!("(?s:.*)(?:{})(?s:.*)", from_ecma(pattern)))
}

/// # Errors
/// The parser's message about an ill-formed pattern.
pub(super) fn parse(pattern: &str) -> Result<Hir, String> {
    if repeats_an_anchor(pattern) {
        return Err("a quantifier follows `^` or `$`, which cannot be repeated".to_owned());
    }
    syntax::parse(&from_ecma(pattern)).map_err(|error| reason(&error.to_string()))
}

/// A pattern in the syntax of Rust's parser, with `^` only at its beginning, `$` only at its end and without word
/// boundaries, where that is known: llguidance understands no others.
fn for_search(pattern: &str) -> Result<String, String> {
    if looks_inside(&parse(pattern)?)
        && let Some(Written::Pattern(plain)) = Language::without_looks(pattern)
    {
        return Ok(from_ecma(&plain));
    }
    Ok(from_ecma(pattern))
}

/// Whether a pattern looks around elsewhere than at its ends.
fn looks_inside(expression: &Hir) -> bool {
    let looks = |part: &Hir| !part.properties().look_set().is_empty();
    match expression.kind() {
        HirKind::Look(look) => !matches!(look, Look::Start | Look::End),
        HirKind::Capture(capture) => looks_inside(&capture.sub),
        HirKind::Alternation(branches) => branches.iter().any(looks_inside),
        HirKind::Concat(parts) => {
            let last = parts.len() - 1;
            let is_end = |place: usize, part: &Hir| {
                place == 0 && matches!(part.kind(), HirKind::Look(Look::Start))
                    || place == last && matches!(part.kind(), HirKind::Look(Look::End))
            };
            parts.iter().enumerate().any(|(place, part)| looks(part) && !is_end(place, part))
        }
        HirKind::Repetition(_) => looks(expression),
        HirKind::Empty | HirKind::Literal(_) | HirKind::Class(_) => false,
    }
}

/// A JSON Schema pattern (ECMA-262) in the syntax of Rust's parser, in which `.`, `\d`, `\w` and `\s` have other
/// meanings. A pattern that cannot be translated is left unchanged.
pub(super) fn from_ecma(pattern: &str) -> String {
    to_rust_regex(pattern).map_or_else(|()| pattern.to_owned(), Cow::into_owned)
}

/// Patterns with a look-ahead that have a plain equivalent: Pydantic's for decimal numbers.
const PLAIN: [(&str, &str); 1] =
    [(r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$", r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)$")];

/// The same pattern without look-ahead, if it has some and that is known.
pub(super) fn without_lookahead(pattern: &str) -> Option<String> {
    if let Some((_, plain)) = PLAIN.iter().find(|(known, _)| *known == pattern) {
        return Some((*plain).to_owned());
    }
    match Language::without_lookahead(pattern)? {
        Written::Pattern(plain) => Some(plain),
        // No text matches an empty class.
        Written::Nothing => Some("[^\\s\\S]".to_owned()),
    }
}

/// Whether an anchor is repeated, as in `^+x`: some parsers take it, JSON Schema's regular expressions do not.
fn repeats_an_anchor(pattern: &str) -> bool {
    let (mut in_class, mut after_anchor) = (false, false);
    let mut chars = pattern.chars();
    while let Some(c) = chars.next() {
        if after_anchor && matches!(c, '*' | '+' | '?' | '{') {
            return true;
        }
        after_anchor = !in_class && matches!(c, '^' | '$');
        match c {
            '\\' => {
                chars.next();
            }
            '[' => in_class = true,
            ']' => in_class = false,
            _ => {}
        }
    }
    false
}

/// The last line of the parser's message: the reason without the drawing.
fn reason(message: &str) -> String {
    let last = message.lines().last().unwrap_or_default();
    last.trim().trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let mut patterns = Patterns::default();
        let id = patterns.search(pattern).unwrap();
        patterns.table(id).unwrap().matches(text)
    }

    #[test]
    fn a_pattern_is_a_search() {
        assert!(matches("abc", "xxabcx"));
        assert!(matches("^a|b$", "ax"));
        assert!(matches("^a|b$", "xb"));
        assert!(!matches("^a|b$", "xbx"));
        assert!(matches(r"^\d{3}-\w+$", "123-a_"));
        assert!(!matches(r"^\d{3}-\w+$", "١٢٣-a"));
        assert!(matches(r#"^[^\s"]+$"#, "é"));
        assert!(!matches("^.$", "\r"));
        assert!(matches("^[.]$", "."));
        assert!(!matches(r"^\s$", "\u{85}"));
    }

    #[test]
    fn a_decimal_needs_a_digit() {
        let plain = without_lookahead(PLAIN[0].0).unwrap();
        assert!(["0", "-1.", "+.5", "00.25"].into_iter().all(|text| matches(&plain, text)));
        assert!(!["", "-", ".", "+.", "1.2.3", "1e5"].into_iter().any(|text| matches(&plain, text)));
    }

    #[test]
    fn ill_formed_patterns_have_a_reason() {
        let mut patterns = Patterns::default();
        for pattern in ["^+[a-z]$", "[", "(", "a{3,1}", "(?<=a)b", "(?=a)", "^{2}x$"] {
            let reason = patterns.search(pattern).unwrap_err();
            assert!(!reason.is_empty(), "{pattern}");
        }
    }
}
