//! What steps take that have the same number of sequences and different drafts.

use super::cost::Draft;

/// Drift from step to step, as variances of logarithms: of the machine's speed (frequency, neighbours, depth of the
/// contexts), and of what drafts add.
const SPEED_DRIFT: f64 = 2e-4;
const RATIO_DRIFT: f64 = 5e-6;
/// The most that the speed is taken to change while the number of sequences is another.
const MAX_SPEED_DRIFT: f64 = 0.05;
/// Variance of the level before the first measurement: nothing is known.
const UNKNOWN_LEVEL: f64 = 4.0;
/// Variance of a ratio that drift does not go beyond.
const MAX_VARIANCE: f64 = 0.25;
/// Standard deviations beyond which a step counts as disturbed.
const MAX_DEVIATION: f64 = 3.0;
/// Measurements before a shape tells about the noise, and its limits and first value: variance of the logarithm of
/// what equal steps take.
const MIN_NOISE_SAMPLES: u32 = 2;
const NOISE_WEIGHT: f64 = 0.02;
const FIRST_NOISE: f64 = 0.04;
const FIRST_NOISE_SAMPLES: u32 = 8;
const MIN_NOISE: f64 = 1e-4;
const MAX_NOISE: f64 = 0.1;
/// Weight of the newest step in the mean share of drafting sequences.
const SHARE_WEIGHT: f64 = 0.1;

/// What equal steps differ by.
#[derive(Debug)]
pub(super) struct Noise {
    /// Of the logarithm of what they take.
    variance: f64,
    num_samples: u32,
}

impl Noise {
    /// Much to begin with: what is learnt from few steps is then not held for certain.
    pub(super) fn new() -> Self {
        Self { variance: FIRST_NOISE, num_samples: 0 }
    }

    /// Enters an innovation, of which so much variance is not noise.
    fn record(&mut self, innovation: f64, rest: f64) {
        self.num_samples = self.num_samples.saturating_add(1);
        let weight = NOISE_WEIGHT.max(1.0 / f64::from(self.num_samples + FIRST_NOISE_SAMPLES));
        let most = MAX_DEVIATION.powi(2) * (rest + self.variance);
        let measured = (innovation.powi(2).min(most) - rest).max(0.0);
        self.variance = (self.variance + weight * (measured - self.variance)).clamp(MIN_NOISE, MAX_NOISE);
    }
}

/// How a step that took much longer or shorter than expected did so.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Deviation {
    #[default]
    None,
    Above,
    Below,
}

/// Deviations of the same kind without another step between.
#[derive(Debug, Clone, Copy, Default)]
struct Streak {
    deviation: Deviation,
    len: u32,
}

impl Streak {
    fn extend(&mut self, deviation: Deviation) -> Self {
        self.len = if deviation == self.deviation { self.len.saturating_add(1) } else { 1 };
        self.deviation = deviation;
        *self
    }

    /// Whether this is no accident. What disturbs a step makes it longer, so shorter ones prove more.
    fn is_lasting(self) -> bool {
        match self.deviation {
            Deviation::None => false,
            Deviation::Above => self.len > 2,
            Deviation::Below => self.len > 1,
        }
    }
}

/// A kind of step that was measured.
#[derive(Debug, Clone)]
pub(super) struct Track {
    /// None: without drafts.
    pub(super) draft: Option<Draft>,
    /// Mean share of the sequences that draft.
    pub(super) share: f64,
    pub(super) num_samples: u32,
    pub(super) measured_at: u64,
    streak: Streak,
}

/// A Kalman filter over logarithms.
///
/// The state is the level (what a step without drafts takes now) and for each kind of drafts the ratio to it. A step
/// without drafts measures the level, one with drafts the sum. The level drifts fast, so that ratios are learnt from
/// steps that are near in time, and a long run of one kind moves the level and not the ratio.
#[derive(Debug)]
pub(super) struct Filter {
    /// The first is the kind without drafts; its mean is the level.
    tracks: Vec<Track>,
    means: Vec<f64>,
    covariance: Vec<Vec<f64>>,
    updated_at: u64,
    /// The last kind with drafts.
    last_drafted: Option<usize>,
    last: Streak,
}

/// What is expected of a step.
#[derive(Debug, Clone, Copy)]
pub(super) struct Prior {
    pub(super) draft: Option<Draft>,
    /// Logarithm of the ratio to a step without drafts.
    pub(super) log_ratio: f64,
    /// Its variance if the kind of step is new.
    pub(super) variance: f64,
    pub(super) share: f64,
}

impl Filter {
    pub(super) fn new() -> Self {
        let undrafted =
            Track { draft: None, share: 0.0, num_samples: 0, measured_at: 0, streak: Streak::default() };
        Self {
            tracks: vec![undrafted],
            means: vec![0.0],
            covariance: vec![vec![UNKNOWN_LEVEL]],
            updated_at: 0,
            last_drafted: None,
            last: Streak::default(),
        }
    }

    pub(super) fn undrafted(&self) -> &Track {
        &self.tracks[0]
    }

    pub(super) fn drafted(&self) -> impl Iterator<Item = (Draft, f64, &Track)> {
        let tracks = self.tracks.iter().zip(&self.means);
        tracks.filter_map(|(track, &mean)| Some((track.draft?, mean, track)))
    }

