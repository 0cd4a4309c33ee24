//! A search by length for the shortest text to the end of the string, or of the document. Of each length it goes on
//! from the texts after which the fewest bytes may come: they are the most likely to lead to an end.

use super::judge::ByteJudge;
use super::search::Step;

/// Maximum number of texts of one length that the search for the shortest goes on from, and its depth in bytes.
const BREADTH: usize = 16;
const DEPTH: usize = 24;
/// After two texts the same bytes may come. If there are more than this many, the rest is hardly different either.
const FEW_BYTES: usize = 16;
/// The most fuel of one search.
const MAX_FUEL: usize = 250;

/// What was looked at so far.
#[derive(Debug)]
pub(super) struct Nearest {
    /// Texts of one length that are still to be looked at, the last one first.
    level: Vec<Vec<u8>>,
    /// Those that were looked at.
    places: Vec<Place>,
    depth: usize,
    /// The fuel that is left to the other continuations.
    reserve: usize,
}

/// A text, and what may come after it.
#[derive(Debug)]
struct Place {
    text: Vec<u8>,
    allowed: [bool; 256],
}

impl Place {
    fn num_allowed(&self) -> usize {
        self.allowed.iter().filter(|is_allowed| **is_allowed).count()
    }
}

impl Nearest {
    pub(super) fn new(fuel: usize) -> Self {
        let reserve = fuel - (fuel / 4).min(MAX_FUEL);
        Self { level: vec![Vec::new()], places: Vec::new(), depth: 0, reserve }
    }

    pub(super) fn step(&mut self, judge: &mut dyn ByteJudge, in_text: bool, fuel: &mut usize) -> Step {
        let Some(text) = self.level.pop() else {
            self.lengthen();
            return if self.depth < DEPTH && !self.level.is_empty() { Step::GoesOn } else { Step::Ends };
        };
        if *fuel <= self.reserve {
            return Step::Ends;
        }
        *fuel -= 1;
        let depth = text.iter().take_while(|&&byte| judge.push(byte)).count();
        let is_end = !in_text && judge.is_complete();
        let allowed = if is_end { [false; 256] } else { judge.allowed() };
        judge.pop(depth);
        if is_end {
            return Step::Found(text);
        }
        if in_text && allowed[usize::from(b'"')] {
            return Step::Found([text, b"\"".to_vec()].concat());
        }
        let place = Place { text, allowed };
        let num_alike = self.places.iter().filter(|other| other.allowed == allowed).count();
        if num_alike == 0 || num_alike == 1 && place.num_allowed() <= FEW_BYTES {
            self.places.push(place);
        }
        Step::GoesOn
    }

    /// Goes on to texts that are one byte longer.
    fn lengthen(&mut self) {
        self.depth += 1;
        self.places.sort_by_key(Place::num_allowed);
        for Place { text, allowed } in self.places.drain(..).take(BREADTH) {
            let longer = samples(&allowed).into_iter().map(|byte| [&text[..], &[byte]].concat());
            self.level.extend(longer);
        }
        self.level.reverse();
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
pub(super) fn rank(byte: u8) -> (u8, u8) {
    let kind = match byte {
        b'\\' => 3,
        b'{' | b'[' | b'"' => 1,
        b' '..=b'~' => 0,
        _ => 2,
    };
    (kind, byte)
}
