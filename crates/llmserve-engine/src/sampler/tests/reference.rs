//! The sampler against a slow and obvious one, for random parameters and rows.

use proptest::prelude::*;

use super::*;

/// Sorts everything, then cuts: the definition.
fn reference(sampler: &Sampler, params: &SamplingParams, seed: u64, row: &[f32]) -> Option<usize> {
    let mut order: Vec<usize> = (0..row.len()).filter(|&id| row[id] > f32::NEG_INFINITY).collect();
    order.sort_by(|&a, &b| row[b].partial_cmp(&row[a]).unwrap_or(std::cmp::Ordering::Equal));
    let &best = order.first()?;
    if params.temperature <= 0.0 {
        return Some(best);
    }
    let softmax = Softmax::new(row[best], params.temperature);
    let weight = |id: usize| softmax.weight(row[id]);
    let keep = (params.min_tokens_to_keep as usize).max(1);
    if params.top_k > 0 {
        order.truncate(keep.max(params.top_k as usize));
    }
    if params.top_p < 1.0 {
        let mass: u64 = order.iter().map(|&id| weight(id)).sum();
        let (mut kept, mut reached) = (0, 0);
        while kept < order.len() && (reached as f64) < f64::from(params.top_p) * mass as f64 {
            reached += weight(order[kept]);
            kept += 1;
        }
        order.truncate(kept.max(keep));
    }
    let least = f64::from(params.min_p) * weight(best) as f64;
    let kept = order.iter().filter(|&&id| weight(id) as f64 >= least).count();
    order.truncate(kept.max(keep));
    let mass: u64 = order.iter().map(|&id| weight(id)).sum();
    let bits = DrawKey::new(seed, params.choice_index).bits(sampler.num_generated());
    let mut target = (u128::from(bits) * u128::from(mass)) >> 64;
    order.into_iter().find(|&id| {
        let hit = target < u128::from(weight(id));
        target = target.saturating_sub(u128::from(weight(id)));
        hit
    })
}

/// The row after penalties, bias and bans, step by step.
fn adjusted(
    params: &SamplingParams,
    prompt: &[TokenId],
    output: &[TokenId],
    bans: &[TokenId],
    row: &[f32],
) -> Vec<f32> {
    let history = [prompt, output].concat();
    let id = |index: usize| TokenId(index as i32);
    let mut row = row.to_vec();
    for (index, logit) in row.iter_mut().enumerate().filter(|(_, logit)| logit.is_finite()) {
        if history.contains(&id(index)) {
            *logit *= if *logit > 0.0 { 1.0 / params.repetition_penalty } else { params.repetition_penalty };
        }
        let count = output.iter().filter(|&&token| token == id(index)).count() as f32;
        if count > 0.0 {
            *logit -= count * params.frequency_penalty + params.presence_penalty;
        }
        for (_, amount) in params.logit_bias.iter().filter(|(token, _)| *token == id(index)) {
            if amount.is_finite() {
                *logit += amount;
            }
        }
    }
    let n = params.no_repeat_ngram_size as usize;
    let repeats = |token: TokenId| {
        n > 0 && history.len() + 1 >= n && {
            let ngram = [&history[history.len() + 1 - n..], &[token]].concat();
            history.windows(n).any(|window| window == ngram)
        }
    };
    let biased =
        |token: TokenId| params.logit_bias.iter().any(|&(t, amount)| t == token && amount < f32::MIN);
    for num_groups in [3, 2, 1, 0] {
        let is_banned = |token: TokenId| {
            (num_groups > 0 && bans.contains(&token))
                || (num_groups > 1 && biased(token))
                || (num_groups > 2 && repeats(token))
        };
        let left: Vec<f32> = row
            .iter()
            .enumerate()
            .map(|(i, &l)| if is_banned(id(i)) { f32::NEG_INFINITY } else { l })
            .collect();
        if left.iter().any(|&logit| logit > f32::NEG_INFINITY) {
            return left;
        }
    }
    row
}

