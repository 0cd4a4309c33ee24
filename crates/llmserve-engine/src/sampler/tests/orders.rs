//! Orders of samplers, and the samplers that change the distribution, against slow and obvious ones in double
//! precision.

use proptest::prelude::*;

use super::*;
use crate::sampling::{
    DryParams, DynamicTemperature, MirostatParams, MirostatVersion, SamplerKind, XtcParams,
};

/// Tokens with their logits, the best first.
type Left = Vec<(usize, f64)>;

fn probabilities(left: &Left) -> Vec<f64> {
    let weights: Vec<f64> = left.iter().map(|(_, logit)| (logit - left[0].1).exp()).collect();
    let sum: f64 = weights.iter().sum();
    weights.into_iter().map(|weight| weight / sum).collect()
}

fn entropy(p: &[f64]) -> f64 {
    -p.iter().filter(|p| **p > 0.0).map(|p| p * p.ln()).sum::<f64>()
}

/// One sampler by its definition.
fn step(kind: SamplerKind, params: &SamplingParams, left: &mut Left) {
    let p = probabilities(left);
    match kind {
        SamplerKind::Temperature if params.temperature <= 0.0 && params.dynamic_temperature.range <= 0.0 => {
            left.truncate(1);
        }
        SamplerKind::Temperature => {
            let temperature = temperature(params, &p);
            for (_, logit) in left {
                *logit /= temperature;
            }
        }
        SamplerKind::TopNSigma if params.top_n_sigma > 0.0 => {
            let mean = left.iter().map(|(_, logit)| logit).sum::<f64>() / left.len() as f64;
            let variance =
                left.iter().map(|(_, logit)| (logit - mean).powi(2)).sum::<f64>() / left.len() as f64;
            let floor = left[0].1 - f64::from(params.top_n_sigma) * variance.sqrt();
            left.retain(|(_, logit)| *logit >= floor);
        }
        SamplerKind::TopK if params.top_k > 0 => left.truncate(params.top_k as usize),
        SamplerKind::TopP if params.top_p < 1.0 => {
            let mut before = 0.0;
            let kept = p.iter().take_while(|p| {
                let is_kept = before < f64::from(params.top_p);
                before += **p;
                is_kept
            });
            let kept = kept.count();
            left.truncate(kept);
        }
        SamplerKind::MinP => {
            let kept = p.iter().filter(|q| **q >= f64::from(params.min_p) * p[0]).count();
            left.truncate(kept);
        }
        SamplerKind::TypicalP if params.typical_p < 1.0 => {
            *left = typical(&p, f64::from(params.typical_p)).into_iter().map(|rank| left[rank]).collect();
        }
        SamplerKind::Xtc if params.xtc.probability > 0.0 => {
            let num_choices = p.iter().filter(|p| **p >= f64::from(params.xtc.threshold)).count();
            left.drain(..num_choices.saturating_sub(1));
        }
        SamplerKind::Penalties
        | SamplerKind::Dry
        | SamplerKind::TopNSigma
        | SamplerKind::TopK
        | SamplerKind::TopP
        | SamplerKind::TypicalP
        | SamplerKind::Xtc
        | SamplerKind::Infill
        | SamplerKind::AdaptiveP => {}
    }
}

/// The ranks that locally typical sampling keeps.
fn typical(p: &[f64], share: f64) -> Vec<usize> {
    let entropy = entropy(p);
    let shift = |rank: &usize| (-p[*rank].ln() - entropy).abs();
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|a, b| shift(a).total_cmp(&shift(b)));
    let (mut kept, mut sum) = (0, 0.0);
    while kept < order.len() && sum < share {
        sum += p[order[kept]];
        kept += 1;
    }
    order.truncate(kept);
    order.sort_unstable();
    order
}

fn temperature(params: &SamplingParams, p: &[f64]) -> f64 {
    let (value, DynamicTemperature { range, exponent }) =
        (f64::from(params.temperature), params.dynamic_temperature);
    if range <= 0.0 || p.len() == 1 {
        return if range <= 0.0 { value } else { 1.0 };
    }
    let (low, high) = ((value - f64::from(range)).max(0.0), value + f64::from(range));
    low + (high - low) * (entropy(p) / (p.len() as f64).ln()).powf(f64::from(exponent))
}

fn kinds() -> impl Strategy<Value = Vec<SamplerKind>> {
    prop::sample::subsequence(SamplerKind::DEFAULT_ORDER.to_vec(), 0..=9).prop_shuffle()
}

