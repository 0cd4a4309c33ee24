//! The ways to read a document, and what becomes of each by the next event.

use std::sync::Arc;

use super::members::{self, State};
use super::outline::Outline;
use super::quoting::Content;
use super::shape::{List, NodeId, Record, Shape};
use super::unique::{canonical, items};

/// Maximum number of threads that are followed at once; in a document with more, only the first are followed.
const MAX_THREADS: usize = 256;

/// One way to read the document.
#[derive(Debug, Clone, Copy)]
pub(super) struct Thread {
    pub(super) top: Option<FrameId>,
    pub(super) expect: Expect,
}

/// Index of a frame.
pub(super) type FrameId = usize;

/// An array or object that is open, as it was at some time.
#[derive(Debug)]
pub(super) struct Frame {
    pub(super) open: Open,
    pub(super) around: Option<FrameId>,
    /// Where it begins in the text.
    pub(super) start: usize,
    /// Of an array whose items are unique: the last item, and the array before it.
    pub(super) item: Option<Box<str>>,
    pub(super) before: Option<FrameId>,
}

#[derive(Debug, Clone)]
pub(super) enum Open {
    List { list: Arc<List>, count: usize },
    Record { record: Arc<Record>, state: State },
}

/// The things that may come next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Expect {
    Value(NodeId),
    /// An item, or the end of the array.
    FirstItem(NodeId),
    /// A member, or the end of the object.
    FirstKey,
    Key,
    Colon(NodeId),
    /// A comma, or the end of what is open.
    Next,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Event {
    OpenList,
    OpenRecord,
    Close,
    Comma,
    Colon,
    /// A complete scalar.
    Text,
    Number,
    Word,
}

/// One event, and what it takes to lead threads on by it.
pub(super) struct Follower<'w> {
    pub(super) outline: &'w Outline,
    pub(super) frames: &'w mut Vec<Frame>,
    pub(super) content: &'w mut Content,
    pub(super) event: Event,
    /// Of a scalar.
    pub(super) token: &'w str,
    pub(super) quoted: &'w [u8],
    /// The text up to the event.
    pub(super) text: &'w [u8],
    /// Some array had an item twice.
    pub(super) had_repetition: bool,
}

