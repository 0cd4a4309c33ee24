//! Requests. A [`GenerationRequest`] is valid once built.

use super::drafting::Drafting;
use super::error::Error;
use super::ids::TokenId;
use super::ranges::{invalid, too_many};
use super::sampling::SamplingParams;

/// Maximum number of stop strings in one request.
pub const MAX_STOP_STRINGS: usize = 64;
/// Maximum number of bytes in one stop string.
pub const MAX_STOP_BYTES: usize = 4096;
/// Maximum number of alternatives that are reported for a token.
pub const MAX_TOP_LOGPROBS: u32 = 100;
/// Maximum number of log-probabilities that are reported of a prompt: of each of its tokens, and of alternatives.
pub const MAX_PROMPT_LOGPROBS: usize = 1 << 18;
/// Maximum number of stop tokens.
pub const MAX_STOP_TOKENS: usize = 4096;

/// The input of a generation.
#[derive(Debug, Clone, PartialEq)]
pub enum Prompt {
    /// Text, tokenized by the engine off the caller's thread.
    Text {
        /// The text.
        text: String,
        /// Add what the vocabulary puts around a text (BOS). It is not doubled if the text
        /// already begins with it.
        add_special: bool,
        /// What becomes of the text of control tokens.
        special: Special,
    },
    /// Token ids, which are used unchanged.
    Tokens(Vec<TokenId>),
}

/// What the text of a control token in a prompt becomes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Special {
    /// Ordinary text.
    Plain,
    /// The control token. Only for trusted text.
    #[default]
    Control,
    /// The control token, but for text that a mark, U+FDD0, breaks: one inside a control token's text,
    /// or right after it, leaves that text ordinary. Marks are taken out and two in a row are one
    /// U+FDD0 of the text (of an odd number the first is the mark). So a template's control tokens can
    /// stand beside text of users.
    Marked,
}

/// When a generation ends.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct StopParams {
    /// Maximum number of tokens to generate; `None`: up to the context length. 0 only where the prompt's
    /// log-probabilities are requested.
    pub max_tokens: Option<u32>,
    /// End-of-generation tokens are not drawn before this many tokens.
    pub min_tokens: u32,
    /// End-of-generation tokens are never drawn.
    pub ignore_eos: bool,
    /// Strings that end the generation; they are not part of the output. JSON documents are not ended by
    /// them, nor by stop tokens.
    pub stop: Vec<String>,
    /// Tokens that end the generation like an end-of-generation token.
    pub stop_token_ids: Vec<TokenId>,
    /// Maximum number of tokens in prompt and output together; `None`: the context length.
    pub max_total_tokens: Option<u32>,
}

/// A constraint on the output.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConstraintSpec {
    /// A JSON document that a JSON Schema, given as text, accepts.
    JsonSchema(String),
    /// A text that a regular expression matches as a whole.
    Regex(String),
    /// A text of a context-free grammar, in llguidance's variant of Lark.
    Lark(String),
}

/// When the receiver is notified of new output.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Delivery {
    /// The receiver is notified after every step that gave a delta.
    #[default]
    Streaming,
    /// The receiver is notified of the acceptance and of the end.
    AtEnd,
}

/// The parts of a request before validation. Build with [`GenerationRequest::new`].
#[derive(Debug, Clone, PartialEq)]
pub struct RequestParts {
    /// The input.
    pub prompt: Prompt,
    /// The last bytes of the prompt's text that count as output: stop strings may begin in them, and the text of
    /// the first drawn token begins with theirs. Not with a constraint.
    pub begun: Vec<u8>,
    /// How tokens are drawn.
    pub sampling: SamplingParams,
    /// When to end.
    pub stopping: StopParams,
    /// A constraint on the output; `None`: any text.
    pub constraint: Option<ConstraintSpec>,
    /// How the next tokens are guessed; `None`: not at all.
    pub drafting: Option<Drafting>,
    /// Report log-probabilities with this many alternatives (0: of the drawn token only).
    pub logprobs: Option<u32>,
    /// Report log-probabilities of the prompt's tokens with this many alternatives. The prompt is then computed
    /// again, since cached cells have no logits.
    pub prompt_logprobs: Option<u32>,
    /// Report after each step how much of the prompt is computed.
    pub prompt_progress: bool,
    /// Reuse cached cells of an equal prefix, and leave this request's cells to others.
    pub cache_prompt: bool,
    /// Maximum number of tokens in a prompt chunk of this request.
    pub prefill_step_size: Option<u32>,
    /// When the receiver is notified.
    pub delivery: Delivery,
}

impl RequestParts {
    /// Greedy generation from a text, up to `max_tokens`.
    pub fn text(text: impl Into<String>, max_tokens: u32) -> Self {
        Self::new(
            Prompt::Text { text: text.into(), add_special: true, special: Special::Control },
            max_tokens,
        )
    }

    /// Greedy generation from token ids, up to `max_tokens`.
    #[must_use]
    pub fn tokens(tokens: Vec<TokenId>, max_tokens: u32) -> Self {
        Self::new(Prompt::Tokens(tokens), max_tokens)
    }

    fn new(prompt: Prompt, max_tokens: u32) -> Self {
        Self {
            prompt,
            begun: Vec::new(),
            sampling: SamplingParams::default(),
            stopping: StopParams { max_tokens: Some(max_tokens), ..StopParams::default() },
            constraint: None,
            drafting: None,
            logprobs: None,
            prompt_logprobs: None,
            prompt_progress: false,
            cache_prompt: true,
            prefill_step_size: None,
            delivery: Delivery::Streaming,
        }
    }
}

/// A request whose every field is in range. What depends on the model (the prompt's length, token
/// ids) is checked when it is prepared.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerationRequest(RequestParts);

