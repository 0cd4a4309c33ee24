//! Sets of texts that patterns describe together, and one pattern for each such set.
//!
//! Regular expressions have no signs for "and" and "not", but regular languages are closed under both: `product` is
//! the automaton of several patterns, and `expression` writes an automaton as a regular expression. `lookahead` and
//! `borders` take out what looks around.

mod borders;
mod expression;
mod lookahead;
mod product;

use super::automaton::Automaton;
use super::pattern::parse;
use product::Product;

/// Maximum number of patterns in one language.
const MAX_PATTERNS: usize = 8;

const ASCII: &str = "^[\\x00-\\x7F]*$";

fn has_word_boundary(pattern: &str) -> bool {
    parse(pattern).is_ok_and(|hir| hir.properties().look_set().contains_word())
}

/// A set of texts.
#[derive(Debug, Clone)]
pub(super) enum Language {
    /// What a JSON Schema `pattern` matches somewhere.
    Matching(String),
    All(Vec<Language>),
    Any(Vec<Language>),
    Not(Box<Language>),
}

/// A language as one pattern.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Written {
    /// There is no text in it.
    Nothing,
    Pattern(String),
}

impl Language {
    pub(super) fn of(pattern: &str) -> Self {
        Self::Matching(pattern.to_owned())
    }

    /// [`Self::Matching`] of `pattern` without its look-aheads; `None` if it has none, or others than can be taken out.
    pub(super) fn without_lookahead(pattern: &str) -> Option<Written> {
        let written = lookahead::split(pattern).and_then(|language| language.written());
        written.or_else(|| borders::without_lookahead(pattern).map(Written::Pattern))
    }

    /// A pattern without the looks inside it, if they are word boundaries or anchors.
    pub(super) fn without_looks(pattern: &str) -> Option<Written> {
        Self::of(pattern).written().or_else(|| borders::without_boundary(pattern).map(Written::Pattern))
    }

    pub(super) fn not(language: Self) -> Self {
        Self::Not(Box::new(language))
    }

    /// `None` if a pattern cannot be an automaton, or the result would be too large.
    pub(super) fn written(&self) -> Option<Written> {
        let mut patterns = Vec::new();
        self.collect(&mut patterns);
        if patterns.iter().any(|pattern| has_word_boundary(pattern)) {
            // Of other texts the tables know nothing.
            return Self::All(vec![self.clone(), Self::of(ASCII)]).written_whole();
        }
        self.written_whole()
    }

    fn written_whole(&self) -> Option<Written> {
        let mut patterns = Vec::new();
        self.collect(&mut patterns);
        if patterns.len() > MAX_PATTERNS {
            return None;
        }
        let tables =
            patterns.iter().map(|pattern| Automaton::of_search(pattern)).collect::<Option<Vec<_>>>()?;
        let product = Product::new(&patterns, &tables)?;
        let is_in = |matches: &[bool]| {
            self.has(&|pattern| {
                patterns.iter().zip(matches).any(|(known, matches)| *known == pattern && *matches)
            })
        };
        match expression::of(&product.minimal(is_in)) {
            expression::Outcome::Nothing => Some(Written::Nothing),
            expression::Outcome::Text(text) => Some(Written::Pattern(format!("^(?:{text})$"))),
            expression::Outcome::TooLarge => None,
        }
    }

    fn collect<'l>(&'l self, out: &mut Vec<&'l str>) {
        match self {
            Self::Matching(pattern) if !out.contains(&pattern.as_str()) => out.push(pattern),
            Self::Matching(_) => {}
            Self::All(parts) | Self::Any(parts) => parts.iter().for_each(|part| part.collect(out)),
            Self::Not(language) => language.collect(out),
        }
    }

    /// Whether a text is in the language, which `matches` says of its patterns.
    fn has(&self, matches: &dyn Fn(&str) -> bool) -> bool {
        match self {
            Self::Matching(pattern) => matches(pattern),
            Self::All(parts) => parts.iter().all(|part| part.has(matches)),
            Self::Any(parts) => parts.iter().any(|part| part.has(matches)),
            Self::Not(language) => !language.has(matches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATTERNS: [&str; 12] = [
        "^[a-z]+$",
        "^a",
        "b$",
        "a.b",
        "^$",
        "",
        r"^\d{1,3}$",
        r"[\s\S]{3}",
        "é|[^é]-",
        "^(ab|a-)*$",
        r#"["\\/\]^]"#,
        "\u{1f600}",
    ];
    const TEXTS: [&str; 22] = [
        "",
        "a",
        "b",
        "ab",
        "a-b",
        "a\nb",
        "abab",
        "a-ab",
        "é",
        "é-",
        "x-",
        "12",
        "1234",
        "a\u{2028}b",
        "\"",
        "\\",
        "]",
        "^",
        "/",
        "\u{1f600}",
        "a\u{1f600}b",
        "\u{d7ff}\u{e000}\u{ffff}",
    ];

    #[test]
    fn a_written_language_has_the_same_texts() {
        let tables = PATTERNS.map(|pattern| Automaton::of_search(pattern).unwrap());
        for one in PATTERNS {
            for other in PATTERNS {
                let [one, other] = [one, other].map(Language::of);
                for language in [
                    Language::not(one.clone()),
                    Language::All(vec![one.clone(), Language::not(other.clone())]),
                    Language::All(vec![one.clone(), other.clone()]),
                    Language::not(Language::Any(vec![one, other])),
                ] {
                    let written = language.written().unwrap();
                    let table = match &written {
                        Written::Nothing => None,
                        Written::Pattern(pattern) => Some(Automaton::of_search(pattern).unwrap()),
                    };
                    for text in TEXTS {
                        let matches = |pattern: &str| {
                            let known = PATTERNS.iter().position(|known| *known == pattern).unwrap();
                            tables[known].matches(text)
                        };
                        let is_in = table.as_ref().is_some_and(|table| table.matches(text));
                        assert_eq!(is_in, language.has(&matches), "{language:?} {written:?} {text:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn what_excludes_each_other_is_nothing() {
        let both =
            |one: &str, other: &str| Language::All(vec![Language::of(one), Language::of(other)]).written();
        assert_eq!(both("^a", "^[^a]"), Some(Written::Nothing));
        assert_eq!(Language::not(Language::of("")).written(), Some(Written::Nothing));
        assert_ne!(both("^a", "b$"), Some(Written::Nothing));
    }

    #[test]
    fn words_end_at_ascii_characters() {
        let written = |language: Language| match language.written() {
            Some(Written::Pattern(pattern)) => Automaton::of_search(&pattern).unwrap(),
            _ => unreachable!("there are such texts"),
        };
        let word = Language::of(r"\bword\b");
        let (is, not) = (written(word.clone()), written(Language::not(word)));
        for (text, matches) in [("word", true), ("a word.", true), ("words", false), ("", false)] {
            assert_eq!((is.matches(text), not.matches(text)), (matches, !matches), "{text}");
        }
        assert!(!is.matches("é word") && !not.matches("é"));
    }

    #[test]
    fn what_is_too_large_is_not_written() {
        for pattern in [r"^\p{L}+$", "a[a-c]{12}$", "(?<=a)b", "["] {
            assert_eq!(Language::not(Language::of(pattern)).written(), None, "{pattern}");
        }
    }
}