impl Follower<'_> {
    /// The threads that these become.
    pub(super) fn lead(&mut self, threads: &[Thread]) -> Arc<[Thread]> {
        let mut out = Vec::new();
        for &thread in threads {
            self.apply(thread, &mut out);
            if out.len() >= MAX_THREADS {
                break;
            }
        }
        out.truncate(MAX_THREADS);
        out.into()
    }

    /// Pushes the threads that this one becomes.
    fn apply(&mut self, thread: Thread, out: &mut Vec<Thread>) {
        match (self.event, thread.expect) {
            (Event::OpenList | Event::OpenRecord, Expect::Value(node) | Expect::FirstItem(node)) => {
                self.open(thread, node, out);
            }
            (Event::Text, Expect::FirstKey | Expect::Key) => self.key(thread, out),
            (Event::Text | Event::Number | Event::Word, Expect::Value(node) | Expect::FirstItem(node)) => {
                let outline = self.outline;
                if outline.nodes.shapes[node].iter().any(|shape| self.admits(shape)) {
                    let top = self.enter_value(thread.top);
                    let value = if self.event == Event::Text { self.quoted } else { self.token.as_bytes() };
                    out.extend(self.end_value(top, value));
                }
            }
            (Event::Colon, Expect::Colon(node)) => {
                out.push(Thread { expect: Expect::Value(node), ..thread });
            }
            (Event::Comma, Expect::Next) => {
                let Some(top) = thread.top else { return };
                let expect = match &self.frames[top].open {
                    Open::List { list, count } => Expect::Value(list.item(*count)),
                    Open::Record { .. } => Expect::Key,
                };
                out.push(Thread { expect, ..thread });
            }
            (Event::Close, Expect::Next | Expect::FirstKey | Expect::FirstItem(_)) => {
                if let Some(frame) = thread.top.map(|top| &self.frames[top])
                    && frame.open.is_whole()
                {
                    let (around, value) = (frame.around, &self.text[frame.start..]);
                    out.extend(self.end_value(around, value));
                }
            }
            (
                Event::OpenList
                | Event::OpenRecord
                | Event::Close
                | Event::Comma
                | Event::Colon
                | Event::Text
                | Event::Number
                | Event::Word,
                _,
            ) => {}
        }
    }

    fn open(&mut self, thread: Thread, node: NodeId, out: &mut Vec<Thread>) {
        let around = self.enter_value(thread.top);
        let outline = self.outline;
        for shape in &outline.nodes.shapes[node] {
            let (open, expect) = match shape {
                Shape::List(list) if self.event == Event::OpenList => {
                    (Open::List { list: Arc::clone(list), count: 0 }, Expect::FirstItem(list.item(0)))
                }
                Shape::Record(record) if self.event == Event::OpenRecord => {
                    let record = Arc::clone(record);
                    (Open::Record { record, state: State::default() }, Expect::FirstKey)
                }
                Shape::List(_) | Shape::Record(_) | Shape::Word(_) | Shape::Number(_) | Shape::Text(_) => {
                    continue;
                }
            };
            let top = Some(self.push(open, around));
            out.push(Thread { top, expect });
        }
    }

    fn push(&mut self, open: Open, around: Option<FrameId>) -> FrameId {
        let start = self.text.len().saturating_sub(1);
        self.add(Frame { open, around, start, item: None, before: None })
    }

    fn add(&mut self, frame: Frame) -> FrameId {
        self.frames.push(frame);
        self.frames.len() - 1
    }

    /// The innermost frame with one more item, if it is an array.
    fn enter_value(&mut self, top: Option<FrameId>) -> Option<FrameId> {
        let frame = &self.frames[top?];
        let Open::List { list, count } = &frame.open else { return top };
        let open = Open::List { list: Arc::clone(list), count: count + 1 };
        let before = if list.unique { top } else { None };
        Some(self.add(Frame { open, item: None, before, ..*frame }))
    }

    /// Goes on in the frame around a value that has ended; `None` if its array has to be unique and had it
    /// before.
    fn end_value(&mut self, top: Option<FrameId>, value: &[u8]) -> Option<Thread> {
        let next = |top| Some(Thread { top, expect: Expect::Next });
        let Some(id) = top.filter(|&id| self.frames[id].before.is_some()) else { return next(top) };
        let value = canonical(value);
        if items(self.frames, id).any(|item| item == value) {
            self.had_repetition = true;
            return None;
        }
        let Frame { open, around, start, .. } = &self.frames[id];
        let (open, around, start) = (open.clone(), *around, *start);
        next(Some(self.add(Frame { open, around, start, item: Some(value.into()), before: top })))
    }

    fn key(&mut self, thread: Thread, out: &mut Vec<Thread>) {
        let Some(frame) = thread.top.map(|top| &self.frames[top]) else { return };
        let Open::Record { record, state } = &frame.open else { return };
        let (record, state, around) = (Arc::clone(record), state.clone(), (frame.around, frame.start));
        let named = record.index.get(self.quoted).copied();
        if let Some(place) = named.filter(|&place| record.may_come(state.at, place)) {
            let state = state.clone().with_member(&record, place + 1, None);
            out.push(self.member(&record, state, around, record.names[place].node));
        }
        if named.is_none() && record.may_be_free(state.at) {
            let state = state.with_member(&record, record.names.len(), Some(self.quoted));
            for node in members::extras(&self.outline.patterns, &record, self.content) {
                out.push(self.member(&record, state.clone(), around, node));
            }
        }
    }

    fn member(
        &mut self,
        record: &Arc<Record>,
        state: State,
        (around, start): (Option<FrameId>, usize),
        node: NodeId,
    ) -> Thread {
        let open = Open::Record { record: Arc::clone(record), state };
        let top = Some(self.add(Frame { open, around, start, item: None, before: None }));
        Thread { top, expect: Expect::Colon(node) }
    }

    fn admits(&mut self, shape: &Shape) -> bool {
        match (shape, self.event) {
            (Shape::Text(rule), Event::Text) => rule.admits(&self.outline.patterns, self.content),
            (Shape::Number(rule), Event::Number) => rule.admits(self.token),
            (Shape::Word(word), Event::Word) => *word == self.token,
            (Shape::Text(_) | Shape::Number(_) | Shape::Word(_) | Shape::List(_) | Shape::Record(_), _) => {
                false
            }
        }
    }
}

impl Open {
    fn is_whole(&self) -> bool {
        match self {
            Self::List { list, count } => *count >= list.min,
            Self::Record { record, state } => record.may_be_free(state.at) && state.count >= record.min,
        }
    }
}
