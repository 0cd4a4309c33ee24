//! How the next token is drawn.

use super::error::Error;
use super::ids::TokenId;
use super::ranges::{above_zero, at_least, between, invalid, too_many};

/// Maximum number of entries in a logit bias.
pub const MAX_LOGIT_BIAS: usize = 4096;
/// Maximum number of tokens in a list of allowed ones.
pub const MAX_ALLOWED_TOKENS: usize = 4096;
/// Maximum number of banned sequences.
pub const MAX_BANNED_SEQUENCES: usize = 8192;
/// Maximum number of tokens in all banned sequences together.
pub const MAX_BANNED_TOKENS: usize = 65_536;
/// Maximum number of samplers in a chain.
pub const MAX_SAMPLERS: usize = 32;
/// Maximum number of sequence breakers.
pub const MAX_BREAKERS: usize = 64;
/// Maximum number of bytes in one sequence breaker.
pub const MAX_BREAKER_BYTES: usize = 256;

/// One of the samplers whose order a request chooses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SamplerKind {
    /// `repetition_penalty`, `frequency_penalty` and `presence_penalty`.
    Penalties,
    /// `dry`.
    Dry,
    /// `temperature`, with its `dynamic_temperature`.
    Temperature,
    /// `top_n_sigma`.
    TopNSigma,
    /// `top_k`.
    TopK,
    /// `typical_p`.
    TypicalP,
    /// `top_p`.
    TopP,
    /// `min_p`.
    MinP,
    /// `xtc`.
    Xtc,
    /// Ends the text as soon as an end is plausible, and leaves few other tokens (llama.cpp's infill). In no default
    /// order.
    Infill,
    /// `adaptive`, which comes last wherever it stands.
    AdaptiveP,
}

impl SamplerKind {
    /// The order of a request that does not choose one.
    pub const DEFAULT_ORDER: [Self; 9] = [
        Self::Penalties,
        Self::Dry,
        Self::Temperature,
        Self::TopNSigma,
        Self::TopK,
        Self::TypicalP,
        Self::TopP,
        Self::MinP,
        Self::Xtc,
    ];
}

/// How the next token is drawn: by the samplers that `samplers` names, in that order. What it does not name is
/// off.
///
/// Penalties and DRY that come first act before the bias, the constraint's mask and the bans; all other
/// samplers act on the tokens that these leave.
#[derive(Debug, Clone, PartialEq)]
pub struct SamplingParams {
    /// The samplers in their order; one that is named twice is applied twice.
    pub samplers: Vec<SamplerKind>,
    /// 0 is greedy: the token with the largest logit.
    pub temperature: f32,
    /// Lets the temperature follow the entropy.
    pub dynamic_temperature: DynamicTemperature,
    /// Keep the `k` likeliest tokens; 0 is off.
    pub top_k: u32,
    /// Keep the smallest set of tokens with at least this probability; 1 is off.
    pub top_p: f32,
    /// Keep tokens with at least this share of the likeliest token's probability; 0 is off.
    pub min_p: f32,
    /// Keep the tokens whose surprise is closest to the entropy, with at least this probability together
    /// (Meister et al. 2022); 1 is off.
    pub typical_p: f32,
    /// Keep tokens whose logit is at most this many standard deviations of all logits below the largest (Tang et
    /// al. 2024); 0 is off.
    pub top_n_sigma: f32,
    /// Leaves out the likeliest tokens.
    pub xtc: XtcParams,
    /// Draws tokens of a probability, if `samplers` names it.
    pub adaptive: AdaptiveParams,
    /// Takes the place of all truncation.
    pub mirostat: MirostatParams,
    /// Truncation keeps at least this many tokens.
    pub min_tokens_to_keep: u32,
    /// Divides positive and multiplies negative logits of tokens in prompt and output (Keskar et
    /// al. 2019, CTRL); 1 is off.
    pub repetition_penalty: f32,
    /// Subtracted from a logit for each occurrence in the output (`OpenAI`).
    pub frequency_penalty: f32,
    /// Subtracted once from the logit of each token in the output (`OpenAI`).
    pub presence_penalty: f32,
    /// The three penalties look at this many last tokens of prompt and output. `None`: each at what its own
    /// description says.
    pub repeat_last_n: Option<u32>,
    /// Penalises tokens that would continue a repetition.
    pub dry: DryParams,
    /// No n-gram of this size occurs twice in prompt and output; 0 is off.
    pub no_repeat_ngram_size: u32,
    /// Added to logits.
    pub logit_bias: Vec<(TokenId, f32)>,
    /// Sequences that do not occur in the output: the last token of one is not drawn where the output ends with
    /// the others. What the prompt ends with does not count.
    pub banned_sequences: Vec<Vec<TokenId>>,
    /// The only tokens that may be drawn; `None`: all. Without an end-of-generation token the text ends at a
    /// limit.
    pub allowed_token_ids: Option<Vec<TokenId>>,
    /// Keys the generator of each draw together with the choice index and the number of generated
    /// tokens; `None` takes a random one, which the result reports.
    pub seed: Option<u64>,
    /// Which of several choices for one prompt this is.
    pub choice_index: u32,
}

