//! Converts `SamplingParams` and prompts to the engine's request.

use llmserve_engine::{
    ConstraintSpec, Delivery, Drafting, GenerationRequest, Prompt, RequestParts, Special, StopParams, TokenId,
};
use pyo3::prelude::*;
use pyo3::types::PyString;

use crate::errors::{exception, invalid_parameter};
use crate::fields::{Field, Fields};
use crate::sampling::sampling;
use crate::tokens::token_ids;

/// Checks every field of a `SamplingParams`: raises `InvalidParameterError` for the first that is
/// out of range.
#[pyfunction]
pub(crate) fn check_params(params: &Bound<'_, PyAny>) -> PyResult<()> {
    let any_prompt = Prompt::Tokens(vec![TokenId(0)]);
    generation_request(any_prompt, Vec::new(), params, None, Delivery::Streaming).map(drop)
}

/// A valid request, or the exception that names the field.
pub(crate) fn generation_request(
    prompt: Prompt,
    begun: Vec<u8>,
    params: &Bound<'_, PyAny>,
    drafting: Option<Drafting>,
    delivery: Delivery,
) -> PyResult<GenerationRequest> {
    let fields = Fields::new(params, invalid_parameter);
    let parts = RequestParts {
        prompt,
        begun,
        sampling: sampling(&fields)?,
        stopping: stopping(&fields)?,
        constraint: constraint(&fields)?,
        drafting,
        logprobs: fields.optional_uint("logprobs")?,
        prompt_logprobs: fields.optional_uint("prompt_logprobs")?,
        prompt_progress: fields.bool("prompt_progress")?,
        cache_prompt: fields.bool("cache_prompt")?,
        prefill_step_size: fields.optional_uint("prefill_step_size")?,
        delivery,
    };
    GenerationRequest::new(parts).map_err(|error| exception(params.py(), &error))
}

fn stopping(fields: &Fields<'_>) -> PyResult<StopParams> {
    let stop = fields.get("stop")?.items()?;
    let stop_token_ids = fields.get("stop_token_ids")?.items()?;
    Ok(StopParams {
        max_tokens: fields.optional_uint("max_tokens")?,
        min_tokens: fields.uint("min_tokens")?,
        ignore_eos: fields.bool("ignore_eos")?,
        stop: stop.iter().map(Field::text).collect::<PyResult<_>>()?,
        stop_token_ids: stop_token_ids.iter().map(token_id).collect::<PyResult<_>>()?,
        max_total_tokens: fields.optional_uint("max_total_tokens")?,
    })
}

fn constraint(fields: &Fields<'_>) -> PyResult<Option<ConstraintSpec>> {
    let mut constraint = None;
    for name in ["json_schema", "regex", "grammar"] {
        let Some(field) = fields.get(name)?.optional() else {
            continue;
        };
        if constraint.is_some() {
            return Err(field.refused("None beside another constraint"));
        }
        let text = field.text()?;
        constraint = Some(match name {
            "json_schema" => ConstraintSpec::JsonSchema(text),
            "regex" => ConstraintSpec::Regex(text),
            _ => ConstraintSpec::Lark(text),
        });
    }
    Ok(constraint)
}

pub(crate) fn token_id(field: &Field<'_>) -> PyResult<TokenId> {
    let id = i32::try_from(field.int()?).ok().filter(|id| *id >= 0);
    id.map(TokenId).ok_or_else(|| field.refused("a token id"))
}

/// The prompt argument of `submit`: the text or the token ids, whether BOS is added to a text, and
/// what its control tokens become.
#[derive(FromPyObject)]
pub(crate) struct PromptArgument<'py>(Bound<'py, PyAny>, bool, SpecialArgument);

/// `plain`, `control` or `marked`.
#[derive(Clone, Copy)]
pub(crate) struct SpecialArgument(pub(crate) Special);

impl FromPyObject<'_, '_> for SpecialArgument {
    type Error = PyErr;

    fn extract(name: Borrowed<'_, '_, PyAny>) -> PyResult<Self> {
        match &*name.extract::<String>()? {
            "plain" => Ok(Self(Special::Plain)),
            "control" => Ok(Self(Special::Control)),
            "marked" => Ok(Self(Special::Marked)),
            _ => Err(Field::new("special", name.to_owned(), invalid_parameter)
                .refused("`plain`, `control` or `marked`")),
        }
    }
}

impl PromptArgument<'_> {
    pub(crate) fn into_prompt(self) -> PyResult<Prompt> {
        let Self(input, add_special, SpecialArgument(special)) = self;
        if input.is_instance_of::<PyString>() {
            let text = Field::new("prompt", input, invalid_parameter).text()?;
            return Ok(Prompt::Text { text, add_special, special });
        }
        token_ids("prompt", &input).map(Prompt::Tokens)
    }
}
