//! Closes a partial document: what is cut, then every frame from the innermost outwards.

use std::collections::HashSet;

use super::members::{self, FreeNames, State};
use super::outline::Outline;
use super::quoting::Content;
use super::scan::Scanner;
use super::shape::{NodeId, Record, Shape};
use super::threads::{Expect, FrameId, Open, Thread};
use super::unique::items;
use super::walk::Walk;

/// Maximum number of ways to read the document that are closed.
const MAX_THREADS: usize = 32;
/// Maximum number of closings.
const MAX_CLOSINGS: usize = 32;
/// Maximum number of continuations that are tried at one place.
const MAX_WAYS: usize = 4;
/// A longer tail is never useful.
const MAX_BYTES: usize = 1 << 20;

impl Walk {
    /// Texts that may close the document, shortest first; for an empty one, whole documents. These are
    /// guesses: a matcher judges them.
    pub fn closings(&mut self) -> Vec<Vec<u8>> {
        let mut content = self.take_content();
        let mut closings = Vec::new();
        for thread in self.threads().iter().take(MAX_THREADS) {
            let Some(outer) = self.outer(thread) else { continue };
            let num_ways = self.num_different(thread);
            let mut local = Local { walk: self, thread, content: &mut content, num_ways };
            closings.extend(local.endings().into_iter().map(|ending| [ending, outer.clone()].concat()));
        }
        self.put_content(content);
        closings.sort();
        closings.dedup();
        closings.sort_by_key(Vec::len);
        if self.outline.has_unique() {
            let unspoiled = closings.into_iter().filter(|closing| !self.spoils(closing));
            return unspoiled.take(MAX_CLOSINGS).collect();
        }
        closings.truncate(MAX_CLOSINGS);
        closings
    }

    /// The text that closes all frames but the innermost.
    fn outer(&self, thread: &Thread) -> Option<Vec<u8>> {
        let mut out = Vec::new();
        let mut next = thread.top.and_then(|top| self.frame(top).around);
        while let Some(id) = next {
            self.finish(id, 0, &mut out)?;
            next = self.frame(id).around;
        }
        Some(out)
    }

    /// Writes the rest of an array or object, and its end. `further` items are written already.
    fn finish(&self, id: FrameId, further: usize, out: &mut Vec<u8>) -> Option<()> {
        match &self.frame(id).open {
            Open::List { list, count } => {
                let mut taken = items(self.frames(), id).map(str::to_owned).collect();
                let places = count + further..list.min;
                out.extend(self.outline.writer().items(list, places, &mut taken)?);
                out.push(b']');
            }
            Open::Record { record, state } => finish_record(&self.outline, record, state, out)?,
        }
        (out.len() <= MAX_BYTES).then_some(())
    }
}

fn finish_record(outline: &Outline, record: &Record, state: &State, out: &mut Vec<u8>) -> Option<()> {
    let missing = members::missing(&outline.witnesses, &outline.patterns, record, state)?;
    let mut is_first = state.count == 0;
    for member in missing {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        out.extend(&member.key);
        out.push(b':');
        value(outline, member.node, out)?;
    }
    out.push(b'}');
    Some(())
}

fn value(outline: &Outline, node: NodeId, out: &mut Vec<u8>) -> Option<()> {
    let written = outline.witnesses.write(&outline.nodes, &outline.patterns, node, out);
    (written && out.len() <= MAX_BYTES).then_some(())
}

/// The innermost place of one thread.
struct Local<'w> {
    walk: &'w Walk,
    thread: &'w Thread,
    content: &'w mut Content,
    /// Number of ways that have to differ: 1 where nothing has to be unique.
    num_ways: usize,
}

impl<'w> Local<'w> {
    /// Ways to end the cut token and the innermost frame.
    fn endings(&mut self) -> Vec<Vec<u8>> {
        match (self.walk.scanner(), self.thread.expect) {
            (Scanner::Text { .. }, Expect::FirstKey | Expect::Key) => self.cut_key(),
            (
                Scanner::Text { .. } | Scanner::Number | Scanner::Word { .. },
                Expect::Value(node) | Expect::FirstItem(node),
            ) => {
                let endings = self.cut_scalar(node);
                self.after_values(endings)
            }
            (Scanner::Between, Expect::Value(node)) => self.after_values(self.values(node)),
            (Scanner::Between, Expect::Colon(node)) => {
                let values = self.values(node).into_iter();
                self.after_values(values.map(|value| [b":", &value[..]].concat()).collect())
            }
            (Scanner::Between, Expect::Key) => self.new_key(),
            (Scanner::Between, Expect::FirstItem(_) | Expect::FirstKey | Expect::Next) => self.frame_ends(),
            (
                Scanner::Text { .. } | Scanner::Number | Scanner::Word { .. },
                Expect::FirstKey | Expect::Key | Expect::Colon(_) | Expect::Next,
            ) => Vec::new(),
        }
    }

