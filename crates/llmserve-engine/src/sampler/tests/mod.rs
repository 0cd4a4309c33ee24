//! The sampler as a whole.

mod orders;
mod reference;
mod rules;

use super::weight::Softmax;
use super::*;

/// A sampler of tokens without bytes.
fn new_sampler(params: &SamplingParams, seed: u64, logprobs: Option<u32>, prompt: &[TokenId]) -> Sampler {
    Sampler::new(params, seed, logprobs, prompt, |_| &[])
}

fn accept(sampler: &mut Sampler, token: i32) {
    sampler.accept(&Sampled::forced(TokenId(token)), &[]);
}

fn draw(sampler: &Sampler, row: &[f32], bans: &[TokenId]) -> Option<usize> {
    let result =
        sampler.sample(row, Bans { tokens: bans, allowed: None }, Words::default(), &mut Scratch::default());
    result.ok().map(|sampled| sampled.token.0 as usize)
}

/// The tokens that are left of a row after a cut, in order of their ids.
pub(super) fn pool_of(logits: &[f32], keep: usize, cut: impl FnOnce(&mut Pool<'_>)) -> Vec<usize> {
    let (mut maxima, mut memory) = (Vec::new(), Memory::default());
    let row = Row::new(logits, &mut maxima);
    let Some((_, max)) = row.best() else { return Vec::new() };
    let mut pool = Pool::new(row, max, keep, &mut memory);
    cut(&mut pool);
    let mut ids: Vec<usize> = pool.all().0.iter().map(|candidate| candidate.id()).collect();
    ids.sort_unstable();
    ids
}
