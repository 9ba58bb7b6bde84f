"""The step loop in a process of its own, the same engine through a pipe, and how a host ends: well or not."""

from __future__ import annotations

import asyncio
import gc
import logging
import os
import queue
import signal
import threading
import time
from dataclasses import replace
from multiprocessing.connection import Connection

import pytest

from engine.async_engine import AsyncEngine
from engine.config import EngineConfig
from engine.errors import DoesNotFit, EngineClosed, EngineError, InvalidParameter, ModelLoadError
from engine.hosts import CLOSED, ProcessHost, ThreadHost, drive
from engine.messages import Command, Open, Shutdown
from engine.types import FinishReason
from tests.engine import device_model
from tests.engine.test_engine import Seen, group, start, tokens_of, watch


@pytest.fixture
async def engine(tiny_model):
    engine = await start(tiny_model, own_process=True, threads=1)
    yield engine
    await engine.close()


def process_of(engine: AsyncEngine):
    assert isinstance(engine._host, ProcessHost)
    return engine._host._process


async def begun(engine: AsyncEngine, **asked: object) -> tuple[Seen, asyncio.Task[Seen]]:
    """A group whose paths have each had some tokens, and its reader."""
    seen = Seen()
    wanted = group(**({"n": 3, "max_tokens": 4000} | asked))
    running = asyncio.create_task(watch(await engine.open(wanted), seen))
    while len(seen.ids) < wanted.n:
        await asyncio.sleep(0.01)
    return seen, running


def check_failed(seen: Seen, paths: int, cause: str) -> None:
    """Every path ended by an error, with what its reader had got, and the group behind them."""
    assert sorted(seen.finished) == list(range(paths))
    for index, event in seen.finished.items():
        assert event.reason is FinishReason.ERROR
        assert cause in event.message
        assert event.usage.generated == len(seen.ids[index])
        assert event.step == (seen.steps[index] or [-1])[-1]
    assert seen.end is not None
    assert seen.end.usage.generated == sum(map(len, seen.ids.values()))


async def test_statistics_tell_the_size_of_the_pool_before_the_first_step(engine):
    stats = engine.stats()
    assert (stats.pages_total, stats.page_size) == (1024, 16)


async def test_tokens_are_those_of_a_loop_in_a_thread(tiny_model, engine):
    beside = await start(tiny_model, threads=1)
    for asked in (group(), group(60, n=7, max_tokens=40, temperature=0.7)):
        assert await tokens_of(engine, asked) == await tokens_of(beside, asked)
    assert engine.model.name == beside.model.name
    await beside.close()


async def test_refusals_keep_their_type_and_the_engine_goes_on(engine):
    with pytest.raises(DoesNotFit, match="context"):
        await engine.open(group(max_tokens=10**6))
    with pytest.raises(InvalidParameter, match="vocabulary"):
        await engine.open(group(stop_ids=(10**6,)))
    assert len(await tokens_of(engine, group(n=2))) == 2


async def test_cancel_returns_the_tokens_and_every_page_comes_back(engine):
    handle = await engine.open(group(n=4, max_tokens=2000))
    running = asyncio.create_task(watch(handle))
    await asyncio.sleep(0.2)
    assert await handle.cancel() > 0
    await running
    assert engine.stats().pages_used == 0


async def test_a_model_that_cannot_be_loaded_raises_here_what_it_raised_there(tmp_path):
    with pytest.raises(ModelLoadError, match=r"config\.json"):
        await start(tmp_path, own_process=True)


@pytest.mark.parametrize("own_process", [False, True])
async def test_what_the_start_came_to_is_in_the_log_of_the_caller(tiny_model, caplog, own_process):
    caplog.set_level(logging.INFO, logger="engine")
    engine = await start(tiny_model, own_process=own_process, threads=1)
    assert [record.message for record in caplog.records] == list(engine.model.start.lines())
    await engine.close()


async def test_an_error_that_nobody_foresaw_while_loading_crosses_with_its_type_and_text():
    with pytest.raises(EngineError, match=r"TypeError: .*not int"):
        await AsyncEngine.start(EngineConfig(5, own_process=True))  # type: ignore[arg-type]


