//! Identities that tell one state of a file from another.

use std::fs::Metadata;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Device, inode, size and time of change of a file: equal while nobody wrote to it or put
/// another in its place.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FileIdentity {
    /// Device number; 0 where the system has none.
    pub device: u64,
    /// Inode number; a hash of the real path where the system has none.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Time of the last change in nanoseconds since 1970; 0 where it is unknown.
    pub modified_ns: u128,
}

impl FileIdentity {
    /// The identity by `metadata`, which is that of `path`.
    #[must_use]
    pub fn new(path: &Path, metadata: &Metadata) -> Self {
        let (device, inode) = place(path, metadata);
        let modified = metadata.modified().ok();
        Self {
            device,
            inode,
            size: metadata.len(),
            modified_ns: modified
                .and_then(|time| time.duration_since(UNIX_EPOCH).ok())
                .map_or(0, |age| age.as_nanos()),
        }
    }
}

#[cfg(unix)]
fn place(_path: &Path, metadata: &Metadata) -> (u64, u64) {
    use std::os::unix::fs::MetadataExt;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn place(path: &Path, _metadata: &Metadata) -> (u64, u64) {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf()).hash(&mut hasher);
    (0, hasher.finish())
}
