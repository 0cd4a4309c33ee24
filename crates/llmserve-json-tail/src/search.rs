//! Finds a text that completes a document: the outline's guesses, then a search with the matcher.

use super::judge::ByteJudge;
use super::nearest::{Nearest, rank};
use super::walk::Walk;

/// Steps between two looks at the outline's guesses.
const GUESSES_PER_LOOK: usize = 8;
/// Bytes between two searches for a shortest end.
const STRIDE: usize = 8;
/// Maximum length in bytes of a text that a search writes: the cost of a step of the matcher grows with the text.
const MAX_TEXT: usize = 16 << 10;

/// A text that completes the document of `judge`'s state, which `walk` has followed: the outline's guesses
/// first, then a search to its end. `fuel` bounds the questions to the judge, `goes_on` says whether to go on
/// asking. The states stay. `None` if no text was found.
pub fn find_tail(
    judge: &mut dyn ByteJudge,
    mut walk: Option<&mut Walk>,
    fuel: usize,
    goes_on: &mut dyn FnMut() -> bool,
) -> Option<Vec<u8>> {
    if judge.is_complete() {
        return Some(Vec::new());
    }
    if let Some(tail) = guessed(judge, walk.as_deref_mut(), usize::MAX) {
        return Some(tail);
    }
    let mut search = Search::new(fuel);
    match search.advance(judge, walk.as_deref_mut(), goes_on) {
        Progress::Found(tail) => Some(tail),
        Progress::Nothing => None,
        Progress::Paused => {
            search.unwind(judge, walk);
            None
        }
    }
}

fn guessed(judge: &mut dyn ByteJudge, walk: Option<&mut Walk>, count: usize) -> Option<Vec<u8>> {
    let guesses = walk?.closings();
    guesses.into_iter().take(count).find(|guess| judge.accepts(guess))
}

/// Which of several allowed bytes comes first, behind those that close something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Smallest,
    /// Members used least often in this tail first.
    Fresh,
    Largest,
}

/// A search for a tail, beyond the guesses, which can pause and go on.
#[derive(Debug)]
pub struct Search {
    /// The orders to be tried: each finds what another one runs past for ever.
    orders: Vec<Order>,
    /// Fuel of each.
    share: usize,
    fuel: usize,
    /// The bytes that have been pushed.
    text: Vec<u8>,
    used: [u32; 256],
    nearest: Option<Nearest>,
}

/// How far a search has come.
#[derive(Debug, PartialEq, Eq)]
pub enum Progress {
    /// A text that completes the document.
    Found(Vec<u8>),
    /// All ways were tried in vain.
    Nothing,
    /// The search may go on. Until then judge and walk are not where they were.
    Paused,
}

/// What one step of a search came to.
pub(super) enum Step {
    GoesOn,
    Found(Vec<u8>),
    Ends,
}

impl Search {
    /// `fuel` bounds the questions to the judge.
    #[must_use]
    pub fn new(fuel: usize) -> Self {
        let orders = vec![Order::Largest, Order::Fresh, Order::Smallest];
        let share = fuel / orders.len();
        Self { orders, share, fuel: share, text: Vec::new(), used: [0; 256], nearest: None }
    }

    /// Goes on while `goes_on` says so. The judge and the walk, where there is one, are those of a first
    /// call, and were not used since. Unless the search paused they are where they were then.
    pub fn advance(
        &mut self,
        judge: &mut dyn ByteJudge,
        mut walk: Option<&mut Walk>,
        goes_on: &mut dyn FnMut() -> bool,
    ) -> Progress {
        while let Some(&order) = self.orders.last() {
            if !goes_on() {
                return Progress::Paused;
            }
            let rest = match self.step(order, judge, walk.as_deref_mut()) {
                Step::GoesOn => continue,
                Step::Found(rest) => Some(rest),
                Step::Ends => None,
            };
            let tail = rest.map(|rest| [&self.text[..], &rest].concat());
            self.unwind(judge, walk.as_deref_mut());
            self.orders.pop();
            self.fuel = self.share;
            self.used = [0; 256];
            let mut is_spoiled = |tail: &[u8]| walk.as_deref_mut().is_some_and(|walk| walk.spoils(tail));
            if let Some(tail) = tail.filter(|tail| judge.accepts(tail) && !is_spoiled(tail)) {
                return Progress::Found(tail);
            }
        }
        Progress::Nothing
    }

