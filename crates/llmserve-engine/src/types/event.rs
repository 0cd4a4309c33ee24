//! The events of a request: accepted, started, deltas, and exactly one terminal event.

use std::time::Duration;

use super::error::Error;
use super::ids::TokenId;

/// An event of a request.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// The request has its place in the queue.
    Accepted {
        /// Number of prompt tokens.
        num_prompt_tokens: usize,
    },
    /// The request left the queue and its prompt is being computed.
    Started {
        /// Number of prompt tokens whose cells were reused.
        num_cached_tokens: usize,
    },
    /// The prompt is computed up to here, if such reports were requested; the first follows `Started`, and all
    /// come before the output.
    Progress {
        /// Number of prompt tokens with cells.
        num_computed_tokens: usize,
    },
    /// The next tokens of the prompt, if their log-probabilities were requested; all come before the output.
    Prompt(Vec<PromptToken>),
    /// New output.
    Delta(Delta),
    /// The end: nothing follows.
    Finished(Finished),
    /// The end because of a fault: nothing follows.
    Failed(Error),
}

/// Output of one or more steps.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Delta {
    /// One record for each drawn token, including the end-of-generation token.
    pub tokens: Vec<TokenRecord>,
}

impl Delta {
    /// The text that may be shown: what the records release together.
    #[must_use]
    pub fn text(&self) -> String {
        self.tokens.iter().map(|record| record.text.as_str()).collect()
    }
}

/// A drawn token.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenRecord {
    /// The token.
    pub id: TokenId,
    /// The token's bytes, which may be part of a UTF-8 character; empty for a control token.
    pub bytes: Vec<u8>,
    /// The text that this token released: empty while a character or a stop string may be
    /// incomplete. Records of one request, joined, give its text.
    pub text: String,
    /// The token's log-probability and alternatives, if they were requested.
    pub logprobs: Option<TokenLogprobs>,
}

/// A token of the prompt.
#[derive(Debug, Clone, PartialEq)]
pub struct PromptToken {
    /// The token.
    pub id: TokenId,
    /// The token's bytes, which may be part of a UTF-8 character; empty for a control token.
    pub bytes: Vec<u8>,
    /// How likely it was; `None` for the first token, which nothing precedes.
    pub score: Option<TokenScore>,
}

/// How likely a given token was.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenScore {
    /// Its log-probability and alternatives.
    pub logprobs: TokenLogprobs,
    /// 1 for the likeliest token: one more than the number of likelier tokens.
    pub rank: u32,
}

/// Log-probabilities at one position: the log-softmax of the model's raw logits (natural
/// logarithm). Minus infinity is possible.
#[derive(Debug, Clone, PartialEq)]
pub struct TokenLogprobs {
    /// Log-probability of the token.
    pub logprob: f32,
    /// The likeliest tokens, best first.
    pub top: Vec<(TokenId, f32)>,
}

/// How a request ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// Why.
    pub reason: FinishReason,
    /// Token counts.
    pub usage: Usage,
    /// Durations.
    pub timings: Timings,
    /// The seed that keyed the draws.
    pub seed: u64,
    /// The stop string that ended the generation.
    pub stop: Option<String>,
    /// False for constrained output that is not a whole document, because no way to complete it was found.
    pub is_complete: bool,
}

/// Why a generation ended without a fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FinishReason {
    /// An end-of-generation token, a stop token or a stop string ended it.
    Stop,
    /// The token limit or the context length ended it.
    Length,
    /// The client cancelled it. The text ends before what was still held back.
    Cancelled,
}

impl FinishReason {
    /// The name in the Python API and on most wires.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Stop => "stop",
            Self::Length => "length",
            Self::Cancelled => "cancelled",
        }
    }
}

/// Token counts of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// Number of prompt tokens, including cached ones.
    pub num_prompt_tokens: usize,
    /// Number of prompt tokens whose cells were reused.
    pub num_cached_tokens: usize,
    /// Number of drawn tokens, including the end-of-generation token.
    pub num_completion_tokens: usize,
    /// Tokens that a drafter proposed.
    pub num_draft_tokens: usize,
    /// Proposed tokens that equalled the draw.
    pub num_accepted_tokens: usize,
}

/// Durations of a request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Timings {
    /// Time from submission until the request left the queue.
    pub queue: Duration,
    /// Time from leaving the queue until the first token was drawn.
    pub prefill: Duration,
    /// Time from the first token to the last.
    pub decode: Duration,
    /// Time from submission until the first token was drawn.
    pub time_to_first_token: Duration,
}
