//! The sampler as a whole.

mod reference;
mod rules;

use super::*;

fn draw(sampler: &Sampler, row: &[f32], bans: &[TokenId]) -> Option<usize> {
    let result = sampler.sample(row, Bans { tokens: bans, allowed: None }, &mut Scratch::default());
    result.ok().map(|sampled| sampled.token.0 as usize)
}
