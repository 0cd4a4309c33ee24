//! Reads how tokens are drawn from a `SamplingParams`.

use llmserve_engine::{
    AdaptiveParams, DryParams, DynamicTemperature, MirostatParams, MirostatVersion, SamplerKind,
    SamplingParams, XtcParams,
};
use pyo3::prelude::*;

use crate::fields::{Field, Fields};
use crate::request::token_id;

/// llama-server's names of the samplers.
const SAMPLERS: [(&str, SamplerKind); 11] = [
    ("penalties", SamplerKind::Penalties),
    ("dry", SamplerKind::Dry),
    ("temperature", SamplerKind::Temperature),
    ("top_n_sigma", SamplerKind::TopNSigma),
    ("top_k", SamplerKind::TopK),
    ("typ_p", SamplerKind::TypicalP),
    ("top_p", SamplerKind::TopP),
    ("min_p", SamplerKind::MinP),
    ("xtc", SamplerKind::Xtc),
    ("infill", SamplerKind::Infill),
    ("adaptive_p", SamplerKind::AdaptiveP),
];

pub(crate) fn sampling(fields: &Fields<'_>) -> PyResult<SamplingParams> {
    let samplers = fields.get("samplers")?.items()?;
    let bias = fields.get("logit_bias")?.entries()?;
    let banned = fields.get("banned_sequences")?.items()?;
    let allowed = fields.get("allowed_token_ids")?.optional().map(|tokens| tokens.items()).transpose()?;
    let bias = bias.iter().map(|(token, bias)| Ok((token_id(token)?, bias.float()?)));
    Ok(SamplingParams {
        samplers: samplers.iter().map(|name| name.choice(&SAMPLERS)).collect::<PyResult<_>>()?,
        temperature: fields.float("temperature")?,
        dynamic_temperature: DynamicTemperature {
            range: fields.float("dynatemp_range")?,
            exponent: fields.float("dynatemp_exponent")?,
        },
        top_k: fields.uint("top_k")?,
        top_p: fields.float("top_p")?,
        min_p: fields.float("min_p")?,
        typical_p: fields.float("typical_p")?,
        top_n_sigma: fields.float("top_n_sigma")?,
        xtc: XtcParams {
            probability: fields.float("xtc_probability")?,
            threshold: fields.float("xtc_threshold")?,
        },
        adaptive: AdaptiveParams {
            target: fields.float("adaptive_target")?,
            decay: fields.float("adaptive_decay")?,
        },
        mirostat: MirostatParams {
            version: mirostat_version(&fields.get("mirostat")?)?,
            tau: fields.float("mirostat_tau")?,
            eta: fields.float("mirostat_eta")?,
        },
        min_tokens_to_keep: fields.uint("min_tokens_to_keep")?,
        repetition_penalty: fields.float("repetition_penalty")?,
        frequency_penalty: fields.float("frequency_penalty")?,
        presence_penalty: fields.float("presence_penalty")?,
        repeat_last_n: fields.optional_uint("repeat_last_n")?,
        dry: dry(fields)?,
        no_repeat_ngram_size: fields.uint("no_repeat_ngram_size")?,
        logit_bias: bias.collect::<PyResult<_>>()?,
        banned_sequences: banned
            .iter()
            .map(|sequence| sequence.items()?.iter().map(token_id).collect())
            .collect::<PyResult<_>>()?,
        allowed_token_ids: allowed
            .map(|tokens| tokens.iter().map(token_id).collect::<PyResult<_>>())
            .transpose()?,
        seed: fields.optional_uint("seed")?,
        choice_index: fields.uint("choice_index")?,
    })
}

fn mirostat_version(field: &Field<'_>) -> PyResult<MirostatVersion> {
    match field.uint::<u32>()? {
        0 => Ok(MirostatVersion::Off),
        1 => Ok(MirostatVersion::One),
        2 => Ok(MirostatVersion::Two),
        _ => Err(field.refused("0, 1 or 2")),
    }
}

fn dry(fields: &Fields<'_>) -> PyResult<DryParams> {
    let breakers = fields.get("dry_sequence_breakers")?.items()?;
    Ok(DryParams {
        multiplier: fields.float("dry_multiplier")?,
        base: fields.float("dry_base")?,
        allowed_length: fields.uint("dry_allowed_length")?,
        last_n: fields.uint("dry_penalty_last_n")?,
        breakers: breakers.iter().map(Field::text).collect::<PyResult<_>>()?,
    })
}
