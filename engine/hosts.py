"""Where a step loop lives: in a thread beside its caller, or in a process of its own.

Both drive the same loop and let only messages pass. A thread is enough where nobody else needs the interpreter;
beside a server or a policy that computes, a process keeps the step loop from waiting for its lock.
"""

from __future__ import annotations

import gc
import logging
import multiprocessing
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Protocol

from engine.build import ModelInfo, build
from engine.config import EngineConfig
from engine.errors import EngineError, error_named
from engine.loop import StepLoop, cause_of
from engine.messages import Command, Message, Shutdown
from engine.types import EngineStats

Receive = Callable[[list[Message]], None]
Ended = Callable[[str], None]

CLOSED = "the engine is closed"
GRACE_SECONDS = 5.0  # that a process has to end when it is told to

log = logging.getLogger("engine")


class LoopHost(Protocol):
    """A step loop somewhere. receive and ended are called in a thread of the host's; ended once, last."""

    model: ModelInfo

    @property
    def stats(self) -> EngineStats: ...

    def run(self, receive: Receive, ended: Ended) -> None: ...

    def send(self, command: Command) -> None: ...

    def stop(self, timeout: float) -> bool:
        """Waits that long for a loop that has been sent Shutdown; ends its process by force then. Whether it is over:
        a thread that hangs never is."""


def start_host(config: EngineConfig) -> LoopHost:
    """Loads the model where the loop will run. Raises ModelLoadError, InvalidParameter, DoesNotFit, EngineError."""
    host: LoopHost = ProcessHost(config) if config.own_process else ThreadHost(config)
    for line in host.model.start.lines():
        log.info(line)
    return host


def drive(loop: StepLoop, commands: queue.SimpleQueue[Command], receive: Receive) -> str:
    """Runs the loop until it is told to stop or breaks, then closes it. Returns why it ended. A loop that broke has
    ended what it could; its caller ends the rest."""
    cause = CLOSED
    try:
        _turn_until_shutdown(loop, commands, receive)
    except BaseException as error:
        cause = f"the step loop died: {cause_of(error)}"
        log.exception("the step loop died")
        _fail(loop, cause)
    receive(loop.take())
    _close(loop)
    return cause


def _fail(loop: StepLoop, cause: str) -> None:
    try:
        loop.fail(cause)
        loop.turn()
    except BaseException:
        log.exception("a broken step loop could not end its paths")


def _close(loop: StepLoop) -> None:
    try:
        loop.close()
    except Exception:  # a device that has failed refuses this, too
        log.exception("the device could not give back its memory")


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


class ThreadHost:
    def __init__(self, config: EngineConfig) -> None:
        self.model, self._loop = build(config)
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

    def stop(self, timeout: float) -> bool:
        return _joined(self._thread, timeout)

    def _run(self, receive: Receive, ended: Ended) -> None:
        import torch

        torch.set_num_threads(self.model.threads)  # OpenMP keeps this number for each thread apart
        ended(drive(self._loop, self._commands, receive))


def _joined(thread: threading.Thread | None, timeout: float) -> bool:
    if thread is None:
        return True
    thread.join(timeout)
    return not thread.is_alive()


@dataclass(frozen=True, slots=True)
class Ready:
    """The child's first message, where it has loaded its model."""

    model: ModelInfo
    stats: EngineStats


@dataclass(frozen=True, slots=True)
class Unable:
    """The child's only message, where it has not. kind: name of the exception class in engine.errors."""

    kind: str
    text: str


class ProcessHost:
    """The child sends that it is ready or unable, then pairs of messages and stats; the parent sends commands.
    Either side takes the other's disappearance for the end."""

    def __init__(self, config: EngineConfig) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share the parent's CUDA and threads
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_child, args=(config, theirs), name="step-loop", daemon=True)
        self._process.start()
        theirs.close()
        self._sending = threading.Lock()
        self._thread: threading.Thread | None = None
        ready = self._await_ready()
        self.model, self._stats = ready.model, ready.stats

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

    def stop(self, timeout: float) -> bool:
        if self._over(timeout):
            return True
        self._process.terminate()
        if self._over(GRACE_SECONDS):
            return True
        self._process.kill()
        return self._over(GRACE_SECONDS)

    def _over(self, timeout: float) -> bool:
        """Whether nothing is left of it after that many seconds."""
        deadline = time.monotonic() + timeout
        read = _joined(self._thread, timeout)
        self._process.join(max(0.0, deadline - time.monotonic()))
        return read and not self._process.is_alive()

    def _await_ready(self) -> Ready:
        try:
            first: Ready | Unable = self._pipe.recv()
        except (EOFError, OSError):
            self._process.join()
            raise EngineError(
                f"the engine's process died while it loaded (exit code {self._process.exitcode})"
            ) from None
        if isinstance(first, Unable):
            self._process.join()
            raise error_named(first.kind, first.text)
        return first

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
        pipe.send(Unable(type(error).__name__, str(error)))
        return
    except BaseException as error:
        pipe.send(Unable(EngineError.__name__, f"the engine could not be loaded: {cause_of(error)}"))
        return
    gc.collect()
    gc.freeze()  # what is loaded by now stays: the collector need not walk through it while steps run
    pipe.send(Ready(model, loop.stats))
    commands: queue.SimpleQueue[Command] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(pipe, commands), daemon=True).start()
    _tell(pipe, drive(loop, commands, lambda messages: _tell(pipe, (messages, loop.stats))))


def _tell(pipe: Connection, news: tuple[list[Message], EngineStats] | str) -> None:
    with suppress(OSError):  # nobody is left to tell: `_listen` ends the loop
        pipe.send(news)


def _listen(pipe: Connection, commands: queue.SimpleQueue[Command]) -> None:
    try:
        while True:
            commands.put(pipe.recv())
    except (EOFError, OSError):
        commands.put(Shutdown(ticket=-1))
