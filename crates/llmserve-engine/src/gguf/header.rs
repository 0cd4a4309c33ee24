//! Reads a whole GGUF header: magic, version, counts, metadata and tensor table.

use std::io::{Read, Seek};

use super::layout::{self, TensorInfo};
use super::metadata::{Metadata, Value};
use super::reader::Reader;
use super::values::Pairs;
use super::{damaged, quoted};
use crate::error::{LoadError, LoadErrorReason};

const MAGIC: [u8; 4] = *b"GGUF";
const OLDEST_VERSION: u32 = 2;
const NEWEST_VERSION: u32 = 3;
const DEFAULT_ALIGNMENT: u32 = 32;
/// Known files have some hundred pairs.
const MOST_PAIRS: u64 = 1 << 16;
/// Known files have up to some 50,000 tensors.
const MOST_TENSORS: u64 = 1 << 17;
/// Bytes of the smallest pair: key length, one letter, type, one byte.
const LEAST_PAIR_BYTES: u64 = 14;

/// A header whose tensors lie in the file.
#[derive(Debug)]
pub(super) struct Header {
    pub(super) metadata: Metadata,
    pub(super) tensors: Vec<TensorInfo>,
    pub(super) num_bytes: u64,
}

impl Header {
    /// Reads and checks the header at the start of the reader.
    pub(super) fn read<R: Read + Seek>(reader: &mut Reader<R>) -> Result<Self, LoadError> {
        read_magic(reader)?;
        check_version(reader.u32("the version")?)?;
        let num_tensors = read_count(reader, "tensors", MOST_TENSORS)?;
        let num_pairs = read_count(reader, "metadata keys", MOST_PAIRS)?;
        reader.require(num_pairs * LEAST_PAIR_BYTES, "the metadata")?;
        let metadata = Pairs::read(reader, num_pairs)?;
        let alignment = alignment(&metadata)?;
        let tensors = layout::read_table(reader, num_tensors)?;
        let num_bytes = reader.position();
        layout::check(reader, &tensors, alignment)?;
        Ok(Self { metadata, tensors, num_bytes })
    }
}

fn read_magic<R: Read + Seek>(reader: &mut Reader<R>) -> Result<(), LoadError> {
    let size = reader.size();
    if size == 0 {
        return Err(LoadError::new(LoadErrorReason::Truncated, "the file is empty"));
    }
    let start = reader.bytes(size.min(64), "the start")?;
    if start.starts_with(&MAGIC) {
        // The rest is read again, number by number.
        return reader.rewind_to(MAGIC.len() as u64);
    }
    if MAGIC.starts_with(&start) {
        return reader.rewind_to(0).and_then(|()| reader.require(24, "the header"));
    }
    Err(LoadError::new(LoadErrorReason::NotGguf, foreign_kind(&start)))
}

/// Describes a file that does not start with the magic.
fn foreign_kind(start: &[u8]) -> String {
    let known: [(&[u8], &str); 6] = [
        (b"version https://git-lfs", "a Git LFS pointer: the model itself was not downloaded"),
        (b"lmgg", "a GGML file of an old format: convert it to GGUF"),
        (b"tjgg", "a GGML file of an old format: convert it to GGUF"),
        (b"PK\x03\x04", "a zip archive or PyTorch checkpoint"),
        (b"\x1f\x8b", "a gzip archive"),
        (b"\x7fELF", "a program"),
    ];
    if let Some((_, kind)) = known.iter().find(|(magic, _)| start.starts_with(magic)) {
        return format!("this is not a GGUF file but {kind}");
    }
    if start.get(8) == Some(&b'{') {
        return "this is not a GGUF file; it looks like safetensors: convert it to GGUF".to_owned();
    }
    let is_text = start.iter().all(|byte| matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~' | 0x80..));
    if is_text {
        return "this is not a GGUF file but a text file".to_owned();
    }
    format!("this is not a GGUF file: it starts with {}", start[..start.len().min(4)].escape_ascii())
}

fn check_version(version: u32) -> Result<(), LoadError> {
    let reason = if (OLDEST_VERSION..=NEWEST_VERSION).contains(&version) {
        return Ok(());
    } else if version == 1 {
        "GGUF version 1 is no longer supported: convert the model again".to_owned()
    } else if (1..=NEWEST_VERSION).contains(&version.swap_bytes()) {
        "the file was written for big-endian machines: convert it for this one".to_owned()
    } else {
        format!("GGUF version {version} is not supported, only {OLDEST_VERSION} and {NEWEST_VERSION} are")
    };
    Err(LoadError::new(LoadErrorReason::UnsupportedVersion, reason))
}

fn read_count<R: Read + Seek>(reader: &mut Reader<R>, what: &str, most: u64) -> Result<u64, LoadError> {
    let count = reader.u64(&format!("the number of {what}"))?;
    if count > most {
        return Err(damaged(format!("the file announces {count} {what}, more than the limit of {most}")));
    }
    Ok(count)
}

fn alignment(metadata: &Metadata) -> Result<u32, LoadError> {
    const KEY: &str = "general.alignment";
    match metadata.get(KEY) {
        None => Ok(DEFAULT_ALIGNMENT),
        Some(Value::U32(value)) if value.is_power_of_two() => Ok(*value),
        Some(Value::U32(value)) => {
            Err(damaged(format!("{} is {value}, but must be a power of two", quoted(KEY))))
        }
        Some(other) => Err(damaged(format!("{} has type {}, but must be u32", quoted(KEY), other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use super::*;

    fn reason(bytes: &[u8]) -> LoadErrorReason {
        let mut reader = Reader::new(Cursor::new(bytes.to_vec()), bytes.len() as u64);
        Header::read(&mut reader).unwrap_err().reason
    }

    #[test]
    fn files_of_other_kinds_are_named() {
        assert_eq!(reason(b""), LoadErrorReason::Truncated);
        assert_eq!(reason(b"GG"), LoadErrorReason::Truncated);
        assert_eq!(reason(b"GGUX"), LoadErrorReason::NotGguf);
        assert!(foreign_kind(b"version https://git-lfs.github.com/spec/v1").contains("Git LFS"));
        assert!(foreign_kind("hällo, wörld".as_bytes()).contains("text file"));
        assert!(foreign_kind(&[1, 2, 0, 0]).ends_with("starts with \\x01\\x02\\x00\\x00"));
    }

    #[test]
    fn versions_two_and_three_are_read() {
        assert!(check_version(2).is_ok() && check_version(3).is_ok());
        for version in [0, 1, 4, u32::MAX] {
            let error = check_version(version).unwrap_err();
            assert_eq!(error.reason, LoadErrorReason::UnsupportedVersion);
        }
        let swapped = check_version(3_u32.swap_bytes()).unwrap_err();
        assert!(swapped.message.contains("big-endian"));
    }
}
