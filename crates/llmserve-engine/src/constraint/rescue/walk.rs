//! Follows a document that is being written through the schema.
//!
//! Where branches could each have begun this way, one thread follows each.

use super::members::State;
use super::outline::Outline;
use super::quoting::decode;
use super::shape::{Extra, List, NodeId, Record, Shape};

/// Threads that are followed at once; a document that leaves more open is followed by the first.
const MAX_THREADS: usize = 256;

/// A partial document and all ways to read it.
#[derive(Debug)]
pub(super) struct Walk<'o> {
    pub(super) outline: &'o Outline,
    pub(super) threads: Vec<Thread<'o>>,
    pub(super) mode: Mode,
    /// The bytes of the token that is not whole yet; of strings what is behind the quote.
    pub(super) token: Vec<u8>,
}

/// Where in a token the document ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Between,
    Text { is_escaped: bool },
    Number,
    Word,
}

/// One way to read the document.
#[derive(Debug, Clone)]
pub(super) struct Thread<'o> {
    pub(super) frames: Vec<Frame<'o>>,
    pub(super) expect: Expect,
}

/// An array or object that is open.
#[derive(Debug, Clone)]
pub(super) enum Frame<'o> {
    List { list: &'o List, count: usize },
    Record { record: &'o Record, state: State },
}

/// What may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Value(NodeId),
    /// The same, or the end of the array.
    FirstItem(NodeId),
    /// A member, or the end of the object.
    FirstKey,
    Key,
    Colon(NodeId),
    /// A comma, or the end of what is open.
    Next,
}

#[derive(Clone, Copy)]
enum Event<'t> {
    OpenList,
    OpenRecord,
    Close,
    Comma,
    Colon,
    Text(&'t [u8]),
    Number(&'t str),
    Word(&'t str),
}

impl<'o> Walk<'o> {
    pub(super) fn new(outline: &'o Outline) -> Self {
        let thread = Thread { frames: Vec::new(), expect: Expect::Value(0) };
        Self { outline, threads: vec![thread], mode: Mode::Between, token: Vec::new() }
    }

    pub(super) fn feed(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.feed_byte(byte);
        }
    }

    fn feed_byte(&mut self, byte: u8) {
        match self.mode {
            Mode::Between => self.begin(byte),
            Mode::Text { is_escaped: false } if byte == b'"' => self.finish(),
            Mode::Text { is_escaped } => {
                self.token.push(byte);
                self.mode = Mode::Text { is_escaped: !is_escaped && byte == b'\\' };
            }
            Mode::Number if matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E' | b'+' | b'-') => {
                self.token.push(byte);
            }
            Mode::Number => {
                self.finish();
                self.begin(byte);
            }
            Mode::Word => {
                self.token.push(byte);
                if matches!(&self.token[..], b"true" | b"false" | b"null") {
                    self.finish();
                }
            }
        }
    }

    fn begin(&mut self, byte: u8) {
        match byte {
            b'{' => self.advance(Event::OpenRecord),
            b'[' => self.advance(Event::OpenList),
            b'}' | b']' => self.advance(Event::Close),
            b',' => self.advance(Event::Comma),
            b':' => self.advance(Event::Colon),
            b'"' => self.mode = Mode::Text { is_escaped: false },
            b'-' | b'0'..=b'9' => {
                self.mode = Mode::Number;
                self.token.push(byte);
            }
            b' ' | b'\t' | b'\n' | b'\r' => {}
            _ => {
                self.mode = Mode::Word;
                self.token.push(byte);
            }
        }
    }

    /// Ends the token that is being read.
    fn finish(&mut self) {
        let token = std::mem::take(&mut self.token);
        let text = std::str::from_utf8(&token).unwrap_or_default();
        match std::mem::replace(&mut self.mode, Mode::Between) {
            Mode::Text { .. } => self.advance(Event::Text(&token)),
            Mode::Number => self.advance(Event::Number(text)),
            Mode::Word => self.advance(Event::Word(text)),
            Mode::Between => {}
        }
    }

    fn advance(&mut self, event: Event<'_>) {
        let mut next = Vec::new();
        for thread in std::mem::take(&mut self.threads) {
            thread.apply(self.outline, event, &mut next);
            if next.len() >= MAX_THREADS {
                break;
            }
        }
        next.truncate(MAX_THREADS);
        self.threads = next;
    }
}

impl<'o> Thread<'o> {
    /// Pushes the threads that this one becomes.
    fn apply(mut self, outline: &'o Outline, event: Event<'_>, out: &mut Vec<Self>) {
        match (event, self.expect) {
            (Event::OpenList | Event::OpenRecord, Expect::Value(node) | Expect::FirstItem(node)) => {
                self.open(&outline.nodes.shapes[node], matches!(event, Event::OpenList), out);
            }
            (Event::Text(raw), Expect::FirstKey | Expect::Key) => self.key(outline, raw, out),
            (
                Event::Text(_) | Event::Number(_) | Event::Word(_),
                Expect::Value(node) | Expect::FirstItem(node),
            ) => {
                if outline.nodes.shapes[node].iter().any(|shape| admits(outline, shape, event)) {
                    self.enter_value();
                    self.expect = Expect::Next;
                    out.push(self);
                }
            }
            (Event::Colon, Expect::Colon(node)) => {
                self.expect = Expect::Value(node);
                out.push(self);
            }
            (Event::Comma, Expect::Next) => {
                self.expect = match self.frames.last() {
                    Some(Frame::List { list, count }) => Expect::Value(list.item(*count)),
                    Some(Frame::Record { .. }) => Expect::Key,
                    None => return,
                };
                out.push(self);
            }
            (Event::Close, Expect::Next | Expect::FirstKey | Expect::FirstItem(_)) => {
                if self.frames.pop().is_some_and(|frame| frame.is_whole()) {
                    self.expect = Expect::Next;
                    out.push(self);
                }
            }
            (
                Event::OpenList
                | Event::OpenRecord
                | Event::Close
                | Event::Comma
                | Event::Colon
                | Event::Text(_)
                | Event::Number(_)
                | Event::Word(_),
                _,
            ) => {}
        }
    }

