//! Reads session files, checks every length and verifies the checksum. The format is described in
//! [`super::header`].

use std::fs::{self, File};
use std::io::{self, BufReader, ErrorKind, Read};
use std::path::Path;

use sha2::{Digest, Sha256};

use crate::types::{SessionError, SessionErrorReason, TokenId};

use super::damaged;
use super::header::{self, CHECKSUM_BYTES, Header, MAGIC, PREAMBLE_BYTES, SessionInfo};

/// Number of bytes that are read or written at once.
pub(super) const CHUNK_BYTES: usize = 256 << 10;

/// The target of a session that is read.
pub(super) struct Expected<'a> {
    pub(super) fingerprint: &'a str,
    pub(super) context_length: u64,
    pub(super) vocabulary_size: u64,
    /// A KV state of another layout is left out.
    pub(super) state_layout: &'a str,
    /// A larger KV state is left out, in bytes.
    pub(super) max_state_bytes: u64,
}

/// The contents of a session file.
#[derive(Debug, PartialEq)]
pub(super) struct Contents {
    pub(super) header: Header,
    pub(super) tokens: Vec<TokenId>,
    /// The KV state; empty if there is no usable one.
    pub(super) state: Vec<u8>,
}

/// Reads the header of a session file and verifies its checksum, without the model.
///
/// # Errors
/// [`SessionError`] if the file is not a complete session file.
pub fn inspect_session(path: &Path) -> Result<SessionInfo, SessionError> {
    explained(path, || {
        let mut reader = Reader::open(path)?;
        let header = reader.header()?;
        reader.verify_rest()?;
        Ok(SessionInfo::new(header, reader.file_bytes))
    })
}

/// Reads a session for a model.
pub(super) fn read(path: &Path, expected: &Expected<'_>) -> Result<Contents, SessionError> {
    explained(path, || {
        let mut reader = Reader::open(path)?;
        let header = reader.header()?;
        // Reported only once the checksum is known to be right: a damaged file is not one of another model.
        if let Err(error) = expected.check(&header) {
            reader.verify_rest()?;
            return Err(error);
        }
        let tokens = reader.tokens(header.num_tokens)?;
        let wanted = header.state.as_ref().filter(|state| expected.can_use(state));
        let state = match wanted {
            Some(state) => reader.bytes(state.num_bytes)?,
            None => Vec::new(),
        };
        reader.verify_rest()?;
        expected.check_tokens(&tokens)?;
        Ok(Contents { header, tokens, state })
    })
}

/// Reads a file once from start to end, hashing what it reads.
struct Reader {
    file: BufReader<File>,
    hasher: Sha256,
    file_bytes: u64,
    /// Number of bytes before the checksum that have not been read yet.
    remaining: u64,
}

impl Reader {
    fn open(path: &Path) -> Result<Self, SessionError> {
        // Checked before it is opened: opening a pipe would wait for a writer.
        check_regular(&fs::metadata(path).map_err(|error| not_readable(&error))?)?;
        let file = File::open(path).map_err(|error| not_readable(&error))?;
        let state = file.metadata().map_err(|error| not_readable(&error))?;
        check_regular(&state)?;
        Ok(Self {
            file: BufReader::with_capacity(CHUNK_BYTES, file),
            hasher: Sha256::new(),
            file_bytes: state.len(),
            remaining: state.len().saturating_sub(CHECKSUM_BYTES),
        })
    }

    fn header(&mut self) -> Result<Header, SessionError> {
        let mut preamble = [0; PREAMBLE_BYTES as usize];
        if self.file_bytes < PREAMBLE_BYTES + CHECKSUM_BYTES {
            return Err(self.too_short());
        }
        self.fill(&mut preamble)?;
        let header_bytes = header::header_bytes(preamble)?;
        let json = self.bytes(header_bytes.into())?;
        Header::decode(&json, self.file_bytes)
    }

    /// The error about a file without room for a header.
    fn too_short(&mut self) -> SessionError {
        let mut start = [0; MAGIC.len()];
        let len = start.len().min(self.file_bytes as usize);
        let is_start = self.file.read_exact(&mut start[..len]).is_ok() && MAGIC.starts_with(&start[..len]);
        if is_start && len > 0 {
            return damaged(format!("the file ends after {} bytes, inside its header", self.file_bytes));
        }
        SessionError::new(SessionErrorReason::NotASession, "the file is not a session")
    }

