//! A llama.cpp vocabulary.

use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::{Weights, shim};
use crate::error::Error;
use crate::ids::TokenId;
use crate::model::Vocabulary;

/// The vocabulary of loaded weights, which it keeps alive.
pub(crate) struct LlamaVocabulary {
    weights: Arc<Weights>,
    size: usize,
    end_of_generation: Vec<TokenId>,
    bos: Option<TokenId>,
    max_piece_bytes: usize,
}

impl LlamaVocabulary {
    pub(crate) fn new(weights: Arc<Weights>) -> Self {
        let vocab = weights.vocab();
        // SAFETY: the weights keep the vocabulary alive.
        let (size, bos) = unsafe { (sys::llama_vocab_n_tokens(vocab), sys::llama_vocab_bos(vocab)) };
        // SAFETY: as above; every id below the size is a token.
        let ends = |id: &i32| unsafe { sys::llama_vocab_is_eog(vocab, *id) };
        let mut vocabulary = Self {
            end_of_generation: (0..size).filter(ends).map(TokenId).collect(),
            size: usize::try_from(size).unwrap_or(0),
            bos: (bos >= 0).then_some(TokenId(bos)),
            weights,
            max_piece_bytes: 1,
        };
        let pieces = (0..vocabulary.size).map(|id| vocabulary.piece(TokenId(id as i32), true).len());
        vocabulary.max_piece_bytes = pieces.max().unwrap_or(1).max(1);
        vocabulary
    }

    fn has(&self, token: TokenId) -> bool {
        usize::try_from(token.0).is_ok_and(|id| id < self.size)
    }
}

impl Vocabulary for LlamaVocabulary {
    fn size(&self) -> usize {
        self.size
    }

    fn tokenize(&self, text: &str, add_special: bool, parse_special: bool) -> Result<Vec<TokenId>, Error> {
        if i32::try_from(text.len()).is_err() {
            return Err(Error::Tokenize {
                reason: format!("text: must have at most {} bytes, got {}", i32::MAX, text.len()),
            });
        }
        // Most texts have fewer tokens than this; else llama.cpp says how many they have.
        let mut tokens = vec![0_i32; text.len() / 2 + 16];
        loop {
            // SAFETY: the weights keep the vocabulary alive.
            let count = unsafe {
                shim::tokenize(self.weights.vocab(), text, &mut tokens, add_special, parse_special)
            };
            match count {
                i32::MIN => {
                    return Err(Error::Tokenize { reason: "the text could not be tokenized".to_owned() });
                }
                needed if needed < 0 => tokens.resize(needed.unsigned_abs() as usize, 0),
                count => {
                    tokens.truncate(count.unsigned_abs() as usize);
                    break;
                }
            }
        }
        let mut tokens: Vec<TokenId> = tokens.into_iter().map(TokenId).collect();
        // A text that brings its own BOS (a rendered template) gets no second one.
        if add_special
            && self.bos.is_some()
            && tokens.first().copied() == self.bos
            && tokens.get(1).copied() == self.bos
        {
            tokens.remove(0);
        }
        Ok(tokens)
    }

    fn piece(&self, token: TokenId, render_special: bool) -> Vec<u8> {
        if !self.has(token) {
            return Vec::new();
        }
        let mut buffer = vec![0_u8; 32];
        loop {
            // SAFETY: the weights keep the vocabulary alive, and it has the token.
            let len =
                unsafe { shim::token_to_piece(self.weights.vocab(), token.0, &mut buffer, render_special) };
            match len {
                i32::MIN => return Vec::new(),
                needed if needed < 0 => buffer.resize(needed.unsigned_abs() as usize, 0),
                len => {
                    buffer.truncate(len.unsigned_abs() as usize);
                    return buffer;
                }
            }
        }
    }

    fn max_piece_bytes(&self) -> usize {
        self.max_piece_bytes
    }

    fn end_of_generation(&self) -> &[TokenId] {
        &self.end_of_generation
    }
}