    pub(super) fn find(&self, draft: Option<Draft>) -> Option<usize> {
        self.tracks.iter().position(|track| track.draft == draft)
    }

    pub(super) fn track(&self, index: usize) -> &Track {
        &self.tracks[index]
    }

    pub(super) fn log_ratio(&self, index: usize) -> f64 {
        if index == 0 { 0.0 } else { self.means[index] }
    }

    /// Variance of the ratio between two kinds of step, at this time.
    pub(super) fn variance(&self, a: usize, b: usize, now: u64) -> f64 {
        if a == b {
            return 0.0;
        }
        let part = |i: usize, j: usize| if i == 0 || j == 0 { 0.0 } else { self.covariance[i][j] };
        let num_ratios = [a, b].iter().filter(|&&index| index > 0).count();
        let drift = RATIO_DRIFT * (now - self.updated_at) as f64 * num_ratios as f64;
        (part(a, a) + part(b, b) - 2.0 * part(a, b) + drift).max(0.0)
    }

    /// Enters the logarithm of what a step took.
    pub(super) fn record(&mut self, prior: Prior, log: f64, now: u64, noise: &mut Noise) {
        self.drift(now);
        let index = self.find(prior.draft).unwrap_or_else(|| self.insert(prior));
        if self.tracks.iter().all(|track| track.num_samples == 0) {
            self.means[0] = log - prior.log_ratio;
        }
        let innovation = log - self.means[0] - prior.log_ratio;
        let num_samples = self.tracks[index].num_samples;
        if num_samples > MIN_NOISE_SAMPLES {
            noise.record(innovation, self.expected_variance(index));
        }
        if self.is_credible(index, innovation, noise.variance) {
            self.update(index, innovation, noise.variance);
            let track = &mut self.tracks[index];
            track.share += SHARE_WEIGHT * (prior.share - track.share);
            track.measured_at = now;
        }
        if prior.draft.is_some() {
            self.last_drafted = Some(index);
        }
    }

    fn drift(&mut self, now: u64) {
        let steps = (now - self.updated_at) as f64;
        self.updated_at = now;
        self.covariance[0][0] += (SPEED_DRIFT * steps).min(MAX_SPEED_DRIFT);
        for index in 1..self.tracks.len() {
            let variance = &mut self.covariance[index][index];
            if *variance < MAX_VARIANCE {
                *variance += RATIO_DRIFT * steps;
            }
        }
    }

    fn insert(&mut self, prior: Prior) -> usize {
        let Prior { draft, share, .. } = prior;
        let streak = Streak::default();
        self.tracks.push(Track { draft, share, num_samples: 0, measured_at: self.updated_at, streak });
        self.means.push(prior.log_ratio);
        for row in &mut self.covariance {
            row.push(0.0);
        }
        let mut row = vec![0.0; self.tracks.len()];
        row[self.tracks.len() - 1] = prior.variance;
        self.covariance.push(row);
        self.tracks.len() - 1
    }

    /// Covariance of the state with what a step of this kind takes.
    fn observed(&self, index: usize) -> Vec<f64> {
        let with_ratio = |row: &Vec<f64>| row[0] + if index > 0 { row[index] } else { 0.0 };
        self.covariance.iter().map(with_ratio).collect()
    }

    fn expected_variance(&self, index: usize) -> f64 {
        let observed = self.observed(index);
        observed[0] + if index > 0 { observed[index] } else { 0.0 }
    }

    /// Whether a step counts, after opening the filter to it where it shows that something has changed.
    fn is_credible(&mut self, index: usize, innovation: f64, noise: f64) -> bool {
        let limit = MAX_DEVIATION * (self.expected_variance(index) + noise).sqrt();
        let track = &mut self.tracks[index];
        let deviation = match innovation {
            _ if track.num_samples == 0 || innovation.abs() <= limit => Deviation::None,
            below if below < 0.0 => Deviation::Below,
            _ => Deviation::Above,
        };
        let of_kind = track.streak.extend(deviation);
        track.num_samples = track.num_samples.saturating_add(1);
        self.last.extend(deviation);
        if deviation == Deviation::None {
            return true;
        }
        let opened = match (self.last.len > 1, self.last_drafted) {
            // In steps that follow each other: the speed is another.
            (true, _) => 0,
            // In steps of this kind only: its ratio is, or that of the kind between them.
            (false, last) if of_kind.is_lasting() => {
                if index > 0 {
                    index
                } else {
                    last.unwrap_or(0)
                }
            }
            // The first measurement of two was the disturbed one.
            (false, _) if track.num_samples == 2 && deviation == Deviation::Below && index > 0 => {
                track.num_samples = 1;
                index
            }
            (false, _) => {
                // Once, it is the step that was disturbed. One measurement is then still one.
                track.num_samples -= u32::from(track.num_samples == 2);
                return false;
            }
        };
        self.covariance[opened][opened] += innovation * innovation;
        true
    }

    fn update(&mut self, index: usize, innovation: f64, noise: f64) {
        let observed = self.observed(index);
        let uncertainty = observed[0] + if index > 0 { observed[index] } else { 0.0 } + noise;
        for (row, &gained) in observed.iter().enumerate() {
            let gain = gained / uncertainty;
            self.means[row] += gain * innovation;
            for (column, &with) in observed.iter().enumerate() {
                self.covariance[row][column] -= gain * with;
            }
        }
    }
}
