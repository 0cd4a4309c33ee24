//! A buffered reader that knows how large its source is.
//!
//! Nothing is allocated by a count or length of the file: callers ask for bytes that are there.

use std::io::{ErrorKind, Read, Seek, SeekFrom};

use super::damaged;
use crate::error::{LoadError, LoadErrorReason};

/// Bytes read at once.
const BUFFER_BYTES: usize = 64 << 10;
/// llama.cpp's limit of one string.
const LONGEST_STRING: u64 = 1 << 30;

/// Reads little-endian numbers and strings from the start of a source.
#[derive(Debug)]
pub(super) struct Reader<R> {
    source: R,
    size: u64,
    /// Offset of the next byte that is handed out.
    position: u64,
    buffer: Vec<u8>,
    /// The part of the buffer that is still to be handed out.
    start: usize,
    end: usize,
}

impl<R: Read + Seek> Reader<R> {
    /// A reader at the start of `source`, which has `size` bytes.
    pub(super) fn new(source: R, size: u64) -> Self {
        Self { source, size, position: 0, buffer: vec![0; BUFFER_BYTES], start: 0, end: 0 }
    }

    /// Size of the source in bytes.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// Offset of the next byte.
    pub(super) fn position(&self) -> u64 {
        self.position
    }

    /// Bytes up to the end of the source.
    pub(super) fn remaining(&self) -> u64 {
        self.size - self.position
    }

    /// Goes back to `position`, which was passed and is still buffered.
    pub(super) fn rewind_to(&mut self, position: u64) -> Result<(), LoadError> {
        let back = self.position.saturating_sub(position);
        match self.start.checked_sub(back as usize) {
            Some(start) => {
                self.start = start;
                self.position -= back;
                Ok(())
            }
            None => Err(damaged("the start of the file is no longer buffered")),
        }
    }

    /// Fails as truncated unless `needed` bytes follow.
    pub(super) fn require(&self, needed: u64, what: &str) -> Result<(), LoadError> {
        if needed <= self.remaining() {
            return Ok(());
        }
        Err(LoadError::new(
            LoadErrorReason::Truncated,
            format!(
                "the file ends after {} bytes, inside {what}, which needs {needed} bytes from byte {}",
                self.size, self.position
            ),
        ))
    }

    /// The next `N` bytes.
    pub(super) fn array<const N: usize>(&mut self, what: &str) -> Result<[u8; N], LoadError> {
        self.require(N as u64, what)?;
        let mut bytes = [0; N];
        let mut filled = 0;
        self.chunks(N as u64, what, |chunk| {
            bytes[filled..filled + chunk.len()].copy_from_slice(chunk);
            filled += chunk.len();
        })?;
        Ok(bytes)
    }

    /// The next 32-bit number.
    pub(super) fn u32(&mut self, what: &str) -> Result<u32, LoadError> {
        self.array(what).map(u32::from_le_bytes)
    }

    /// The next 64-bit number.
    pub(super) fn u64(&mut self, what: &str) -> Result<u64, LoadError> {
        self.array(what).map(u64::from_le_bytes)
    }

    /// The length of the string that follows, which lies in the file.
    pub(super) fn string_length(&mut self, what: &str) -> Result<u64, LoadError> {
        let length = self.u64(what)?;
        if length > LONGEST_STRING {
            return Err(damaged(format!(
                "{what} has a text of {length} bytes, more than the limit of {LONGEST_STRING}"
            )));
        }
        self.require(length, what)?;
        Ok(length)
    }

    /// The next `length` bytes, which the caller has bounded.
    pub(super) fn bytes(&mut self, length: u64, what: &str) -> Result<Vec<u8>, LoadError> {
        self.require(length, what)?;
        let mut bytes = Vec::new();
        self.chunks(length, what, |chunk| bytes.extend_from_slice(chunk))?;
        Ok(bytes)
    }

    /// Steps over `length` bytes without reading more of them than are buffered.
    pub(super) fn skip(&mut self, length: u64, what: &str) -> Result<(), LoadError> {
        self.require(length, what)?;
        let buffered = (self.end - self.start) as u64;
        if length <= buffered {
            self.start += length as usize;
        } else {
            let target = self.position + length;
            self.source.seek(SeekFrom::Start(target)).map_err(|error| unreadable(&error))?;
            self.start = 0;
            self.end = 0;
        }
        self.position += length;
        Ok(())
    }

    /// Hands the next `length` bytes to `sink`, piece by piece.
    pub(super) fn chunks(
        &mut self,
        length: u64,
        what: &str,
        mut sink: impl FnMut(&[u8]),
    ) -> Result<(), LoadError> {
        self.require(length, what)?;
        let mut left = length;
        while left > 0 {
            if self.start == self.end {
                self.fill(what)?;
            }
            let take = left.min((self.end - self.start) as u64) as usize;
            sink(&self.buffer[self.start..self.start + take]);
            self.start += take;
            self.position += take as u64;
            left -= take as u64;
        }
        Ok(())
    }

    fn fill(&mut self, what: &str) -> Result<(), LoadError> {
        loop {
            match self.source.read(&mut self.buffer) {
                Ok(0) => {
                    return Err(LoadError::new(
                        LoadErrorReason::Truncated,
                        format!("the file became shorter while {what} was read"),
                    ));
                }
                Ok(count) => {
                    self.start = 0;
                    self.end = count;
                    return Ok(());
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(unreadable(&error)),
            }
        }
    }
}

/// The operating system refuses to read the file.
pub(super) fn unreadable(error: &std::io::Error) -> LoadError {
    LoadError::new(LoadErrorReason::NotReadable, format!("the file cannot be read: {}", error.kind()))
        .with_detail(error.to_string())
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn reader(bytes: Vec<u8>) -> Reader<Cursor<Vec<u8>>> {
        let size = bytes.len() as u64;
        Reader::new(Cursor::new(bytes), size)
    }

    #[test]
    fn numbers_cross_buffer_borders() {
        let mut bytes = vec![0; BUFFER_BYTES - 2];
        bytes.extend_from_slice(&0x0102_0304_u32.to_le_bytes());
        let mut reader = reader(bytes);
        reader.skip(10, "padding").unwrap();
        reader.bytes(BUFFER_BYTES as u64 - 12, "padding").unwrap();
        assert_eq!(reader.u32("number").unwrap(), 0x0102_0304);
        assert_eq!(reader.remaining(), 0);
    }

    #[test]
    fn a_skip_beyond_the_buffer_seeks() {
        let mut bytes = vec![7; 3 * BUFFER_BYTES];
        bytes.push(9);
        let mut reader = reader(bytes);
        assert_eq!(reader.array::<1>("byte").unwrap(), [7]);
        reader.skip(3 * BUFFER_BYTES as u64 - 1, "filling").unwrap();
        assert_eq!(reader.array::<1>("byte").unwrap(), [9]);
    }

    #[test]
    fn the_end_is_named() {
        let error = reader(vec![0; 3]).u32("the version").unwrap_err();
        assert_eq!(error.reason, LoadErrorReason::Truncated);
        assert_eq!(
            error.message,
            "the file ends after 3 bytes, inside the version, which needs 4 bytes from byte 0"
        );
    }

    #[test]
    fn long_strings_are_damage_and_missing_ones_truncation() {
        let mut huge = reader(u64::MAX.to_le_bytes().to_vec());
        assert_eq!(huge.string_length("a key").unwrap_err().reason, LoadErrorReason::Damaged);
        let mut missing = reader(5_u64.to_le_bytes().to_vec());
        assert_eq!(missing.string_length("a key").unwrap_err().reason, LoadErrorReason::Truncated);
    }
}