/// A temperature between `temperature - range` and `temperature + range`, by the entropy of the candidates.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DynamicTemperature {
    /// 0 is off.
    pub range: f32,
    /// The power to which the entropy, as a share of the largest one possible, is raised.
    pub exponent: f32,
}

/// "Exclude Top Choices" (pew, 2024): of the tokens with at least `threshold`, only the least likely is kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct XtcParams {
    /// How often that happens; 0 is off.
    pub probability: f32,
    /// Above 0.5 nothing is left out.
    pub threshold: f32,
}

/// Adaptive-p (`MrJackSpade`, 2025), which draws tokens whose probability is close to a target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct AdaptiveParams {
    /// The probability; negative is off.
    pub target: f32,
    /// How much of each token's part in the mean is left after the next one: 0 to 0.99.
    pub decay: f32,
}

/// Mirostat (Basu et al. 2021), which steers the surprise of the drawn tokens.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct MirostatParams {
    /// Which of its algorithms.
    pub version: MirostatVersion,
    /// The surprise that is aimed at, in bits.
    pub tau: f32,
    /// How fast it adapts.
    pub eta: f32,
}

/// Mirostat's algorithms.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MirostatVersion {
    /// No mirostat.
    Off,
    /// The number of tokens follows from an estimate of Zipf's exponent.
    One,
    /// Mirostat 2.0: tokens with too high a surprise are cut.
    Two,
}

/// DRY, "Don't Repeat Yourself" (pew, 2024): subtracts `multiplier * base^(n - allowed_length)` from the logit of a
/// token that would continue a repetition of `n` tokens.
#[derive(Debug, Clone, PartialEq)]
pub struct DryParams {
    /// 0 is off.
    pub multiplier: f32,
    /// At least 1.
    pub base: f32,
    /// Shorter repetitions are not penalised; at least 1.
    pub allowed_length: u32,
    /// Repetitions are looked for in this many last tokens of prompt and output.
    pub last_n: u32,
    /// Texts that no repetition extends across.
    pub breakers: Vec<String>,
}

impl Default for SamplingParams {
    fn default() -> Self {
        Self {
            samplers: SamplerKind::DEFAULT_ORDER.to_vec(),
            temperature: 0.0,
            dynamic_temperature: DynamicTemperature { range: 0.0, exponent: 1.0 },
            top_k: 0,
            top_p: 1.0,
            min_p: 0.0,
            typical_p: 1.0,
            top_n_sigma: 0.0,
            xtc: XtcParams { probability: 0.0, threshold: 0.1 },
            adaptive: AdaptiveParams { target: -1.0, decay: 0.9 },
            mirostat: MirostatParams { version: MirostatVersion::Off, tau: 5.0, eta: 0.1 },
            min_tokens_to_keep: 1,
            repetition_penalty: 1.0,
            frequency_penalty: 0.0,
            presence_penalty: 0.0,
            repeat_last_n: None,
            dry: DryParams::default(),
            no_repeat_ngram_size: 0,
            logit_bias: Vec::new(),
            banned_sequences: Vec::new(),
            allowed_token_ids: None,
            seed: None,
            choice_index: 0,
        }
    }
}

impl Default for DryParams {
    fn default() -> Self {
        Self {
            multiplier: 0.0,
            base: 1.75,
            allowed_length: 2,
            last_n: 64,
            breakers: ["\n", ":", "\"", "*"].map(str::to_owned).to_vec(),
        }
    }
}

