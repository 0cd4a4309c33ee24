//! The bytes of all tokens, which llama.cpp is asked for once.

use llama_cpp_sys_2 as sys;

use super::{Weights, shim};

/// Attributes of the tokens that llama.cpp shows only if special tokens are to be rendered.
const HIDDEN: sys::llama_token_attr = sys::LLAMA_TOKEN_ATTR_UNKNOWN | sys::LLAMA_TOKEN_ATTR_CONTROL;

/// The bytes of each token, one after the other.
pub(super) struct Pieces {
    bytes: Vec<u8>,
    /// Where each token's bytes end; they begin where those of the token before end.
    ends: Vec<u32>,
    /// Whether each token has no bytes unless special tokens are rendered.
    hidden: Vec<bool>,
    longest: usize,
}

impl Pieces {
    /// The pieces of the first `size` tokens.
    pub(super) fn new(weights: &Weights, size: usize) -> Self {
        let mut pieces = Self {
            bytes: Vec::new(),
            ends: Vec::with_capacity(size),
            hidden: Vec::with_capacity(size),
            longest: 0,
        };
        let mut buffer = vec![0_u8; 64];
        for id in 0..size as i32 {
            let len = read(weights, id, true, &mut buffer);
            pieces.bytes.extend_from_slice(&buffer[..len]);
            pieces.ends.push(pieces.bytes.len() as u32);
            pieces.longest = pieces.longest.max(len);
            // SAFETY: the weights are live; every id below the size is a token.
            let attributes = unsafe { sys::llama_vocab_get_attr(weights.vocab(), id) };
            pieces.hidden.push(attributes & HIDDEN != 0 && read(weights, id, false, &mut buffer) == 0);
        }
        pieces
    }

    /// The bytes of a token; empty for an unknown id.
    pub(super) fn get(&self, id: i32, render_special: bool) -> &[u8] {
        let Some((id, &end)) = usize::try_from(id).ok().and_then(|id| Some((id, self.ends.get(id)?))) else {
            return &[];
        };
        if self.hidden[id] && !render_special {
            return &[];
        }
        let start = id.checked_sub(1).map_or(0, |before| self.ends[before]);
        &self.bytes[start as usize..end as usize]
    }

    /// Maximum number of bytes in a token.
    pub(super) fn longest(&self) -> usize {
        self.longest
    }
}

/// Reads the bytes of a token into the buffer, which grows if necessary; returns their number.
fn read(weights: &Weights, id: i32, render_special: bool, buffer: &mut Vec<u8>) -> usize {
    loop {
        // SAFETY: the weights keep the vocabulary alive, and it has the token.
        let len = unsafe { shim::token_to_piece(weights.vocab(), id, buffer, render_special) };
        match len {
            i32::MIN => return 0,
            needed if needed < 0 => buffer.resize(needed.unsigned_abs() as usize, 0),
            len => return len.unsigned_abs() as usize,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::WeightsConfig;

    #[test]
    fn the_table_is_what_llama_cpp_says_of_each_token() {
        let path = std::env::var_os("LLMSERVE_TEST_MODEL")
            .expect("LLMSERVE_TEST_MODEL is not set; `make test` sets it");
        let weights = Weights::load(path.as_ref(), &WeightsConfig::default(), false, true, |_| true).unwrap();
        // SAFETY: the weights are live.
        let size = unsafe { sys::llama_vocab_n_tokens(weights.vocab()) };
        let pieces = Pieces::new(&weights, size as usize);
        let mut buffer = vec![0; 8];
        let mut num_hidden = 0;
        for id in 0..size {
            for render_special in [false, true] {
                let len = read(&weights, id, render_special, &mut buffer);
                assert_eq!(pieces.get(id, render_special), &buffer[..len], "token {id}");
            }
            num_hidden += usize::from(pieces.get(id, false).is_empty());
        }
        assert!(num_hidden > 0 && pieces.longest() > 8);
        assert!(pieces.get(-1, true).is_empty() && pieces.get(size, true).is_empty());
    }
}
