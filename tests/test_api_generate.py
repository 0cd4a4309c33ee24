"""Generating with the default model, on asyncio and trio."""

from __future__ import annotations

import math
from typing import NoReturn

import anyio
import pytest

from llmserve import (
    Completion,
    ContextExceededError,
    EmptyPromptError,
    Engine,
    EngineClosedError,
    InvalidParameterError,
    ModelConfig,
    SamplingParams,
    Token,
)
from loops import Eventually, one_loop
from streams import PROMPT, is_idle, read

pytestmark = [pytest.mark.anyio, pytest.mark.model]

EMOJI = "Reply with emoji and Chinese only: 🙂🎉你好世界 🙂🎉你好"


def without_times(completion: Completion) -> tuple[object, ...]:
    usage = completion.usage
    return (
        completion.text,
        completion.tokens,
        completion.finish_reason,
        completion.stop,
        usage.prompt_tokens,
        usage.completion_tokens,
    )


async def test_a_stream_gives_what_generate_gives(engine: Engine) -> None:
    whole = await engine.generate(PROMPT, max_tokens=12)
    stream = engine.stream(PROMPT, max_tokens=12)
    assert await stream.accepted() == 5
    unfinished = stream.completion
    assert unfinished is None
    deltas = await read(stream)
    assert stream.completion is not None
    assert without_times(stream.completion) == without_times(whole)
    assert "".join(delta.text for delta in deltas) == whole.text
    assert [token for delta in deltas for token in delta.tokens] == list(whole.tokens)
    assert whole.text.startswith(" Paris")
    assert whole.finish_reason == "length"
    assert (whole.usage.prompt_tokens, whole.usage.completion_tokens, whole.usage.total_tokens) == (5, 12, 17)
    assert len(whole.tokens) == 12
    assert 0 <= whole.timings.queue_s < whole.timings.time_to_first_token_s


async def test_a_repeated_prompt_is_taken_from_the_cache(engine: Engine) -> None:
    prompt = "The prefix cache keeps the cells of this sentence, which is long enough to be seen."
    cold = await engine.generate(prompt, max_tokens=4, cache_prompt=False)
    await engine.generate(prompt, max_tokens=4)
    warm = await engine.generate(prompt, max_tokens=4)
    assert cold.usage.cached_tokens == 0
    assert 0 < warm.usage.cached_tokens < warm.usage.prompt_tokens
    assert (warm.text, warm.usage.prompt_tokens) == (cold.text, cold.usage.prompt_tokens)


async def test_characters_of_several_tokens_come_whole(engine: Engine) -> None:
    whole = await engine.generate(EMOJI, max_tokens=40)
    deltas = await read(stream := engine.stream(EMOJI, max_tokens=40, logprobs=1))
    assert stream.completion is not None
    assert "".join(delta.text for delta in deltas) == whole.text
    raw = b"".join(token.bytes for token in stream.completion.tokens)
    assert raw.decode(errors="replace").startswith(whole.text.rstrip("\ufffd"))


async def test_stop_strings_do_not_appear(engine: Engine) -> None:
    prompt = "one two three four five six seven eight nine ten\none two three"
    deltas = await read(stream := engine.stream(prompt, max_tokens=20, stop="five six"))
    assert stream.completion is not None
    assert stream.completion.finish_reason == "stop"
    assert stream.completion.stop == "five six"
    assert "".join(delta.text for delta in deltas) == stream.completion.text == " four "


async def test_a_stop_string_may_begin_in_the_prompt(engine: Engine) -> None:
    prompt = "one two three four five six seven eight nine ten\none two three"
    async with engine.stream(prompt, max_tokens=20, stop="three four", begun=b"two three") as stream:
        completion = await stream.result()
    assert (completion.text, completion.stop) == ("two ", "three four")
    async with engine.stream(prompt, max_tokens=2, begun=b"three") as stream:
        completion = await stream.result()
    assert (completion.text, len(completion.tokens)) == ("three four five", 2)
    with pytest.raises(InvalidParameterError) as refused:
        engine.stream(prompt, regex="x", begun=b"three")
    assert refused.value.field == "begun"


async def test_log_probabilities(engine: Engine) -> None:
    completion = await engine.generate(PROMPT, max_tokens=3, logprobs=2)
    for token in completion.tokens:
        assert token.logprobs is not None
        (best, highest), (_, second) = token.logprobs.top
        assert (token.id, token.logprobs.logprob) == (best, highest)
        assert second <= highest < 0
    alone = await engine.generate(PROMPT, max_tokens=1, logprobs=0)
    (token,) = alone.tokens
    assert token.logprobs is not None
    assert token.logprobs.top == ()
    assert math.isclose(token.logprobs.logprob, highest_of(completion), abs_tol=0.01)


def highest_of(completion: Completion) -> float:
    logprobs = completion.tokens[0].logprobs
    assert logprobs is not None
    return logprobs.logprob


