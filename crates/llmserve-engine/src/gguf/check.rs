//! The whole check of a model: its file, its parts, and how they fit together.

use std::collections::HashSet;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use super::header::Header;
use super::identity::FileIdentity;
use super::kind::RANK_HEAD;
use super::metadata::{Metadata, Value};
use super::reader::{Reader, unreadable};
use super::split::{Split, check_part, wrong_part};
use super::{damaged, draft_head, quoted, rules, unsupported};
use crate::config::MetadataValue;
use crate::error::{LoadError, LoadErrorReason};

/// A GGUF file that passed the check.
#[derive(Debug, Clone)]
pub struct ModelFile {
    /// The metadata of the first part, which has those of the model.
    pub metadata: Metadata,
    /// The files, one or more, in order.
    pub parts: Vec<ModelPart>,
    has_draft_head: bool,
    pub(super) has_rank_head: bool,
}

/// One file of a model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPart {
    /// The file.
    pub path: PathBuf,
    /// The file's state when it was checked.
    pub identity: FileIdentity,
    /// Number of tensors in the file.
    pub num_tensors: u64,
    /// Size of their data in bytes.
    pub tensor_bytes: u64,
    /// Size of the header (metadata and tensor table) in bytes.
    pub header_bytes: u64,
}

impl ModelFile {
    fn without_parts(metadata: &Metadata) -> Self {
        Self { metadata: metadata.clone(), parts: Vec::new(), has_draft_head: false, has_rank_head: false }
    }

    /// The file to load: the only or the first part.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.parts.first().map_or(Path::new(""), |part| &part.path)
    }

    /// Whether the model has a head of its own that drafts (multi-token prediction).
    #[must_use]
    pub fn has_draft_head(&self) -> bool {
        self.has_draft_head
    }

    /// The identities of all parts.
    #[must_use]
    pub fn identity(&self) -> Vec<FileIdentity> {
        self.parts.iter().map(|part| part.identity.clone()).collect()
    }

    /// Number of tensors in all parts.
    #[must_use]
    pub fn num_tensors(&self) -> u64 {
        self.parts.iter().map(|part| part.num_tensors).sum()
    }

    /// Size of the data of all tensors in bytes.
    #[must_use]
    pub fn tensor_bytes(&self) -> u64 {
        self.parts.iter().map(|part| part.tensor_bytes).sum()
    }

    /// The model with metadata overrides.
    ///
    /// # Errors
    /// `InvalidOption` with what is wrong with the overridden metadata.
    pub fn with_overrides(mut self, overrides: &[(String, MetadataValue)]) -> Result<Self, LoadError> {
        let invalid = |message: &str| LoadError::invalid_option("metadata_overrides", message);
        for (key, value) in overrides {
            // The probe gets them as JSON, which has no such numbers.
            if matches!(value, MetadataValue::Float(value) if !value.is_finite()) {
                return Err(invalid(&format!("{} must be a finite number", quoted(key))));
            }
            self.metadata.insert(key.clone(), override_value(value));
        }
        if !overrides.is_empty() {
            rules::check(&self.metadata).map_err(|error| invalid(&error.message))?;
        }
        Ok(self)
    }

    fn add_part(&mut self, part: &OpenPart, names: &mut HashSet<String>) -> Result<(), LoadError> {
        let draft_head = draft_head::tensor_name(&self.metadata);
        for tensor in &part.header.tensors {
            if !names.insert(tensor.name.clone()) {
                return Err(wrong_part(format!(
                    "the tensor {} is also in an earlier part",
                    quoted(&tensor.name)
                )));
            }
            self.has_draft_head |= Some(&tensor.name) == draft_head.as_ref();
            self.has_rank_head |= tensor.name == RANK_HEAD;
        }
        self.parts.push(ModelPart {
            path: part.path.clone(),
            identity: part.identity.clone(),
            num_tensors: part.header.tensors.len() as u64,
            tensor_bytes: part.header.tensors.iter().map(|tensor| tensor.num_bytes).sum(),
            header_bytes: part.header.num_bytes,
        });
        Ok(())
    }
}