async def test_a_pipe_that_breaks_while_the_process_loads_says_that_it_died(tmp_path, monkeypatch):
    def reset(pipe):
        raise ConnectionResetError

    monkeypatch.setattr(Connection, "recv", reset)
    with pytest.raises(EngineError, match="died while it loaded"):
        ProcessHost(EngineConfig(tmp_path, own_process=True))


async def test_a_process_that_is_killed_ends_every_path_with_an_error_that_says_so(tiny_model):
    engine = await start(tiny_model, own_process=True, threads=1)
    seen, running = await begun(engine)
    other = await engine.open(replace(group(n=2, max_tokens=3000), stays_open=True))
    await other.add_paths(2)
    os.kill(process_of(engine).pid, signal.SIGKILL)
    await running
    check_failed(seen, 3, "exit code -9")
    check_failed(await watch(other), 4, "exit code -9")
    for late in (engine.open(group()), other.add_paths(1)):
        with pytest.raises(EngineClosed, match="exit code -9"):
            await late
    await engine.close()


async def test_a_process_that_hangs_is_killed_after_the_time_that_closing_may_take(tiny_model, monkeypatch):
    monkeypatch.setattr("engine.hosts.GRACE_SECONDS", 0.2)  # a stopped process does not take the first signal
    engine = await start(tiny_model, own_process=True, threads=1)
    seen, running = await begun(engine)
    os.kill(process_of(engine).pid, signal.SIGSTOP)
    await engine.close(timeout=0.5)
    assert not process_of(engine).is_alive()
    await running
    check_failed(seen, 3, "did not stop within 0.5 s")


async def test_a_thread_that_hangs_is_left_behind_after_the_time_that_closing_may_take(
    tiny_model, monkeypatch
):
    engine = await start(tiny_model, threads=1)
    seen, running = await begun(engine)
    over = threading.Event()
    monkeypatch.setattr(engine._host._loop._runner, "launch", lambda plan: over.wait())
    await engine.close(timeout=0.3)
    await running
    check_failed(seen, 3, "did not stop within 0.3 s")
    with pytest.raises(EngineClosed, match="did not stop"):
        await engine.open(group())
    await asyncio.wait_for(engine.close(), 5)
    over.set()
    assert engine._host.stop(timeout=10)


async def test_closing_takes_no_longer_than_the_loop(tiny_model):
    engine = await start(tiny_model, threads=1)
    _, running = await begun(engine)
    begin = time.monotonic()
    await engine.close()
    assert time.monotonic() - begin < 2
    assert {event.reason for event in (await running).finished.values()} == {FinishReason.CANCELLED}


async def test_a_loop_that_dies_and_cannot_end_its_paths_leaves_no_stream_open(tiny_model, monkeypatch):
    engine = await start(tiny_model, threads=1)
    seen, running = await begun(engine)

    def broken():
        raise RuntimeError("a page is lost")

    monkeypatch.setattr(engine._host._loop, "_finish_groups", broken)
    await asyncio.wait_for(running, 10)
    check_failed(seen, 3, "the step loop died: RuntimeError: a page is lost")
    await engine.close()


async def test_an_engine_in_a_thread_leaves_the_collector_as_it_was(tiny_model):
    frozen = gc.get_freeze_count()
    engine = await start(tiny_model, threads=1)
    assert isinstance(engine._host, ThreadHost)
    assert gc.get_freeze_count() == frozen
    await engine.close()


@pytest.mark.parametrize("breaks", [False, True])
def test_a_loop_that_is_over_has_closed_its_device_however_it_ended(monkeypatch, breaks):
    loop, device = device_model.new_loop()
    commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
    commands.put(Open(0, 0, device_model.group()))
    if breaks:
        monkeypatch.setattr(loop.scheduler, "plan", lambda: device_model.require(False, "broken"))
    else:
        commands.put(Shutdown(1))
    assert (drive(loop, commands, lambda messages: None) == CLOSED) is not breaks
    assert device.closed


async def test_closing_twice_leaves_no_process(engine: AsyncEngine):
    await engine.close()
    await engine.close()
    assert not engine._host._process.is_alive()  # type: ignore[attr-defined]