async def test_a_seed_repeats_and_is_reported(engine: Engine) -> None:
    params = SamplingParams(max_tokens=12, temperature=1.0, seed=2**64 - 1)
    first = await engine.generate(PROMPT, params)
    again = await engine.generate(PROMPT, params)
    other = await engine.generate(PROMPT, params, seed=8)
    assert (first.text, first.seed) == (again.text, 2**64 - 1)
    assert (other.text != first.text, other.seed) == (True, 8)
    unseeded = await engine.generate(PROMPT, max_tokens=12, temperature=1.0)
    assert (await engine.generate(PROMPT, params, seed=unseeded.seed)).text == unseeded.text


async def test_refusals(engine: Engine) -> None:
    with pytest.raises(EmptyPromptError):
        await engine.generate("", add_special=False)
    with pytest.raises(EmptyPromptError):
        await engine.generate([])
    with pytest.raises(ContextExceededError) as refusal:
        await engine.generate([1] * 2048)
    assert (refusal.value.prompt_tokens, refusal.value.context_length) == (2048, 2048)
    assert "2048 tokens" in str(refusal.value)
    with pytest.raises(InvalidParameterError, match=r"^prompt: must be a token id, got 'a'$"):
        await engine.generate([1, "a"])  # type: ignore[list-item]
    with pytest.raises(InvalidParameterError, match=r"^prompt: must be valid Unicode text, got '.*'$"):
        await engine.generate("\ud800")
    with pytest.raises(InvalidParameterError, match=r"^prompt: must be a sequence of token ids, got 5$"):
        engine.stream(5)  # type: ignore[arg-type]
    for unknown in (10**9, -1):
        with pytest.raises(InvalidParameterError, match=r"^prompt: token -?\d+ is outside the vocabulary"):
            await engine.generate([unknown])
    assert (await engine.generate(PROMPT, max_tokens=1)).text == " Paris"


async def test_a_refused_stream_says_so_at_every_door(engine: Engine) -> None:
    stream = engine.stream([1] * 4000)
    with pytest.raises(ContextExceededError):
        await stream.accepted()
    with pytest.raises(ContextExceededError):
        await read(stream)
    assert await read(stream) == []
    with pytest.raises(ContextExceededError):
        await stream.accepted()
    assert stream.completion is None


async def test_a_text_that_cannot_fit_is_not_tokenized(engine: Engine) -> None:
    with pytest.raises(ContextExceededError, match=r"^prompt: at least [0-9]+ tokens exceed") as refusal:
        await engine.generate("x" * 1_000_000)
    assert not refusal.value.is_exact
    assert 2048 < refusal.value.prompt_tokens < 1_000_000 / 4


async def test_token_ids_that_cannot_fit_are_not_converted(engine: Engine) -> None:
    class Many(list[int]):
        def __len__(self) -> int:
            return 10**9

        def __iter__(self) -> NoReturn:
            raise AssertionError("converted")

    stream = engine.stream(Many())
    message = "^prompt: 1000000000 tokens leave no room for output in the context length of 2048 tokens$"
    with pytest.raises(ContextExceededError, match=message) as refusal:
        await stream.accepted()
    assert (refusal.value.prompt_tokens, refusal.value.context_length) == (10**9, 2048)
    with pytest.raises(ContextExceededError):
        await read(stream)
    assert await read(stream) == []
    assert stream.completion is None
    stream.abort()
    with pytest.raises(ContextExceededError):
        await engine.generate(Many())


async def test_unknown_overrides_name_the_closest(engine: Engine) -> None:
    with pytest.raises(
        TypeError, match="`temprature` is not a sampling parameter; the closest are `temperature`"
    ):
        await engine.generate(PROMPT, temprature=1)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="there are `max_tokens`, `temperature`"):
        engine.stream(PROMPT, zzzzz=1)  # type: ignore[call-arg]


def prompts() -> list[str]:
    subjects = ("rivers", "stars", "bread", "trains", "music", "winter", "gardens", "maps")
    openings = ("A short story about", "Three facts about", "Why people love", "A letter about")
    return [f"{opening} {subject}:" for opening in openings for subject in subjects]


@one_loop
async def test_32_streams_give_the_texts_of_each_alone(engine: Engine) -> None:
    params = SamplingParams(max_tokens=8, logprobs=2)
    together: dict[str, Completion] = {}

    async def run(prompt: str) -> None:
        stream = engine.stream(prompt, params)
        deltas = await read(stream)
        assert stream.completion is not None
        assert "".join(delta.text for delta in deltas) == stream.completion.text
        together[prompt] = stream.completion

    async with anyio.create_task_group() as group:
        for prompt in prompts():
            group.start_soon(run, prompt)
    assert len(together) == 32
    for prompt, completion in together.items():
        alone = await engine.generate(prompt, params)
        assert equal_up_to_a_near_tie(alone.tokens, completion.tokens), (alone.text, completion.text)