    /// Brings judge and walk back to where the search began.
    pub fn unwind(&mut self, judge: &mut dyn ByteJudge, walk: Option<&mut Walk>) {
        let n = self.text.len();
        self.text.clear();
        self.nearest = None;
        judge.pop(n);
        if let Some(walk) = walk {
            walk.rollback(n);
        }
    }

    /// Pushes some bytes, or sees the end.
    fn step(&mut self, order: Order, judge: &mut dyn ByteJudge, mut walk: Option<&mut Walk>) -> Step {
        let in_text = walk.as_ref().is_some_and(|walk| walk.is_in_text());
        if let Some(nearest) = &mut self.nearest {
            match nearest.step(judge, in_text, &mut self.fuel) {
                Step::GoesOn => return Step::GoesOn,
                Step::Found(rest) => {
                    self.nearest = None;
                    self.push_all(&rest, judge, walk);
                    return Step::GoesOn;
                }
                Step::Ends => self.nearest = None,
            }
            return self.push_next(order, judge, walk);
        }
        if self.fuel == 0 || self.text.len() >= MAX_TEXT {
            return Step::Ends;
        }
        self.fuel -= 1;
        self.push_forced(judge, walk.as_deref_mut());
        if judge.is_complete() {
            return Step::Found(Vec::new());
        }
        if !self.text.is_empty() {
            self.fuel = self.fuel.saturating_sub(1);
            if let Some(rest) = guessed(judge, walk.as_deref_mut(), GUESSES_PER_LOOK) {
                return Step::Found(rest);
            }
        }
        let in_text = walk.as_ref().is_none_or(|walk| walk.is_in_text());
        if self.text.len().is_multiple_of(STRIDE) && in_text {
            self.nearest = Some(Nearest::new(self.fuel));
            return Step::GoesOn;
        }
        self.push_next(order, judge, walk)
    }

    fn push_next(&mut self, order: Order, judge: &mut dyn ByteJudge, walk: Option<&mut Walk>) -> Step {
        let Some(byte) = self.next(order, judge, walk.as_deref()) else { return Step::Ends };
        self.used[usize::from(byte)] += 1;
        if self.push_all(&[byte], judge, walk) { Step::GoesOn } else { Step::Ends }
    }

    fn push_forced(&mut self, judge: &mut dyn ByteJudge, mut walk: Option<&mut Walk>) {
        loop {
            let mut forced = judge.forced();
            forced.truncate(MAX_TEXT.saturating_sub(self.text.len()));
            if forced.is_empty() || self.fuel == 0 {
                return;
            }
            self.fuel -= 1;
            if !self.push_all(&forced, judge, walk.as_deref_mut()) {
                return;
            }
        }
    }

    fn push_all(&mut self, bytes: &[u8], judge: &mut dyn ByteJudge, mut walk: Option<&mut Walk>) -> bool {
        bytes.iter().all(|&byte| {
            let is_pushed = judge.push(byte);
            if is_pushed {
                self.text.push(byte);
                if let Some(walk) = walk.as_deref_mut() {
                    walk.feed(&[byte]);
                }
            }
            is_pushed
        })
    }

    fn next(&self, order: Order, judge: &mut dyn ByteJudge, walk: Option<&Walk>) -> Option<u8> {
        let allowed = judge.allowed();
        let closers: &[u8] = match walk {
            Some(walk) if walk.is_in_text() => b"\"",
            Some(_) => b"}],:",
            // Most grammars nest in these.
            None if order == Order::Smallest => b")]}>",
            None => b"",
        };
        if let Some(&closer) = closers.iter().find(|&&byte| allowed[usize::from(byte)]) {
            return Some(closer);
        }
        let bytes = (0..=255_u8).filter(|&byte| allowed[usize::from(byte)]);
        match order {
            Order::Smallest => bytes.min_by_key(|&byte| rank(byte)),
            Order::Largest => bytes.max_by_key(|&byte| (byte < 0x80, byte)),
            Order::Fresh => bytes.min_by_key(|&byte| (self.used[usize::from(byte)], rank(byte))),
        }
    }
}
