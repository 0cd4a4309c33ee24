//! The parts of a split model.
//!
//! `NAME-00001-of-00003.gguf` contains the metadata, each part its own tensors and the keys
//! `split.no` (from 0), `split.count` and `split.tensors.count`. llama.cpp opens the first part
//! and finds the others by name.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::metadata::{Metadata, Value};
use super::{damaged, quoted};
use crate::error::{LoadError, LoadErrorReason};

const COUNT: &str = "split.count";
const NUMBER: &str = "split.no";
const NUM_TENSORS: &str = "split.tensors.count";

/// What the first part says about the whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Split {
    /// Number of parts, 2 or more.
    pub(super) count: u16,
    num_tensors: u64,
}

impl Split {
    /// The split that `metadata` starts; `None` for a model in one file.
    pub(super) fn of_first_part(metadata: &Metadata) -> Result<Option<Self>, LoadError> {
        let Some(count) = u16_of(metadata, COUNT)?.filter(|count| *count > 1) else {
            return Ok(None);
        };
        let number = u16_of(metadata, NUMBER)?.ok_or_else(|| missing(NUMBER))?;
        if number != 0 {
            return Err(wrong_part(format!(
                "this is part {} of {count}: load the first part, and the others are found by name",
                u32::from(number) + 1
            )));
        }
        let num_tensors = match metadata.get(NUM_TENSORS) {
            Some(Value::I32(value)) if *value >= 0 => value.unsigned_abs().into(),
            _ => {
                return Err(damaged(format!(
                    "{} is missing or not an i32 of at least 0",
                    quoted(NUM_TENSORS)
                )));
            }
        };
        Ok(Some(Self { count, num_tensors }))
    }

    /// The files of parts 2 to `count`, by the name of the first.
    pub(super) fn other_paths(self, first: &Path) -> Result<Vec<PathBuf>, LoadError> {
        let suffix = |part: u16| format!("-{part:05}-of-{:05}.gguf", self.count);
        let name = first.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let stem = name.strip_suffix(&suffix(1)).filter(|stem| !stem.is_empty());
        let Some(stem) = stem else {
            return Err(wrong_part(format!(
                "the first of {} parts must have a name that ends in {}",
                self.count,
                suffix(1)
            )));
        };
        let path = |part| first.with_file_name(OsString::from(format!("{stem}{}", suffix(part))));
        Ok((2..=self.count).map(path).collect())
    }

    /// Checks the number of tensors in all parts.
    pub(super) fn check_num_tensors(self, found: u64) -> Result<(), LoadError> {
        if found == self.num_tensors {
            return Ok(());
        }
        Err(wrong_part(format!(
            "the {} parts contain {found} tensors, but {} says {}",
            self.count,
            quoted(NUM_TENSORS),
            self.num_tensors
        )))
    }

    /// Puts the part before a message about it.
    pub(super) fn in_part(self, part: u16, mut error: LoadError) -> LoadError {
        error.message = format!("part {part} of {}: {}", self.count, error.message);
        if error.reason == LoadErrorReason::NotFound {
            error.reason = LoadErrorReason::MissingPart;
        }
        error
    }
}

/// Checks that part `part` (from 2) belongs to the first.
pub(super) fn check_part(part: u16, first: &Metadata, own: &Metadata) -> Result<(), LoadError> {
    let number = u16_of(own, NUMBER)?.ok_or_else(|| missing(NUMBER))?;
    if u32::from(number) + 1 != u32::from(part) {
        return Err(wrong_part(format!("it says that it is part {}", u32::from(number) + 1)));
    }
    for (key, value) in own.iter().filter(|(key, _)| *key != NUMBER) {
        match first.get(key) {
            Some(other) if other != value => {
                return Err(wrong_part(format!(
                    "it belongs to another model: its {} differs from the first part's",
                    quoted(key)
                )));
            }
            Some(_) | None => {}
        }
    }
    Ok(())
}

/// A part that does not belong here.
pub(super) fn wrong_part(message: impl Into<String>) -> LoadError {
    LoadError::new(LoadErrorReason::WrongPart, message)
}

fn missing(key: &str) -> LoadError {
    damaged(format!("{} is missing", quoted(key)))
}

/// llama.cpp asserts that these are u16.
fn u16_of(metadata: &Metadata, key: &str) -> Result<Option<u16>, LoadError> {
    match metadata.get(key) {
        None => Ok(None),
        Some(Value::U16(value)) => Ok(Some(*value)),
        Some(other) => Err(damaged(format!("{} has type {}, but must be u16", quoted(key), other.kind()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_found_by_name() {
        let split = Split { count: 3, num_tensors: 0 };
        let paths = split.other_paths(Path::new("dir/m-00001-of-00003.gguf")).unwrap();
        let expected = ["dir/m-00002-of-00003.gguf", "dir/m-00003-of-00003.gguf"];
        assert_eq!(paths, expected.map(PathBuf::from));
        for name in ["m.gguf", "-00001-of-00003.gguf", "m-00002-of-00003.gguf", "m-00001-of-00004.gguf"] {
            let error = split.other_paths(Path::new(name)).unwrap_err();
            assert_eq!(error.reason, LoadErrorReason::WrongPart, "{name}");
        }
    }
}