impl SamplingParams {
    pub(super) fn check(&self) -> Result<(), Error> {
        if self.samplers.len() > MAX_SAMPLERS {
            let n = self.samplers.len();
            let reason = format!("must have at most {MAX_SAMPLERS} entries, got {n}");
            return Err(too_many("samplers", MAX_SAMPLERS, reason));
        }
        at_least("temperature", self.temperature, 0.0)?;
        at_least("dynatemp_range", self.dynamic_temperature.range, 0.0)?;
        at_least("dynatemp_exponent", self.dynamic_temperature.exponent, 0.0)?;
        above_zero("top_p", self.top_p)?;
        between("top_p", self.top_p, 0.0, 1.0)?;
        between("min_p", self.min_p, 0.0, 1.0)?;
        between("typical_p", self.typical_p, 0.0, 1.0)?;
        at_least("top_n_sigma", self.top_n_sigma, 0.0)?;
        between("xtc_probability", self.xtc.probability, 0.0, 1.0)?;
        between("xtc_threshold", self.xtc.threshold, 0.0, 1.0)?;
        between("adaptive_target", self.adaptive.target, -1.0, 1.0)?;
        between("adaptive_decay", self.adaptive.decay, 0.0, 0.99)?;
        at_least("mirostat_tau", self.mirostat.tau, 0.0)?;
        at_least("mirostat_eta", self.mirostat.eta, 0.0)?;
        above_zero("repetition_penalty", self.repetition_penalty)?;
        between("frequency_penalty", self.frequency_penalty, -100.0, 100.0)?;
        between("presence_penalty", self.presence_penalty, -100.0, 100.0)?;
        self.dry.check()?;
        self.check_bias()?;
        self.check_banned()?;
        self.check_allowed()
    }

