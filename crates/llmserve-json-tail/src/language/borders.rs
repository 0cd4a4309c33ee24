//! Word boundaries and look-aheads for one character, taken out by what may stand at either side of them: the
//! expression stays as short as it was, where an automaton would count its repetitions out.

use regex_syntax::hir::{Class, ClassUnicode, ClassUnicodeRange, Dot, Hir, HirKind, Look, Repetition};

use super::super::pattern::parse;
use super::expression::{character, class};
use super::lookahead::{closing, has_branches, is_quantified, outermost};

/// A pattern of which one look-ahead, outside all groups, is for one character; `None` if it is another.
pub(super) fn without_lookahead(pattern: &str) -> Option<String> {
    let begin = outermost(pattern)?;
    let ahead = &pattern[begin..];
    let end = closing(ahead)?;
    let (left, right) = (&pattern[..begin], &ahead[end + 1..]);
    if has_branches(left) || has_branches(right) || is_quantified(right) {
        return None;
    }
    let (is_there, one) = match ahead.split_at_checked(3)? {
        ("(?=", _) => (true, &ahead[3..end]),
        ("(?!", _) => (false, &ahead[3..end]),
        _ => return None,
    };
    let mut next = Next { class: one_character(&parse(one).ok()?)?, or_none: !is_there };
    if !is_there {
        next.class.negate();
    }
    let mut whole = from_begin(parts(&parse(left).ok()?));
    let after = next.after(&to_end(parts(&parse(right).ok()?)))?;
    if is_fail(&after) {
        return None;
    }
    whole.push(after);
    written(&Hir::concat(whole))
}

/// A pattern with one word boundary, outside all groups. Beside it there are ASCII's characters only, as the
/// automata have it.
pub(super) fn without_boundary(pattern: &str) -> Option<String> {
    let parts = to_end(from_begin(parts(&parse(pattern).ok()?)));
    let is_boundary = |part: &Hir| matches!(part.kind(), HirKind::Look(Look::WordUnicode | Look::WordAscii));
    let at = parts.iter().position(is_boundary)?;
    let (left, right) = (&parts[..at], &parts[at + 1..]);
    let range = |(first, last): (char, char)| ClassUnicodeRange::new(first, last);
    let word = ClassUnicode::new([('0', '9'), ('A', 'Z'), ('_', '_'), ('a', 'z')].map(range));
    let mut others = ClassUnicode::new([range(('\0', '\x7f'))]);
    others.difference(&word);
    let word = Next { class: word, or_none: false };
    let other = Next { class: others, or_none: true };
    let ways = [(&word, &other), (&other, &word)];
    let ways = ways.map(|(before, after)| {
        let (before, after) = (before.before(left)?, after.after(right)?);
        let is_none = is_fail(&before) || is_fail(&after);
        Some(if is_none { Hir::fail() } else { Hir::concat(vec![before, after]) })
    });
    written(&any_of(ways.into_iter().collect::<Option<_>>()?))
}

/// Which character may come next, or that none may.
struct Next {
    class: ClassUnicode,
    or_none: bool,
}

/// The end of a text at which it is looked.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    First,
    Last,
}

impl Next {
    /// The texts of `parts` that begin so.
    fn after(&self, parts: &[Hir]) -> Option<Hir> {
        self.at(Side::First, &Hir::concat(parts.to_vec()))
    }

    /// The texts of `parts` that end so.
    fn before(&self, parts: &[Hir]) -> Option<Hir> {
        self.at(Side::Last, &Hir::concat(parts.to_vec()))
    }

    fn at(&self, side: Side, expression: &Hir) -> Option<Hir> {
        let some = self.some(side, expression)?;
        let may_be_none = self.or_none && is_nullable(expression);
        Some(if may_be_none { any_of(vec![some, Hir::empty()]) } else { some })
    }

