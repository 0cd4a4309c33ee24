//! Patterns with look-aheads that say something about the whole text: all those at its beginning, and the one in
//! `^((?!word).)*$`.

use super::super::automaton::Automaton;
use super::Language;

/// The language of a pattern whose look-aheads can be taken out; `None` if it has none, or others.
pub(super) fn split(pattern: &str) -> Option<Language> {
    let mut rest = pattern.strip_prefix('^')?;
    if let Some(language) = without(pattern) {
        return Some(language);
    }
    let mut parts = Vec::new();
    while rest.starts_with("(?!") || rest.starts_with("(?=") {
        let end = closing(rest)?;
        let ahead = Language::Matching(format!("^(?:{})", &rest[3..end]));
        parts.push(if rest.starts_with("(?!") { Language::not(ahead) } else { ahead });
        rest = &rest[end + 1..];
    }
    // A quantifier of a look-ahead, or another branch without it.
    if parts.is_empty() || is_quantified(rest) || has_branches(rest) {
        return None;
    }
    parts.push(Language::Matching(format!("^(?:{rest})")));
    Some(Language::All(parts))
}

/// Lines in which a word does not occur.
fn without(pattern: &str) -> Option<Language> {
    let inner = pattern.strip_prefix("^(")?;
    let end = closing(inner).filter(|_| inner.starts_with("(?!"))?;
    let is_line = &inner[end + 1..] == ".)*$";
    let word = &inner[3..end];
    // At the end of the text nobody looks ahead.
    let is_anywhere =
        Automaton::of_search(word).is_some_and(|table| !table.matches("")) && !word.contains('^');
    (is_line && is_anywhere).then(|| {
        Language::All(vec![
            Language::Matching("^.*$".to_owned()),
            Language::not(Language::Matching(word.to_owned())),
        ])
    })
}

/// Whether what stands before `rest` is repeated.
pub(super) fn is_quantified(rest: &str) -> bool {
    rest.starts_with(['*', '+', '?', '{'])
}

/// The place of the first look-around outside all groups.
pub(super) fn outermost(pattern: &str) -> Option<usize> {
    let is_look =
        |at: usize| ["(?=", "(?!", "(?<=", "(?<!"].iter().any(|look| pattern[at..].starts_with(look));
    marks(pattern).find(|&(at, _, depth)| depth == 1 && is_look(at)).map(|(at, ..)| at)
}

/// The place of the bracket that closes the first one.
pub(super) fn closing(pattern: &str) -> Option<usize> {
    marks(pattern).find(|(_, c, depth)| *c == ')' && *depth == 0).map(|(at, ..)| at)
}

pub(super) fn has_branches(pattern: &str) -> bool {
    marks(pattern).any(|(_, c, depth)| c == '|' && depth == 0)
}

/// Brackets and bars that are not quoted, with their place and the depth behind them.
fn marks(pattern: &str) -> impl Iterator<Item = (usize, char, usize)> {
    let (mut depth, mut in_class, mut is_escaped) = (0_usize, false, false);
    pattern.char_indices().filter_map(move |(at, c)| {
        let was_escaped = std::mem::take(&mut is_escaped);
        match c {
            _ if was_escaped => return None,
            '\\' => is_escaped = true,
            '[' => in_class = true,
            ']' => in_class = false,
            _ if in_class => return None,
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        matches!(c, '(' | ')' | '|').then_some((at, c, depth))
    })
}

#[cfg(test)]
mod tests {
    use super::super::Written;
    use super::*;

    fn matches(pattern: &str, text: &str) -> bool {
        let Some(Written::Pattern(plain)) = split(pattern).unwrap().written() else {
            unreachable!("there are texts of {pattern}")
        };
        Automaton::of_search(&plain).unwrap().matches(text)
    }

    #[test]
    fn what_a_text_begins_with() {
        assert!(matches("^(?!all$).*$", "alley"));
        assert!(!matches("^(?!all$).*$", "all"));
        assert!(matches(r"^(?!org\.bukkit\.)[a-z.]+$", "org.other"));
        assert!(!matches(r"^(?!org\.bukkit\.)[a-z.]+$", "org.bukkit.x"));
        assert!(matches(r"^(?=!+[^!)\]]+$)(?=(.*\w)).+$", "!!a"));
        assert!(!matches(r"^(?=!+[^!)\]]+$)(?=(.*\w)).+$", "!!-"));
        assert!(!matches("^(?!.*(local|meta)).*$", "a local"));
    }

    #[test]
    fn what_a_text_does_not_contain() {
        assert!(matches("^((?!message|severity).)*$", "massage"));
        assert!(!matches("^((?!message|severity).)*$", "no message"));
        assert!(!matches("^((?!a).)*$", "\n"));
    }

    #[test]
    fn what_is_left_alone() {
        for pattern in
            ["^a", "(?!a)b", "^(?!a)b|c", "^(?!a)*b", "^((?!a*).)*$", "^((?!a).)*", "^(?!a", "^((?!^a).)*$"]
        {
            assert!(split(pattern).is_none(), "{pattern}");
        }
    }
}
