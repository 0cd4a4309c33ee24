//! What moving cells costs here: bytes a token and seconds a byte, measured.

use std::time::Duration;

/// Seconds a byte before anything was measured: 1 GB/s.
const FIRST_SECONDS_PER_BYTE: f64 = 1e-9;
/// The estimate stays within this factor of the first one. Otherwise a machine that was busy for a while would
/// never move cells again.
const MAX_FACTOR: f64 = 16.0;
/// Smaller moves say more about the clock than about the bytes.
const MIN_MEASURED_BYTES: usize = 1 << 20;
/// Weight of the newest measurement, and of one that is slower than expected: it may have been disturbed.
const WEIGHT: f64 = 0.3;
const RISING_WEIGHT: f64 = 0.1;

/// Running estimates.
#[derive(Debug)]
pub(super) struct Rates {
    seconds_per_byte: f64,
    /// Bytes of the state that was seen last, and of how many tokens it was.
    last: Option<(usize, usize)>,
    /// Whether a state grows with its tokens; a recurrent one and a window do not, or not for long.
    grows: bool,
}

impl Rates {
    pub(super) fn new(grows: bool) -> Self {
        Self { seconds_per_byte: FIRST_SECONDS_PER_BYTE, last: None, grows }
    }

    pub(super) fn seconds_per_byte(&self) -> f64 {
        self.seconds_per_byte
    }

    /// Whether no state has been seen yet.
    pub(super) fn is_unknown(&self) -> bool {
        self.last.is_none()
    }

    /// Bytes of the state of `num_tokens`, 0 while nothing is known.
    pub(super) fn bytes_of(&self, num_tokens: usize) -> usize {
        match self.last {
            Some((bytes, len)) if self.grows => {
                (bytes as f64 / len.max(1) as f64 * num_tokens as f64) as usize
            }
            Some((bytes, _)) => bytes,
            None => 0,
        }
    }

    /// Records the size of a state.
    pub(super) fn note_size(&mut self, bytes: usize, num_tokens: usize) {
        if num_tokens > 0 {
            self.last = Some((bytes, num_tokens));
        }
    }

    /// Records the time of a move.
    pub(super) fn note_move(&mut self, bytes: usize, took: Duration) {
        if bytes < MIN_MEASURED_BYTES {
            return;
        }
        let measured = took.as_secs_f64() / bytes as f64;
        let weight = if measured > self.seconds_per_byte { RISING_WEIGHT } else { WEIGHT };
        let estimate = self.seconds_per_byte + weight * (measured - self.seconds_per_byte);
        let bounds = (FIRST_SECONDS_PER_BYTE / MAX_FACTOR, FIRST_SECONDS_PER_BYTE * MAX_FACTOR);
        self.seconds_per_byte = estimate.clamp(bounds.0, bounds.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_follow_the_last_state() {
        let mut rates = Rates::new(true);
        assert_eq!((rates.is_unknown(), rates.bytes_of(100)), (true, 0));
        rates.note_size(1000, 10);
        assert_eq!((rates.is_unknown(), rates.bytes_of(25)), (false, 2500));
        let mut recurrent = Rates::new(false);
        recurrent.note_size(1000, 10);
        assert_eq!(recurrent.bytes_of(25), 1000);
    }

    #[test]
    fn the_rate_follows_large_moves_and_forgets_a_busy_hour() {
        let mut rates = Rates::new(true);
        rates.note_move(1000, Duration::from_secs(1));
        assert!((rates.seconds_per_byte() - 1e-9).abs() < 1e-15, "too small to measure");
        for _ in 0..100 {
            rates.note_move(1 << 30, Duration::from_secs(1000));
        }
        assert!(rates.seconds_per_byte() <= 16.01e-9);
        for _ in 0..30 {
            rates.note_move(1 << 30, Duration::from_millis(250));
        }
        assert!(rates.seconds_per_byte() < 0.5e-9);
    }
}
