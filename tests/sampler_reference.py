"""The samplers by their definitions, on whole distributions: what the engine's draws are compared with."""

from __future__ import annotations

from collections.abc import Sequence

import gguf
import numpy as np
import numpy.typing as npt

from llmserve import SamplingParams
from synthetic import EOS, IM_END, VOCABULARY

Vector = npt.NDArray[np.float64]


def probabilities(logits: Vector) -> Vector:
    """The softmax."""
    weights: Vector = np.exp(logits - logits.max())
    weights /= weights.sum()
    return weights


def distribution(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    """The probability of each token at a position, for a chain in which XTC hits always or never."""
    left = logits.astype(np.float64)
    # Adaptive-p comes last wherever it stands.
    samplers = sorted(params.samplers, key=lambda name: name == "adaptive_p")
    for name in samplers if not params.mirostat else ("temperature",):
        left = _STEPS[name](left, params, text)
    return probabilities(_mirostat(left, params) if params.mirostat else left)


def _entropy(p: Vector) -> float:
    p = p[p > 0]
    return float(-(p * np.log(p)).sum())


def _only(logits: Vector, kept: npt.NDArray[np.int64]) -> Vector:
    left = np.full_like(logits, -np.inf)
    left[kept] = logits[kept]
    return left


def _best_first(logits: Vector) -> npt.NDArray[np.int64]:
    order = np.argsort(-logits, kind="stable")
    return order[logits[order] > -np.inf]


def _until(p: Vector, share: float) -> int:
    """How many of the first have a share of the probability."""
    return int(np.searchsorted(np.cumsum(p), share)) + 1


def _temperature(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    temperature = params.temperature
    if params.dynatemp_range > 0:
        low = max(0.0, temperature - params.dynatemp_range)
        high = temperature + params.dynatemp_range
        share = _entropy(probabilities(logits)) / np.log((logits > -np.inf).sum())
        temperature = low + (high - low) * share**params.dynatemp_exponent
    return logits / temperature if temperature > 0 else _only(logits, _best_first(logits)[:1])


def _top_k(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    return _only(logits, _best_first(logits)[: params.top_k]) if params.top_k else logits


def _top_p(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    order = _best_first(logits)
    return _only(logits, order[: _until(probabilities(logits)[order], params.top_p)])


def _min_p(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    p = probabilities(logits)
    return np.where(p >= params.min_p * p.max(), logits, -np.inf)


def _typical_p(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    if params.typical_p >= 1:
        return logits
    p = probabilities(logits)
    ids = _best_first(logits)
    with np.errstate(divide="ignore"):
        order = ids[np.argsort(np.abs(-np.log(p[ids]) - _entropy(p)), kind="stable")]
    return _only(logits, order[: _until(p[order], params.typical_p)])


def _top_n_sigma(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    if not params.top_n_sigma:
        return logits
    floor = logits.max() - params.top_n_sigma * logits[logits > -np.inf].std()
    return np.where(logits >= floor, logits, -np.inf)


def _xtc(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    order, p = _best_first(logits), probabilities(logits)
    num_choices = int((p >= params.xtc_threshold).sum()) if params.xtc_probability else 0
    return _only(logits, order[max(0, num_choices - 1) :])


def _penalties(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    """With `repeat_last_n`."""
    left = logits.copy()
    for token in set(last := list(text)[-(params.repeat_last_n or 0) :]):
        factor = params.repetition_penalty if left[token] <= 0 else 1 / params.repetition_penalty
        amount = last.count(token) * params.frequency_penalty + params.presence_penalty
        left[token] = left[token] * factor - amount
    return left


def _dry(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    """Without sequence breakers."""
    left, last = logits.copy(), list(text)[-params.dry_penalty_last_n :]
    longest: dict[int, int] = {}
    for place in range(1, len(last)):
        length = 0
        while length < place and last[place - 1 - length] == last[-1 - length]:
            length += 1
        longest[last[place]] = max(length, longest.get(last[place], 0))
    for token, length in longest.items():
        if params.dry_multiplier and length >= params.dry_allowed_length:
            left[token] -= params.dry_multiplier * params.dry_base ** (length - params.dry_allowed_length)
    return left


def _mirostat(logits: Vector, params: SamplingParams) -> Vector:
    """At the first token."""
    p, order, mu = probabilities(logits), _best_first(logits), 2 * params.mirostat_tau
    if params.mirostat == 2:
        return _only(logits, order[: max(1, int((p >= 2.0**-mu).sum()))])
    best = p[order[:100]]
    ranks = np.arange(1, len(best))
    t, b = np.log((ranks + 1) / ranks), np.log(best[:-1] / best[1:])
    s = (t * b).sum() / (t * t).sum()
    k = ((s - 1) * 2**mu / (1 - float(len(logits)) ** (1 - s))) ** (1 / s)
    return _only(logits, order[: max(1, int(k))])


def _adaptive_p(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    """At the first token."""
    distance = np.abs(probabilities(logits) - params.adaptive_target) / 0.3
    return np.where(logits > -np.inf, 5 - 10 * distance**2 / (1 + distance), -np.inf)


_ENDS = [VOCABULARY.id(EOS), VOCABULARY.id(IM_END)]


def _infill(logits: Vector, params: SamplingParams, text: Sequence[int]) -> Vector:
    p, order = probabilities(logits), [int(token) for token in _best_first(logits)]
    ends = p[_ENDS].sum()
    if 3 * ends * len(order) > 1 - ends:
        return _only(logits, np.array(_ENDS))
    for token in order:
        for other in order:
            if p[token] > 0 and p[other] > 0 and token != other and _begins(token, other):
                to, gone = (other, token) if p[other] > p[token] else (token, other)
                p[to], p[gone] = p[to] + p[gone], 0
    texts = [token for token in order if token not in _ENDS and p[token] >= 0.2]
    if not texts:
        # The ends of the model are equally likely, and the first of them is drawn, also if it had been cut.
        return np.where(np.arange(len(logits)) == min(_ENDS), 0.0, -np.inf)
    left = p[[*texts, *_ENDS]].sum()
    texts = [token for token in texts if p[token] >= left / (len(texts) + 1)]
    return _only(logits, np.array([*texts, *_ENDS]))


def _begins(token: int, other: int) -> bool:
    """Whether the text of a token begins that of another; control tokens have none."""
    pieces = [VOCABULARY.tokens[each] for each in (token, other)]
    return not any(map(_is_control, (token, other))) and pieces[1].startswith(pieces[0])


def _is_control(token: int) -> bool:
    return VOCABULARY.types[token] == gguf.TokenType.CONTROL


_STEPS = {
    "infill": _infill,
    "adaptive_p": _adaptive_p,
    "temperature": _temperature,
    "top_k": _top_k,
    "top_p": _top_p,
    "min_p": _min_p,
    "typ_p": _typical_p,
    "top_n_sigma": _top_n_sigma,
    "xtc": _xtc,
    "penalties": _penalties,
    "dry": _dry,
}
