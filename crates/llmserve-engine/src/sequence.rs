//! The token state of one request, from its admission to its end.

use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::draft::{Drafter, Head, SequenceDrafts};
use crate::error::Error;
use crate::event::{Delta, Event, Timings, Usage};
use crate::ids::{RequestId, SlotId, TokenId};
use crate::kv::{SessionKey, Suspended};
use crate::model::{DraftRequest, Vocabulary};
use crate::notify::PendingFlush;
use crate::outbox::Outbox;
use crate::output::{Output, PromptScores, Text};
use crate::request::GenerationRequest;
use crate::scheduler::is_decode;
use crate::session::SessionTurn;
use crate::tenant::Tenant;

/// A prepared request: its prompt is tokenized and fits the context.
pub(crate) struct Prepared {
    pub(crate) request: GenerationRequest,
    pub(crate) prompt: Vec<TokenId>,
    pub(crate) seed: u64,
    pub(crate) output: Output,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    /// The sequence's turn in its session.
    pub(crate) turn: Option<SessionTurn>,
    /// Held as long as the sequence is.
    pub(crate) head: Option<Head>,
    pub(crate) submitted: Instant,
}

/// One request as the engine thread sees it.
///
/// `tokens[..num_computed]` have their cells in the slot, the rest is pending: more than one
/// pending token is a prefill, exactly one a decode row. A preempted sequence without parked cells
/// is a prefill again, and so is one whose cells could not be rolled back.
pub(crate) struct Sequence {
    pub(crate) request: GenerationRequest,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) tenant: Tenant,
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) num_prompt: usize,
    pub(crate) num_computed: usize,
    pub(crate) slot: Option<SlotId>,
    /// The sequence's cells, while it has no slot because others needed it.
    pub(crate) suspended: Option<Suspended>,
    /// The key by which it uses cells from a file of its session.
    pub(crate) session_key: Option<SessionKey>,
    /// Order of arrival: the largest is the youngest.
    pub(crate) arrival: u64,
    /// Prompt chunks end here, since others wait to share what is before.
    pub(crate) share_at: Option<usize>,
    /// Prompt chunks end here, since the state is to be kept.
    pub(crate) checkpoint_at: Option<usize>,
    seed: u64,
    pub(crate) output: Output,
    /// If the prompt's log-probabilities are requested.
    pub(crate) scores: Option<PromptScores>,
    /// How much of the prompt has been reported as computed.
    reported: Option<usize>,
    pub(crate) drafts: Option<SequenceDrafts>,
    turn: Option<SessionTurn>,
    /// Keeps the draft context open.
    _head: Option<Head>,
    usage: Usage,
    clock: Clock,
}

struct Clock {
    submitted: Instant,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

impl Sequence {
    pub(crate) fn new(
        prepared: Prepared,
        tenant: Tenant,
        arrival: u64,
        drafts: Option<SequenceDrafts>,
    ) -> Self {
        let Prepared { request, prompt, seed, output, outbox, turn, head, submitted, .. } = prepared;
        Self {
            num_prompt: prompt.len(),
            scores: request.prompt_logprobs.map(|num_top| PromptScores::new(num_top, prompt.len())),
            usage: Usage { num_prompt_tokens: prompt.len(), ..Usage::default() },
            tokens: prompt,
            num_computed: 0,
            slot: None,
            suspended: None,
            session_key: turn.as_ref().and_then(|session| session.turn.key()),
            arrival,
            share_at: None,
            checkpoint_at: None,
            seed,
            output,
            reported: None,
            tenant,
            drafts,
            turn,
            _head: head,
            clock: Clock { submitted, admitted: None, first_token: None, last_token: None },
            request,
            outbox,
        }
    }

    pub(crate) fn id(&self) -> RequestId {
        self.outbox.id
    }

    pub(crate) fn num_pending(&self) -> usize {
        self.tokens.len() - self.num_computed
    }

    /// Number of the prompt's tokens that were not cached when it was admitted.
    pub(crate) fn num_new(&self) -> usize {
        self.num_prompt - self.usage.num_cached_tokens
    }

    pub(crate) fn num_generated(&self) -> usize {
        self.tokens.len() - self.num_prompt
    }

    /// Maximum number of tokens in prompt and output together.
    pub(crate) fn max_tokens(&self) -> usize {
        self.output.max_tokens()
    }

    /// Whether any token may be generated.
    pub(crate) fn has_room(&self) -> bool {
        self.tokens.len() < self.max_tokens()
    }