impl std::ops::Deref for GenerationRequest {
    type Target = RequestParts;

    fn deref(&self) -> &RequestParts {
        &self.0
    }
}

impl GenerationRequest {
    /// Checks every field.
    ///
    /// # Errors
    /// [`Error::InvalidParameter`] names the first field that is out of range.
    pub fn new(parts: RequestParts) -> Result<Self, Error> {
        parts.sampling.check()?;
        // What a constraint forces is not drawn.
        if parts.sampling.allowed_token_ids.is_some() && parts.constraint.is_some() {
            return invalid("allowed_token_ids", "cannot be combined with a constraint on the output");
        }
        check_stopping(&parts.stopping)?;
        if parts.stopping.max_tokens == Some(0) && parts.prompt_logprobs.is_none() {
            return Err(Error::beyond("max_tokens", 1.0, "must be at least 1, got 0"));
        }
        if !parts.begun.is_empty() && parts.constraint.is_some() {
            return invalid("begun", "must be empty beside a constraint");
        }
        if let Some(drafting) = &parts.drafting {
            drafting.check()?;
        }
        check_num_top("logprobs", parts.logprobs)?;
        check_num_top("prompt_logprobs", parts.prompt_logprobs)?;
        if parts.prefill_step_size == Some(0) {
            return Err(Error::beyond("prefill_step_size", 1.0, "must be at least 1, got 0"));
        }
        Ok(Self(parts))
    }

    /// The prompt, taken out for tokenizing.
    pub(crate) fn take_prompt(&mut self) -> Prompt {
        std::mem::replace(&mut self.0.prompt, Prompt::Tokens(Vec::new()))
    }
}

fn check_num_top(field: &'static str, num_top: Option<u32>) -> Result<(), Error> {
    match num_top {
        Some(n) if n > MAX_TOP_LOGPROBS => Err(Error::beyond(
            field,
            f64::from(MAX_TOP_LOGPROBS),
            format!("must be at most {MAX_TOP_LOGPROBS}, got {n}"),
        )),
        Some(_) | None => Ok(()),
    }
}

fn check_stopping(stopping: &StopParams) -> Result<(), Error> {
    if let Some(max) = stopping.max_tokens
        && stopping.min_tokens > max
    {
        let min = stopping.min_tokens;
        return Err(Error::beyond(
            "min_tokens",
            f64::from(max),
            format!("must be at most max_tokens ({max}), got {min}"),
        ));
    }
    if stopping.max_total_tokens == Some(0) {
        return Err(Error::beyond("max_total_tokens", 1.0, "must be at least 1, got 0"));
    }
    if stopping.stop.len() > MAX_STOP_STRINGS {
        let n = stopping.stop.len();
        return Err(too_many(
            "stop",
            MAX_STOP_STRINGS,
            format!("must have at most {MAX_STOP_STRINGS} strings, got {n}"),
        ));
    }
    if stopping.stop_token_ids.len() > MAX_STOP_TOKENS {
        let n = stopping.stop_token_ids.len();
        return Err(too_many(
            "stop_token_ids",
            MAX_STOP_TOKENS,
            format!("must have at most {MAX_STOP_TOKENS} tokens, got {n}"),
        ));
    }
    for stop in &stopping.stop {
        if stop.is_empty() {
            return invalid("stop", "must not contain an empty string");
        }
        if stop.len() > MAX_STOP_BYTES {
            let n = stop.len();
            return Err(too_many(
                "stop",
                MAX_STOP_BYTES,
                format!("strings must have at most {MAX_STOP_BYTES} bytes, got {n}"),
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut RequestParts)) -> Result<(), String> {
        let mut parts = RequestParts::text("prompt", 10);
        change(&mut parts);
        GenerationRequest::new(parts).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn what_is_out_of_range_is_named_with_limit_and_value() {
        let refused =
            |change: fn(&mut RequestParts), message: &str| assert_eq!(check(change), Err(message.to_owned()));
        refused(|p| p.stopping.max_tokens = Some(0), "max_tokens: must be at least 1, got 0");
        refused(|p| p.stopping.min_tokens = 11, "min_tokens: must be at most max_tokens (10), got 11");
        refused(|p| p.stopping.max_total_tokens = Some(0), "max_total_tokens: must be at least 1, got 0");
        refused(|p| p.stopping.stop = vec![String::new()], "stop: must not contain an empty string");
        refused(|p| p.stopping.stop = vec!["x".to_owned(); 65], "stop: must have at most 64 strings, got 65");
        refused(
            |p| p.stopping.stop = vec!["x".repeat(4097)],
            "stop: strings must have at most 4096 bytes, got 4097",
        );
        refused(|p| p.logprobs = Some(101), "logprobs: must be at most 100, got 101");
        refused(|p| p.prompt_logprobs = Some(101), "prompt_logprobs: must be at most 100, got 101");
        refused(|p| p.prefill_step_size = Some(0), "prefill_step_size: must be at least 1, got 0");
        refused(
            |p| p.stopping.stop_token_ids = vec![TokenId(1); 4097],
            "stop_token_ids: must have at most 4096 tokens, got 4097",
        );
        refused(
            |p| {
                p.begun = b"x".to_vec();
                p.constraint = Some(ConstraintSpec::Regex("x".to_owned()));
            },
            "begun: must be empty beside a constraint",
        );
    }

    #[test]
    fn the_ends_of_the_ranges_are_in() {
        assert_eq!(check(|p| p.stopping.min_tokens = 10), Ok(()));
        let only_prompt = |p: &mut RequestParts| {
            p.stopping.max_tokens = Some(0);
            p.prompt_logprobs = Some(0);
        };
        assert_eq!(check(only_prompt), Ok(()));
    }
}
