//! The header of a session file: JSON that can be read without the model.
//!
//! The file: magic (8 bytes), format version (u32), header length (u32), header, token ids (i32 each), KV
//! state (may be empty), SHA-256 over all before it. Numbers are little-endian.

use serde::{Deserialize, Serialize};

use crate::types::{SessionError, SessionErrorReason};

use super::damaged;

/// The start of a session file: not text, and visibly damaged by a change of line ends.
pub(super) const MAGIC: [u8; 8] = *b"\x93LLMSV\r\n";
/// The format version that is written and read.
pub(super) const VERSION: u32 = 1;
/// Size of magic, version and header length in bytes.
pub(super) const PREAMBLE_BYTES: u64 = 16;
/// Size of the checksum in bytes.
pub(super) const CHECKSUM_BYTES: u64 = 32;
/// Maximum length of a header; a real one has some hundred bytes.
const MAX_HEADER_BYTES: u32 = 64 << 10;

/// The header in the file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Header {
    /// Program and version that wrote it.
    pub(super) writer: String,
    /// When it was written, in seconds since 1970.
    pub(super) created_s: u64,
    pub(super) model: Model,
    pub(super) num_tokens: u64,
    pub(super) is_templated: bool,
    /// The KV state, if one was saved.
    pub(super) state: Option<KvState>,
}

/// The model of a session.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct Model {
    pub(super) fingerprint: String,
    pub(super) architecture: String,
    pub(super) description: String,
}

/// A KV state.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(super) struct KvState {
    /// Everything that decides whether it can be restored.
    pub(super) layout: String,
    /// How many of the tokens it covers, from the first.
    pub(super) num_tokens: u64,
    pub(super) num_bytes: u64,
}

impl Header {
    /// Magic, version, length and header, as in the file.
    pub(super) fn encode(&self) -> Result<Vec<u8>, SessionError> {
        let json = serde_json::to_vec(self).map_err(|error| {
            let message = "the session's header could not be written";
            SessionError::new(SessionErrorReason::NotWritable, message).with_detail(error.to_string())
        })?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend(VERSION.to_le_bytes());
        bytes.extend((json.len() as u32).to_le_bytes());
        bytes.extend(json);
        Ok(bytes)
    }

    /// Reads the header's text and checks it against the size of the file.
    pub(super) fn decode(json: &[u8], file_bytes: u64) -> Result<Self, SessionError> {
        let header: Self = serde_json::from_slice(json)
            .map_err(|error| damaged("the session's header cannot be read").with_detail(error.to_string()))?;
        let expected = header.file_bytes(json.len() as u64);
        if expected != Some(file_bytes) {
            let says = expected.map_or_else(|| "far more".to_owned(), |bytes| bytes.to_string());
            return Err(damaged(format!("the file has {file_bytes} bytes, but its header says {says}")));
        }
        if header.state.as_ref().is_some_and(|state| state.num_tokens > header.num_tokens) {
            return Err(damaged("the KV state covers more tokens than the session has"));
        }
        Ok(header)
    }

    fn file_bytes(&self, header_bytes: u64) -> Option<u64> {
        let tokens = self.num_tokens.checked_mul(4)?;
        let state = self.state.as_ref().map_or(0, |state| state.num_bytes);
        tokens.checked_add(state)?.checked_add(PREAMBLE_BYTES + header_bytes + CHECKSUM_BYTES)
    }
}

/// The length of the header, from the first bytes of a file.
pub(super) fn header_bytes(preamble: [u8; PREAMBLE_BYTES as usize]) -> Result<u32, SessionError> {
    let [magic @ .., v0, v1, v2, v3, n0, n1, n2, n3] = preamble;
    if magic != MAGIC {
        return Err(SessionError::new(SessionErrorReason::NotASession, "the file is not a session"));
    }
    let version = u32::from_le_bytes([v0, v1, v2, v3]);
    if version != VERSION {
        let message = format!("the session has format version {version}, but only {VERSION} is supported");
        return Err(SessionError::new(SessionErrorReason::WrongVersion, message));
    }
    let num_bytes = u32::from_le_bytes([n0, n1, n2, n3]);
    if num_bytes > MAX_HEADER_BYTES {
        return Err(damaged(format!(
            "the header has {num_bytes} bytes, more than the limit of {MAX_HEADER_BYTES}"
        )));
    }
    Ok(num_bytes)
}

/// The header of a session file, which can be read without its model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionInfo {
    /// Format version.
    pub version: u32,
    /// Program and version that wrote it.
    pub writer: String,
    /// When it was written, in seconds since 1970.
    pub created_s: u64,
    /// Fingerprint of the model, as in [`crate::ModelInfo`].
    pub fingerprint: String,
    /// Architecture of the model.
    pub architecture: String,
    /// The model in one line.
    pub description: String,
    /// Number of tokens.
    pub num_tokens: u64,
    /// Whether the tokens come from a chat template.
    pub is_templated: bool,
    /// How many of the tokens the KV state covers; 0 without a state.
    pub num_state_tokens: u64,
    /// Size of the KV state in bytes.
    pub state_bytes: u64,
    /// Everything but the weights that the KV state depends on; empty without a state.
    pub state_layout: String,
    /// Size of the file in bytes.
    pub file_bytes: u64,
}

impl SessionInfo {
    pub(super) fn new(header: Header, file_bytes: u64) -> Self {
        let state = header.state.unwrap_or(KvState { layout: String::new(), num_tokens: 0, num_bytes: 0 });
        Self {
            version: VERSION,
            writer: header.writer,
            created_s: header.created_s,
            fingerprint: header.model.fingerprint,
            architecture: header.model.architecture,
            description: header.model.description,
            num_tokens: header.num_tokens,
            is_templated: header.is_templated,
            num_state_tokens: state.num_tokens,
            state_bytes: state.num_bytes,
            state_layout: state.layout,
            file_bytes,
        }
    }
}