def equal_up_to_a_near_tie(alone: tuple[Token, ...], together: tuple[Token, ...]) -> bool:
    """The shape of the batch changes the floating-point noise: logits closer than this may change places."""
    epsilon = 0.15
    for a, b in zip(alone, together, strict=True):
        if a.id != b.id:
            assert a.logprobs is not None
            (_, best), (_, second) = a.logprobs.top
            return best - second < epsilon
    return True


async def test_streams_go_on_while_a_huge_text_is_tokenized(engine: Engine) -> None:
    text = "The quick brown fox jumps over the lazy dog. " * ((4 << 20) // 45)
    stream = engine.stream(PROMPT, max_tokens=1800, ignore_eos=True)
    await stream.__anext__()
    ends: list[int] = []

    async def tokenize() -> None:
        ends.append(len(await engine.tokenize(text)))

    async def refused() -> None:
        with pytest.raises(ContextExceededError) as refusal:
            await engine.generate(text)
        ends.append(refusal.value.prompt_tokens)

    num_deltas = 0
    async with anyio.create_task_group() as group:
        group.start_soon(tokenize)
        group.start_soon(refused)
        async for _ in stream:
            num_deltas += 1
            if len(ends) == 2:
                break
    await stream.aclose()
    # The refusal did not even count the tokens, only the fewest that they can be.
    assert 2048 <= ends[0] < ends[1]
    assert ends[1] > 500_000
    # One wake-up a step: had the loop stood still, the tokens would have come in one delta.
    assert num_deltas > 20


async def test_tokenize_and_detokenize(engine: Engine) -> None:
    tokens = await engine.tokenize("Hello 🦩 world")
    assert await engine.detokenize(tokens) == "Hello 🦩 world"
    assert await engine.tokenize("") == []
    assert await engine.detokenize([]) == ""
    marked = "<|im_start|>user"
    control = await engine.tokenize(marked)
    plain = await engine.tokenize(marked, parse_special=False)
    assert len(control) < len(plain)
    assert await engine.detokenize(control, render_special=True) == marked
    assert await engine.detokenize(control) == "user"
    assert await engine.detokenize(plain) == marked
    assert "\ufffd" in [await engine.detokenize([token]) for token in tokens]
    many = tokens * 20_000
    assert await engine.detokenize(many) == "Hello 🦩 world" * 20_000
    with pytest.raises(InvalidParameterError, match=r"^tokens: token 1000000000 is outside the vocabulary"):
        await engine.detokenize([10**9])
    with pytest.raises(InvalidParameterError, match=r"^tokens: must be a token id, got True$"):
        await engine.detokenize([True])
    with pytest.raises(InvalidParameterError, match=r"^text: must be a str, got b'a'$"):
        await engine.tokenize(b"a")  # type: ignore[arg-type]


async def test_metadata_and_chat_template(engine: Engine) -> None:
    assert engine.metadata["general.architecture"] == engine.info.architecture == "llama"
    assert (engine.info.context_length, engine.info.num_slots) == (2048, 16)
    assert engine.chat_template == engine.info.chat_template
    prompt = engine.apply_chat_template([{"role": "user", "content": "Hi"}])
    assert prompt.endswith("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n")
    tokens = await engine.tokenize(prompt)
    assert (await engine.generate(prompt, max_tokens=4)).usage.prompt_tokens == len(tokens)


async def test_the_counters_add_up(engine: Engine, eventually: Eventually) -> None:
    await eventually(lambda: is_idle(engine))
    before = engine.stats()
    done = await engine.generate(PROMPT, max_tokens=3)
    with pytest.raises(EmptyPromptError):
        await engine.generate("", add_special=False)
    await eventually(lambda: engine.stats().requests_length == before.requests_length + 1)
    after = engine.stats()
    assert after.requests_accepted == before.requests_accepted + 1
    assert after.requests_refused == before.requests_refused + 1
    assert after.completion_tokens == before.completion_tokens + 3
    assert after.prompt_tokens == before.prompt_tokens + done.usage.prompt_tokens
    assert after.cached_tokens == before.cached_tokens + done.usage.cached_tokens
    engine.check_alive()
    assert not engine.is_closed


async def test_a_fault_raises_once_from_the_iteration(model_path: object, engine: Engine) -> None:
    config = ModelConfig(context_length=2048, max_sequences=1, threads=1)
    other = await Engine.load(str(model_path), config)
    stream = other.stream(PROMPT, max_tokens=1500, ignore_eos=True)
    await stream.__anext__()
    await other.close()
    await other.close()
    with pytest.raises(EngineClosedError):
        while True:
            await stream.__anext__()
    assert await read(stream) == []
    assert other.is_closed
    with pytest.raises(EngineClosedError):
        await other.generate(PROMPT)
    with pytest.raises(EngineClosedError):
        other.stream(PROMPT)
    with pytest.raises(EngineClosedError):
        await other.tokenize(PROMPT)
    with pytest.raises(EngineClosedError):
        other.check_alive()
    assert (await engine.generate(PROMPT, max_tokens=1)).text == " Paris"
