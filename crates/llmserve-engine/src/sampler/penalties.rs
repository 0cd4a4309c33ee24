//! Penalties on tokens that have occurred, and the bias on tokens that were named.

use std::collections::HashMap;

use crate::ids::TokenId;
use crate::request::SamplingParams;

/// The repetition, frequency and presence penalties of a sequence, with the counts they need.
///
/// Repetition (Keskar et al., "CTRL", 2019) looks at prompt and output: positive logits are
/// divided, others multiplied. Frequency and presence (the `OpenAI` API's formula) look at the
/// output: `logit - count * frequency - presence`. Repetition comes first.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Penalties {
    repetition: f32,
    frequency: f32,
    presence: f32,
    /// The tokens that have occurred, and how often each did in the output.
    seen: Vec<(TokenId, u32)>,
    /// The position of each of them.
    places: HashMap<TokenId, usize>,
}

impl Penalties {
    /// `None` if no penalty would change anything.
    pub(super) fn new(params: &SamplingParams, prompt: &[TokenId]) -> Option<Self> {
        let is_off = |value: f32, off: f32| (value - off).abs() <= 0.0;
        let repeats = !is_off(params.repetition_penalty, 1.0);
        if !repeats && is_off(params.frequency_penalty, 0.0) && is_off(params.presence_penalty, 0.0) {
            return None;
        }
        // The other two do not look at the prompt.
        let mut in_prompt = if repeats { prompt.to_vec() } else { Vec::new() };
        // In order of their ids, so that the logits are changed from the first to the last.
        in_prompt.sort_unstable();
        in_prompt.dedup();
        Some(Self {
            repetition: params.repetition_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            places: in_prompt.iter().enumerate().map(|(place, &token)| (token, place)).collect(),
            seen: in_prompt.into_iter().map(|token| (token, 0)).collect(),
        })
    }

    /// Adds a token of the output.
    pub(super) fn push(&mut self, token: TokenId) {
        let place = *self.places.entry(token).or_insert(self.seen.len());
        match self.seen.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => self.seen.push((token, 1)),
        }
    }

    /// Changes the logits of the tokens that have occurred.
    pub(super) fn apply(&self, logits: &mut [f32]) {
        for &(token, count) in &self.seen {
            if let Some(logit) = logit_of(logits, token) {
                change(logit, |logit| self.penalized(logit, count));
            }
        }
    }

    fn penalized(&self, logit: f32, count: u32) -> f32 {
        let repeated = if logit > 0.0 { logit / self.repetition } else { logit * self.repetition };
        // Between the two steps too, infinity must not meet infinity.
        let repeated = repeated.clamp(f32::MIN, f32::MAX);
        if count == 0 { repeated } else { repeated - (count as f32 * self.frequency + self.presence) }
    }
}

/// Adds biases. Ids outside the vocabulary are ignored.
pub(super) fn apply_bias(bias: &[(TokenId, f32)], logits: &mut [f32]) {
    for &(token, amount) in bias {
        if let Some(logit) = logit_of(logits, token) {
            change(logit, |logit| logit + amount);
        }
    }
}

/// The logit of a token of the vocabulary.
pub(super) fn logit_of(logits: &mut [f32], token: TokenId) -> Option<&mut f32> {
    logits.get_mut(usize::try_from(token.0).ok()?)
}

/// Changes a finite logit, which stays finite: only a ban takes a token out.
fn change(logit: &mut f32, change: impl FnOnce(f32) -> f32) {
    if logit.is_finite() {
        *logit = change(*logit).clamp(f32::MIN, f32::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn penalties(repetition: f32, frequency: f32, presence: f32, prompt: &[TokenId]) -> Option<Penalties> {
        let params = SamplingParams {
            repetition_penalty: repetition,
            frequency_penalty: frequency,
            presence_penalty: presence,
            ..SamplingParams::default()
        };
        Penalties::new(&params, prompt)
    }

    fn applied(penalties: Option<Penalties>, output: &[i32], logits: &[f32]) -> Vec<f32> {
        let mut logits = logits.to_vec();
        if let Some(mut penalties) = penalties {
            for &token in output {
                penalties.push(TokenId(token));
            }
            penalties.apply(&mut logits);
        }
        logits
    }

    #[test]
    fn off_is_none() {
        assert_eq!(penalties(1.0, 0.0, 0.0, &[TokenId(1)]), None);
        assert_eq!(penalties(1.0, 0.0, -0.0, &[TokenId(1)]), None);
        assert!(penalties(1.0, 0.0, 0.1, &[]).is_some());
    }

    #[test]
    fn repetition_divides_positive_and_multiplies_negative_logits_once() {
        let prompt = [TokenId(0), TokenId(1), TokenId(1)];
        let logits = applied(penalties(2.0, 0.0, 0.0, &prompt), &[2, 2], &[3.0, -3.0, 1.0, 5.0]);
        assert_eq!(logits, [1.5, -6.0, 0.5, 5.0]);
    }

    #[test]
    fn frequency_and_presence_count_the_output_only() {
        let prompt = [TokenId(0), TokenId(1)];
        let logits = applied(penalties(1.0, 0.5, 0.25, &prompt), &[1, 1, 2], &[3.0, 3.0, 3.0]);
        assert_eq!(logits, [3.0, 1.75, 2.25]);
    }

    #[test]
    fn repetition_comes_before_the_others() {
        assert_eq!(applied(penalties(2.0, 1.0, 0.0, &[]), &[0], &[4.0]), [1.0]);
    }

    #[test]
    fn extremes_stay_finite() {
        let all = [f32::MAX, -f32::MAX, 1e30, -1e30, 0.0];
        for repetition in [f32::MIN_POSITIVE, f32::MAX] {
            for frequency in [-100.0, 100.0] {
                let logits =
                    applied(penalties(repetition, frequency, frequency, &[]), &[0, 1, 2, 3, 4], &all);
                assert!(logits.iter().all(|logit| logit.is_finite()), "{logits:?}");
            }
        }
        let mut logits = vec![f32::MAX, f32::INFINITY, f32::NEG_INFINITY];
        apply_bias(&[TokenId(0), TokenId(1), TokenId(2)].map(|token| (token, f32::MAX)), &mut logits);
        assert_eq!(logits, [f32::MAX, f32::INFINITY, f32::NEG_INFINITY]);
    }

    #[test]
    fn ids_outside_the_vocabulary_are_passed_over() {
        let mut logits = vec![1.0, 2.0];
        apply_bias(&[(TokenId(-1), 5.0), (TokenId(2), 5.0), (TokenId(1), 5.0)], &mut logits);
        assert_eq!(logits, [1.0, 7.0]);
        assert_eq!(applied(penalties(2.0, 0.0, 0.0, &[TokenId(-7), TokenId(9)]), &[], &[1.0]), [1.0]);
    }
}
