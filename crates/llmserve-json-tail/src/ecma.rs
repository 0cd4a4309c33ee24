//! Patterns as they are written without ECMA-262's flag `u`: some characters stand for themselves where a stricter
//! parser expects an operator.

use std::iter::Peekable;
use std::str::Chars;

/// The same pattern for a strict parser: braces that count nothing and hyphens beside a class are quoted.
pub(super) fn strict(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut chars = pattern.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '\\' => {
                let next = chars.next();
                out.push('\\');
                out.extend(next);
                // `\u{...}` and `\p{...}` are no counts.
                if matches!(next, Some('u' | 'p' | 'P' | 'x')) && chars.peek() == Some(&'{') {
                    out.extend(chars.next());
                }
            }
            '[' => {
                out.push('[');
                class(&mut chars, &mut out);
            }
            '{' if !is_count(chars.clone()) => out.push_str("\\{"),
            _ => out.push(c),
        }
    }
    out
}

/// The rest of a class in brackets.
fn class(chars: &mut Peekable<Chars<'_>>, out: &mut String) {
    let mut after_class = false;
    while let Some(c) = chars.next() {
        let was_after_class = std::mem::take(&mut after_class);
        match c {
            ']' => {
                out.push(']');
                return;
            }
            '\\' => {
                let next = chars.next();
                out.push('\\');
                out.extend(next);
                after_class = next.is_some_and(|next| "dDwWsS".contains(next));
            }
            '-' if chars.peek() != Some(&']') && (was_after_class || begins_class(chars.clone())) => {
                out.push_str("\\-");
            }
            _ => out.push(c),
        }
    }
}

fn begins_class(mut rest: impl Iterator<Item = char>) -> bool {
    rest.next() == Some('\\') && rest.next().is_some_and(|next| "dDwWsS".contains(next))
}

/// Whether a brace that was opened begins a quantifier.
fn is_count(rest: impl Iterator<Item = char>) -> bool {
    let inner: String = rest.take_while(|c| c.is_ascii_digit() || matches!(c, ',' | '}')).collect();
    let Some((count, _)) = inner.split_once('}') else { return false };
    let (least, most) = count.split_once(',').unwrap_or((count, ""));
    let is_number = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    !least.is_empty() && is_number(least) && is_number(most)
}

#[cfg(test)]
mod tests {
    use super::strict;

    #[test]
    fn characters_that_stand_for_themselves_are_quoted() {
        for (pattern, expected) in [
            (r"^\${.*?}$", r"^\$\{.*?}$"),
            (r"^\${{\s*if}}$", r"^\$\{\{\s*if}}$"),
            (r"^[\w-_.]+/[a-z]{1,3}$", r"^[\w\-_.]+/[a-z]{1,3}$"),
            (r"[_-\d-]{2}{x}", r"[_\-\d-]{2}\{x}"),
            (r"\u{1f600}\{a\}[{}]a{,3}b{4,}", r"\u{1f600}\{a\}[{}]a\{,3}b{4,}"),
        ] {
            assert_eq!(strict(pattern), expected);
        }
    }
}