    fn check_allowed(&self) -> Result<(), Error> {
        match self.allowed_token_ids.as_ref().map(Vec::len) {
            Some(0) => invalid("allowed_token_ids", "must not be empty"),
            Some(n) if n > MAX_ALLOWED_TOKENS => {
                let reason = format!("must have at most {MAX_ALLOWED_TOKENS} tokens, got {n}");
                Err(too_many("allowed_token_ids", MAX_ALLOWED_TOKENS, reason))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_banned(&self) -> Result<(), Error> {
        let name = "banned_sequences";
        let n = self.banned_sequences.len();
        if n > MAX_BANNED_SEQUENCES {
            let reason = format!("must have at most {MAX_BANNED_SEQUENCES} entries, got {n}");
            return Err(too_many(name, MAX_BANNED_SEQUENCES, reason));
        }
        if self.banned_sequences.iter().any(Vec::is_empty) {
            return invalid(name, "must not contain an empty sequence");
        }
        let n: usize = self.banned_sequences.iter().map(Vec::len).sum();
        if n > MAX_BANNED_TOKENS {
            let reason = format!("must have at most {MAX_BANNED_TOKENS} tokens in all, got {n}");
            return Err(too_many(name, MAX_BANNED_TOKENS, reason));
        }
        Ok(())
    }

    fn check_bias(&self) -> Result<(), Error> {
        let n = self.logit_bias.len();
        if n > MAX_LOGIT_BIAS {
            let reason = format!("must have at most {MAX_LOGIT_BIAS} entries, got {n}");
            return Err(too_many("logit_bias", MAX_LOGIT_BIAS, reason));
        }
        for (token, bias) in &self.logit_bias {
            // Minus infinity bans a token; everything else must be a number.
            if bias.is_nan() || *bias == f32::INFINITY {
                return invalid("logit_bias", format!("must be a number for token {}, got {bias}", token.0));
            }
        }
        Ok(())
    }
}

impl DryParams {
    fn check(&self) -> Result<(), Error> {
        at_least("dry_multiplier", self.multiplier, 0.0)?;
        at_least("dry_base", self.base, 1.0)?;
        if self.allowed_length == 0 {
            return Err(Error::beyond("dry_allowed_length", 1.0, "must be at least 1, got 0"));
        }
        let name = "dry_sequence_breakers";
        let n = self.breakers.len();
        if n > MAX_BREAKERS {
            let reason = format!("must have at most {MAX_BREAKERS} strings, got {n}");
            return Err(too_many(name, MAX_BREAKERS, reason));
        }
        for breaker in &self.breakers {
            if breaker.is_empty() {
                return invalid(name, "must not contain an empty string");
            }
            let n = breaker.len();
            if n > MAX_BREAKER_BYTES {
                let reason = format!("strings must have at most {MAX_BREAKER_BYTES} bytes, got {n}");
                return Err(too_many(name, MAX_BREAKER_BYTES, reason));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut SamplingParams)) -> Result<(), String> {
        let mut params = SamplingParams::default();
        change(&mut params);
        params.check().map_err(|error| error.to_string())
    }

    fn refused(change: fn(&mut SamplingParams), message: &str) {
        assert_eq!(check(change), Err(message.to_owned()));
    }

    #[test]
    fn what_is_out_of_range_is_named_with_limit_and_value() {
        refused(|p| p.temperature = f32::NAN, "temperature: must be a number of at least 0, got NaN");
        refused(|p| p.temperature = f32::INFINITY, "temperature: must be a number of at least 0, got inf");
        refused(|p| p.top_p = 0.0, "top_p: must be a number above 0, got 0");
        refused(|p| p.top_p = 1.5, "top_p: must be a number from 0 to 1, got 1.5");
        refused(|p| p.min_p = f32::NAN, "min_p: must be a number from 0 to 1, got NaN");
        refused(|p| p.typical_p = -0.5, "typical_p: must be a number from 0 to 1, got -0.5");
        refused(|p| p.top_n_sigma = -1.0, "top_n_sigma: must be a number of at least 0, got -1");
        refused(
            |p| p.dynamic_temperature.exponent = -1.0,
            "dynatemp_exponent: must be a number of at least 0, got -1",
        );
        refused(|p| p.xtc.threshold = 2.0, "xtc_threshold: must be a number from 0 to 1, got 2");
        refused(|p| p.adaptive.target = 1.5, "adaptive_target: must be a number from -1 to 1, got 1.5");
        refused(|p| p.adaptive.decay = 1.0, "adaptive_decay: must be a number from 0 to 0.99, got 1");
        refused(|p| p.mirostat.tau = -1.0, "mirostat_tau: must be a number of at least 0, got -1");
        refused(|p| p.repetition_penalty = 0.0, "repetition_penalty: must be a number above 0, got 0");
        refused(
            |p| p.presence_penalty = 101.0,
            "presence_penalty: must be a number from -100 to 100, got 101",
        );
        refused(|p| p.dry.base = 0.5, "dry_base: must be a number of at least 1, got 0.5");
        refused(|p| p.dry.allowed_length = 0, "dry_allowed_length: must be at least 1, got 0");
        refused(
            |p| p.dry.breakers = vec![String::new()],
            "dry_sequence_breakers: must not contain an empty string",
        );
        refused(
            |p| p.dry.breakers = vec!["x".repeat(257)],
            "dry_sequence_breakers: strings must have at most 256 bytes, got 257",
        );
        refused(
            |p| p.dry.breakers = vec!["x".to_owned(); 65],
            "dry_sequence_breakers: must have at most 64 strings, got 65",
        );
        refused(
            |p| p.samplers = vec![SamplerKind::TopK; 33],
            "samplers: must have at most 32 entries, got 33",
        );
    }

    #[test]
    fn lists_of_tokens_are_checked() {
        refused(
            |p| p.logit_bias = vec![(TokenId(5), f32::NAN)],
            "logit_bias: must be a number for token 5, got NaN",
        );
        refused(
            |p| p.banned_sequences = vec![vec![TokenId(1)]; 8193],
            "banned_sequences: must have at most 8192 entries, got 8193",
        );
        refused(
            |p| p.banned_sequences = vec![Vec::new()],
            "banned_sequences: must not contain an empty sequence",
        );
        refused(
            |p| p.banned_sequences = vec![vec![TokenId(1); 65_537]],
            "banned_sequences: must have at most 65536 tokens in all, got 65537",
        );
        refused(|p| p.allowed_token_ids = Some(Vec::new()), "allowed_token_ids: must not be empty");
        refused(
            |p| p.allowed_token_ids = Some(vec![TokenId(1); 4097]),
            "allowed_token_ids: must have at most 4096 tokens, got 4097",
        );
    }

    #[test]
    fn the_ends_of_the_ranges_are_in() {
        assert_eq!(check(|p| p.top_p = f32::MIN_POSITIVE), Ok(()));
        assert_eq!(check(|p| p.temperature = f32::MAX), Ok(()));
        assert_eq!(check(|p| (p.typical_p, p.dry.base) = (0.0, 1.0)), Ok(()));
        assert_eq!(check(|p| p.samplers.clear()), Ok(()));
        assert_eq!(check(|p| p.dry.breakers.clear()), Ok(()));
        assert_eq!(check(|p| p.logit_bias = vec![(TokenId(5), f32::NEG_INFINITY)]), Ok(()));
    }
}
