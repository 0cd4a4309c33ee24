"""The ends of processes: interpreter exit in the midst of work, signals, forks, and what an import costs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

TIMEOUT_S = 120

PRELUDE = """
import asyncio, os, signal, sys, threading
import llmserve
from llmserve.sync import SyncEngine
PATH = sys.argv[1]
CONFIG = llmserve.ModelConfig(context_length=1 << 15, max_sequences=2, threads=1)
ENDLESS = {"max_tokens": 100_000, "ignore_eos": True}
"""


def script(body: str, model: Path) -> subprocess.CompletedProcess[str]:
    """Run a program against the model, with warnings as errors."""
    program = PRELUDE + textwrap.dedent(body)
    return subprocess.run(
        [sys.executable, "-X", "faulthandler", "-W", "error", "-c", program, str(model)],
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def assert_quiet(done: subprocess.CompletedProcess[str], status: int = 0, output: str = "") -> None:
    assert (done.returncode, done.stdout, done.stderr) == (status, output, "")


ENDS = {
    "returns without closing": (
        """
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            print(len((await engine.generate([30, 31, 32], max_tokens=3)).tokens))
        asyncio.run(main())
        """,
        0,
        "3\n",
    ),
    "keeps everything in globals": (
        """
        engine = asyncio.run(llmserve.Engine.load(PATH, CONFIG))
        async def start():
            stream = engine.stream([30, 31, 32], **ENDLESS)
            await stream.__anext__()
            return stream
        stream = asyncio.run(start())
        sync = SyncEngine.load(PATH, CONFIG)
        running = sync.stream([30, 31, 32], **ENDLESS)
        next(running)
        """,
        0,
        "",
    ),
    "sys.exit in mid-stream": (
        """
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            async for delta in engine.stream([30, 31, 32], **ENDLESS):
                sys.exit(3)
        asyncio.run(main())
        """,
        3,
        "",
    ),
    "sys.exit while another task generates": (
        """
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            task = asyncio.create_task(engine.generate([30, 31, 32], **ENDLESS))
            while not engine.stats().num_running:
                await asyncio.sleep(0.001)
            sys.exit(4)
        asyncio.run(main())
        """,
        4,
        "",
    ),
    "daemon thread in a blocking call": (
        """
        engine = SyncEngine.load(PATH, CONFIG)
        threading.Thread(target=lambda: engine.generate([30, 31, 32], **ENDLESS), daemon=True).start()
        while not engine.stats().num_running:
            pass
        """,
        0,
        "",
    ),
    "daemon thread with a blocking stream": (
        """
        engine = SyncEngine.load(PATH, CONFIG)
        def read():
            while True:
                for delta in engine.stream([30, 31, 32], max_tokens=500, ignore_eos=True):
                    pass
        for _ in range(3):
            threading.Thread(target=read, daemon=True).start()
        while not engine.stats().num_running:
            pass
        """,
        0,
        "",
    ),
    "daemon thread with an event loop": (
        """
        begun = threading.Event()
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            async def read():
                async for delta in engine.stream([30, 31, 32], **ENDLESS):
                    begun.set()
            await asyncio.gather(*(read() for _ in range(4)))
        threading.Thread(target=lambda: asyncio.run(main()), daemon=True).start()
        begun.wait()
        """,
        0,
        "",
    ),
    "during a load": (
        """
        async def main():
            loading = llmserve.Engine.load(PATH, CONFIG)
            async for progress in loading:
                sys.exit(5)
        asyncio.run(main())
        """,
        5,
        "",
    ),
    "daemon thread that loads": (
        """
        def load():
            while True:
                SyncEngine.load(PATH, CONFIG).close()
        threading.Thread(target=load, daemon=True).start()
        SyncEngine.load(PATH, CONFIG)
        """,
        0,
        "",
    ),
    "an atexit function that uses the engine": (
        """
        import atexit
        def late():
            try:
                engine.generate([30, 31, 32], max_tokens=3)
            except llmserve.EngineClosedError as error:
                print(error.code)
        engine = SyncEngine.load(PATH, CONFIG)
        atexit._clear()  # So that it was registered before llmserve's own.
        atexit.register(late)
        from llmserve._binding import logs
        atexit.register(logs._end)
        """,
        0,
        "shut_down\n",
    ),
}


@pytest.mark.parametrize("name", ENDS)
def test_an_end_in_the_midst_of_work_is_quiet(name: str, tiny_model: Path) -> None:
    body, status, output = ENDS[name]
    assert_quiet(script(body, tiny_model), status, output)


@pytest.mark.skipif(os.name != "posix", reason="looks for a process")
def test_the_end_waits_for_the_threads_of_cancelled_loads(tiny_model: Path) -> None:
    # The load's thread ends its probe, which would outlive the process by far.
    body = """
        from llmserve._binding import loads
        begun, beginning = os.pipe()
        probe = f"import os, time; os.write({beginning}, b'%d' % os.getpid()); time.sleep(1000)"
        os.set_inheritable(beginning, True)
        loads._probe_command = lambda: [sys.executable, "-c", probe]
        async def main():
            loading = llmserve.Engine.load(PATH, CONFIG)
            await anext(loading)
            print(int(os.read(begun, 100)))
            await loading.aclose()
        asyncio.run(main())
    """
    done = script(body, tiny_model)
    assert (done.returncode, done.stderr) == (0, "")
    try:
        os.kill(int(done.stdout), signal.SIGKILL)
    except ProcessLookupError:
        return
    pytest.fail("the probe outlived its process")


@pytest.mark.skipif(os.name != "posix", reason="sends a signal")
@pytest.mark.parametrize("kind", ["async", "sync"])
def test_keyboard_interrupt_ends_a_generation(kind: str, tiny_model: Path) -> None:
    body = """
        # A shell that starts the tests in the background has it ignored.
        signal.signal(signal.SIGINT, signal.default_int_handler)
        def interrupt(engine):
            while not engine.stats().num_running:
                pass
            os.kill(os.getpid(), signal.SIGINT)
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            threading.Thread(target=interrupt, args=(engine,)).start()
            await engine.generate([30, 31, 32], **ENDLESS)
        def main_sync():
            engine = SyncEngine.load(PATH, CONFIG)
            threading.Thread(target=interrupt, args=(engine,)).start()
            engine.generate([30, 31, 32], **ENDLESS)
        try:
            asyncio.run(main()) if KIND == "async" else main_sync()
        except KeyboardInterrupt:
            print("interrupted")
            raise
    """
    done = script(f"KIND = {kind!r}\n" + textwrap.dedent(body), tiny_model)
    assert (done.returncode, done.stdout) == (-signal.SIGINT, "interrupted\n")
    assert done.stderr.splitlines()[-1] == "KeyboardInterrupt"


FORK = """
    import warnings
    from llmserve import _core
    warnings.simplefilter("ignore", DeprecationWarning)  # 3.12 warns of forks beside threads.
    def expect_dead(use):
        try:
            use()
        except llmserve.EngineDeadError as error:
            assert error.code == "engine_dead", error.code
            assert "fork" in str(error), error
        else:
            raise AssertionError("no error")
    engine = asyncio.run(llmserve.Engine.load(PATH, CONFIG))
    blocking = SyncEngine.load(PATH, CONFIG)
    async def start():
        streams = [engine.stream([30, 31, 32], **ENDLESS) for _ in range(8)]
        await streams[0].__anext__()
        return streams
    streams = asyncio.run(start())
    running = blocking.stream([30, 31, 32], **ENDLESS)
    next(running)
    wakeup = _core.Wakeup()
    child = os.fork()
    if child == 0:
        # An engine thread may have held its lock.
        try:
            wakeup.fileno()
        except ValueError:
            pass
        else:
            raise AssertionError("no error")
        async def use_all():
            expect_dead(lambda: engine.stream([30]))
            expect_dead(engine.stats)
            expect_dead(engine.check_alive)
            for call in (engine.generate([30]), engine.tokenize("a"), engine.detokenize([30]),
                         streams[0].__anext__(), streams[1].accepted(), streams[2].result()):
                try:
                    await call
                except llmserve.EngineDeadError:
                    continue
                raise AssertionError(call)
            streams[3].abort()
            await streams[4].aclose()
            assert not engine.is_closed
            await engine.close()
        asyncio.run(use_all())
        expect_dead(lambda: blocking.generate([30]))
        expect_dead(lambda: next(running))
        blocking.close()
        assert engine.info.architecture == "llama"
        async def own():
            async with await llmserve.Engine.load(PATH, CONFIG) as fresh:
                return len((await fresh.generate([30, 31, 32], max_tokens=3)).tokens)
        print("child", asyncio.run(own()), flush=True)
        LEAVE
    _, status = os.waitpid(child, 0)
    print("status", os.waitstatus_to_exitcode(status), flush=True)
    async def still():
        return len((await engine.generate([30, 31, 32], max_tokens=3)).tokens)
    [stream.abort() for stream in streams]
    running.close()
    print("parent", asyncio.run(still()))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("end", ["sys.exit(6)", "os._exit(6)"])
