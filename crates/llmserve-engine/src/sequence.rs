//! The token state of one request, from its admission to its end.

use std::sync::Arc;
use std::time::Instant;

use crate::constrained::{Constrained, Guide, Settled};
use crate::detokenizer::Detokenizer;
use crate::draft::{Drafter, SequenceDrafts};
use crate::error::Error;
use crate::event::{Delta, FinishReason, Timings, TokenRecord, Usage};
use crate::ids::{RequestId, SlotId, TokenId};
use crate::kv::{SessionKey, Suspended};
use crate::model::{DraftRequest, Vocabulary};
use crate::outbox::Outbox;
use crate::request::GenerationRequest;
use crate::sampler::{Bans, Sampled, Sampler, Scratch};
use crate::session::{SessionMode, Turn};

/// A prepared request: its prompt is tokenized and fits the context.
pub(crate) struct Prepared {
    pub(crate) request: GenerationRequest,
    pub(crate) prompt: Vec<TokenId>,
    /// The most tokens of prompt and output together.
    pub(crate) max_tokens: usize,
    pub(crate) seed: u64,
    pub(crate) outbox: Arc<Outbox>,
    pub(crate) drafter: Option<Box<dyn Drafter>>,
    pub(crate) constrained: Option<Box<Constrained>>,
    /// Its turn in its session.
    pub(crate) turn: Option<Turn>,
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
    pub(crate) tokens: Vec<TokenId>,
    pub(crate) num_prompt: usize,
    pub(crate) num_computed: usize,
    pub(crate) slot: Option<SlotId>,
    /// Its cells, while it has no slot because others needed it.
    pub(crate) suspended: Option<Suspended>,
    /// What it uses cells by that came out of a file of its session.
    pub(crate) session_key: Option<SessionKey>,
    /// Order of arrival: the largest is the youngest.
    pub(crate) arrival: u64,
    /// Its prompt chunks end here, since others wait to share what is before.
    pub(crate) share_at: Option<usize>,
    /// Its prompt chunks end here, since its state is to be kept.
    pub(crate) checkpoint_at: Option<usize>,
    max_tokens: usize,
    seed: u64,
    sampler: Sampler,
    detokenizer: Detokenizer,
    pub(crate) drafts: Option<SequenceDrafts>,
    guide: Guide,
    turn: Option<Turn>,
    usage: Usage,
    clock: Clock,
}

struct Clock {
    submitted: Instant,
    admitted: Option<Instant>,
    first_token: Option<Instant>,
    last_token: Option<Instant>,
}

/// How a sequence ended.
pub(crate) struct End {
    pub(crate) reason: FinishReason,
    pub(crate) stop: Option<String>,
}