    /// The texts that are not empty and have one of the characters at `side`.
    fn some(&self, side: Side, expression: &Hir) -> Option<Hir> {
        Some(match expression.kind() {
            HirKind::Empty => Hir::fail(),
            HirKind::Literal(literal) => {
                let text = std::str::from_utf8(&literal.0).ok()?;
                let c = if side == Side::First { text.chars().next() } else { text.chars().next_back() }?;
                let is_in = self.class.iter().any(|range| range.start() <= c && c <= range.end());
                if is_in { expression.clone() } else { Hir::fail() }
            }
            HirKind::Class(Class::Unicode(class)) => {
                let mut both = class.clone();
                both.intersect(&self.class);
                Hir::class(Class::Unicode(both))
            }
            HirKind::Repetition(repetition) if repetition.max == Some(0) => Hir::fail(),
            HirKind::Repetition(repetition) => {
                let one = self.some(side, &repetition.sub)?;
                if is_fail(&one) {
                    return Some(one);
                }
                let others = Hir::repetition(Repetition {
                    min: repetition.min.saturating_sub(1),
                    max: repetition.max.map(|max| max - 1),
                    ..repetition.clone()
                });
                Hir::concat(if side == Side::First { vec![one, others] } else { vec![others, one] })
            }
            HirKind::Capture(capture) => self.some(side, &capture.sub)?,
            HirKind::Alternation(branches) => {
                any_of(branches.iter().map(|branch| self.some(side, branch)).collect::<Option<_>>()?)
            }
            HirKind::Concat(parts) => self.some_of(side, parts)?,
            HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => return None,
        })
    }

    /// The outermost part that is not empty has the character; those beyond it are empty.
    fn some_of(&self, side: Side, parts: &[Hir]) -> Option<Hir> {
        let mut ways = Vec::new();
        let mut left = parts;
        loop {
            let (outermost, inner) = match side {
                Side::First => left.split_first()?,
                Side::Last => left.split_last()?,
            };
            let one = self.some(side, outermost)?;
            if !is_fail(&one) {
                let mut way = inner.to_vec();
                way.insert(if side == Side::First { 0 } else { inner.len() }, one);
                ways.push(Hir::concat(way));
            }
            if !is_nullable(outermost) || inner.is_empty() {
                return Some(any_of(ways));
            }
            left = inner;
        }
    }
}

fn is_fail(expression: &Hir) -> bool {
    matches!(expression.kind(), HirKind::Class(class) if class.is_empty())
}

fn any_of(mut branches: Vec<Hir>) -> Hir {
    branches.retain(|branch| !is_fail(branch));
    Hir::alternation(branches)
}

fn is_nullable(expression: &Hir) -> bool {
    expression.properties().minimum_len() == Some(0)
}

/// The characters of an expression that matches single ones.
fn one_character(expression: &Hir) -> Option<ClassUnicode> {
    match expression.kind() {
        HirKind::Class(Class::Unicode(class)) => Some(class.clone()),
        HirKind::Literal(literal) => {
            let mut chars = std::str::from_utf8(&literal.0).ok()?.chars();
            let c = chars.next().filter(|_| chars.as_str().is_empty())?;
            Some(ClassUnicode::new([ClassUnicodeRange::new(c, c)]))
        }
        _ => None,
    }
}

fn parts(expression: &Hir) -> Vec<Hir> {
    match expression.kind() {
        HirKind::Concat(parts) => parts.clone(),
        HirKind::Empty => Vec::new(),
        _ => vec![expression.clone()],
    }
}

/// The parts from the beginning of the text on.
fn from_begin(mut parts: Vec<Hir>) -> Vec<Hir> {
    match parts.first().map(Hir::kind) {
        Some(HirKind::Look(Look::Start)) => _ = parts.remove(0),
        _ => parts.insert(0, anything()),
    }
    parts
}

/// The parts up to the end of the text.
fn to_end(mut parts: Vec<Hir>) -> Vec<Hir> {
    match parts.last().map(Hir::kind) {
        Some(HirKind::Look(Look::End)) => _ = parts.pop(),
        _ => parts.push(anything()),
    }
    parts
}

