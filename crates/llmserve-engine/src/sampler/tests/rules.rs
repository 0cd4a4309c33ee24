//! The rules of each parameter, one by one, and the distribution of the draws.

use super::*;

fn with(change: impl FnOnce(&mut SamplingParams)) -> SamplingParams {
    let mut params = SamplingParams { temperature: 1.0, ..SamplingParams::default() };
    change(&mut params);
    params
}

/// How often each token is drawn in `num_draws`.
fn counts(params: &SamplingParams, row: &[f32], num_draws: usize) -> Vec<u32> {
    let mut sampler = new_sampler(params, 2026, None, &[]);
    let mut counts = vec![0; row.len()];
    for _ in 0..num_draws {
        if let Some(id) = draw(&sampler, row, &[]) {
            counts[id] += 1;
        }
        accept(&mut sampler, 0);
    }
    counts
}

/// Pearson's statistic of counts against probabilities; tokens of probability 0 must not occur.
fn chi_square(counts: &[u32], probabilities: &[f64]) -> f64 {
    let num_draws = f64::from(counts.iter().sum::<u32>());
    let mut sum = 0.0;
    for (&count, &p) in counts.iter().zip(probabilities) {
        if p > 0.0 {
            sum += (f64::from(count) - num_draws * p).powi(2) / (num_draws * p);
        } else {
            assert_eq!(count, 0);
        }
    }
    sum
}

#[test]
fn draws_follow_the_softmax() {
    let row = [1.0f32, 0.0, 2.0, -1.0, 1.5, 0.5];
    for temperature in [0.7f32, 1.0, 2.0] {
        let weights = row.map(|logit| (f64::from(logit) / f64::from(temperature)).exp());
        let sum: f64 = weights.iter().sum();
        let probabilities = weights.map(|weight| weight / sum);
        let counts = counts(&with(|params| params.temperature = temperature), &row, 20_000);
        // 5 degrees of freedom: a true sampler exceeds 20.5 once in a thousand; the seed is fixed.
        assert!(chi_square(&counts, &probabilities) < 20.5, "{counts:?} {probabilities:?}");
    }
}

#[test]
fn draws_follow_the_truncated_distribution() {
    // 0.5, 0.25, 0.125, 0.0625, 0.0625
    let row = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].map(f32::ln);
    let three = [4.0 / 7.0, 2.0 / 7.0, 1.0 / 7.0, 0.0, 0.0];
    for params in [
        with(|params| params.top_k = 3),
        with(|params| params.top_p = 0.8),
        with(|params| params.min_p = 0.2),
        with(|params| (params.min_p, params.min_tokens_to_keep) = (0.9, 3)),
        with(|params| (params.top_p, params.min_tokens_to_keep) = (0.1, 3)),
        with(|params| (params.top_k, params.min_tokens_to_keep) = (1, 3)),
        // Of the best four, 0.9375 together, 0.9 of that needs three.
        with(|params| (params.top_k, params.top_p) = (4, 0.92)),
    ] {
        let counts = counts(&params, &row, 20_000);
        // 2 degrees of freedom, once in a thousand.
        assert!(chi_square(&counts, &three) < 13.8, "{params:?} {counts:?}");
    }
}

#[test]
fn seed_choice_and_position_key_the_draw() {
    let row = vec![0.0; 1000];
    let draw_with = |seed, choice, num_generated| {
        let mut sampler = new_sampler(&with(|params| params.choice_index = choice), seed, None, &[]);
        (0..num_generated).for_each(|_| accept(&mut sampler, 7));
        draw(&sampler, &row, &[])
    };
    assert_eq!(draw_with(1, 0, 0), draw_with(1, 0, 0));
    let others = [draw_with(2, 0, 0), draw_with(1, 1, 0), draw_with(1, 0, 1), draw_with(u64::MAX, 0, 0)];
    assert!(others.iter().all(|other| *other != draw_with(1, 0, 0)), "{others:?}");
}

#[test]
fn seeded_text_never_changes() {
    let row: Vec<f32> = (0..500u16).map(|i| f32::from(i * 37 % 101) * 0.05).collect();
    let mut sampler = new_sampler(&with(|params| (params.top_k, params.top_p) = (40, 0.9)), 42, None, &[]);
    let drawn: Vec<usize> = (0..8)
        .filter_map(|_| {
            let id = draw(&sampler, &row, &[])?;
            accept(&mut sampler, id as i32);
            Some(id)
        })
        .collect();
    // Computed apart from this code, in double precision.
    assert_eq!(drawn, [292, 210, 232, 49, 120, 60, 131, 90]);
}

#[test]
fn penalties_come_before_bias_and_temperature() {
    // Token 0: 8 / 2 - 1 - 0.5 + 1 = 3.5 beats 3.4; with the bias first it would be 3.
    let params = with(|params| {
        (params.temperature, params.repetition_penalty) = (0.0, 2.0);
        (params.frequency_penalty, params.presence_penalty) = (1.0, 0.5);
        params.logit_bias = vec![(TokenId(0), 1.0)];
    });
    let mut sampler = new_sampler(&params, 0, None, &[]);
    accept(&mut sampler, 0);
    assert_eq!(draw(&sampler, &[8.0, 3.4], &[]), Some(0));
    assert_eq!(draw(&sampler, &[8.0, 3.6], &[]), Some(1));
}

