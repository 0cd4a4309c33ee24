//! Mirostat (Basu, Ramachandran, Keskar and Varshney, "Mirostat: A Neural Text Decoding Algorithm that Directly Controls
//! Perplexity", ICLR 2021): truncates so that the surprise `-log2 p` of the drawn tokens stays close to `tau` bits.
//!
//! After each drawn token `mu`, which begins at `2 tau`, becomes `mu - eta (surprise - tau)`.

use super::pool::Pool;
use super::weight::Softmax;
use crate::sampling::{MirostatParams, MirostatVersion};

/// How many of the likeliest tokens Zipf's exponent is estimated from.
const NUM_ESTIMATED: usize = 100;

/// The state of one sequence.
#[derive(Debug, Clone)]
pub(super) struct Mirostat {
    params: MirostatParams,
    /// The largest surprise at present.
    mu: f64,
}

impl Mirostat {
    /// `None` if it is off.
    pub(super) fn new(params: MirostatParams) -> Option<Self> {
        (params.version != MirostatVersion::Off).then(|| Self { params, mu: 2.0 * f64::from(params.tau) })
    }

    pub(super) fn cut(&self, pool: &mut Pool<'_>) {
        match self.params.version {
            MirostatVersion::Off => {}
            MirostatVersion::One => {
                let size = pool.vocabulary_size();
                let exponent = zipf_exponent(pool);
                pool.keep_best(num_kept(exponent, self.mu, size));
            }
            MirostatVersion::Two => pool.keep_surprise(self.mu),
        }
    }

    /// Learns from the surprise of a token that was drawn.
    pub(super) fn learn(&mut self, surprise: f64) {
        self.mu -= f64::from(self.params.eta) * (surprise - f64::from(self.params.tau));
    }
}

/// The exponent `s` of Zipf's law, `p_i ~ i^-s`, that fits the likeliest tokens best: the sum of `t_i b_i` over
/// that of `t_i^2`, with `t_i = ln((i + 1) / i)` and `b_i = ln(p_i / p_(i + 1))`. 0 for a single token.
fn zipf_exponent(pool: &mut Pool<'_>) -> f64 {
    let (best, softmax) = pool.best(NUM_ESTIMATED);
    let nats = |softmax: Softmax, logit: f32| f64::from(softmax.octaves(logit)) * std::f64::consts::LN_2;
    let (mut products, mut squares) = (0.0, 0.0);
    for (index, pair) in best.windows(2).enumerate() {
        let [one, next] = pair else { continue };
        let t = ((index + 2) as f64 / (index + 1) as f64).ln();
        products += t * (nats(softmax, next.logit()) - nats(softmax, one.logit()));
        squares += t * t;
    }
    if squares > 0.0 { products / squares } else { 0.0 }
}

/// How many of the likeliest tokens have the surprise `mu`, if there are `size` by Zipf's law:
/// `k = (e 2^mu / (1 - size^-e))^(1 / s)` with `e = s - 1`. At least 1.
fn num_kept(exponent: f64, mu: f64, size: usize) -> usize {
    let (size, e) = (size as f64, exponent - 1.0);
    // The limit where e is 0.
    let factor = if e.abs() < 1e-9 { size.ln().recip() } else { e / (1.0 - size.powf(-e)) };
    let kept = (factor * mu.exp2()).powf(exponent.recip());
    // Numbers that are not finite are the largest or none.
    (kept as usize).max(1)
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool_of;
    use super::*;

    fn mirostat(version: MirostatVersion, mu: f64) -> Mirostat {
        Mirostat { params: MirostatParams { version, tau: 5.0, eta: 0.1 }, mu }
    }

    fn kept(logits: &[f32], version: MirostatVersion, mu: f64) -> Vec<usize> {
        pool_of(logits, 1, |pool| mirostat(version, mu).cut(pool))
    }

    #[test]
    fn it_begins_at_twice_tau_and_learns() {
        let params = MirostatParams { version: MirostatVersion::Two, tau: 3.0, eta: 0.5 };
        let mut mirostat = Mirostat::new(params).unwrap();
        assert!((mirostat.mu - 6.0).abs() < 1e-12);
        mirostat.learn(5.0);
        assert!((mirostat.mu - 5.0).abs() < 1e-12);
        assert!(Mirostat::new(MirostatParams { version: MirostatVersion::Off, ..params }).is_none());
    }

    #[test]
    fn two_cuts_what_is_too_surprising() {
        // 1, 2, 3, 4 and 4 bits.
        let logits = [0.5f32, 0.25, 0.125, 0.0625, 0.0625].map(f32::ln);
        for (mu, num_kept) in [(-1.0, 1), (0.5, 1), (2.1, 2), (3.1, 3), (4.1, 5), (99.0, 5)] {
            assert_eq!(kept(&logits, MirostatVersion::Two, mu).len(), num_kept, "{mu}");
        }
    }

    #[test]
    fn one_follows_zipf() {
        for exponent in [0.7f32, 1.0, 1.5] {
            let logits: Vec<f32> = (1..=1000u16).map(|rank| -exponent * f32::from(rank).ln()).collect();
            let mut found = 0.0;
            pool_of(&logits, 1, |pool| found = zipf_exponent(pool));
            assert!((found - f64::from(exponent)).abs() < 1e-4, "{found}");
        }
        // By hand: e = 0.5, 2^4 = 16, 1 - 1000^-0.5 = 0.96838; (8 / 0.96838)^(2 / 3) = 4.09.
        assert_eq!(num_kept(1.5, 4.0, 1000), 4);
        assert_eq!(num_kept(1.0, 0.0, 1000), 1);
        assert!(num_kept(1.0 + 1e-10, 8.0, 1000).abs_diff(num_kept(1.0 + 1e-7, 8.0, 1000)) <= 1);
    }

    #[test]
    fn equal_and_single_candidates() {
        for version in [MirostatVersion::One, MirostatVersion::Two] {
            assert_eq!(kept(&[0.0], version, 10.0), [0]);
            assert_eq!(kept(&[0.0, f32::NEG_INFINITY], version, 10.0), [0]);
            assert_eq!(kept(&[1.0; 8], version, 10.0), [0, 1, 2, 3, 4, 5, 6, 7]);
            assert_eq!(kept(&[1.0; 8], version, -1.0), [0]);
        }
    }
}
