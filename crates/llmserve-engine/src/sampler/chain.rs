//! The samplers of a request, in its order.

use super::draw::DrawKey;
use super::dry;
use super::history::{Adjuster, History};
use super::infill::{self, Words};
use super::pool::Pool;
use super::temperature::Temperature;
use super::{top_n_sigma, typical, xtc};
use crate::sampling::{MirostatVersion, SamplerKind, SamplingParams, XtcParams};

/// The samplers of one request, without those that are off.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain {
    /// Rules that come first, on whole rows: the bias, a constraint's mask and the bans follow them.
    pub(super) head: Vec<Adjuster>,
    steps: Vec<Step>,
    /// How many candidates every cut keeps at least.
    pub(super) keep: usize,
}

/// One sampler.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Step {
    Adjust(Adjuster),
    Temperature(Temperature),
    TopNSigma(f32),
    TopK(usize),
    TypicalP(f32),
    TopP(f32),
    MinP(f32),
    /// With the number that keys the draws of this step.
    Xtc(XtcParams, u32),
    Mirostat,
    Infill,
    Adaptive,
}

/// What the samplers look at beside the candidates.
#[derive(Clone, Copy)]
pub(super) struct Position<'a, 'w> {
    pub(super) history: &'a History,
    pub(super) key: DrawKey,
    pub(super) num_generated: usize,
    pub(super) words: Words<'w>,
}

impl Chain {
    /// The samplers that change anything, given what is kept of the text.
    ///
    /// Mirostat decides by itself how many tokens are left: of the others, only the penalties, DRY and the
    /// temperature stay.
    pub(super) fn new(params: &SamplingParams, history: &History) -> Self {
        let keep = (params.min_tokens_to_keep as usize).max(1);
        let is_adjuster = |kind: &SamplerKind| matches!(kind, SamplerKind::Penalties | SamplerKind::Dry);
        let mut steps = Vec::new();
        if params.mirostat.version == MirostatVersion::Off {
            let kinds = params.samplers.iter().enumerate();
            steps.extend(kinds.filter_map(|(place, &kind)| Step::new(kind, place as u32, params, keep)));
            if history.adaptive.is_some() && params.samplers.contains(&SamplerKind::AdaptiveP) {
                steps.push(Step::Adaptive);
            }
        } else {
            let kinds = params.samplers.iter().filter(|kind| is_adjuster(kind));
            steps.extend(kinds.filter_map(|&kind| Step::new(kind, 0, params, keep)));
            steps.push(Step::Temperature(Temperature::fixed(params)));
            steps.push(Step::Mirostat);
        }
        steps.retain(|step| !matches!(step, Step::Adjust(adjuster) if !history.has(*adjuster)));
        let num_first = steps.iter().take_while(|step| matches!(step, Step::Adjust(_))).count();
        let head = steps.drain(..num_first).filter_map(Step::adjuster).collect();
        Self { head, steps, keep }
    }

    /// Whether the best token of a row is drawn, whatever the logits.
    pub(super) fn is_greedy(&self) -> bool {
        for step in &self.steps {
            match step {
                Step::TopK(1) => return true,
                Step::Temperature(temperature) if temperature.is_greedy() => return true,
                // These keep the best one the best.
                Step::Temperature(_) | Step::TopNSigma(_) | Step::TopK(_) | Step::TopP(_) | Step::MinP(_) => {
                }
                Step::Adjust(_)
                | Step::TypicalP(_)
                | Step::Xtc(..)
                | Step::Mirostat
                | Step::Infill
                | Step::Adaptive => return false,
            }
        }
        false
    }

    /// How often all weights of a row are computed, about.
    pub(super) fn num_sums(&self) -> usize {
        if self.is_greedy() {
            return 0;
        }
        let is_fixed =
            |step: &Step| matches!(step, Step::Temperature(temperature) if !temperature.is_dynamic());
        match self.steps.iter().find(|step| !is_fixed(step)) {
            Some(Step::TopK(_)) => 0,
            Some(Step::TopP(_) | Step::MinP(_)) | None => 1,
            // All candidates are gathered.
            Some(_) => 2,
        }
    }

    /// Applies the samplers that come after the head.
    pub(super) fn apply(&self, pool: &mut Pool<'_>, position: Position<'_, '_>, memory: &mut dry::Memory) {
        for step in &self.steps {
            step.apply(pool, position, memory);
        }
    }
}

impl Step {
    /// `None` for a sampler that is off.
    fn new(kind: SamplerKind, place: u32, params: &SamplingParams, keep: usize) -> Option<Self> {
        let (step, is_on) = match kind {
            SamplerKind::Penalties => (Self::Adjust(Adjuster::Penalties), true),
            SamplerKind::Dry => (Self::Adjust(Adjuster::Dry), true),
            SamplerKind::Temperature => (Self::Temperature(Temperature::new(params)), true),
            SamplerKind::TopNSigma => (Self::TopNSigma(params.top_n_sigma), params.top_n_sigma > 0.0),
            SamplerKind::TopK => (Self::TopK(keep.max(params.top_k as usize)), params.top_k > 0),
            SamplerKind::TypicalP => (Self::TypicalP(params.typical_p), params.typical_p < 1.0),
            SamplerKind::TopP => (Self::TopP(params.top_p), params.top_p < 1.0),
            SamplerKind::MinP => (Self::MinP(params.min_p), params.min_p > 0.0),
            SamplerKind::Infill => (Self::Infill, true),
            // Added behind all others.
            SamplerKind::AdaptiveP => return None,
            SamplerKind::Xtc => {
                let XtcParams { probability, threshold } = params.xtc;
                // No two tokens have more than half of the probability each.
                (Self::Xtc(params.xtc, place), probability > 0.0 && threshold <= 0.5)
            }
        };
        is_on.then_some(step)
    }

    fn adjuster(self) -> Option<Adjuster> {
        if let Self::Adjust(adjuster) = self { Some(adjuster) } else { None }
    }

    fn apply(&self, pool: &mut Pool<'_>, position: Position<'_, '_>, memory: &mut dry::Memory) {
        let Position { history, key, num_generated, words } = position;
        match *self {
            Self::Adjust(adjuster) => history.adjust_pool(adjuster, pool, memory),
            Self::Temperature(temperature) => temperature.apply(pool),
            Self::TopNSigma(n) => {
                let floor = top_n_sigma::floor(pool.logits(), pool.max(), n);
                pool.keep_from(floor);
            }
            Self::TopK(k) => pool.keep_best(k),
            Self::TypicalP(p) => {
                pool.cut(|candidates, softmax, keep| typical::cut(candidates, softmax, keep, p));
            }
            Self::TopP(p) => pool.keep_share(p),
            Self::MinP(p) => pool.keep_above(p),
            Self::Xtc(params, place) => {
                if xtc::hits(params, key.beside(place), num_generated) {
                    pool.cut(|candidates, _, keep| xtc::cut(candidates, keep, params.threshold));
                }
            }
            Self::Infill => infill::cut(pool, words),
            Self::Adaptive => {
                if let Some(adaptive) = &history.adaptive {
                    adaptive.apply(pool);
                }
            }
            Self::Mirostat => {
                if let Some(mirostat) = &history.mirostat {
                    mirostat.cut(pool);
                }
            }
        }
    }
}
