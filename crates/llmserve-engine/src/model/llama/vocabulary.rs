//! A llama.cpp vocabulary.

use std::collections::BTreeMap;
use std::ffi::CStr;
use std::sync::Arc;

use llama_cpp_sys_2 as sys;

use super::pieces::Pieces;
use super::{Weights, shim};
use crate::error::Error;
use crate::ids::TokenId;
use crate::model::{PairFrame, SpecialToken, Vocabulary};
use crate::model_info::ModelInfo;

/// Hugging Face's names of tokens, and the metadata keys (in this spelling) of their ids.
const NAMED_TOKENS: [(&str, &str); 5] = [
    ("unk_token", "tokenizer.ggml.unknown_token_id"),
    ("sep_token", "tokenizer.ggml.seperator_token_id"),
    ("pad_token", "tokenizer.ggml.padding_token_id"),
    ("cls_token", "tokenizer.ggml.cls_token_id"),
    ("mask_token", "tokenizer.ggml.mask_token_id"),
];

/// The vocabulary of loaded weights, which it keeps alive.
pub(crate) struct LlamaVocabulary {
    weights: Arc<Weights>,
    size: usize,
    end_of_generation: Vec<TokenId>,
    bos: Option<TokenId>,
    pieces: Pieces,
    special_tokens: Vec<SpecialToken>,
}

impl LlamaVocabulary {
    pub(crate) fn new(weights: Arc<Weights>) -> Self {
        let vocab = weights.vocab();
        // SAFETY: the weights keep the vocabulary alive.
        let (size, bos) = unsafe { (sys::llama_vocab_n_tokens(vocab), sys::llama_vocab_bos(vocab)) };
        // SAFETY: as above; every id below the size is a token.
        let ends = |id: &i32| unsafe { sys::llama_vocab_is_eog(vocab, *id) };
        let num_tokens = usize::try_from(size).unwrap_or(0);
        Self {
            end_of_generation: (0..size).filter(ends).map(TokenId).collect(),
            size: num_tokens,
            bos: (bos >= 0).then_some(TokenId(bos)),
            special_tokens: special_tokens(&weights, size),
            pieces: Pieces::new(&weights, num_tokens),
            weights,
        }
    }

    /// Fills in what is known about the vocabulary's tokens.
    pub(crate) fn describe(&self, info: &mut ModelInfo) {
        let text = |token: Option<TokenId>| token.and_then(|token| token_text(&self.weights, token.0));
        info.bos_text = text(info.bos_token).unwrap_or_default();
        info.eos_text = text(info.eos_token).unwrap_or_default();
        let named = [("bos_token", info.bos_token), ("eos_token", info.eos_token)].into_iter();
        let in_file = NAMED_TOKENS.iter().map(|&(name, key)| {
            let id = info.metadata.get(key).and_then(|id| id.parse().ok()).map(TokenId);
            (name, id.filter(|&id| self.has(id)))
        });
        let texts = named.chain(in_file).filter_map(|(name, id)| Some((name.to_owned(), text(id)?)));
        info.special_tokens = texts.collect();
        info.infill_tokens = infill_tokens(&self.weights);
        let control = self.special_tokens.iter().filter(|token| token.is_control);
        info.control_tokens = control.map(|token| token.text.clone()).collect();
        info.end_tokens = self.end_of_generation.iter().filter_map(|&token| text(Some(token))).collect();
    }

    fn has(&self, token: TokenId) -> bool {
        usize::try_from(token.0).is_ok_and(|id| id < self.size)
    }
}

impl Vocabulary for LlamaVocabulary {
    fn size(&self) -> usize {
        self.size
    }

    fn special_tokens(&self) -> &[SpecialToken] {
        &self.special_tokens
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

    /// As llama-server joins them: BOS, query, EOS, SEP, document, EOS, as far as the vocabulary adds these.
    fn pair_frame(&self) -> PairFrame {
        let vocab = self.weights.vocab();
        // SAFETY: the weights keep the vocabulary alive.
        let (begin, end, separator) = unsafe {
            (sys::llama_vocab_bos(vocab), sys::llama_vocab_eos(vocab), sys::llama_vocab_sep(vocab))
        };
        let added = |is_added: bool, id: i32| (is_added && id >= 0).then_some(TokenId(id));
        let end = if end < 0 { separator } else { end };
        // SAFETY: as above.
        let (begin, end, separator) = unsafe {
            (
                added(sys::llama_vocab_get_add_bos(vocab), begin),
                added(sys::llama_vocab_get_add_eos(vocab), end),
                added(sys::llama_vocab_get_add_sep(vocab), separator),
            )
        };
        PairFrame {
            before: begin.into_iter().collect(),
            between: end.into_iter().chain(separator).collect(),
            after: end.into_iter().collect(),
        }
    }

    fn piece(&self, token: TokenId, render_special: bool) -> &[u8] {
        self.pieces.get(token.0, render_special)
    }

    fn max_piece_bytes(&self) -> usize {
        self.pieces.longest().max(1)
    }

    fn end_of_generation(&self) -> &[TokenId] {
        &self.end_of_generation
    }
}

/// The tokens between which a model fills in code.
fn infill_tokens(weights: &Weights) -> BTreeMap<String, u32> {
    let vocab = weights.vocab();
    // SAFETY: the weights keep the vocabulary alive.
    let tokens = unsafe {
        [
            ("prefix", sys::llama_vocab_fim_pre(vocab)),
            ("suffix", sys::llama_vocab_fim_suf(vocab)),
            ("middle", sys::llama_vocab_fim_mid(vocab)),
            ("repository", sys::llama_vocab_fim_rep(vocab)),
            ("file", sys::llama_vocab_fim_sep(vocab)),
        ]
    };
    // What the vocabulary does not have is below 0.
    tokens.into_iter().filter_map(|(name, id)| Some((name.to_owned(), u32::try_from(id).ok()?))).collect()
}

/// What llama.cpp looks for in a text before it tokenizes the rest, in the order of their ids.
fn special_tokens(weights: &Weights, size: i32) -> Vec<SpecialToken> {
    let special = |id: i32| {
        // SAFETY: the weights are live; every id below the size is a token.
        let attributes = unsafe { sys::llama_vocab_get_attr(weights.vocab(), id) };
        let has = |bits| attributes & bits != 0;
        let is_control = has(sys::LLAMA_TOKEN_ATTR_CONTROL | sys::LLAMA_TOKEN_ATTR_UNKNOWN);
        if !is_control && !has(sys::LLAMA_TOKEN_ATTR_USER_DEFINED) {
            return None;
        }
        Some(SpecialToken {
            id: TokenId(id),
            text: token_text(weights, id).filter(|text| !text.is_empty())?,
            is_control,
            strips_left: has(sys::LLAMA_TOKEN_ATTR_LSTRIP),
            strips_right: has(sys::LLAMA_TOKEN_ATTR_RSTRIP),
        })
    };
    (0..size).filter_map(special).collect()
}

/// A token's text as the file has it; `None` if it is not valid UTF-8.
fn token_text(weights: &Weights, id: i32) -> Option<String> {
    // SAFETY: the weights are live and have the token; llama.cpp gives a terminated string of theirs.
    let text = unsafe {
        let text = sys::llama_vocab_get_text(weights.vocab(), id);
        (!text.is_null()).then(|| CStr::from_ptr(text))
    };
    text?.to_str().ok().map(str::to_owned)
}
