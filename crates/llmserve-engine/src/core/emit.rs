//! The output of a decoded batch: tokens are drawn and handed out, rejected drafts are taken back, and finished
//! sequences retire.

use crate::error::Error;
use crate::event::{Delta, Event};
use crate::output::{Drawn, End, Output, Rows, Text};
use crate::sequence::Sequence;

use super::Core;
use super::compute::Part;

/// A sequence's part in the output of a step.
struct Draw<'a> {
    output: &'a mut Output,
    text: Text<'a>,
    rows: Rows<'a>,
}

impl Core {
    /// Scores prompts, draws the next tokens, hands both out, and retires finished sequences.
    pub(super) fn emit(&mut self, parts: &[Part]) {
        for part in parts {
            self.running[part.index].num_computed += part.num_tokens;
            self.running[part.index].report_progress(&mut self.pending);
            self.take_checkpoint(part.index);
        }
        let mut ends = self.score_prompts(parts);
        let is_drawn =
            |part: &&Part| part.output_row.is_some() && ends.iter().all(|(index, _)| *index != part.index);
        let drawing: Vec<&Part> = parts.iter().filter(is_drawn).collect();
        let drawn = self.draw(&drawing);
        for (part, drawn) in drawing.into_iter().zip(drawn) {
            ends.push((part.index, self.hand_out(part, drawn)));
        }
        self.retire(ends);
    }

    /// Continues the sequences whose token waits for its constraint.
    pub(super) fn emit_held(&mut self) {
        let mut ends = Vec::new();
        for index in 0..self.running.len() {
            let Sequence { output, tokens, .. } = &mut self.running[index];
            if output.is_held() {
                let drawn = output.draw_held(Text { tokens, vocabulary: &*self.vocabulary });
                self.push_delta(index, drawn.delta);
                ends.push((index, drawn.end));
            }
        }
        self.retire(ends);
    }

    /// Removes finished sequences.
    fn retire(&mut self, mut ends: Vec<(usize, Result<Option<End>, Error>)>) {
        // From the back, so that removing one keeps the other indices valid.
        ends.sort_unstable_by_key(|(index, _)| std::cmp::Reverse(*index));
        for (index, end) in ends {
            match end {
                Ok(None) => {}
                Ok(Some(end)) => self.finish(index, end),
                Err(error) => self.fail(index, error),
            }
        }
    }

    /// Draws for all of these parts. A panic in one draw fails its own sequence.
    fn draw(&mut self, parts: &[&Part]) -> Vec<Drawn> {
        let Self { kv, pool, running, vocabulary, .. } = self;
        let (vocabulary, computed) = (&**vocabulary, kv.computed());
        let mut sequences: Vec<Option<&mut Sequence>> = running.iter_mut().map(Some).collect();
        let draws = parts.iter().filter_map(|part| {
            let first = part.output_row?;
            let logits = (first..=first + part.draft.len()).map_while(|row| computed.logits(row)).collect();
            let sequence = sequences[part.index].take()?;
            Some(Draw {
                output: &mut sequence.output,
                text: Text { tokens: &mut sequence.tokens, vocabulary },
                rows: Rows { logits, draft: &part.draft },
            })
        });
        let draws: Vec<Draw<'_>> = draws.collect();
        let cost = draws.iter().map(|draw| draw.output.cost(vocabulary.size())).sum();
        let results = pool.run(draws, cost, |draw, scratch| draw.output.draw(&draw.rows, draw.text, scratch));
        results.into_iter().map(|drawn| drawn.unwrap_or_else(Drawn::lost)).collect()
    }

    /// Hands out what was drawn, and takes back wrong guesses. Returns how the sequence ended, if it did.
    fn hand_out(&mut self, part: &Part, drawn: Drawn) -> Result<Option<End>, Error> {
        let Drawn { delta, num_accepted, end } = drawn;
        self.running[part.index].num_computed += num_accepted;
        self.push_delta(part.index, delta);
        let has_ended = !matches!(end, Ok(None));
        self.record_draft(part.index, part.draft.len(), num_accepted, has_ended);
        if num_accepted < part.draft.len() {
            self.drop_rejected(part.index);
        }
        end
    }
    fn push_delta(&mut self, index: usize, delta: Delta) {
        self.stats.completion_tokens += delta.tokens.len() as u64;
        if !delta.tokens.is_empty() {
            let sequence = &mut self.running[index];
            self.waiting.charge_output(&sequence.tenant, delta.tokens.len());
            sequence.note_tokens();
            sequence.outbox.push(Event::Delta(delta), &mut self.pending);
        }
    }
}
