"""The fields of all servers that constrain or change the output, by their names in snake case.

A route honours some of them, and refuses the others: :mod:`llmserve.server.fields.refused`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Refused(NamedTuple):
    """Why a field is refused, and the values that are not."""

    reason: str
    neutral: tuple[Any, ...] = ()
    """Values with which the field changes nothing; so does null."""
    may_be_empty: bool = True
    """Whether empty texts, arrays and objects change nothing, either."""


_SAMPLER = "the sampler is not supported"
_BIAS = "use logit_bias"
_GUIDANCE = "classifier-free guidance is not supported"
_BEAMS = "beam search is not supported"
_CODE = "code of clients is not run"
_ONLY_ONE = "only one text is generated"
_SCORES = "only /completion, /v1/completions and /v1/chat/completions give log-probabilities"
_LENGTH = "use the dialect's own limit on tokens"
_ADAPTERS = "adapters and their scales are load options of a model"
_CONSTRAINT = "the constraint is not supported"
_BLANKS = "the constraint is not supported: documents have no blanks"
_LAZY = "the constraint is not supported: a grammar holds from the first token on"
_OPENAI = "use a route of the OpenAI API"
_FORMAT = "use response_format"
_TOP = "put its fields at the top level of the body"
_DETOKENIZED = "control tokens and stop strings are left out of the text"
_THINKING = "use chat_template_kwargs"
_THINKING_BUDGET = "use thinking_budget_tokens"
_REASONING = "use reasoning_format"
_CHAT = "it belongs to chat"
_INFILL = "only /infill and /v1/completions fill in text"
_CONTEXT = "use a route whose name ends in WithContext"
_PROMPT = "put it into the prompt"
_INSTRUCTIONS = "use a message of the role system"
_CUTTING = "use truncate_prompt_tokens"
_SPECIAL = "the engine adds the tokens that the model wants"
_TEXT_ONLY = "llmserve reads text only"

SAMPLERS: Mapping[str, Refused] = {
    "tfs": Refused(_SAMPLER, (1,)),
    "tfs_z": Refused(_SAMPLER, (1,)),
    "top_a": Refused(_SAMPLER, (0,)),
    "epsilon_cutoff": Refused(_SAMPLER, (0,)),
    "eta_cutoff": Refused(_SAMPLER, (0,)),
    "smoothing_factor": Refused(_SAMPLER, (0,)),
    "smoothing_curve": Refused(_SAMPLER, (0, 1)),
    "penalty_alpha": Refused(_SAMPLER, (0,)),
    "skew": Refused(_SAMPLER, (0,)),
    "top_p_decay": Refused(_SAMPLER, (0,)),
    "encoder_repetition_penalty": Refused(_SAMPLER, (1,)),
    "encoder_no_repeat_ngram_size": Refused(_SAMPLER, (0,)),
    "watermark": Refused("watermarks are not supported", (False,)),
    "typical": Refused("use typical_p", (1,)),
    "nsigma": Refused("use top_n_sigma", (0, -1)),
    "n_sigma": Refused("use top_n_sigma", (0, -1)),
    "mirostat_mode": Refused("use mirostat", (0,)),
    "dynamic_temperature": Refused("use dynatemp_range", (False,)),
    "dynatemp_min": Refused("use dynatemp_range", (0, 1)),
    "dynatemp_max": Refused("use dynatemp_range", (0, 1)),
    "dynatemp_low": Refused("use dynatemp_range", (0, 1)),
    "dynatemp_high": Refused("use dynatemp_range", (0, 1)),
    "temp": Refused("use temperature"),
    "temperature_last": Refused("use samplers", (False,)),
    "sampler_priority": Refused("use samplers"),
    "do_sample": Refused("use temperature 0 for greedy generation", (True,)),
    "rep_pen": Refused("use the dialect's own penalty of repetition", (1,)),
    "penalty_last_n": Refused("use repeat_last_n", (-1,)),
    "repetition_penalty_range": Refused("use repeat_last_n", (0, -1)),
    "repetition_context_size": Refused("use repeat_last_n"),
    "rep_pen_range": Refused("use repeat_last_n", (0, -1)),
    "rep_pen_slope": Refused(_SAMPLER, (0, 1)),
    "frequency_penalty_range": Refused("use repeat_last_n", (0, -1)),
    "presence_penalty_range": Refused("use repeat_last_n", (0, -1)),
    "guidance_scale": Refused(_GUIDANCE, (1,)),
    "cfg_scale": Refused(_GUIDANCE, (1,)),
    "negative_prompt": Refused(_GUIDANCE),
    "use_beam_search": Refused(_BEAMS, (False,)),
    "num_beams": Refused(_BEAMS, (1,)),
    "logits_processors": Refused(_CODE),
    "custom_logit_processor": Refused(_CODE),
    "random_seed": Refused("use seed", (-1,)),
    "n_cmpl": Refused(_ONLY_ONE, (1,)),
    "num_return_sequences": Refused(_ONLY_ONE, (1,)),
}
"""Those that change how tokens are drawn."""

TOKENS: Mapping[str, Refused] = {
    "logits_bias": Refused(_BIAS),
    "logit_bias_exp": Refused(_BIAS),
    "sequence_bias": Refused(_BIAS),
    "banned_strings": Refused("use bad_words"),
    "banned_tokens": Refused("use bad_words"),
    "custom_token_bans": Refused(_BIAS),
    "bad_words_ids": Refused(_BIAS),
    "suppress_tokens": Refused(_BIAS),
    "begin_suppress_tokens": Refused(_BIAS),
    "force_words_ids": Refused(_BEAMS),
    "forced_bos_token_id": Refused(_PROMPT),
    "eos_token_id": Refused("use stop_token_ids"),
    "ban_eos_token": Refused("use ignore_eos", (False,)),
    "ignore_eos_token": Refused("use ignore_eos", (False,)),
    "stop_regex": Refused("use stop"),
    "stop_sequences": Refused("use stop"),
    "stopping_strings": Refused("use stop"),
    "stop_words": Refused("use stop"),
    "stop_str": Refused("use stop"),
    "stop_tokens": Refused("use stop"),
    "antiprompt": Refused("use stop"),
    "no_stop_trim": Refused(_DETOKENIZED, (False,)),
    "skip_special_tokens": Refused(_DETOKENIZED, (True,)),
    "add_special_tokens": Refused(_SPECIAL, (True,)),
    "add_bos_token": Refused(_SPECIAL, (True,)),
    "n_indent": Refused("use grammar", (0,)),
    "max_new_tokens": Refused(_LENGTH),
    "max_length": Refused(_LENGTH),
    "max_gen_len": Refused(_LENGTH),
    "max_generated_tokens": Refused(_LENGTH),
    "max_tokens_to_sample": Refused(_LENGTH),
    "tokens_to_generate": Refused(_LENGTH),
    "num_predict": Refused(_LENGTH, (-1,)),
    "min_length": Refused("use min_tokens", (0,)),
    "min_new_tokens": Refused("use min_tokens", (0,)),
    "n_probs": Refused(_SCORES, (0,)),
    "post_sampling_probs": Refused("probabilities are those before sampling", (False,)),
}
"""Those that ban tokens, or say where the text ends."""

CONSTRAINTS: Mapping[str, Refused] = {
    "format": Refused(_FORMAT),
    "text": Refused(_FORMAT, ({"format": {"type": "text"}},)),
    "json": Refused(_FORMAT),
    "json_mode": Refused(_FORMAT, (False,)),
    "json_object": Refused(_FORMAT, (False,)),
    "schema": Refused(_FORMAT),
    "response_schema": Refused(_FORMAT),
    "output_schema": Refused(_FORMAT),
    "output_format": Refused(_FORMAT, ({"type": "text"},)),
    "output_config": Refused(_FORMAT),
    "response_mime_type": Refused(_FORMAT, ("text/plain",)),
    "choice": Refused("use guided_choice"),
    "choices": Refused("use guided_choice"),
    "pattern": Refused("use regex"),
    "lark": Refused("use grammar"),
    "guided_lark": Refused("use grammar"),
    "grammar_string": Refused("use grammar"),
    "guided_structural_tag": Refused("use structural_tag", may_be_empty=False),
    "guided_decoding": Refused("use structured_outputs"),
    "guided_options_request": Refused("use structured_outputs"),
    "whitespace_pattern": Refused(_BLANKS),
    "guided_whitespace_pattern": Refused(_BLANKS),
    "grammar_lazy": Refused(_LAZY, (False,)),
    "grammar_triggers": Refused(_LAZY),
    "options": Refused(_TOP),
    "sampling_params": Refused(_TOP),
    "parameters": Refused(_TOP),
    "json_schema": Refused(_OPENAI, may_be_empty=False),
    "grammar": Refused(_OPENAI),
    "regex": Refused(_OPENAI),
    "ebnf": Refused(_OPENAI),
    "structural_tag": Refused(_OPENAI, may_be_empty=False),
    "structured_outputs": Refused(_OPENAI),
    "guided_json": Refused(_OPENAI, may_be_empty=False),
    "guided_regex": Refused(_OPENAI),
    "guided_choice": Refused(_OPENAI),
    "guided_grammar": Refused(_OPENAI),
    "response_format": Refused(_OPENAI, ({"type": "text"},), may_be_empty=False),
}
"""Those that say what the output must be."""

CHAT: Mapping[str, Refused] = {
    "messages": Refused(_CHAT),
    "tools": Refused(_CHAT),
    "tool_choice": Refused(_CHAT, ("none", "auto")),
    "functions": Refused("it is the old form of tools"),
    "function_call": Refused("it is the old form of tool_choice", ("none", "auto")),
    "tool_config": Refused("use tool_choice"),
    "documents": Refused(_CHAT),
    "chat_template": Refused(_CHAT),
    "chat_template_kwargs": Refused(_CHAT),
    "chat_template_args": Refused(_THINKING),
    "template_kwargs": Refused(_THINKING),
    "template": Refused("use chat_template"),
    "add_generation_prompt": Refused(_CHAT, (True,)),
    "continue_final_message": Refused("only /v1/chat/completions continues a message", (False,)),
    "instructions": Refused(_INSTRUCTIONS),
    "system": Refused(_INSTRUCTIONS),
    "system_prompt": Refused(_INSTRUCTIONS),
    "context_block": Refused(_CONTEXT),
    "user_prompt": Refused(_CONTEXT),
    "safe_prompt": Refused(_INSTRUCTIONS, (False,)),
    "enable_thinking": Refused(_THINKING),
    "think": Refused(_THINKING),
    "thinking": Refused(_THINKING),
    "thinking_budget_tokens": Refused(_CHAT, (-1,)),
    "reasoning_budget_tokens": Refused(_CHAT, (-1,)),
    "reasoning_budget": Refused(_CHAT, (-1,)),
    "thinking_token_budget": Refused(_CHAT, (-1,)),
    "thinking_budget": Refused(_CHAT, (-1,)),
    "reasoning_budget_message": Refused(_CHAT),
    "max_thinking_tokens": Refused(_THINKING_BUDGET, (-1,)),
    "max_reasoning_tokens": Refused(_THINKING_BUDGET, (-1,)),
    "reasoning": Refused("use reasoning_effort"),
    "reasoning_effort": Refused(_CHAT),
    "reasoning_format": Refused(_CHAT, ("auto", "deepseek")),
    "reasoning_in_content": Refused(_REASONING, (False,)),
    "include_reasoning": Refused("reasoning is always returned", (True,)),
    "separate_reasoning": Refused(_REASONING, (True,)),
    "parse_tool_calls": Refused("tool calls are always read", (True,)),
    "web_search_options": Refused("llmserve does not search"),
}
"""Those of conversations."""

PROMPTS: Mapping[str, Refused] = {
    "prompt": Refused("it belongs to routes for raw prompts"),
    "input": Refused("it belongs to /v1/responses"),
    "inputs": Refused("use prompt"),
    "echo": Refused("the text is without the prompt", (False,)),
    "suffix": Refused(_INFILL),
    "input_prefix": Refused(_INFILL),
    "input_suffix": Refused(_INFILL),
    "input_extra": Refused(_INFILL),
    "prefix": Refused(_PROMPT),
    "assistant_prefix": Refused(_PROMPT),
    "bot_prefix": Refused(_PROMPT),
    "raw": Refused("only routes for raw prompts take one as it is", (False,)),
    "truncate": Refused(_CUTTING),
    "prompt_truncate_len": Refused(_CUTTING),
    "truncate_prompt_tokens": Refused("prompts are never truncated here"),
    "mm_processor_kwargs": Refused(_TEXT_ONLY),
    "multimodal_data": Refused(_TEXT_ONLY),
    "image_data": Refused(_TEXT_ONLY),
    "prompt_embeds": Refused(_TEXT_ONLY),
    "audio": Refused("llmserve generates text only"),
    "modalities": Refused("llmserve generates text only", (["text"],)),
    "lora": Refused(_ADAPTERS),
    "lora_path": Refused(_ADAPTERS),
    "lora_request": Refused(_ADAPTERS),
    "lora_adapter": Refused(_ADAPTERS),
    "adapters": Refused(_ADAPTERS),
    "adapter_id": Refused(_ADAPTERS),
}
"""Those of what the model reads."""

_OF_SOME_ROUTES: Mapping[str, Refused] = {
    "temperature": Refused(_OPENAI),
    "top_p": Refused(_OPENAI, (1,)),
    "top_k": Refused(_OPENAI, (0, -1)),
    "min_p": Refused(_OPENAI, (0,)),
    "repetition_penalty": Refused(_OPENAI, (1,)),
    "repeat_penalty": Refused("use repetition_penalty", (1,)),
    "frequency_penalty": Refused(_OPENAI, (0,)),
    "presence_penalty": Refused(_OPENAI, (0,)),
    "seed": Refused(_OPENAI, (-1,)),
    "logit_bias": Refused(_OPENAI),
    "bad_words": Refused(_OPENAI),
    "allowed_token_ids": Refused(_OPENAI),
    "stop": Refused(_OPENAI),
    "stop_token_ids": Refused(_OPENAI),
    "ignore_eos": Refused(_OPENAI, (False,)),
    "include_stop_str_in_output": Refused(_OPENAI, (False,)),
    "t_max_predict_ms": Refused(_OPENAI, (-1, 0)),
    "max_tokens": Refused(_LENGTH),
    "max_completion_tokens": Refused(_LENGTH),
    "max_output_tokens": Refused(_LENGTH),
    "n_predict": Refused(_LENGTH, (-1,)),
    "min_tokens": Refused(_OPENAI, (0,)),
    "min_keep": Refused(_OPENAI, (0, 1)),
    "no_repeat_ngram_size": Refused(_OPENAI, (0,)),
    "repeat_last_n": Refused("the penalties of this API look at the whole text", (-1,)),
    "typical_p": Refused(_OPENAI, (1,)),
    "top_n_sigma": Refused(_OPENAI, (-1, 0)),
    "xtc_probability": Refused(_OPENAI, (0,)),
    "dynatemp_range": Refused(_OPENAI, (0,)),
    "adaptive_target": Refused(_OPENAI, (-1,)),
    "mirostat": Refused(_OPENAI, (0,)),
    "dry_multiplier": Refused(_OPENAI, (0,)),
    "samplers": Refused(_OPENAI),
    "n": Refused(_ONLY_ONE, (1,)),
    "best_of": Refused("use n", (1,)),
    "logprobs": Refused(_SCORES, (False, 0)),
    "top_logprobs": Refused(_SCORES, (0,)),
    "prompt_logprobs": Refused(_SCORES),
}
"""Fields that many routes honour."""

FOREIGN: Mapping[str, Refused] = {**CONSTRAINTS, **SAMPLERS, **TOKENS, **CHAT, **PROMPTS, **_OF_SOME_ROUTES}
