//! Fingerprints that tell the weights of one model from those of another.
//!
//! Hashing whole files would take longer than loading them, so the header (metadata and tensor table), the
//! size and a sample of the data are hashed: parts that are spread evenly over each file. Models of one
//! architecture that were trained apart differ nearly everywhere.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

use sha2::{Digest, Sha256};

use crate::config::LoraAdapter;
use crate::error::{LoadError, LoadErrorReason};
use crate::gguf::{ModelFile, ModelPart};

/// Parts of the sample of one file, and their size in bytes.
const NUM_SAMPLES: u64 = 64;
const SAMPLE_BYTES: u64 = 16 << 10;

/// The fingerprint of a model with its adapters (files and how they are applied), as 64 hexadecimal digits.
pub(crate) fn fingerprint(
    model: &ModelFile,
    adapters: &[ModelFile],
    applied: &[LoraAdapter],
) -> Result<String, LoadError> {
    let mut hasher = Sha256::new();
    let mut hash = || -> io::Result<()> {
        for part in &model.parts {
            hash_file(part, &mut hasher)?;
        }
        for (adapter, LoraAdapter { scale, .. }) in adapters.iter().zip(applied) {
            hasher.update(b"lora");
            hasher.update(scale.to_le_bytes());
            for part in &adapter.parts {
                hash_file(part, &mut hasher)?;
            }
        }
        Ok(())
    };
    hash().map_err(|error| {
        let message = format!("the file cannot be read: {}", error.kind());
        LoadError::new(LoadErrorReason::NotReadable, message).with_detail(error.to_string())
    })?;
    let digest = hasher.finalize();
    let nibbles = digest.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    Ok(nibbles.filter_map(|nibble| char::from_digit(nibble.into(), 16)).collect())
}

fn hash_file(part: &ModelPart, hasher: &mut Sha256) -> io::Result<()> {
    let size = part.identity.size;
    hasher.update(size.to_le_bytes());
    let mut file = File::open(&part.path)?;
    let mut buffer = vec![0; SAMPLE_BYTES as usize];
    let header_bytes = part.header_bytes.min(size);
    let mut left = header_bytes;
    while left > 0 {
        let len = left.min(SAMPLE_BYTES);
        hash_next(&mut file, &mut buffer[..len as usize], hasher)?;
        left -= len;
    }
    for start in sample(header_bytes, size) {
        let len = SAMPLE_BYTES.min(size - start);
        file.seek(SeekFrom::Start(start))?;
        hash_next(&mut file, &mut buffer[..len as usize], hasher)?;
    }
    Ok(())
}

/// Where the parts of the sample begin: the first after the header, the last at the end of the file.
fn sample(header_bytes: u64, size: u64) -> impl Iterator<Item = u64> {
    let room = (size - header_bytes).saturating_sub(SAMPLE_BYTES);
    let count = NUM_SAMPLES.min(1 + room / SAMPLE_BYTES);
    let last = u128::from((count - 1).max(1));
    let offset = move |index| u128::from(room) * u128::from(index) / last;
    (0..count).map(move |index| header_bytes + offset(index) as u64)
}

fn hash_next(file: &mut File, buffer: &mut [u8], hasher: &mut Sha256) -> io::Result<()> {
    file.read_exact(buffer)?;
    hasher.update(&*buffer);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_reach_from_the_header_to_the_end() {
        let starts: Vec<u64> = sample(1000, 1 << 30).collect();
        assert_eq!(starts.len() as u64, NUM_SAMPLES);
        assert_eq!(starts[0], 1000);
        assert_eq!(starts[63], (1 << 30) - SAMPLE_BYTES);
        assert!(starts.windows(2).all(|pair| pair[0] + SAMPLE_BYTES <= pair[1]));
    }

    #[test]
    fn short_files_are_hashed_whole() {
        assert_eq!(sample(1000, 1000).collect::<Vec<_>>(), [1000]);
        assert_eq!(sample(1000, 1005).collect::<Vec<_>>(), [1000]);
        let twice = 1000 + 2 * SAMPLE_BYTES;
        assert_eq!(sample(1000, twice).collect::<Vec<_>>(), [1000, 1000 + SAMPLE_BYTES]);
    }
}