    fn top(&self) -> Option<&'w Open> {
        self.thread.top.map(|top| &self.walk.frame(top).open)
    }

    /// Ways to end the innermost frame, in which nothing is cut.
    fn frame_ends(&self) -> Vec<Vec<u8>> {
        let Some(top) = self.thread.top else { return vec![Vec::new()] };
        let mut out = Vec::new();
        let mut ways: Vec<_> = self.walk.finish(top, 0, &mut out).map(|()| out).into_iter().collect();
        if self.num_ways > 1
            && let Some(Open::Record { record, state }) = self.top()
        {
            ways.extend(self.walk.outline.writer().all_rests(record, state, self.num_ways));
        }
        ways
    }

    fn values(&self, node: NodeId) -> Vec<Vec<u8>> {
        let outline = &self.walk.outline;
        if self.num_ways > 1 {
            return outline.writer().values(node, self.num_ways);
        }
        outline.witnesses.of_node(&outline.nodes, &outline.patterns, node, MAX_WAYS)
    }

    fn cut_scalar(&mut self, node: NodeId) -> Vec<Vec<u8>> {
        let outline = &self.walk.outline;
        let text = std::str::from_utf8(self.walk.token()).unwrap_or_default();
        let mut endings = Vec::new();
        for shape in &outline.nodes.shapes[node] {
            match (shape, self.walk.scanner()) {
                (Shape::Text(rule), Scanner::Text { .. }) if self.num_ways > 1 => {
                    endings.extend(rule.different(&outline.patterns, self.content, self.num_ways));
                }
                (Shape::Number(rule), Scanner::Number) if self.num_ways > 1 => {
                    let different = rule.different(text, self.num_ways);
                    endings.extend(different.into_iter().map(String::into_bytes));
                }
                (Shape::Text(rule), Scanner::Text { .. }) => {
                    endings.extend(rule.endings(&outline.patterns, self.content));
                }
                (Shape::Number(rule), Scanner::Number) => {
                    endings.extend(rule.endings(text).into_iter().map(String::into_bytes));
                }
                (Shape::Word(word), Scanner::Word { .. }) => {
                    endings.extend(word.strip_prefix(text).map(|rest| rest.as_bytes().to_vec()));
                }
                (
                    Shape::Text(_) | Shape::Number(_) | Shape::Word(_) | Shape::List(_) | Shape::Record(_),
                    _,
                ) => {}
            }
        }
        endings
    }

    /// Ends the innermost frame behind each of these values.
    fn after_values(&self, values: Vec<Vec<u8>>) -> Vec<Vec<u8>> {
        let further = usize::from(matches!(self.top(), Some(Open::List { .. })));
        let mut rest = Vec::new();
        if self.thread.top.is_some_and(|top| self.walk.finish(top, further, &mut rest).is_none()) {
            return Vec::new();
        }
        values.into_iter().map(|value| [value, rest.clone()].concat()).collect()
    }

    /// A new member after a comma: the next required one, or any other.
    fn new_key(&mut self) -> Vec<Vec<u8>> {
        let Some(Open::Record { record, state }) = self.top() else { return Vec::new() };
        let required = record.next_required[state.at];
        if required < record.names.len() {
            return self.named(record, state, required, 0).into_iter().collect();
        }
        let optional = members::optional(&self.walk.outline.witnesses, record, state.at);
        let optional = optional.into_iter().take(MAX_WAYS);
        let mut ways: Vec<_> = optional.filter_map(|place| self.named(record, state, place, 0)).collect();
        ways.extend(self.free(record, state, b"").into_iter().map(|way| [b"\"", &way[..]].concat()));
        ways
    }

    /// A member whose name is cut.
    fn cut_key(&mut self) -> Vec<Vec<u8>> {
        let Some(Open::Record { record, state }) = self.top() else { return Vec::new() };
        let begun = [b"\"", self.walk.token()].concat();
        let last = record.next_required[state.at].saturating_add(1).min(record.names.len());
        let mut places: Vec<usize> =
            (state.at..last).filter(|&place| record.names[place].quoted.starts_with(&begun)).collect();
        let witnesses = &self.walk.outline.witnesses;
        places.sort_by_key(|&place| {
            let name = &record.names[place];
            witnesses.length(name.node).saturating_add(name.quoted.len() as u64)
        });
        places.truncate(MAX_WAYS);
        let mut ways: Vec<_> =
            places.into_iter().filter_map(|place| self.named(record, state, place, begun.len())).collect();
        let walk = self.walk;
        ways.extend(self.free(record, state, walk.token()));
        ways
    }

    /// The named member at `place`, whose first `skip` bytes are written, and the object's end.
    fn named(&self, record: &Record, state: &State, place: usize, skip: usize) -> Option<Vec<u8>> {
        let name = &record.names[place];
        let mut out = [&name.quoted[skip..], b":"].concat();
        value(&self.walk.outline, name.node, &mut out)?;
        let state = state.clone().with_member(record, place + 1, None);
        finish_record(&self.walk.outline, record, &state, &mut out)?;
        Some(out)
    }

    /// Members with a free name that goes on from `begun`, and the object's end.
    fn free(&mut self, record: &Record, state: &State, begun: &[u8]) -> Vec<Vec<u8>> {
        let outline = &self.walk.outline;
        if !record.may_be_free(state.at) {
            return Vec::new();
        }
        let none = HashSet::new();
        let mut ways = Vec::new();
        for extra in &record.extras {
            let mut names = FreeNames { patterns: &outline.patterns, record, extra, taken: &state.taken };
            let mut endings = names.after(begun, self.content, 2);
            if endings.is_empty() {
                // A name that can only be one that is taken.
                names.taken = &none;
                endings = names.after(begun, self.content, 2);
            }
            for ending in endings {
                let key = [b"\"", begun, &ending[..]].concat();
                let state = state.clone().with_member(record, record.names.len(), Some(&key));
                let mut out = [&ending[..], b":"].concat();
                let whole = value(outline, extra.node, &mut out)
                    .and_then(|()| finish_record(outline, record, &state, &mut out));
                ways.extend(whole.map(|()| out));
            }
        }
        ways
    }
}