fn all_on() -> impl Strategy<Value = SamplingParams> {
    let cuts = (1u32..9, 0.5f32..1.0, 0.0f32..0.2, 0.3f32..1.0, 0.5f32..3.0);
    let temperature = (0.3f32..2.0, prop_oneof![Just(0.0f32), 0.1f32..0.6], 0.5f32..2.0);
    (kinds(), cuts, temperature, 0.02f32..0.4).prop_map(
        |(
            samplers,
            (top_k, top_p, min_p, typical_p, top_n_sigma),
            (temperature, range, exponent),
            threshold,
        )| {
            SamplingParams {
                samplers,
                top_k,
                top_p,
                min_p,
                typical_p,
                top_n_sigma,
                temperature,
                dynamic_temperature: DynamicTemperature { range, exponent },
                // It always hits, so that the distribution is a single one.
                xtc: XtcParams { probability: 1.0, threshold },
                ..SamplingParams::default()
            }
        },
    )
}

proptest! {
    /// What is left, and the probability of what was drawn, by any order.
    #[test]
    fn any_order_equals_its_definition(
        params in all_on(), logits in prop::collection::vec(-6.0f32..6.0, 1..30), seed in any::<u64>(),
    ) {
        let mut left: Left = logits.iter().map(|&logit| f64::from(logit)).enumerate().collect();
        left.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        for &kind in &params.samplers {
            step(kind, &params, &mut left);
        }
        let sampled = new_sampler(&params, seed, None, &[])
            .sample(&logits, Bans::default(), Words::default(), &mut Scratch::default())
            .unwrap();
        let p = probabilities(&left);
        let found = left.iter().position(|(id, _)| *id == sampled.token.0 as usize);
        // A cut that falls between two tokens by less than rounding may take another one: rare, and seen
        // by its probability.
        prop_assume!(!is_close_to_a_cut(&params, &logits));
        let index = found.expect("a token that should have been cut");
        let surprise = sampled.surprise.unwrap_or(f64::NAN);
        prop_assert!((surprise + p[index].log2()).abs() < 1e-3 * (1.0 + surprise), "{} {}", surprise, -p[index].log2());
    }
}

proptest! {
    #[test]
    fn any_numbers_give_a_token_or_an_error(
        params in all_on(), seed in any::<u64>(), keep in 0u32..4, version in 0usize..3, last_n in 0u32..4,
        row in prop::collection::vec(any::<u32>().prop_map(f32::from_bits), 1..40),
    ) {
        let versions = [MirostatVersion::Off, MirostatVersion::One, MirostatVersion::Two];
        let params = SamplingParams {
            mirostat: MirostatParams { version: versions[version], tau: 2.0, eta: 0.1 },
            dry: DryParams { multiplier: 1e30, base: 1e30, allowed_length: 1, ..DryParams::default() },
            repetition_penalty: 1e-30,
            repeat_last_n: Some(last_n),
            min_tokens_to_keep: keep,
            ..params
        };
        let text = [0, 1, 0, 1].map(TokenId);
        let mut sampler = new_sampler(&params, seed, None, &text);
        for _ in 0..3 {
            match sampler.sample(&row, Bans::default(), Words::default(), &mut Scratch::default()) {
                Ok(drawn) => {
                    prop_assert!(row[drawn.token.0 as usize] > f32::NEG_INFINITY);
                    prop_assert!(drawn.surprise.is_some_and(|bits| bits >= 0.0 && bits.is_finite()));
                    sampler.accept(&drawn, &[]);
                }
                Err(error) => {
                    prop_assert_eq!(error, Error::InvalidLogits);
                    prop_assert!(row.iter().all(|&logit| logit.is_nan() || logit == f32::NEG_INFINITY));
                }
            }
        }
    }
}

/// Whether slightly other parameters cut otherwise.
fn is_close_to_a_cut(params: &SamplingParams, logits: &[f32]) -> bool {
    let left_with = |factor: f32| {
        let params = SamplingParams {
            top_p: params.top_p * factor,
            min_p: params.min_p * factor,
            typical_p: params.typical_p * factor,
            top_n_sigma: params.top_n_sigma * factor,
            xtc: XtcParams { threshold: params.xtc.threshold * factor, ..params.xtc },
            ..params.clone()
        };
        let mut left: Left = logits.iter().map(|&logit| f64::from(logit)).enumerate().collect();
        left.sort_by(|(_, a), (_, b)| b.total_cmp(a));
        params.samplers.iter().for_each(|&kind| step(kind, &params, &mut left));
        left.into_iter().map(|(id, _)| id).collect::<Vec<_>>()
    };
    left_with(1.0 - 1e-5) != left_with(1.0 + 1e-5)
}

fn with(samplers: &[SamplerKind]) -> SamplingParams {
    SamplingParams { samplers: samplers.to_vec(), ..SamplingParams::default() }
}

