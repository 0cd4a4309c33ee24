"""``llmserve bench``: how fast a model is on this machine."""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from llmserve.cli.errors import UsageError
from llmserve.cli.model_names import find_model
from llmserve.cli.output import print_json, print_table
from llmserve.cli.setting_options import add_setting, given_settings
from llmserve.server.download.progress import ProgressLine
from llmserve.server.settings import parse_settings
from llmserve.server.units import shown_count

if TYPE_CHECKING:
    from llmserve.engine import SyncEngine
    from llmserve.types import Completion

HELP = "measure the speed of a model on this machine"
DESCRIPTION = (
    "Measures tokens a second of prefill (prompts) and decode (answers), and the time to the first token, "
    "with several numbers of concurrent streams. Prompts are random tokens, and nothing is cached. Each "
    "number is the mean over the repetitions, after one round that does not count."
)

_SETTINGS = ("threads", "gpu_layers", "kv_type_k", "kv_type_v", "batch_size", "ubatch_size")


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The speed with one number of streams; rates are in tokens a second over all streams."""

    streams: int
    prefill_rate: float
    prefill_rate_deviation: float
    decode_rate: float
    decode_rate_deviation: float
    time_to_first_token_s: float
    """The mean over the streams, with prompts that arrive together."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the model and what is measured."""
    parser.add_argument("model", metavar="MODEL", help="GGUF file, or a part of a model's name")
    parser.add_argument(
        "-p", "--prompt-tokens", type=int, default=512, metavar="N", help="length of a prompt (default: 512)"
    )
    parser.add_argument(
        "-n", "--answer-tokens", type=int, default=128, metavar="N", help="length of an answer (default: 128)"
    )
    parser.add_argument(
        "--streams", default="1,4,8,16", metavar="N,N", help="numbers of streams (default: 1,4,8,16)"
    )
    parser.add_argument(
        "-r", "--repetitions", type=int, default=3, metavar="N", help="rounds that count (default: 3)"
    )
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    for name in _SETTINGS:
        add_setting(parser, name)


def run(arguments: argparse.Namespace) -> int:
    """Prints a row for each number of streams."""
    streams = _streams(arguments.streams)
    for name in ("prompt_tokens", "answer_tokens", "repetitions"):
        if getattr(arguments, name) < 1:
            raise UsageError(f"--{name.replace('_', '-')} must be at least 1")
    settings = parse_settings(os.environ, given_settings(arguments, _SETTINGS))
    path = find_model(arguments.model, settings)
    # Imported late: parsers of all commands are built to show what there is.
    from llmserve.engine import SyncEngine

    length = arguments.prompt_tokens + arguments.answer_tokens + 1
    config = replace(settings.model_config, context_length=length, max_sequences=max(streams))
    with SyncEngine.load(path, config) as engine:
        results = _measure(engine, streams, arguments)
        info = engine.info
    if arguments.json:
        print_json(
            {
                "model": path.stem,
                "architecture": info.architecture,
                "parameters": info.num_parameters,
                "backend": info.backend,
                "threads": info.num_threads,
                "prompt_tokens": arguments.prompt_tokens,
                "answer_tokens": arguments.answer_tokens,
                "repetitions": arguments.repetitions,
                "results": [asdict(result) for result in results],
            }
        )
        return 0
    sys.stdout.write(
        f"{path.stem} ({info.architecture}, {shown_count(info.num_parameters)} parameters), {info.backend}, "
        f"{info.num_threads} threads, prompts of {arguments.prompt_tokens} tokens, answers of "
        f"{arguments.answer_tokens}\n"
    )
    print_table(
        ("STREAMS", "PREFILL t/s", "DECODE t/s", "FIRST TOKEN ms"),
        [_row(result) for result in results],
        right=(0, 1, 2, 3),
    )
    return 0


def _streams(text: str) -> list[int]:
    try:
        numbers = [int(part) for part in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or not all(1 <= number <= 256 for number in numbers):
        raise UsageError(f"--streams must be numbers from 1 to 256, got {text!r}", "--streams 1,4,8")
    return numbers


def _measure(engine: SyncEngine, streams: Sequence[int], arguments: argparse.Namespace) -> list[Result]:
    prompts, answers = arguments.prompt_tokens, arguments.answer_tokens
    num_rounds = len(streams) * (arguments.repetitions + 1)
    results = []
    with ProgressLine("measuring", sys.stderr) as line:
        for index, number in enumerate(streams):
            prefills, decodes, first_tokens = [], [], []
            for repetition in range(arguments.repetitions + 1):
                line.show((index * (arguments.repetitions + 1) + repetition) / num_rounds)
                prefill_s, completions = _round(engine, number, prompts, 1)
                decode_s, _ = _round(engine, number, 1, answers)
                if repetition:
                    prefills.append(number * prompts / prefill_s)
                    decodes.append(number * answers / decode_s)
                    first_tokens += [completion.timings.time_to_first_token_s for completion in completions]
            results.append(
                Result(
                    streams=number,
                    prefill_rate=statistics.mean(prefills),
                    prefill_rate_deviation=statistics.pstdev(prefills),
                    decode_rate=statistics.mean(decodes),
                    decode_rate_deviation=statistics.pstdev(decodes),
                    time_to_first_token_s=statistics.mean(first_tokens),
                )
            )
        line.erase()
    return results


def _round(
    engine: SyncEngine, streams: int, prompt_tokens: int, answer_tokens: int
) -> tuple[float, list[Completion]]:
    """Runs requests together; gives the seconds that all took, and what came."""
    # Different from stream to stream, so that no prefix is shared.
    size = engine.info.vocabulary_size
    prompts = [
        [(7919 * (stream + 1) + 31 * position) % size for position in range(prompt_tokens)]
        for stream in range(streams)
    ]
    begin = time.perf_counter()
    running = [
        engine.stream(
            prompt,
            add_special=False,
            max_tokens=answer_tokens,
            ignore_eos=True,
            cache_prompt=False,
            at_end=True,
            drafting=False,
        )
        for prompt in prompts
    ]
    completions = [stream.result() for stream in running]
    return time.perf_counter() - begin, completions


def _row(result: Result) -> tuple[str, ...]:
    return (
        str(result.streams),
        f"{result.prefill_rate:.1f} ± {result.prefill_rate_deviation:.1f}",
        f"{result.decode_rate:.1f} ± {result.decode_rate_deviation:.1f}",
        f"{result.time_to_first_token_s * 1000:.0f}",
    )
