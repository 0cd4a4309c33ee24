//! What a step takes, by how many sequences decode in it and what they draft.

use std::collections::BTreeMap;

use super::MAX_DRAFT_TOKENS;

/// Drift of the machine's speed from step to step: variance of its logarithm.
const SPEED_DRIFT: f64 = 2e-4;
/// Drift of what one shape of step takes beside the others: variance of its logarithm.
const SHAPE_DRIFT: f64 = 5e-6;
const MAX_VARIANCE: f64 = 0.25;
/// Variance of the logarithm of what equal steps take: at the start, and its limits.
const FIRST_NOISE: f64 = 0.01;
const MIN_NOISE: f64 = 1e-4;
const MAX_NOISE: f64 = 0.1;
/// Weight of the newest step in the noise.
const NOISE_WEIGHT: f64 = 0.02;
/// Standard deviations beyond which a step counts as disturbed, or as the first of a new speed.
const MAX_DEVIATION: f64 = 3.0;
/// Measurements before a shape tells about the noise.
const MIN_NOISE_SAMPLES: u32 = 2;
/// What a drafted token for every sequence adds to a step, as a share of it, while nothing has been measured.
const UNMEASURED_EXCESS: f64 = 0.25;
const UNMEASURED_DEVIATION: f64 = 0.2;
/// Variance of the logarithm of what a step takes with a number of sequences that was never met.
const UNKNOWN_VARIANCE: f64 = 1.0;
/// Weight of the newest step in the mean share of drafting sequences.
const SHARE_WEIGHT: f64 = 0.1;
/// Uncertainty of what was measured with another number of sequences, for twice or half of them, and
/// with another share of drafting ones (standard deviations of the logarithm).
const COUNT_UNCERTAINTY: f64 = 0.2;
const SHARE_UNCERTAINTY: f64 = 0.15;
/// The part of a draft's cost that goes with the number of rows, where only some of the sequences draft.
/// The other part is that of a second pass over the weights.
const ROWS_PART: f64 = 0.5;

/// The classes of the share of drafting sequences: all, or a quarter of them each.
const ALL: u8 = 5;

/// A step without prompt chunks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Shape {
    pub(super) num_decoding: usize,
    pub(super) num_drafting: usize,
    /// Tokens of each draft (mean, rounded up).
    pub(super) draft_len: usize,
    pub(super) is_head: bool,
}

impl Shape {
    fn share(self) -> f64 {
        self.num_drafting as f64 / self.num_decoding.max(1) as f64
    }

    fn draft(self) -> Option<Draft> {
        if self.num_drafting == 0 || self.draft_len == 0 {
            return None;
        }
        let share = if self.num_drafting >= self.num_decoding {
            ALL
        } else {
            (self.num_drafting * 4).div_ceil(self.num_decoding) as u8
        };
        Some(Draft { is_head: self.is_head, share, len: self.draft_len.min(MAX_DRAFT_TOKENS) as u8 })
    }
}

/// What shapes with drafts are measured by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Draft {
    is_head: bool,
    share: u8,
    len: u8,
}

/// What a step takes beside other shapes of the same number of sequences.
#[derive(Debug, Clone, Copy)]
pub(super) struct Estimate {
    /// Natural logarithm of the cost; the unit is common to all shapes.
    pub(super) log: f64,
    pub(super) variance: f64,
    pub(super) num_samples: u32,
    /// Steps since the last measurement.
    pub(super) age: u64,
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

/// A measured shape.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    log: f64,
    variance: f64,
    measured_at: u64,
    num_samples: u32,
    /// Mean share of drafting sequences.
    share: f64,
    streak: Streak,
}

#[derive(Debug, Default)]
struct CountCosts {
    undrafted: Option<Cost>,
    drafted: BTreeMap<Draft, Cost>,
}

/// Costs of steps that were measured, and what they tell about others.
///
/// A step's time is taken as speed x cost x noise. The logarithms of both are tracked by scalar Kalman filters that
/// share each innovation by their variances: the speed of the machine (frequency, neighbours, depth of the
/// contexts) drifts fast and for all shapes, the cost of a shape slowly. So costs that were measured at
/// different times compare.
#[derive(Debug)]
pub(super) struct StepCosts {
    num_steps: u64,
    speed: f64,
    speed_variance: f64,
    noise: f64,
    /// By class of the number of decoding sequences.
    counts: BTreeMap<usize, CountCosts>,
    last: Streak,
}

impl StepCosts {
    pub(super) fn new() -> Self {
        Self { num_steps: 0, speed: 0.0, speed_variance: 0.0, noise: FIRST_NOISE, counts: BTreeMap::new(), last: Streak::default() }
    }