fn tokens(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<TokenId>> {
    prop::collection::vec((0i32..12).prop_map(TokenId), range)
}

/// Penalties are powers of two, so that dividing and multiplying by the inverse are the same.
fn params() -> impl Strategy<Value = SamplingParams> {
    let temperature = prop_oneof![Just(0.0f32), 0.05f32..4.0, Just(1e-30), Just(1e30)];
    let truncation = (
        prop_oneof![Just(0u32), 1u32..40, Just(u32::MAX)],
        prop_oneof![Just(1.0f32), 0.01f32..1.0],
        prop_oneof![Just(0.0f32), 0.0f32..=1.0, Just(1e-6)],
        0u32..6,
    );
    let penalties = (
        prop_oneof![Just(1.0f32), Just(2.0), Just(0.5)],
        prop_oneof![Just(0.0f32), Just(0.5), Just(-0.25)],
        prop_oneof![Just(0.0f32), Just(0.5)],
        0u32..4,
    );
    let amount = prop_oneof![Just(f32::NEG_INFINITY), Just(1e30f32), Just(-1e30), -4.0f32..4.0];
    let bias = prop::collection::vec(((-1i32..14).prop_map(TokenId), amount), 0..6);
    (temperature, truncation, penalties, bias, 0u32..3).prop_map(
        |(temperature, (top_k, top_p, min_p, min_tokens_to_keep), penalties, logit_bias, choice_index)| {
            let (repetition_penalty, frequency_penalty, presence_penalty, no_repeat_ngram_size) = penalties;
            SamplingParams {
                temperature,
                top_k,
                top_p,
                min_p,
                min_tokens_to_keep,
                repetition_penalty,
                frequency_penalty,
                presence_penalty,
                no_repeat_ngram_size,
                logit_bias,
                choice_index,
                ..SamplingParams::default()
            }
        },
    )
}

fn row(range: std::ops::Range<usize>) -> impl Strategy<Value = Vec<f32>> {
    let value = prop_oneof![
        10 => -12.0f32..12.0,
        4 => (-8i8..8).prop_map(f32::from),
        1 => Just(f32::NEG_INFINITY),
        1 => Just(f32::NAN),
    ];
    prop::collection::vec(value, range)
}

proptest! {
    #[test]
    fn equals_the_reference(
        params in params(), seed in any::<u64>(), row in row(1..20),
        prompt in tokens(0..8), output in tokens(0..8), bans in tokens(0..4),
    ) {
        let mut sampler = new_sampler(&params, seed, None, &prompt);
        for &token in &output {
            accept(&mut sampler, token.0);
        }
        let row_after = adjusted(&params, &prompt, &output, &bans, &row);
        prop_assert_eq!(draw(&sampler, &row, &bans), reference(&sampler, &params, seed, &row_after));
    }

    #[test]
    fn equals_the_reference_for_wide_rows(mut params in params(), seed in any::<u64>(), row in row(1..5000)) {
        params.logit_bias.clear();
        let sampler = new_sampler(&params, seed, None, &[]);
        prop_assert_eq!(draw(&sampler, &row, &[]), reference(&sampler, &params, seed, &row));
    }

    #[test]
    fn any_numbers_give_a_token_or_an_error(
        mut params in params(), seed in any::<u64>(),
        row in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 1..40),
        temperature in any::<f32>(), repetition in any::<f32>(),
    ) {
        params.temperature = temperature.abs().min(f32::MAX);
        params.repetition_penalty = repetition.abs().clamp(f32::MIN_POSITIVE, f32::MAX);
        let mut sampler = new_sampler(&params, seed, Some(5), &[TokenId(0), TokenId(1)]);
        accept(&mut sampler, 2);
        match sampler.sample(&row, Bans::default(), Words::default(), &mut Scratch::default()) {
            Ok(sampled) => {
                prop_assert!(row[sampled.token.0 as usize] > f32::NEG_INFINITY);
                let logprobs = sampled.logprobs.map_or(f32::NAN, |logprobs| logprobs.logprob);
                prop_assert!(logprobs <= 0.0, "{}", logprobs);
            }
            Err(error) => {
                prop_assert_eq!(error, Error::InvalidLogits);
                prop_assert!(row.iter().all(|&logit| logit.is_nan() || logit == f32::NEG_INFINITY));
            }
        }
    }
}

/// One likely token and many unlikely ones that together outweigh it 15 to 1: most of what is
/// needed lies outside the first bands.
#[test]
fn equals_the_reference_in_a_heavy_tail() {
    let mut row: Vec<f32> = (0..20_000u16).map(|id| -6.5 - f32::from(id % 89) * 0.02).collect();
    row[777] = 0.0;
    let base = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    for params in [
        base.clone(),
        SamplingParams { top_p: 0.7, ..base.clone() },
        SamplingParams { top_p: 0.05, ..base.clone() },
        SamplingParams { min_p: 0.001, ..base.clone() },
        SamplingParams { min_p: 0.5, min_tokens_to_keep: 500, ..base.clone() },
        SamplingParams { top_k: 9000, top_p: 0.9, ..base.clone() },
    ] {
        let mut sampler = new_sampler(&params, 5, None, &[]);
        for _ in 0..150 {
            assert_eq!(draw(&sampler, &row, &[]), reference(&sampler, &params, 5, &row), "{params:?}");
            accept(&mut sampler, 0);
        }
    }
}
