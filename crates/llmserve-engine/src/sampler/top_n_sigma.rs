//! Top-nσ (Tang, Liu, Xu et al., "Top-nσ: Not All Logits Are You Need", 2024): keeps logits of at least `M - n σ`, where
//! `M` is the largest logit and `σ` the standard deviation of all logits.

/// The smallest logit that is kept. Logits that are not finite do not count.
pub(super) fn floor(logits: impl Iterator<Item = f32>, max: f32, n: f32) -> f32 {
    let (mut count, mut sum, mut squares) = (0u32, 0.0, 0.0);
    for logit in logits.filter(|logit| logit.is_finite()) {
        // Of differences, which are small where it matters, the squares keep their digits.
        let below = f64::from(max) - f64::from(logit);
        count += 1;
        sum += below;
        squares += below * below;
    }
    let mean = sum / f64::from(count);
    let variance = (squares / f64::from(count) - mean * mean).max(0.0);
    (f64::from(max) - f64::from(n) * variance.sqrt()) as f32
}

#[cfg(test)]
mod tests {
    use super::super::tests::pool_of;

    fn kept(logits: &[f32], n: f32, keep: usize) -> Vec<usize> {
        pool_of(logits, keep, |pool| {
            let floor = super::floor(pool.logits(), pool.max(), n);
            pool.keep_from(floor);
        })
    }

    #[test]
    fn the_deviation_decides() {
        // The mean is 2, the deviation 2.
        let logits = [0.0, 4.0, 0.0, 4.0, f32::NEG_INFINITY];
        assert_eq!(kept(&logits, 1.5, 1), [1, 3]);
        assert_eq!(kept(&logits, 2.0, 1), [0, 1, 2, 3]);
        assert_eq!(kept(&logits, 1.5, 3), [0, 1, 3]);
    }

    #[test]
    fn equal_single_and_infinite_logits() {
        assert_eq!(kept(&[3.0; 3], 1.0, 1), [0, 1, 2]);
        assert_eq!(kept(&[3.0], 1.0, 1), [0]);
        assert_eq!(kept(&[f32::INFINITY, 1.0, 2.0], 1.0, 1), [0]);
    }
}