    pub(super) fn noise(&self) -> f64 { self.noise }
    /// Enters what a step took.
    pub(super) fn record(&mut self, shape: Shape, seconds: f64) {
        let log = seconds.max(1e-9).ln();
        if self.counts.is_empty() {
            self.speed = log;
        }
        self.num_steps += 1;
        self.speed_variance += SPEED_DRIFT;
        let mut prior = self.estimate(shape);
        if self.costs(shape.num_decoding).is_none() {
            prior.variance += UNKNOWN_VARIANCE;
        }
        let innovation = log - self.speed - prior.log;
        self.update_noise(prior, innovation);
        let deviation = self.deviation(prior, innovation);
        self.last.extend(deviation);
        let of_shape = self.cost_mut(shape).map_or(Streak::default(), |cost| cost.streak.extend(deviation));
        if deviation != Deviation::None {
            // Once, it is a disturbed step. In steps that follow each other, the speed is another; in steps of this
            // shape only, its cost is.
            if self.last.len > 1 {
                self.speed_variance += innovation * innovation;
            } else if of_shape.is_lasting() {
                prior.variance += innovation * innovation;
            } else if prior.num_samples == 1 && deviation == Deviation::Below {
                // The only measurement so far was a disturbed one.
                prior.variance += innovation * innovation;
                prior.num_samples = 0;
            } else {
                return;
            }
        } else if prior.age > 8 {
            let variance = prior.variance + self.speed_variance + self.noise;
            if innovation * innovation > 4.0 * variance {
                prior.variance += 0.5 * (innovation * innovation - variance);
            }
        }
        self.update(shape, prior, innovation);
    }

    fn deviation(&self, prior: Estimate, innovation: f64) -> Deviation {
        let limit = MAX_DEVIATION * (prior.variance + self.speed_variance + self.noise).sqrt();
        if prior.num_samples == 0 || innovation.abs() <= limit {
            Deviation::None
        } else if innovation < 0.0 {
            Deviation::Below
        } else {
            Deviation::Above
        }
    }

    fn update_noise(&mut self, prior: Estimate, innovation: f64) {
        if prior.num_samples > MIN_NOISE_SAMPLES {
            let rest = prior.variance + self.speed_variance;
            let most = MAX_DEVIATION.powi(2) * (rest + self.noise);
            let noise = (innovation.powi(2).min(most) - rest).max(0.0);
            self.noise = (self.noise + NOISE_WEIGHT * (noise - self.noise)).clamp(MIN_NOISE, MAX_NOISE);
        }
    }

    /// Shares the innovation between speed and cost by their variances.
    fn update(&mut self, shape: Shape, prior: Estimate, innovation: f64) {
        let uncertainty = prior.variance + self.speed_variance + self.noise;
        let (gain, speed_gain) = (prior.variance / uncertainty, self.speed_variance / uncertainty);
        self.speed += speed_gain * innovation;
        self.speed_variance *= 1.0 - speed_gain;
        let measured_at = self.num_steps;
        let cost = self.cost_or_new(shape);
        cost.log = if prior.num_samples == 0 { prior.log } else { cost.log } + gain * innovation;
        cost.variance = prior.variance * (1.0 - gain);
        cost.share += SHARE_WEIGHT * (shape.share() - cost.share);
        cost.measured_at = measured_at;
        cost.num_samples = prior.num_samples.saturating_add(1);
    }

    fn cost_or_new(&mut self, shape: Shape) -> &mut Cost {
        let costs = self.counts.entry(count_class(shape.num_decoding)).or_default();
        let new = Cost { share: shape.share(), ..Cost::default() };
        match shape.draft() {
            None => costs.undrafted.get_or_insert(new),
            Some(draft) => costs.drafted.entry(draft).or_insert(new),
        }
    }

    fn cost_mut(&mut self, shape: Shape) -> Option<&mut Cost> {
        let costs = self.counts.get_mut(&count_class(shape.num_decoding))?;
        match shape.draft() {
            None => costs.undrafted.as_mut(),
            Some(draft) => costs.drafted.get_mut(&draft),
        }
    }

    /// What a step takes, measured or by what is known of others.
    pub(super) fn estimate(&self, shape: Shape) -> Estimate {
        let anchor = self.anchor(shape.num_decoding);
        let Some(draft) = shape.draft() else {
            return anchor;
        };
        let measured = self.costs(shape.num_decoding).and_then(|costs| costs.drafted.get(&draft));
        if let Some(cost) = measured {
            let excess = (cost.log - anchor.log).exp() - 1.0;
            let log = anchor.log + log_ratio(excess * share_factor(shape.share(), cost.share));
            return Estimate { log, ..self.current(cost) };
        }
        let excess = self.excess(shape.num_decoding, draft, shape.share());
        let is_measured = anchor.num_samples > 0;
        Estimate {
            log: anchor.log + log_ratio(excess.mean),
            variance: excess.deviation.powi(2) + if is_measured { anchor.variance } else { 0.0 },
            num_samples: 0,
            age: 0,
        }
    }

