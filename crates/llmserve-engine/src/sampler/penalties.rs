//! Penalties on tokens that have occurred, and the bias on tokens that were named.

use std::collections::{HashMap, VecDeque};

use crate::ids::TokenId;
use crate::sampling::SamplingParams;

/// The repetition, frequency and presence penalties of a sequence, with the counts they need.
///
/// Repetition (Keskar et al., "CTRL", 2019) looks at prompt and output: positive logits are
/// divided, others multiplied. Frequency and presence (the `OpenAI` API's formula) look at the
/// output: `logit - count * frequency - presence`. Repetition comes first. With a window (llama-server's
/// `repeat_last_n`), all three look at the last tokens of prompt and output.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Penalties {
    repetition: f32,
    frequency: f32,
    presence: f32,
    window: Option<Window>,
    /// The tokens that have occurred, and how often each did in the output, or in the window.
    seen: Vec<(TokenId, u32)>,
    /// The position of each of them.
    places: HashMap<TokenId, usize>,
}

/// The last tokens of a text.
#[derive(Debug, Clone, PartialEq)]
struct Window {
    size: usize,
    tokens: VecDeque<TokenId>,
}

impl Penalties {
    /// `None` if no penalty would change anything.
    pub(super) fn new(params: &SamplingParams, prompt: &[TokenId]) -> Option<Self> {
        let is_off = |value: f32, off: f32| (value - off).abs() <= 0.0;
        let repeats = !is_off(params.repetition_penalty, 1.0);
        if !repeats && is_off(params.frequency_penalty, 0.0) && is_off(params.presence_penalty, 0.0)
            || params.repeat_last_n == Some(0)
        {
            return None;
        }
        let size = params.repeat_last_n.map(|size| size as usize);
        let mut penalties = Self {
            repetition: params.repetition_penalty,
            frequency: params.frequency_penalty,
            presence: params.presence_penalty,
            window: size.map(|size| Window { size, tokens: VecDeque::new() }),
            seen: Vec::new(),
            places: HashMap::new(),
        };
        if let Some(size) = size {
            prompt[prompt.len().saturating_sub(size)..].iter().for_each(|&token| penalties.push(token));
        } else if repeats {
            // The other two do not look at the prompt.
            penalties.note(prompt);
        }
        Some(penalties)
    }

    /// Enters the tokens of a prompt, which have not occurred in the output.
    fn note(&mut self, prompt: &[TokenId]) {
        let mut tokens = prompt.to_vec();
        // In order of their ids, so that the logits are changed from the first to the last.
        tokens.sort_unstable();
        tokens.dedup();
        self.places = tokens.iter().enumerate().map(|(place, &token)| (token, place)).collect();
        self.seen = tokens.into_iter().map(|token| (token, 0)).collect();
    }

    /// Adds a token of the output.
    pub(super) fn push(&mut self, token: TokenId) {
        let place = *self.places.entry(token).or_insert(self.seen.len());
        match self.seen.get_mut(place) {
            Some((_, count)) => *count += 1,
            None => self.seen.push((token, 1)),
        }
        if let Some(window) = &mut self.window {
            window.tokens.push_back(token);
            if window.tokens.len() > window.size
                && let Some(left) = window.tokens.pop_front()
            {
                self.forget(left);
            }
        }
    }

    /// Takes out one occurrence of a token.
    fn forget(&mut self, token: TokenId) {
        let Some(&place) = self.places.get(&token) else { return };
        self.seen[place].1 -= 1;
        if self.seen[place].1 == 0 {
            self.places.remove(&token);
            self.seen.swap_remove(place);
            if let Some((moved, _)) = self.seen.get(place) {
                self.places.insert(*moved, place);
            }
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

    /// A token's logit after the penalties.
    pub(super) fn changed(&self, token: TokenId, mut logit: f32) -> f32 {
        if let Some(&place) = self.places.get(&token) {
            change(&mut logit, |logit| self.penalized(logit, self.seen[place].1));
        }
        logit
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
pub(super) fn change(logit: &mut f32, change: impl FnOnce(f32) -> f32) {
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

    fn windowed(size: u32, prompt: &[i32], output: &[i32], logits: &[f32]) -> Vec<f32> {
        let params = SamplingParams {
            repetition_penalty: 2.0,
            frequency_penalty: 0.5,
            presence_penalty: 0.25,
            repeat_last_n: Some(size),
            ..SamplingParams::default()
        };
        let prompt: Vec<TokenId> = prompt.iter().map(|&token| TokenId(token)).collect();
        applied(Penalties::new(&params, &prompt), output, logits)
    }

    #[test]
    fn a_window_counts_the_last_tokens_of_prompt_and_output() {
        let logits = [4.0; 4];
        assert_eq!(windowed(9, &[0, 1], &[1, 2], &logits), [1.25, 0.75, 1.25, 4.0]);
        assert_eq!(windowed(2, &[0, 1], &[1, 2], &logits), [4.0, 1.25, 1.25, 4.0]);
        assert_eq!(windowed(2, &[3, 3, 0, 1], &[], &logits), [1.25, 1.25, 4.0, 4.0]);
        assert_eq!(windowed(0, &[0, 1], &[1, 2], &logits), logits);
    }

    proptest::proptest! {
        #[test]
        fn a_window_equals_a_count(
            size in 1u32..9, prompt in proptest::collection::vec(0i32..4, 0..12),
            output in proptest::collection::vec(0i32..4, 0..12),
        ) {
            let text = [&prompt[..], &output].concat();
            let last = &text[text.len().saturating_sub(size as usize)..];
            let expected: Vec<f32> = (0..4)
                .map(|token| last.iter().filter(|&&one| one == token).count() as f32)
                .map(|count| if count > 0.0 { 2.0 - count * 0.5 - 0.25 } else { 4.0 })
                .collect();
            proptest::prop_assert_eq!(windowed(size, &prompt, &output, &[4.0; 4]), expected);
        }
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
