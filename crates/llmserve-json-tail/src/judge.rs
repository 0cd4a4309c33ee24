//! A matcher, seen byte by byte.

/// Says what a grammar allows next. After [`Self::push`] and [`Self::pop`] of as many bytes the state
/// is the same.
pub trait ByteJudge {
    /// Which bytes may come next.
    fn allowed(&mut self) -> [bool; 256];

    /// Advances by one byte; false, and no change, if it may not come.
    fn push(&mut self, byte: u8) -> bool;

    /// Takes back the last `n` bytes.
    fn pop(&mut self, n: usize);

    /// Whether `text` completes the document; the state stays.
    fn accepts(&mut self, text: &[u8]) -> bool;

    /// The text so far is a whole document; more may be allowed.
    fn is_complete(&mut self) -> bool;

    /// Bytes that must come next, as far as is known.
    fn forced(&mut self) -> Vec<u8>;
}