impl Sequence {
    pub(crate) fn new(prepared: Prepared, arrival: u64, drafts: Option<SequenceDrafts>) -> Self {
        let Prepared { mut request, prompt, max_tokens, seed, outbox, constrained, turn, submitted, .. } =
            prepared;
        let sampler = Sampler::new(&request.sampling, seed, request.logprobs, &prompt);
        if constrained.as_ref().is_some_and(|constrained| constrained.is_json()) {
            // They could cut a document short.
            request.clear_stops();
        }
        let detokenizer = Detokenizer::new(&request.stopping.stop);
        Self {
            num_prompt: prompt.len(),
            usage: Usage { num_prompt_tokens: prompt.len(), ..Usage::default() },
            tokens: prompt,
            num_computed: 0,
            slot: None,
            suspended: None,
            session_key: turn.as_ref().and_then(Turn::key),
            arrival,
            share_at: None,
            checkpoint_at: None,
            max_tokens,
            seed,
            sampler,
            detokenizer,
            drafts,
            guide: constrained.map_or(Guide::Free, Guide::Here),
            turn,
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

    pub(crate) fn num_generated(&self) -> usize {
        self.tokens.len() - self.num_prompt
    }

    /// The most tokens of prompt and output together.
    pub(crate) fn max_tokens(&self) -> usize {
        self.max_tokens
    }

    pub(crate) fn usage(&self) -> Usage {
        self.usage
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

    /// How many tokens after the next one may be generated: more need not be drafted.
    pub(crate) fn draft_room(&self) -> usize {
        self.max_tokens.saturating_sub(self.tokens.len() + 1)
    }

    /// What the model's own head is asked for, if it drafts for this sequence.
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

    /// Cuts off of a draft what cannot be accepted: what is no token, what the constraint forbids, and what
    /// follows an end of the generation.
    pub(crate) fn cut_draft(&mut self, draft: &mut Vec<TokenId>, vocabulary: &dyn Vocabulary) {
        if draft.is_empty() {
            return;
        }
        let is_token = |token: &TokenId| usize::try_from(token.0).is_ok_and(|id| id < vocabulary.size());
        let ends = |token: &TokenId| vocabulary.is_end_of_generation(*token);
        let len = draft.iter().position(|token| !is_token(token)).unwrap_or(draft.len());
        draft.truncate(draft.iter().position(ends).map_or(len, |end| len.min(end + 1)));
        if let Ok(Some(constrained)) = self.guide.get() {
            draft.truncate(constrained.num_valid(draft));
        }
    }

    /// Whether its next rows are the drawn token and what was forced behind it, and nothing older.
    pub(crate) fn is_decoding(&self) -> bool {
        self.num_generated() > 0 && self.num_pending() <= self.num_generated()
    }

    pub(crate) fn note_draft(&mut self, drafted: usize, accepted: usize) {
        self.usage.num_draft_tokens += drafted;
        self.usage.num_accepted_tokens += accepted;
    }

    /// Draws from a row of logits and takes the token, or what the constraint makes of it, into the
    /// output. How that ended the sequence, if it did.
    pub(crate) fn draw(
        &mut self,
        logits: &[f32],
        vocabulary: &dyn Vocabulary,
        scratch: &mut Scratch,
        delta: &mut Delta,
    ) -> Result<Option<End>, Error> {
        let tokens = if self.bans_end() { vocabulary.end_of_generation() } else { &[] };
        let left = self.num_left();
        let Some(constrained) = self.guide.get()? else {
            let sampled = self.sampler.sample(logits, Bans { tokens, allowed: None }, scratch)?;
            return Ok(self.append(sampled, None, vocabulary, delta));
        };
        let allowed = Some(constrained.mask()?.words());
        let sampled = self.sampler.sample(logits, Bans { tokens, allowed }, scratch)?;
        match constrained.settle(sampled.token, left)? {
            Settled::Tail(tail) => Ok(Some(self.append_tail(&tail, FinishReason::Length, vocabulary, delta))),
            Settled::Token => {
                let end = constrained.is_finished().then_some(FinishReason::Stop);
                match self.append(sampled, end, vocabulary, delta) {
                    None => self.append_forced(vocabulary, delta),
                    ended => Ok(ended),
                }
            }
        }
    }

    /// Appends what must come next. Log-probabilities need a row of logits each, so nothing is forced
    /// where they are asked for.
    fn append_forced(
        &mut self,
        vocabulary: &dyn Vocabulary,
        delta: &mut Delta,
    ) -> Result<Option<End>, Error> {
        let left = self.num_left();
        let Some(constrained) = self.guide.get()?.filter(|_| self.request.logprobs.is_none()) else {
            return Ok(None);
        };
        let forced = constrained.take_forced(left)?;
        let end = constrained.is_finished().then_some(FinishReason::Stop);
        let mut ended = None;
        for (index, &token) in forced.iter().enumerate() {
            let end = end.filter(|_| index + 1 == forced.len());
            ended = self.append(Sampled { token, logprobs: None }, end, vocabulary, delta);
            if ended.is_some() {
                break;
            }
        }
        Ok(ended)
    }

    fn append_tail(
        &mut self,
        tail: &[TokenId],
        reason: FinishReason,
        vocabulary: &dyn Vocabulary,
        delta: &mut Delta,
    ) -> End {
        for &token in tail {
            if let Some(end) = self.append(Sampled { token, logprobs: None }, None, vocabulary, delta)
                && end.stop.is_some()
            {
                return end;
            }
        }
        End { reason, stop: None }
    }

    /// Completes a constrained document that its client gave up, if it was begun and if a way is known:
    /// its last output.
    ///
    /// # Errors
    /// What [`Self::check_output`] says of the completed document.
    pub(crate) fn close_document(&mut self, vocabulary: &dyn Vocabulary) -> Result<Delta, Error> {
        let mut delta = Delta::default();
        let left = self.num_left();
        let is_begun = self.num_generated() > 0;
        let Some(constrained) = self.guide.get()?.filter(|_| is_begun) else {
            return Ok(delta);
        };
        if let Some(tail) = constrained.close(left) {
            self.append_tail(&tail, FinishReason::Cancelled, vocabulary, &mut delta);
            self.check_output()?;
        }
        Ok(delta)
    }

    /// Whether the output is whole, as far as that can be said: false for a constrained document that
    /// is not.
    pub(crate) fn is_complete(&mut self) -> bool {
        match self.guide.get() {
            Ok(None) => true,
            Ok(Some(constrained)) => constrained.is_complete(),
            Err(_) => false,
        }
    }

    /// The check of a constrained output that has ended.
    ///
    /// # Errors
    /// [`Error::ConstraintFailed`] for what the constraint does not allow, and for a JSON document that
    /// is not whole.
    pub(crate) fn check_output(&mut self) -> Result<(), Error> {
        let Some(constrained) = self.guide.get()? else {
            return Ok(());
        };
        if constrained.is_complete() {
            constrained.check_document()
        } else if constrained.is_json() {
            Err(Error::ConstraintFailed { reason: "nothing was found that completes the document" })
        } else {
            Ok(())
        }
    }

    pub(crate) fn is_constrained(&self) -> bool {
        !matches!(self.guide, Guide::Free)
    }

    /// Gives the constraint away to have its mask computed.
    pub(crate) fn lend_constraint(&mut self) -> Option<Box<Constrained>> {
        match std::mem::replace(&mut self.guide, Guide::Away) {
            Guide::Here(constrained) => Some(constrained),
            other @ (Guide::Free | Guide::Away) => {
                self.guide = other;
                None
            }
        }
    }

    pub(crate) fn return_constraint(&mut self, constrained: Box<Constrained>) {
        self.guide = Guide::Here(constrained);
    }

    /// Whether end-of-generation tokens may not be drawn now.
    fn bans_end(&self) -> bool {
        let stopping = &self.request.stopping;
        stopping.ignore_eos || self.num_generated() < stopping.min_tokens as usize
    }

    /// How many tokens may still be generated.
    pub(crate) fn num_left(&self) -> usize {
        self.max_tokens.saturating_sub(self.tokens.len())
    }

    /// Appends a token: sampler, text and token list move together. `end` says that it is the last one.
    fn append(
        &mut self,
        sampled: Sampled,
        end: Option<FinishReason>,
        vocabulary: &dyn Vocabulary,
        delta: &mut Delta,
    ) -> Option<End> {
        let Sampled { token, logprobs } = sampled;
        let now = Instant::now();
        self.clock.first_token.get_or_insert(now);
        self.clock.last_token = Some(now);
        self.tokens.push(token);
        self.sampler.accept(token);
        self.usage.num_completion_tokens += 1;
        let ends =
            vocabulary.is_end_of_generation(token) || self.request.stopping.stop_token_ids.contains(&token);
        let bytes = if ends { Vec::new() } else { vocabulary.piece(token, false) };
        let released = self.detokenizer.push(&bytes);
        let mut text = released.text;
        let end = self.end_after(end.or(ends.then_some(FinishReason::Stop)), released.stop);
        if matches!(&end, Some(End { stop: None, .. })) {
            text.push_str(&self.detokenizer.finish());
        }
        delta.tokens.push(TokenRecord { id: token, bytes, text, logprobs });
        end
    }

    fn end_after(&self, reason: Option<FinishReason>, stop: Option<usize>) -> Option<End> {
        if let Some(index) = stop {
            let stop = self.request.stopping.stop.get(index).cloned();
            return Some(End { reason: FinishReason::Stop, stop });
        }
        let is_full = self.tokens.len() >= self.max_tokens;
        let reason = reason.or(is_full.then_some(FinishReason::Length))?;
        Some(End { reason, stop: None })
    }

    /// Takes back the last `n` drawn tokens: token list, sampler and text. Its cells are the
    /// caller's to trim. False, and nothing changed, where their text has been released.
    #[cfg_attr(
        not(test),
        expect(dead_code, reason = "draws are verified in order, so that nothing has to be taken back yet")
    )]
    pub(crate) fn rollback(&mut self, n: usize) -> bool {
        if n > self.num_generated() || self.detokenizer.rollback(n).is_err() {
            return false;
        }
        self.tokens.truncate(self.tokens.len() - n);
        self.sampler.rollback(n);
        self.usage.num_completion_tokens -= n;
        true
    }

    /// Ends its turn in its session, which goes on from here if there was any output.
    pub(crate) fn end_turn(&mut self) {
        if let (Some(turn), Some(session)) = (self.turn.take(), &self.request.session)
            && self.num_generated() > 0
        {
            let goes_on = matches!(session.mode, SessionMode::AppendTurn(_)) && turn.is_templated();
            turn.set(self.tokens.clone(), session.templated || goes_on);
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::fake::FakeVocabulary;
    use crate::request::{Delivery, RequestParts, SamplingParams};

    fn sequence(stop: &[&str]) -> Sequence {
        let mut parts = RequestParts::text("", 10);
        parts.stopping.stop = stop.iter().map(ToString::to_string).collect();
        parts.sampling = SamplingParams { repetition_penalty: 2.0, ..SamplingParams::default() };
        let prepared = Prepared {
            request: GenerationRequest::new(parts).unwrap(),
            prompt: vec![TokenId(1), TokenId(2)],
            max_tokens: 12,
            seed: 0,
            outbox: Arc::new(Outbox::new(RequestId(0), Delivery::Streaming, None)),
            drafter: None,
            constrained: None,
            turn: None,
            submitted: Instant::now(),
        };
        Sequence::new(prepared, 0, None)
    }

    fn append(sequence: &mut Sequence, text: &str) -> String {
        let tokens = text.bytes().map(|byte| TokenId(i32::from(byte)));
        let mut delta = Delta::default();
        for token in tokens {
            sequence.append(Sampled { token, logprobs: None }, None, &FakeVocabulary, &mut delta);
        }
        delta.text()
    }

    /// The logits that the sampler prefers among the letters, which shows its history.
    fn next_of(sequence: &Sequence) -> TokenId {
        let mut logits = vec![0.0; 258];
        logits[usize::from(b'x')] = 3.0;
        logits[usize::from(b'a')] = 2.0;
        sequence.sampler.sample(&logits, Bans::default(), &mut Scratch::default()).unwrap().token
    }

    #[test]
    fn a_rolled_back_token_leaves_no_trace() {
        let mut sequence = sequence(&["stop here"]);
        assert_eq!(append(&mut sequence, "a"), "a");
        let before = next_of(&sequence);
        // Held back as the possible start of the stop string, and so not released.
        assert_eq!(append(&mut sequence, "sx"), "sx");
        assert_eq!(append(&mut sequence, "st"), "");
        let len = sequence.tokens.len();
        assert!(sequence.rollback(2));
        assert_eq!(sequence.tokens.len(), len - 2);
        assert_eq!(sequence.usage().num_completion_tokens, 3);
        assert_eq!(append(&mut sequence, "b"), "b");
        assert_eq!(before, TokenId(i32::from(b'x')));
        assert_eq!(next_of(&sequence), TokenId(i32::from(b'x')), "3 / 2 is less than 2 / 2: x was taken");
    }

    #[test]
    fn the_sampler_forgets_what_is_rolled_back() {
        let mut sequence = sequence(&["xyz"]);
        assert_eq!(append(&mut sequence, "x"), "");
        assert_eq!(next_of(&sequence), TokenId(i32::from(b'a')), "x is penalised");
        assert!(sequence.rollback(1));
        assert_eq!(next_of(&sequence), TokenId(i32::from(b'x')));
    }

    #[test]
    fn what_was_released_or_never_drawn_cannot_be_rolled_back() {
        let mut sequence = sequence(&[]);
        append(&mut sequence, "ab");
        assert!(!sequence.rollback(1));
        assert!(!sequence.rollback(3));
        assert_eq!(sequence.num_generated(), 2);
    }
}
