"""Where a step loop lives: in a thread beside its caller, or in a process of its own.

Both drive the same loop and let only messages pass. A thread is enough where nobody else needs the interpreter;
beside a server or a policy that computes, a process keeps the step loop from waiting for its lock.
"""

from __future__ import annotations

import gc
import multiprocessing
import queue
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from multiprocessing.connection import Connection
from typing import Protocol

from engine.build import ModelInfo, build
from engine.config import EngineConfig
from engine.errors import EngineClosed, EngineError, error_named
from engine.loop import StepLoop
from engine.messages import Command, Message, Shutdown
from engine.types import EngineStats

Receive = Callable[[list[Message]], None]
Ended = Callable[[str], None]

CLOSED = "the engine is closed"


class LoopHost(Protocol):
    """A step loop somewhere. receive and ended are called in a thread of the host's; ended once, last."""

    model: ModelInfo

    @property
    def stats(self) -> EngineStats: ...

    def run(self, receive: Receive, ended: Ended) -> None: ...

    def send(self, command: Command) -> None: ...

    def join(self, timeout: float | None = None) -> None: ...


def start_host(config: EngineConfig) -> LoopHost:
    """Loads the model where the loop will run. Raises ModelLoadError, InvalidParameter, DoesNotFit, EngineError."""
    return ProcessHost(config) if config.own_process else ThreadHost(config)


def drive(loop: StepLoop, commands: queue.SimpleQueue[Command], receive: Receive) -> str:
    """Runs the loop until it is told to stop or breaks. Returns why it ended; every path has ended then, too."""
    cause = CLOSED
    try:
        _turn_until_shutdown(loop, commands, receive)
    except BaseException as error:
        cause = f"the step loop died: {type(error).__name__}: {error}"
        loop.fail(cause)
        loop.turn()
    receive(loop.take())
    return cause


def _turn_until_shutdown(loop: StepLoop, commands: queue.SimpleQueue[Command], receive: Receive) -> None:
    while True:
        waiting = [commands.get()] if loop.idle else []
        while not commands.empty():
            waiting.append(commands.get())
        for command in waiting:
            loop.handle(command)
            if isinstance(command, Shutdown):
                while not loop.idle:
                    loop.turn()
                return
        loop.turn()
        if messages := loop.take():
            receive(messages)


def settle_memory() -> None:
    """What is loaded by now stays: the collector need not walk through it while steps run."""
    gc.collect()
    gc.freeze()


class ThreadHost:
    def __init__(self, config: EngineConfig) -> None:
        self.model, self._loop = build(config)
        settle_memory()
        self._commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    @property
    def stats(self) -> EngineStats:
        return self._loop.stats

    def run(self, receive: Receive, ended: Ended) -> None:
        self._thread = threading.Thread(
            target=self._run, args=(receive, ended), name="step-loop", daemon=True
        )
        self._thread.start()

    def send(self, command: Command) -> None:
        self._commands.put(command)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)

    def _run(self, receive: Receive, ended: Ended) -> None:
        import torch

        torch.set_num_threads(self.model.threads)  # OpenMP keeps this number for each thread apart
        ended(drive(self._loop, self._commands, receive))


class ProcessHost:
    """The child sends its model or what went wrong, then pairs of messages and stats; the parent sends commands.
    Either side takes the other's disappearance for the end."""

    def __init__(self, config: EngineConfig) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share the parent's CUDA and threads
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_child, args=(config, theirs), name="step-loop", daemon=True)
        self._process.start()
        theirs.close()
        self._stats = EngineStats()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        self.model = self._await_model()

    @property
    def stats(self) -> EngineStats:
        """As of the last messages."""
        return self._stats

    def run(self, receive: Receive, ended: Ended) -> None:
        self._thread = threading.Thread(
            target=self._read, args=(receive, ended), name="step-loop-reader", daemon=True
        )
        self._thread.start()

    def send(self, command: Command) -> None:
        with self._sending, suppress(OSError):  # a dead child: the reader says so
            self._pipe.send(command)

    def join(self, timeout: float | None = None) -> None:
        if self._thread is not None:
            self._thread.join(timeout)
        self._process.join(timeout)

    def _await_model(self) -> ModelInfo:
        try:
            outcome = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise EngineError(
                f"the engine's process died while it loaded (exit code {self._process.exitcode})"
            ) from None
        if isinstance(outcome, ModelInfo):
            return outcome
        self._process.join()
        raise error_named(*outcome)

    def _read(self, receive: Receive, ended: Ended) -> None:
        cause = None
        try:
            while cause is None:
                received = self._pipe.recv()
                if isinstance(received, str):
                    cause = received
                else:
                    messages, self._stats = received
                    receive(messages)
        except (EOFError, OSError):
            self._process.join()
            cause = f"the engine's process died (exit code {self._process.exitcode})"
        ended(cause)


def _child(config: EngineConfig, pipe: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides what an interrupt means
    try:
        model, loop = build(config)
    except EngineError as error:
        pipe.send((type(error).__name__, str(error)))
        return
    settle_memory()
    pipe.send(model)
    commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, commands), daemon=True).start()
    with suppress(OSError):  # nobody is left to tell
        pipe.send(drive(loop, commands, lambda messages: pipe.send((messages, loop.stats))))


def _listen(pipe: Connection, commands: queue.SimpleQueue[Command]) -> None:
    try:
        while True:
            commands.put(pipe.recv())
    except (EOFError, OSError):
        commands.put(Shutdown(ticket=-1))


__all__ = ["CLOSED", "EngineClosed", "LoopHost", "ProcessHost", "ThreadHost", "start_host"]
