"""The step loop in a process of its own: the same engine through a pipe."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest

from engine.async_engine import AsyncEngine
from engine.errors import DoesNotFit, EngineClosed, InvalidParameter, ModelLoadError
from engine.hosts import ProcessHost
from tests.engine.test_engine import group, start, tokens_of, watch


@pytest.fixture
async def engine(tiny_model):
    engine = await start(tiny_model, own_process=True, threads=1)
    yield engine
    await engine.close()


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


async def test_a_process_that_is_killed_ends_every_stream_and_says_so(tiny_model):
    engine = await start(tiny_model, own_process=True, threads=1)
    running = asyncio.create_task(watch(await engine.open(group(n=2, max_tokens=4000))))
    await asyncio.sleep(0.2)
    assert isinstance(engine._host, ProcessHost)
    os.kill(engine._host._process.pid, signal.SIGKILL)
    with pytest.raises(EngineClosed, match="exit code -9"):
        await running
    with pytest.raises(EngineClosed):
        await engine.open(group())
    await engine.close()


async def test_closing_twice_leaves_no_process(engine: AsyncEngine):
    await engine.close()
    await engine.close()
    assert not engine._host._process.is_alive()  # type: ignore[attr-defined]
