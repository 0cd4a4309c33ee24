//! Writes session files, so that a crash leaves the old file or the new one.

use std::fs::{self, File};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};
use tempfile::NamedTempFile;

use crate::types::{SessionError, SessionErrorReason};

use super::header::MAGIC;
use super::read::{CHUNK_BYTES, Contents, explained};

/// Writes a session.
pub(super) fn write(path: &Path, contents: &Contents) -> Result<(), SessionError> {
    explained(path, || {
        // The target of a link is replaced, not the link.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        check_replaceable(&target)?;
        let folder = match target.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            Some(_) | None => PathBuf::from("."),
        };
        // Removed again unless it is renamed, and readable by its owner only: conversations are private.
        let temporary = tempfile::Builder::new().prefix(".llmserve-").suffix(".tmp").tempfile_in(&folder);
        let temporary = temporary.map_err(|error| not_writable(&error))?;
        write_contents(&temporary, contents)?;
        temporary.persist(&target).map_err(|error| not_writable(&error.error))?;
        sync_folder(&folder);
        Ok(())
    })
}

fn write_contents(file: &NamedTempFile, contents: &Contents) -> Result<(), SessionError> {
    let header = contents.header.encode()?;
    let write = || -> io::Result<()> {
        let mut writer =
            Writer { file: BufWriter::with_capacity(CHUNK_BYTES, file.as_file()), hasher: Sha256::new() };
        writer.write(&header)?;
        for token in &contents.tokens {
            writer.write(&token.0.to_le_bytes())?;
        }
        for chunk in contents.state.chunks(CHUNK_BYTES) {
            writer.write(chunk)?;
        }
        writer.finish()
    };
    write().map_err(|error| not_writable(&error))
}

/// Only sessions are replaced: the path may be a mistake, and in a server it comes from a client.
fn check_replaceable(target: &Path) -> Result<(), SessionError> {
    let metadata = match fs::metadata(target) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(not_writable(&error)),
    };
    let mut magic = [0; MAGIC.len()];
    let mut is_session = || File::open(target).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
    if metadata.is_file() && is_session() && magic == MAGIC {
        return Ok(());
    }
    let message = "the path names a file that is not a session; it is not replaced";
    Err(SessionError::new(SessionErrorReason::NotReplaceable, message))
}

/// Makes the new name durable. Some file systems cannot; the file itself is complete either way.
fn sync_folder(folder: &Path) {
    #[cfg(unix)]
    if let Err(error) = File::open(folder).and_then(|folder| folder.sync_all()) {
        log::warn!("{} was not synced: {error}", folder.display());
    }
    #[cfg(not(unix))]
    log::trace!("{} is synced by the system", folder.display());
}

struct Writer<'a> {
    file: BufWriter<&'a File>,
    hasher: Sha256,
}

impl Writer<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hasher.update(bytes);
        self.file.write_all(bytes)
    }

    fn finish(self) -> io::Result<()> {
        let Self { mut file, hasher } = self;
        file.write_all(&hasher.finalize())?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()
    }
}

fn not_writable(error: &io::Error) -> SessionError {
    let message = format!("the session file cannot be written: {}", error.kind());
    SessionError::new(SessionErrorReason::NotWritable, message).with_detail(error.to_string())
}
