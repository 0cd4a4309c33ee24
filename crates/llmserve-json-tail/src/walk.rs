//! Follows a document that is being written through the schema.
//!
//! Where branches could each have begun this way, one thread follows each.

use std::ops::Range;
use std::sync::Arc;

use super::number::is_spoiled;
use super::outline::Outline;
use super::quoting::Content;
use super::scan::{Part, Scanner};
use super::threads::{Event, Expect, Follower, Frame, FrameId, Thread};

/// A document that is being written, and all ways to read it.
///
/// What a step costs does not grow with the document: the walk moves on with each piece of text, and
/// keeps what it takes to go back.
#[derive(Debug)]
pub struct Walk {
    pub(super) outline: Arc<Outline>,
    text: Vec<u8>,
    /// All arrays and objects of all threads in all their states; threads point into it.
    frames: Vec<Frame>,
    now: Moment,
    /// The moment before each piece of text.
    before: Vec<Moment>,
    /// The content of the open string from its byte `content_start` on.
    content: Content,
    content_start: usize,
}

/// The state that is restored when text is taken back.
#[derive(Debug, Clone)]
struct Moment {
    len: usize,
    scanner: Scanner,
    /// Where the token that is open begins; a string behind its quote.
    token: usize,
    depth: usize,
    num_frames: usize,
    threads: Arc<[Thread]>,
    is_spoiled: bool,
}

impl Walk {
    /// A walk at the beginning of a document.
    #[must_use]
    pub fn new(outline: Arc<Outline>) -> Self {
        let now = Moment {
            len: 0,
            scanner: Scanner::default(),
            token: 0,
            depth: 0,
            num_frames: 0,
            threads: Arc::new([Thread { top: None, expect: Expect::Value(0) }]),
            is_spoiled: false,
        };
        Self {
            outline,
            text: Vec::new(),
            frames: Vec::new(),
            now,
            before: Vec::new(),
            content: Content::default(),
            content_start: 0,
        }
    }

    /// Advances by a piece of text.
    pub fn feed(&mut self, piece: &[u8]) {
        self.before.push(self.now.clone());
        for &byte in piece {
            self.feed_byte(byte);
        }
        self.now.len = self.text.len();
        self.now.num_frames = self.frames.len();
    }

    /// Takes the last `n` pieces back, or all if there are fewer.
    pub fn rollback(&mut self, n: usize) {
        let left = self.before.len().saturating_sub(n);
        let Some(then) = self.before.drain(left..).next() else { return };
        self.text.truncate(then.len);
        self.frames.truncate(then.num_frames);
        self.now = then;
        if self.content_start + self.content.num_raw > self.text.len() {
            self.content = Content::default();
        }
    }

    /// The text so far.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// How many pieces the text was fed in.
    #[must_use]
    pub fn num_pieces(&self) -> usize {
        self.before.len()
    }

    /// Whether the text ends inside a string.
    #[must_use]
    pub fn is_in_text(&self) -> bool {
        matches!(self.now.scanner, Scanner::Text { .. })
    }

    /// Number of bytes of the number at the end of the text.
    #[must_use]
    pub fn number_len(&self) -> usize {
        if self.now.scanner == Scanner::Number { self.token().len() } else { 0 }
    }

    /// Number of open arrays and objects.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.now.depth
    }

    /// Whether after `piece` no text can make the document valid any more, though a grammar may allow
    /// it: a number beyond a double's range, or one too long for an exact `multipleOf`, or an object
    /// whose members are too few since a name came twice, or an item that came before in an array of unique
    /// ones. Such a piece should not be taken.
    pub fn spoils(&mut self, piece: &[u8]) -> bool {
        let was_spoiled = self.now.is_spoiled;
        self.feed(piece);
        let in_number = self.now.scanner == Scanner::Number;
        let is_spoiled =
            !was_spoiled && self.now.is_spoiled || in_number && self.is_spoiled_number(self.text.len());
        self.rollback(1);
        is_spoiled
    }

    /// The bytes of the open token; for a string, those after the quote.
    pub(super) fn token(&self) -> &[u8] {
        if self.now.scanner == Scanner::Between { &[] } else { &self.text[self.now.token..] }
    }

    pub(super) fn scanner(&self) -> Scanner {
        self.now.scanner
    }

    pub(super) fn threads(&self) -> Arc<[Thread]> {
        Arc::clone(&self.now.threads)
    }

    pub(super) fn frame(&self, id: FrameId) -> &Frame {
        &self.frames[id]
    }

    pub(super) fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The content of the open string so far; taken out for use, to be put back.
    pub(super) fn take_content(&mut self) -> Content {
        if !self.is_in_text() {
            return Content::default();
        }
        self.follow_content(self.text.len());
        std::mem::take(&mut self.content)
    }

    pub(super) fn put_content(&mut self, content: Content) {
        if self.is_in_text() {
            self.content = content;
        }
    }

    /// Follows the open string up to the byte at `end`.
    fn follow_content(&mut self, end: usize) {
        if self.content_start != self.now.token {
            self.content = Content::default();
            self.content_start = self.now.token;
        }
        self.content.feed(&self.text[self.now.token + self.content.num_raw..end]);
    }

    fn feed_byte(&mut self, byte: u8) {
        let at = self.text.len();
        self.text.push(byte);
        let was = self.now.scanner;
        let step = self.now.scanner.step(byte);
        if step.ends_number {
            self.now.is_spoiled |= self.is_spoiled_number(at);
            self.follow(Event::Number, self.now.token..at);
        }
        match step.part {
            Part::Space | Part::Inside => {}
            Part::Begin => self.now.token = at + usize::from(byte == b'"'),
            Part::End if matches!(was, Scanner::Text { .. }) => {
                self.follow_content(at);
                self.follow(Event::Text, self.now.token..at);
            }
            Part::End => self.follow(Event::Word, self.now.token..at + 1),
            Part::Mark => self.mark(byte),
        }
    }

    fn mark(&mut self, byte: u8) {
        let event = match byte {
            b'{' => Event::OpenRecord,
            b'[' => Event::OpenList,
            b',' => Event::Comma,
            b':' => Event::Colon,
            _ => Event::Close,
        };
        self.now.depth += usize::from(matches!(event, Event::OpenList | Event::OpenRecord));
        self.now.depth = self.now.depth.saturating_sub(usize::from(event == Event::Close));
        let had_threads = !self.now.threads.is_empty();
        self.follow(event, 0..0);
        if byte == b'}' && had_threads && self.now.threads.is_empty() {
            self.now.is_spoiled |= self.outline.has_minimum();
        }
    }

    fn is_spoiled_number(&self, end: usize) -> bool {
        is_spoiled(str_of(&self.text[self.now.token..end]), self.outline.has_multiples())
    }

    /// Leads all threads on by one event; a scalar's bytes are `token`.
    fn follow(&mut self, event: Event, token: Range<usize>) {
        let mut follower = Follower {
            outline: &self.outline,
            frames: &mut self.frames,
            content: &mut self.content,
            event,
            // With the quotes, as names are kept.
            quoted: self.text.get(token.start.wrapping_sub(1)..=token.end).unwrap_or_default(),
            token: str_of(&self.text[token]),
            text: &self.text,
            had_repetition: false,
        };
        self.now.threads = follower.lead(&self.now.threads);
        self.now.is_spoiled |= follower.had_repetition && self.now.threads.is_empty();
    }
}

fn str_of(text: &[u8]) -> &str {
    std::str::from_utf8(text).unwrap_or_default()
}