/// Checks the model at `path` and, if it is split, all its parts.
///
/// Reads headers only, a few milliseconds for a usual file. Memory is bounded by limits of the
/// format, whatever the file says.
///
/// # Errors
/// A [`LoadError`] with the reason; its message names the key or tensor, the limit and the value.
pub fn check(path: &Path) -> Result<ModelFile, LoadError> {
    let first = OpenPart::read(path)?;
    // Checked first, since later parts lack the keys that tell the kind.
    let split = Split::of_first_part(&first.header.metadata)?;
    check_kind(&first.header.metadata)?;
    let mut names = HashSet::new();
    let mut model = ModelFile::without_parts(&first.header.metadata);
    model.add_part(&first, &mut names)?;
    if let Some(split) = split {
        add_parts(&mut model, split, &mut names)?;
    }
    if model.num_tensors() == 0 {
        return Err(damaged("the file contains no tensors"));
    }
    rules::check(&model.metadata)?;
    Ok(model)
}

/// Checks a `LoRA` adapter file.
///
/// # Errors
/// Like [`check`]; `Unsupported` for a GGUF file that is not a `LoRA` adapter.
pub fn check_adapter(path: &Path) -> Result<ModelFile, LoadError> {
    let part = OpenPart::read(path)?;
    let metadata = &part.header.metadata;
    if metadata.text("general.type") != Some("adapter") || metadata.text("adapter.type") != Some("lora") {
        return Err(unsupported("the file is not a LoRA adapter"));
    }
    let mut model = ModelFile::without_parts(metadata);
    model.add_part(&part, &mut HashSet::new())?;
    Ok(model)
}

fn add_parts(model: &mut ModelFile, split: Split, names: &mut HashSet<String>) -> Result<(), LoadError> {
    for (part, path) in (2..).zip(split.other_paths(model.path())?) {
        let mut add = || {
            let other = OpenPart::read(&path)?;
            check_part(part, &model.metadata, &other.header.metadata)?;
            model.add_part(&other, names)
        };
        add().map_err(|error| split.in_part(part, error))?;
    }
    split.check_num_tensors(model.num_tensors())
}

/// Refuses complete GGUF files that are not language models.
fn check_kind(metadata: &Metadata) -> Result<(), LoadError> {
    match metadata.text("general.type") {
        Some("adapter") => {
            let message = "the file is a LoRA adapter: load its base model and give it as an adapter";
            Err(LoadError::new(LoadErrorReason::InvalidOption, message))
        }
        Some(kind @ ("mmproj" | "imatrix" | "vocab")) => {
            Err(unsupported(format!("the file is not a language model: its type is {}", quoted(kind))))
        }
        Some(_) | None => match metadata.architecture() {
            Some(kind @ ("clip" | "controlvector")) => Err(unsupported(format!(
                "the file is not a language model: its architecture is {}",
                quoted(kind)
            ))),
            Some(_) => Ok(()),
            None => Err(damaged("`general.architecture` is missing or not a text")),
        },
    }
}

fn override_value(value: &MetadataValue) -> Value {
    match value {
        // llama.cpp takes an integer override for a key of any integer type.
        MetadataValue::Int(value) => u32::try_from(*value).map_or(Value::I64(*value), Value::U32),
        MetadataValue::Float(value) => Value::F32(*value as f32),
        MetadataValue::Bool(value) => Value::Bool(*value),
        MetadataValue::Str(text) => Value::Str(text.clone().into_bytes()),
    }
}

/// One file, read.
struct OpenPart {
    path: PathBuf,
    identity: FileIdentity,
    header: Header,
}

impl OpenPart {
    fn read(path: &Path) -> Result<Self, LoadError> {
        // Checked before it is opened: opening a pipe would wait for a writer.
        check_regular(&fs::metadata(path).map_err(|error| not_open(&error))?)?;
        let file = File::open(path).map_err(|error| not_open(&error))?;
        let state = file.metadata().map_err(|error| unreadable(&error))?;
        check_regular(&state)?;
        let identity = FileIdentity::new(path, &state);
        let header = Header::read(&mut Reader::new(file, state.len()))?;
        Ok(Self { path: path.to_path_buf(), identity, header })
    }
}

fn check_regular(state: &fs::Metadata) -> Result<(), LoadError> {
    let fault = if state.is_dir() {
        "the path is a directory, not a file"
    } else if state.is_file() {
        return Ok(());
    } else {
        "the path is not a regular file"
    };
    Err(LoadError::new(LoadErrorReason::NotReadable, fault))
}

fn not_open(error: &std::io::Error) -> LoadError {
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
        return LoadError::new(LoadErrorReason::NotFound, "there is no such file")
            .with_detail(error.to_string());
    }
    unreadable(error)
}