fn anything() -> Hir {
    let any = Box::new(Hir::dot(Dot::AnyChar));
    Hir::repetition(Repetition { min: 0, max: None, greedy: true, sub: any })
}

/// A pattern for exactly these texts; `None` if the expression looks around, or has none.
fn written(expression: &Hir) -> Option<String> {
    if is_fail(expression) {
        return None;
    }
    let mut out = String::from("^(?:");
    write(expression, &mut out)?;
    out.push_str(")$");
    Some(out)
}

fn write(expression: &Hir, out: &mut String) -> Option<()> {
    match expression.kind() {
        HirKind::Empty => {}
        HirKind::Literal(literal) => {
            std::str::from_utf8(&literal.0).ok()?.chars().for_each(|c| out.push_str(&character(c)));
        }
        HirKind::Class(Class::Unicode(ranges)) => {
            out.push_str(&class(ranges.iter().map(|range| (range.start(), range.end())))?.text);
        }
        HirKind::Repetition(repetition) => {
            in_brackets(&repetition.sub, out)?;
            let max = repetition.max.map_or_else(String::new, |max| max.to_string());
            out.push_str(&format!("{{{},{max}}}", repetition.min));
        }
        HirKind::Capture(capture) => in_brackets(&capture.sub, out)?,
        HirKind::Concat(parts) => parts.iter().try_for_each(|part| match part.kind() {
            HirKind::Alternation(_) => in_brackets(part, out),
            _ => write(part, out),
        })?,
        HirKind::Alternation(branches) => {
            for (place, branch) in branches.iter().enumerate() {
                if place > 0 {
                    out.push('|');
                }
                write(branch, out)?;
            }
        }
        HirKind::Class(Class::Bytes(_)) | HirKind::Look(_) => return None,
    }
    Some(())
}

fn in_brackets(expression: &Hir, out: &mut String) -> Option<()> {
    out.push_str("(?:");
    write(expression, out)?;
    out.push(')');
    Some(())
}

#[cfg(test)]
mod tests {
    use super::super::super::automaton::Automaton;
    use super::*;

    #[test]
    fn a_look_ahead_for_one_character_is_taken_out() {
        for (pattern, texts, others) in [
            ("^(?!-)[-a-z]{0,3}[a-z]$", &["a", "b--c"][..], &["-a", "", "a-"][..]),
            ("^(.*?)\\swarn(?=\\s)(.*?)per$", &["a warn per", " warn\tsuper"], &["a warnper", "a warn"]),
            ("a(?![b-dx])", &["a", "aax", "abae"], &["ab", "acad"]),
            ("^a(?=[bc])b?c?d?$", &["abcd", "ac"], &["a", "ad"]),
        ] {
            let table = Automaton::of_search(&without_lookahead(pattern).unwrap()).unwrap();
            for (text, matches) in
                texts.iter().map(|text| (text, true)).chain(others.iter().map(|text| (text, false)))
            {
                assert_eq!(table.matches(text), matches, "{pattern} {text}");
            }
        }
        for pattern in ["^(?!ab)a", "^(a(?=b))b", "^(?<!a)b", "^(?!a)*b", "a|(?=b)b", "^a(?=b)$"] {
            assert_eq!(without_lookahead(pattern), None, "{pattern}");
        }
    }

    #[test]
    fn a_word_boundary_is_taken_out() {
        for pattern in ["^[a-]{1,2}\\b([-b]*)$", "a\\b", "\\b-?a", "^(a|-)\\b(a|-)?$", "a\\b$"] {
            let plain = Automaton::of_search(&without_boundary(pattern).unwrap()).unwrap();
            let sent = Automaton::of_search(pattern).unwrap();
            for text in ["", "a", "-", "a-", "-a", "aa", "a-b", "--b", "-b", "ab", "b", "a--", " a ", "aab"] {
                assert_eq!(plain.matches(text), sent.matches(text), "{pattern} {text:?}");
            }
        }
        assert_eq!(without_boundary("(a\\b)+"), None);
        assert_eq!(without_boundary("\\ba\\b"), None);
    }
}