    fn tokens(&mut self, count: u64) -> Result<Vec<TokenId>, SessionError> {
        let bytes = self.bytes(count.saturating_mul(4))?;
        let (ids, _) = bytes.as_chunks::<4>();
        Ok(ids.iter().map(|&id| TokenId(i32::from_le_bytes(id))).collect())
    }

    /// The next bytes; nothing is allocated that the file does not have.
    fn bytes(&mut self, len: u64) -> Result<Vec<u8>, SessionError> {
        if len > self.remaining {
            let (all, left) = (self.file_bytes, self.remaining);
            return Err(damaged(format!(
                "the file has {all} bytes, and the next part needs {len} where {left} are left"
            )));
        }
        let mut bytes = vec![0; len as usize];
        self.fill(&mut bytes)?;
        Ok(bytes)
    }

    fn fill(&mut self, bytes: &mut [u8]) -> Result<(), SessionError> {
        for chunk in bytes.chunks_mut(CHUNK_BYTES) {
            self.file.read_exact(chunk).map_err(|error| not_readable(&error))?;
            self.hasher.update(&*chunk);
            self.remaining -= chunk.len() as u64;
        }
        Ok(())
    }

    /// Reads what is left and compares the checksum.
    fn verify_rest(&mut self) -> Result<(), SessionError> {
        let mut buffer = vec![0; CHUNK_BYTES];
        while self.remaining > 0 {
            let len = self.remaining.min(CHUNK_BYTES as u64) as usize;
            self.fill(&mut buffer[..len])?;
        }
        let mut checksum = [0; CHECKSUM_BYTES as usize];
        self.file.read_exact(&mut checksum).map_err(|error| not_readable(&error))?;
        if self.hasher.finalize_reset()[..] == checksum {
            return Ok(());
        }
        Err(damaged("the checksum is wrong: the file was changed after it was written"))
    }
}

impl Expected<'_> {
    fn check(&self, header: &Header) -> Result<(), SessionError> {
        if header.model.fingerprint != self.fingerprint {
            let message = "the session belongs to another model, or to other adapters";
            return Err(SessionError::new(SessionErrorReason::OtherModel, message));
        }
        if header.num_tokens > self.context_length {
            let message = format!(
                "the session has {} tokens, more than the context length of {}",
                header.num_tokens, self.context_length
            );
            return Err(SessionError::new(SessionErrorReason::TooLong, message));
        }
        Ok(())
    }

    fn can_use(&self, state: &header::KvState) -> bool {
        state.num_bytes > 0
            && state.num_tokens > 0
            && state.num_bytes <= self.max_state_bytes
            && state.layout == self.state_layout
    }

    fn check_tokens(&self, tokens: &[TokenId]) -> Result<(), SessionError> {
        let size = self.vocabulary_size;
        let is_outside = |token: &&TokenId| u64::try_from(token.0).map_or(true, |id| id >= size);
        match tokens.iter().find(is_outside) {
            None => Ok(()),
            Some(token) => {
                let id = token.0;
                Err(damaged(format!("token {id} of the session is outside the vocabulary of {size} tokens")))
            }
        }
    }
}

fn check_regular(state: &fs::Metadata) -> Result<(), SessionError> {
    if state.is_file() {
        return Ok(());
    }
    Err(SessionError::new(SessionErrorReason::NotReadable, "the path is not a regular file"))
}

fn not_readable(error: &io::Error) -> SessionError {
    let kind = error.kind();
    let (reason, message) = if matches!(kind, ErrorKind::NotFound | ErrorKind::NotADirectory) {
        (SessionErrorReason::NotFound, "there is no such session file".to_owned())
    } else if kind == ErrorKind::UnexpectedEof {
        (SessionErrorReason::Damaged, "the file became shorter while it was read".to_owned())
    } else {
        (SessionErrorReason::NotReadable, format!("the session file cannot be read: {kind}"))
    };
    SessionError::new(reason, message).with_detail(error.to_string())
}

/// Puts the path into the detail of what went wrong.
pub(super) fn explained<T>(
    path: &Path,
    work: impl FnOnce() -> Result<T, SessionError>,
) -> Result<T, SessionError> {
    work().map_err(|mut error| {
        let detail = if error.detail.is_empty() { &error.message } else { &error.detail };
        error.detail = format!("{}: {detail}", path.display());
        error
    })
}
