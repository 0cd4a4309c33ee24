//! Finds a text that completes a document: the outline's guesses, then a search with the matcher.

use super::judge::ByteJudge;
use super::outline::Outline;

/// Steps between two looks at the outline's guesses.
const GUESSES_PER_LOOK: usize = 8;
/// States kept at once by the breadth-first search, and its depth in bytes.
const BREADTH: usize = 16;
const DEPTH: usize = 24;
/// Bytes between two such searches, and the fuel of each.
const STRIDE: usize = 8;
/// The longest text that a search writes in bytes: what a step of the matcher costs grows with the text.
const MAX_TEXT: usize = 16 << 10;
const MAX_NEAREST: usize = 200;

/// A text that completes the document of `judge`'s state, of which `partial` is the text so far:
/// the outline's guesses first, then a guided search. `fuel` bounds the questions to the judge. The
/// judge's state stays. `None` where no text was found.
pub(crate) fn find_tail(
    judge: &mut dyn ByteJudge,
    outline: Option<&Outline>,
    partial: &[u8],
    fuel: usize,
) -> Option<Vec<u8>> {
    if judge.is_complete() {
        return Some(Vec::new());
    }
    if let Some(tail) = guessed(judge, outline, partial, usize::MAX) {
        return Some(tail);
    }
    // Each preference finds what another one runs past for ever.
    let orders = [Order::Smallest, Order::Fresh, Order::Largest];
    orders.into_iter().find_map(|order| {
        let mut search = Search { judge, outline, partial, text: Vec::new(), fuel: fuel / 3, order };
        let found = search.run();
        let text = std::mem::take(&mut search.text);
        judge.pop(text.len());
        found.map(|rest| [text, rest].concat()).filter(|tail| judge.accepts(tail))
    })
}

fn guessed(
    judge: &mut dyn ByteJudge,
    outline: Option<&Outline>,
    partial: &[u8],
    count: usize,
) -> Option<Vec<u8>> {
    let guesses = outline?.closings(partial);
    guesses.into_iter().take(count).find(|guess| judge.accepts(guess))
}

/// Which of several allowed bytes comes first, behind those that close something.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Order {
    Smallest,
    /// Those used least often in this tail.
    Fresh,
    Largest,
}

struct Search<'s> {
    judge: &'s mut dyn ByteJudge,
    outline: Option<&'s Outline>,
    partial: &'s [u8],
    /// What has been pushed.
    text: Vec<u8>,
    fuel: usize,
    order: Order,
}