    /// The cost of a step without drafts. Not measured, it is derived from what was measured with as many
    /// sequences, or, with nothing measured, set: only costs beside each other count.
    fn anchor(&self, num_decoding: usize) -> Estimate {
        let costs = self.costs(num_decoding);
        if let Some(cost) = costs.and_then(|costs| costs.undrafted.as_ref()) {
            return self.current(cost);
        }
        let drafted = costs.and_then(|costs| costs.drafted.iter().max_by_key(|(_, cost)| cost.num_samples));
        if let Some((&draft, cost)) = drafted {
            let excess = self.excess(num_decoding, draft, cost.share);
            return Estimate {
                log: cost.log - log_ratio(excess.mean),
                variance: excess.deviation.powi(2),
                num_samples: 0,
                age: 0,
            };
        }
        let log = self
            .nearest(num_decoding, |costs| costs.undrafted.map(|cost| cost.log))
            .map_or(0.0, |(log, distance)| log + 0.5 * distance);
        Estimate { log, variance: 0.0, num_samples: 0, age: 0 }
    }

    /// What drafts add to a step, by what was measured of other shapes.
    fn excess(&self, num_decoding: usize, draft: Draft, share: f64) -> Excess {
        let nearest = self.nearest(num_decoding, |costs| costs.excess(draft, share));
        if let Some((mut excess, distance)) = nearest {
            excess.deviation += COUNT_UNCERTAINTY * distance.abs() / std::f64::consts::LN_2;
            return excess;
        }
        let mean = UNMEASURED_EXCESS * f64::from(draft.len) * share;
        Excess { mean, deviation: log_ratio(mean) + UNMEASURED_DEVIATION }
    }

    /// What the nearest number of sequences that knows an answer says, and the distance to it (natural logarithm).
    fn nearest<T>(&self, num_decoding: usize, ask: impl Fn(&CountCosts) -> Option<T>) -> Option<(T, f64)> {
        let wanted = (count_class(num_decoding) as f64).ln();
        self.counts
            .iter()
            .filter_map(|(&count, costs)| Some((ask(costs)?, wanted - (count as f64).ln())))
            .min_by(|(_, a), (_, b)| a.abs().total_cmp(&b.abs()))
    }

    fn costs(&self, num_decoding: usize) -> Option<&CountCosts> {
        self.counts.get(&count_class(num_decoding))
    }

    fn current(&self, cost: &Cost) -> Estimate {
        let age = self.num_steps - cost.measured_at;
        let drift = SHAPE_DRIFT * age as f64;
        Estimate {
            log: cost.log,
            variance: (cost.variance + drift).min(MAX_VARIANCE),
            num_samples: cost.num_samples,
            age,
        }
    }
}

/// What drafts add to a step, as a share of the step without: the mean, and the uncertainty of the logarithm of
/// the whole.
#[derive(Debug, Clone, Copy)]
struct Excess {
    mean: f64,
    deviation: f64,
}

impl CountCosts {
    /// By the measured drafts of the nearest share: between two lengths, or on the line through one.
    fn excess(&self, draft: Draft, share: f64) -> Option<Excess> {
        let base = self.undrafted?.log;
        let of_kind = || self.drafted.iter().filter(|(key, _)| key.is_head == draft.is_head);
        let class = of_kind().map(|(key, _)| key.share).min_by_key(|class| class.abs_diff(draft.share))?;
        let (mut below, mut above) = ((0.0, 0.0), None);
        for (key, cost) in of_kind().filter(|(key, _)| key.share == class) {
            let excess = ((cost.log - base).exp() - 1.0) * share_factor(share, cost.share);
            let point = (f64::from(key.len), excess);
            if key.len <= draft.len {
                below = point;
            } else if above.is_none() {
                above = Some(point);
            }
        }
        let len = f64::from(draft.len);
        let mut excess = if let Some(above) = above {
            let mean = below.1 + (above.1 - below.1) * (len - below.0) / (above.0 - below.0);
            Excess { mean, deviation: (log_ratio(above.1) - log_ratio(below.1)).abs() / 2.0 }
        } else {
            // No more than in proportion, and no less than what the shorter one adds.
            let mean = below.1 * len / below.0;
            Excess { mean, deviation: (log_ratio(mean) - log_ratio(below.1)).abs() }
        };
        if class != draft.share {
            excess.deviation += SHARE_UNCERTAINTY;
        }
        Some(excess)
    }
}

/// The logarithm of a step with this excess beside one without. Drafts do not make a step much shorter.
fn log_ratio(excess: f64) -> f64 {
    excess.max(-0.2).ln_1p()
}

/// What an excess grows by from one share of drafting sequences to another.
fn share_factor(share: f64, measured: f64) -> f64 {
    if measured > 0.0 { 1.0 - ROWS_PART + ROWS_PART * share / measured } else { 1.0 }
}

/// Numbers of sequences that count as the same: each up to 8, then four classes between a number and its double.
fn count_class(num_decoding: usize) -> usize {
    let width = (num_decoding / 4).checked_ilog2().map_or(1, |bits| 1 << bits);
    num_decoding / width * width
}