    fn open(mut self, shapes: &'o [Shape], as_list: bool, out: &mut Vec<Self>) {
        self.enter_value();
        let opened = shapes.iter().filter_map(|shape| match shape {
            Shape::List(list) if as_list => {
                Some((Frame::List { list, count: 0 }, Expect::FirstItem(list.item(0))))
            }
            Shape::Record(record) if !as_list => {
                Some((Frame::Record { record, state: State::default() }, Expect::FirstKey))
            }
            Shape::List(_) | Shape::Record(_) | Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => None,
        });
        self.fork(opened, out, |thread, (frame, expect)| {
            thread.frames.push(frame);
            thread.expect = expect;
        });
    }

    /// Pushes a thread for each way to go on. The last one takes over this thread's frames, so that
    /// a document without choices is followed at a cost that its depth does not raise.
    fn fork<W>(self, ways: impl Iterator<Item = W>, out: &mut Vec<Self>, change: impl Fn(&mut Self, W)) {
        let mut ways = ways.peekable();
        while let Some(way) = ways.next() {
            if ways.peek().is_none() {
                let mut thread = self;
                change(&mut thread, way);
                out.push(thread);
                return;
            }
            let mut thread = self.clone();
            change(&mut thread, way);
            out.push(thread);
        }
    }

    fn enter_value(&mut self) {
        if let Some(Frame::List { count, .. }) = self.frames.last_mut() {
            *count += 1;
        }
    }

    fn key(self, outline: &'o Outline, raw: &[u8], out: &mut Vec<Self>) {
        let Some(Frame::Record { record, state }) = self.frames.last() else { return };
        let record: &'o Record = record;
        let quoted = [b"\"", raw, b"\""].concat();
        let named = record.index.get(&quoted).copied();
        let place = named.filter(|&place| record.may_come(state.at, place));
        let is_free = named.is_none() && record.may_be_free(state.at);
        let free = is_free.then(|| extras(outline, record, raw).map(|extra| extra.node));
        let node = |place: usize| (place + 1, record.names[place].node);
        let ways = place.map(node).into_iter();
        let ways = ways.chain(free.into_iter().flatten().map(|node| (record.names.len(), node)));
        let taken = (is_free && record.min > 0).then_some(quoted);
        self.fork(ways, out, |thread, (next, node)| thread.member(next, taken.clone(), node));
    }

    fn member(&mut self, next: usize, taken: Option<Vec<u8>>, node: NodeId) {
        if let Some(Frame::Record { state, .. }) = self.frames.last_mut() {
            state.at = next;
            state.count += usize::from(taken.as_ref().is_none_or(|key| !state.taken.contains(key)));
            state.taken.extend(taken);
        }
        self.expect = Expect::Colon(node);
    }
}

impl Frame<'_> {
    fn is_whole(&self) -> bool {
        match self {
            Self::List { list, count } => *count >= list.min,
            Self::Record { record, state } => record.may_be_free(state.at) && state.count >= record.min,
        }
    }
}

/// The free members that may have the name `raw`.
fn extras<'r>(outline: &'r Outline, record: &'r Record, raw: &[u8]) -> impl Iterator<Item = &'r Extra> {
    let content = decode(raw).map(|content| content.decoded).unwrap_or_default();
    let matching = |extra: &Extra| {
        let table = outline.patterns.table(extra.pattern?)?;
        Some(table.run(&content).is_some_and(|state| table.accepts(state)))
    };
    let matches: Vec<_> = record.extras.iter().map(matching).collect();
    let any = matches.contains(&Some(true));
    let fits = move |(extra, matched): (&'r Extra, Option<bool>)| match extra.pattern {
        Some(_) => matched.unwrap_or(true).then_some(extra),
        None => (!any).then_some(extra),
    };
    record.extras.iter().zip(matches).filter_map(fits)
}

fn admits(outline: &Outline, shape: &Shape, event: Event<'_>) -> bool {
    match (shape, event) {
        (Shape::Text(rule), Event::Text(raw)) => {
            decode(raw).is_some_and(|content| rule.admits(&outline.patterns, &content.decoded))
        }
        (Shape::Number(rule), Event::Number(text)) => rule.admits(text),
        (Shape::Word(word), Event::Word(text)) => *word == text,
        (Shape::Text(_) | Shape::Number(_) | Shape::Word(_) | Shape::List(_) | Shape::Record(_), _) => false,
    }
}