def test_engines_are_dead_in_a_forked_child_and_live_in_its_parent(end: str, tiny_model: Path) -> None:
    done = script(textwrap.dedent(FORK).replace("LEAVE", end), tiny_model)
    assert_quiet(done, output="child 3\nstatus 6\nparent 3\n")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_fork_inside_a_running_loop_finds_the_engine_dead(tiny_model: Path) -> None:
    body = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        async def main():
            engine = await llmserve.Engine.load(PATH, CONFIG)
            stream = engine.stream([30, 31, 32], **ENDLESS)
            await stream.__anext__()
            child = os.fork()
            if child == 0:
                try:
                    stream.__anext__().send(None)
                except llmserve.EngineDeadError:
                    os._exit(7)
                os._exit(1)
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            await stream.aclose()
            await engine.close()
        asyncio.run(main())
    """
    assert_quiet(script(body, tiny_model), output="7\n")


def test_an_import_is_light(tiny_model: Path) -> None:
    body = """
        llmserve.ModelConfig(), llmserve.SamplingParams(max_tokens=3)
        asyncio.run(llmserve.Engine.load(PATH, CONFIG))
        heavy = {"jinja2", "orjson", "pydantic", "starlette", "trio", "uvicorn", "uvloop"}
        print(sorted(heavy & set(sys.modules)))
        print(sorted(set(llmserve.__all__) - set(dir(llmserve))))
        print(llmserve.__version__, llmserve.sync.SyncEngine is SyncEngine)
        try:
            llmserve.nothing
        except AttributeError as error:
            print(error)
    """
    from llmserve import __version__

    expected = f"[]\n[]\n{__version__} True\nmodule 'llmserve' has no attribute 'nothing'\n"
    assert_quiet(script(body, tiny_model), output=expected)