impl Search<'_> {
    /// Pushes byte after byte; gives what remains when the end is in sight.
    fn run(&mut self) -> Option<Vec<u8>> {
        let mut used = [0_u32; 256];
        while self.fuel > 0 && self.text.len() < MAX_TEXT {
            self.fuel -= 1;
            self.push_forced();
            if self.judge.is_complete() {
                return Some(Vec::new());
            }
            let document = [self.partial, &self.text].concat();
            if let Some(rest) = self.look(&document) {
                return Some(rest);
            }
            let in_text = self.outline.is_some() && is_in_text(&document);
            let is_due = self.text.len().is_multiple_of(STRIDE);
            if is_due
                && (in_text || self.outline.is_none())
                && let Some(rest) = self.nearest(in_text)
            {
                self.push_all(&rest);
                continue;
            }
            let byte = self.next(in_text, &used)?;
            used[usize::from(byte)] += 1;
            if !self.push_all(&[byte]) {
                return None;
            }
        }
        None
    }

    fn look(&mut self, document: &[u8]) -> Option<Vec<u8>> {
        if self.text.is_empty() {
            return None;
        }
        self.fuel = self.fuel.saturating_sub(1);
        guessed(self.judge, self.outline, document, GUESSES_PER_LOOK)
    }

    fn push_forced(&mut self) {
        loop {
            let mut forced = self.judge.forced();
            forced.truncate(MAX_TEXT.saturating_sub(self.text.len()));
            if forced.is_empty() || self.fuel == 0 {
                return;
            }
            self.fuel -= 1;
            if !self.push_all(&forced) {
                return;
            }
        }
    }

    fn push_all(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().all(|&byte| {
            let is_pushed = self.judge.push(byte);
            if is_pushed {
                self.text.push(byte);
            }
            is_pushed
        })
    }

    fn next(&mut self, in_text: bool, used: &[u32; 256]) -> Option<u8> {
        let allowed = self.judge.allowed();
        let closers: &[u8] = if in_text { b"\"" } else { b"}],:" };
        if self.outline.is_some()
            && let Some(&closer) = closers.iter().find(|&&byte| allowed[usize::from(byte)])
        {
            return Some(closer);
        }
        let bytes = (0..=255_u8).filter(|&byte| allowed[usize::from(byte)]);
        match self.order {
            Order::Smallest => bytes.min_by_key(|&byte| rank(byte)),
            Order::Largest => bytes.max_by_key(|&byte| (byte < 0x80, byte)),
            Order::Fresh => bytes.min_by_key(|&byte| (used[usize::from(byte)], rank(byte))),
        }
    }

    /// The shortest text to the end of the string, or of the document, by breadth: of each length
    /// the first few texts.
    fn nearest(&mut self, in_text: bool) -> Option<Vec<u8>> {
        let mut level: Vec<Vec<u8>> = vec![Vec::new()];
        // The rest is left to the other ways to go on.
        let reserve = self.fuel - (self.fuel / 4).min(MAX_NEAREST);
        for _ in 0..DEPTH {
            let mut next = Vec::new();
            for text in level {
                if self.fuel <= reserve {
                    return None;
                }
                self.fuel -= 1;
                let depth = text.iter().take_while(|&&byte| self.judge.push(byte)).count();
                let is_end = !in_text && self.judge.is_complete();
                let allowed = if is_end { [false; 256] } else { self.judge.allowed() };
                self.judge.pop(depth);
                if is_end {
                    return Some(text);
                }
                if in_text && allowed[usize::from(b'"')] {
                    return Some([text, b"\"".to_vec()].concat());
                }
                let samples = samples(&allowed).into_iter();
                next.extend(samples.map(|byte| [&text[..], &[byte]].concat()));
            }
            next.truncate(BREADTH);
            level = next;
        }
        None
    }
}

/// The allowed bytes, of digits and of letters only the first one.
fn samples(allowed: &[bool; 256]) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=255).filter(|&byte| allowed[usize::from(byte)]).collect();
    let closers = b"\"}])>.;\n";
    bytes.sort_by_key(|&byte| (!closers.contains(&byte), rank(byte)));
    let kinds: [fn(&u8) -> bool; 4] =
        [u8::is_ascii_digit, u8::is_ascii_lowercase, u8::is_ascii_uppercase, |byte| !byte.is_ascii()];
    let firsts = kinds.map(|is_kind| bytes.iter().copied().find(is_kind));
    bytes.retain(|byte| !kinds.iter().any(|is_kind| is_kind(byte)) || firsts.contains(&Some(*byte)));
    bytes
}

/// Readable bytes first; those that open something, and an escape's backslash, last.
fn rank(byte: u8) -> (u8, u8) {
    let kind = match byte {
        b'\\' => 3,
        b'{' | b'[' | b'"' => 1,
        b' '..=b'~' => 0,
        _ => 2,
    };
    (kind, byte)
}

/// Whether a document cut here is cut inside a string.
pub(super) fn is_in_text(document: &[u8]) -> bool {
    let mut in_text = false;
    let mut bytes = document.iter();
    while let Some(byte) = bytes.next() {
        match byte {
            b'"' => in_text = !in_text,
            b'\\' if in_text => {
                bytes.next();
            }
            _ => {}
        }
    }
    in_text
}