#[test]
fn a_sampler_that_is_not_named_is_off() {
    let row: Vec<f32> = (0..100u16).map(|id| f32::from(id) * 0.01).collect();
    // Without the temperature, 0 is not greedy; without `top_k`, 1 does not cut.
    let params = SamplingParams { top_k: 1, repetition_penalty: 1e9, ..with(&[]) };
    let mut sampler = new_sampler(&params, 3, None, &[TokenId(99)]);
    let mut drawn = std::collections::BTreeSet::new();
    for _ in 0..200 {
        drawn.extend(draw(&sampler, &row, &[]));
        accept(&mut sampler, 0);
    }
    assert!(drawn.len() > 50 && drawn.last() == Some(&99), "{drawn:?}");
}

#[test]
fn a_sampler_that_is_named_twice_is_applied_twice() {
    let row = [3.0, 2.0, 0.0];
    let hot = SamplingParams { temperature: 2.0, ..with(&[SamplerKind::Temperature; 2]) };
    let surprise = |params: &SamplingParams| {
        let sampled = new_sampler(params, 1, None, &[]).sample(
            &row,
            Bans::default(),
            Words::default(),
            &mut Scratch::default(),
        );
        sampled.ok().and_then(|sampled| sampled.surprise)
    };
    let hotter = SamplingParams { temperature: 4.0, ..with(&[SamplerKind::Temperature]) };
    assert_eq!(surprise(&hot), surprise(&hotter));
}

#[test]
fn penalties_within_the_chain_see_divided_logits() {
    // 6 / 2 - 2 = 1 is less than 3 / 2; before the temperature, 6 - 2 = 4 would be more than 3.
    let base =
        SamplingParams { temperature: 2.0, top_k: 1, presence_penalty: 2.0, ..SamplingParams::default() };
    let order = |samplers: &[SamplerKind]| SamplingParams { samplers: samplers.to_vec(), ..base.clone() };
    for (samplers, expected) in [
        ([SamplerKind::Temperature, SamplerKind::Penalties, SamplerKind::TopK], 1),
        ([SamplerKind::Penalties, SamplerKind::Temperature, SamplerKind::TopK], 0),
        ([SamplerKind::TopK, SamplerKind::Penalties, SamplerKind::Temperature], 0),
    ] {
        let mut sampler = new_sampler(&order(&samplers), 1, None, &[]);
        accept(&mut sampler, 0);
        assert_eq!(draw(&sampler, &[6.0, 3.0], &[]), Some(expected), "{samplers:?}");
    }
}

#[test]
fn dry_is_the_same_first_and_later() {
    let dry = DryParams { multiplier: 3.0, ..DryParams::default() };
    let text: Vec<TokenId> = [1, 2, 3, 1, 2].map(TokenId).to_vec();
    for samplers in [[SamplerKind::Dry, SamplerKind::TopK], [SamplerKind::TopK, SamplerKind::Dry]] {
        let params = SamplingParams { dry: dry.clone(), top_k: 4, ..with(&samplers) };
        let sampled = new_sampler(&params, 1, None, &text)
            .sample(
                &[0.0, f32::NEG_INFINITY, f32::NEG_INFINITY, 3.0],
                Bans::default(),
                Words::default(),
                &mut Scratch::default(),
            )
            .unwrap();
        assert!((sampled.surprise.unwrap() - 1.0).abs() < 1e-6, "{samplers:?}");
    }
}

#[test]
fn mirostat_replaces_the_cuts_and_follows_what_is_drawn() {
    let row: Vec<f32> = (0..2000u16).map(|rank| -1.1 * f32::from(rank + 1).ln()).collect();
    for version in [MirostatVersion::One, MirostatVersion::Two] {
        let mirostat = MirostatParams { version, tau: 3.0, eta: 0.2 };
        let params = SamplingParams { temperature: 1.0, top_k: 1, mirostat, ..SamplingParams::default() };
        let mut sampler = new_sampler(&params, 11, None, &[]);
        let mut surprises = Vec::new();
        for _ in 0..2000 {
            let drawn =
                sampler.sample(&row, Bans::default(), Words::default(), &mut Scratch::default()).unwrap();
            surprises.extend(drawn.surprise);
            sampler.accept(&drawn, &[]);
        }
        let mean = surprises[500..].iter().sum::<f64>() / 1500.0;
        assert!((mean - 3.0).abs() < 0.1, "{version:?} {mean}");
    }
}

#[test]
fn a_forced_token_teaches_mirostat_nothing() {
    let mirostat = MirostatParams { version: MirostatVersion::Two, tau: 1.0, eta: 1.0 };
    let params = SamplingParams { temperature: 1.0, mirostat, ..SamplingParams::default() };
    let mut sampler = new_sampler(&params, 11, None, &[]);
    let before = format!("{:?}", sampler.history.mirostat);
    accept(&mut sampler, 3);
    assert_eq!(format!("{:?}", sampler.history.mirostat), before);
}