    /// The positions of the prompt whose logits are still wanted for its log-probabilities.
    pub(crate) fn unscored(&self) -> Range<usize> {
        self.scores.as_ref().map_or(0..0, PromptScores::positions)
    }

    /// Whether log-probabilities of its prompt are still wanted.
    pub(crate) fn is_scored(&self) -> bool {
        !self.unscored().is_empty()
    }

    /// How many tokens may have their cells from elsewhere: those behind are computed for their logits.
    pub(crate) fn num_coverable(&self) -> usize {
        let last = self.tokens.len().saturating_sub(1);
        if self.is_scored() { self.unscored().start.min(last) } else { last }
    }

    pub(crate) fn usage(&self) -> Usage {
        Usage { num_completion_tokens: self.num_generated(), ..self.usage }
    }

    pub(crate) fn seed(&self) -> u64 {
        self.seed
    }

    /// Notes the first admission; false for a resumed sequence.
    pub(crate) fn note_admitted(&mut self, num_cached: usize) -> bool {
        if self.clock.admitted.is_some() {
            return false;
        }
        self.clock.admitted = Some(Instant::now());
        self.usage.num_cached_tokens = num_cached;
        true
    }

    /// Reports how much of the prompt is computed, if that is requested. One that is computed again is reported once
    /// it is beyond the last report.
    pub(crate) fn report_progress(&mut self, pending: &mut PendingFlush) {
        let num_computed_tokens = self.num_computed;
        let is_news =
            self.num_generated() == 0 && self.reported.is_none_or(|last| num_computed_tokens > last);
        if self.request.prompt_progress && is_news {
            self.reported = Some(num_computed_tokens);
            self.outbox.push(Event::Progress { num_computed_tokens }, pending);
        }
    }

    /// How many tokens after the next one may be generated: more need not be drafted.
    pub(crate) fn draft_room(&self) -> usize {
        self.max_tokens().saturating_sub(self.tokens.len() + 1)
    }

    /// The request to the model's own head, if it drafts for this sequence.
    pub(crate) fn draft_request(&self, max: usize) -> Option<DraftRequest> {
        self.drafts.as_ref().filter(|drafts| drafts.is_head())?;
        let position = self.num_computed as u32;
        Some(DraftRequest { slot: self.slot?, token: *self.tokens.last()?, position, max })
    }

    /// Guesses of the sequence's own drafter for the rows after the pending tokens.
    pub(crate) fn draft(&mut self, max: usize) -> Vec<TokenId> {
        let Some(drafter) = self.drafts.as_mut().and_then(SequenceDrafts::drafter) else {
            return Vec::new();
        };
        let mut draft = drafter.draft(&self.tokens, max);
        draft.truncate(max);
        draft
    }

    /// Whether its next rows are decode rows, not a prompt's.
    pub(crate) fn is_decoding(&self) -> bool {
        is_decode(self.num_pending(), self.num_generated() > 0)
    }

    pub(crate) fn note_draft(&mut self, drafted: usize, accepted: usize) {
        self.usage.num_draft_tokens += drafted;
        self.usage.num_accepted_tokens += accepted;
    }

    /// Notes that tokens were drawn.
    pub(crate) fn note_tokens(&mut self) {
        let now = Instant::now();
        self.clock.first_token.get_or_insert(now);
        self.clock.last_token = Some(now);
    }

    /// Completes a constrained document that its client gave up: its last output.
    ///
    /// # Errors
    /// Those of [`Output::close`].
    pub(crate) fn close_document(&mut self, vocabulary: &dyn Vocabulary) -> Result<Delta, Error> {
        let delta = self.output.close(Text { tokens: &mut self.tokens, vocabulary })?;
        if !delta.tokens.is_empty() {
            self.note_tokens();
        }
        Ok(delta)
    }

    /// Ends its turn in its session, which continues from here if there was any output.
    pub(crate) fn end_turn(&mut self) {
        if let Some(turn) = self.turn.take()
            && self.num_generated() > 0
        {
            turn.finish(self.tokens.clone());
        }
    }

    pub(crate) fn timings(&self) -> Timings {
        let now = Instant::now();
        let clock = &self.clock;
        let admitted = clock.admitted.unwrap_or(now);
        let first = clock.first_token.unwrap_or(now);
        Timings {
            queue: admitted.saturating_duration_since(clock.submitted),
            prefill: clock.admitted.map_or_else(Default::default, |at| first.saturating_duration_since(at)),
            decode: clock.last_token.map_or_else(Default::default, |at| at.saturating_duration_since(first)),
            time_to_first_token: first.saturating_duration_since(clock.submitted),
        }
    }
}