#[test]
fn bans_come_before_truncation() {
    let sampler = new_sampler(&with(|params| params.top_k = 1), 0, None, &[]);
    assert_eq!(draw(&sampler, &[3.0, 2.0, 1.0], &[TokenId(0)]), Some(1));
    let sampler = new_sampler(&with(|params| params.min_p = 1.0), 0, None, &[]);
    assert_eq!(draw(&sampler, &[3.0, 2.0, 1.0], &[TokenId(0), TokenId(1)]), Some(2));
}

#[test]
fn greedy_takes_the_lowest_of_equals() {
    let sampler = new_sampler(&SamplingParams::default(), 0, None, &[]);
    assert_eq!(draw(&sampler, &[1.0, f32::NAN, 2.0, 2.0], &[]), Some(2));
    assert_eq!(draw(&sampler, &[1.0, 2.0, 2.0], &[TokenId(1)]), Some(2));
    assert_eq!(draw(&sampler, &[-0.0, 0.0], &[]), Some(0));
    assert_eq!(draw(&sampler, &[0.0, f32::INFINITY], &[]), Some(1));
}

#[test]
fn infinite_logits_share_the_draw() {
    let counts = counts(&with(|_| ()), &[f32::INFINITY, 5.0, f32::INFINITY], 200);
    assert!(counts[0] > 70 && counts[2] > 70 && counts[1] == 0, "{counts:?}");
}

#[test]
fn only_tokens_that_are_listed_are_drawn() {
    let row = [9.0f32, 1.0, 0.0, 2.0];
    for temperature in [0.0, 5.0] {
        let params = with(|params| {
            params.temperature = temperature;
            params.allowed_token_ids = Some(vec![TokenId(2), TokenId(1)]);
            params.logit_bias = vec![(TokenId(0), 100.0)];
        });
        let sampler = new_sampler(&params, 0, None, &[]);
        assert_eq!(draw(&sampler, &row, &[TokenId(1)]), Some(2));
        let counts = counts(&params, &row, 200);
        assert!(counts[0] == 0 && counts[3] == 0 && counts[1] > 100, "{counts:?}");
        // The list outweighs other bans.
        assert!(draw(&sampler, &row, &[TokenId(1), TokenId(2)]).is_some_and(|id| id == 1 || id == 2));
    }
}

#[test]
fn the_last_token_of_a_sequence_is_banned_after_the_others() {
    let ids = |tokens: &[i32]| tokens.iter().map(|&token| TokenId(token)).collect::<Vec<_>>();
    for temperature in [0.0, 0.01] {
        let params = with(|params| {
            params.temperature = temperature;
            params.banned_sequences = vec![ids(&[3]), ids(&[1, 2]), ids(&[2, 1, 2])];
        });
        let row = [1.0, 2.0, 3.0, 4.0];
        // What the prompt ends with does not count.
        let mut sampler = new_sampler(&params, 0, None, &[TokenId(1)]);
        let mut drawn = Vec::new();
        for forced in [1, 1, 2, 2, 1] {
            drawn.extend(draw(&sampler, &row, &[]));
            accept(&mut sampler, forced);
        }
        drawn.extend(draw(&sampler, &row, &[]));
        assert_eq!(drawn, [2, 1, 1, 2, 2, 1]);
        // Where nothing else is left, sequences give way before single tokens.
        assert_eq!(draw(&sampler, &row, &[TokenId(0), TokenId(1)]), Some(2));
    }
}

#[test]
fn no_usable_logit_is_an_error() {
    for params in [SamplingParams::default(), with(|params| params.top_p = 0.5)] {
        let sampler = new_sampler(&params, 0, Some(2), &[]);
        for row in [&[f32::NAN, f32::NEG_INFINITY][..], &[]] {
            let result = sampler.sample(row, Bans::default(), Words::default(), &mut Scratch::default());
            assert_eq!(result, Err(Error::InvalidLogits));
        }
    }
}

#[test]
fn logprobs_are_of_the_raw_logits() {
    let params = with(|params| {
        (params.temperature, params.repetition_penalty) = (0.0, 4.0);
        params.logit_bias = vec![(TokenId(2), 100.0)];
    });
    let sampler = new_sampler(&params, 0, Some(2), &[TokenId(1)]);
    let row = [0.0f32; 4];
    let Ok(Sampled { token, logprobs: Some(logprobs), .. }) = sampler.sample(
        &row,
        Bans { tokens: &[TokenId(0)], allowed: None },
        Words::default(),
        &mut Scratch::default(),
    ) else {
        unreachable!("four finite logits")
    };
    let quarter = 0.25f32.ln();
    assert_eq!(token, TokenId(2));
    assert_eq!(
        logprobs,
        TokenLogprobs { logprob: quarter, top: vec![(TokenId(0), quarter), (TokenId(1), quarter)] }
    );
}
