"""Our own engine as a backend: token ids become text here, and the engine's errors become this package's.

Everything heavy is imported inside functions, so that importing this module costs nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Unpack

from engine.errors import EngineClosed, EngineError, InvalidParameter
from engine.types import (
    Committed,
    EngineStats,
    FinishReason,
    Group,
    GroupFinished,
    PathFinished,
    PathTokens,
    Phase,
    SamplingParams,
    Thinking,
)
from reasoner.backends.locate import locate, recommended
from reasoner.backends.protocol import (
    Advanced,
    Facts,
    ModelCard,
    PathAdvanced,
    PathEnded,
    Prompt,
    SessionEnded,
    SessionEvent,
    SessionRequest,
)
from reasoner.errors import BackendFailed, InvalidRequest, ModelError
from reasoner.options import EngineOptions
from reasoner.policies.base import Capability
from reasoner.problem import Message
from reasoner.sampling import Sampling

if TYPE_CHECKING:
    from engine.async_engine import AsyncEngine, GroupHandle
    from engine.text.path_text import PathText, TextDelta
    from engine.text.tokenizer import Tokenizer

MARGIN = 4                         # steps that may pass between the one that spends a token and our answer to it
ABLE = frozenset({Capability.ADD_PATHS, Capability.CANCEL, Capability.CLOSE_THINKING})


class NativeBackend:
    """Made by `load`."""

    def __init__(self, engine: AsyncEngine, tokenizer: Tokenizer, sampling: Sampling, path_default: int | None) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        markers = tokenizer.markers
        model = engine.model
        self._facts = Facts(
            card=ModelCard(model.name, model.family, model.context_length, model.dtype, model.device, model.parameters),
            able=ABLE,
            sampling=sampling,
            path_default=path_default,
            close=len(markers.close_ids) if markers else 0,
            margin=MARGIN,
            kv_tokens=self._kv_tokens(),
        )

    @classmethod
    async def load(cls, model: str | Path | None, **options: Unpack[EngineOptions]) -> NativeBackend:
        """Raises ModelError, UnknownName, InvalidRequest."""
        folder = await asyncio.to_thread(locate, model)
        sampling, path_default = recommended(folder)
        with _loading(folder):
            from engine.async_engine import AsyncEngine
            from engine.config import EngineConfig
            from engine.text.tokenizer import load_tokenizer

            tokenizer = await asyncio.to_thread(load_tokenizer, folder)
            given = {name: value for name, value in options.items() if value is not None}
            config = EngineConfig(folder, **given)  # type: ignore[arg-type]
            return cls(await AsyncEngine.start(config), tokenizer, sampling, path_default)

    @property
    def facts(self) -> Facts:
        return self._facts

    def prepare(self, messages: tuple[Message, ...], enable_thinking: bool | None) -> Prompt:
        plain = [message.to_json() for message in messages]
        with _running():
            ids = tuple(self._tokenizer.apply_chat_template(plain, enable_thinking))
        thinks = self._tokenizer.markers is not None and self._tokenizer.opening_phase(ids) is not Phase.ANSWER
        if enable_thinking is not None and enable_thinking is not thinks:
            raise InvalidRequest(f"enable_thinking={enable_thinking} cannot be honoured by this model's chat template")
        return Prompt(messages, len(ids), thinks, ids)

    async def open(self, request: SessionRequest) -> NativeSession:
        with _running():
            handle = await self._engine.open(self._group(request))
        return NativeSession(handle, self._tokenizer, request)

    def stats(self) -> EngineStats:
        return self._engine.stats()

    async def close(self) -> None:
        await self._engine.close()

    def _kv_tokens(self) -> int:
        # Prompt and path may each leave one page of the pool partly empty.
        stats = self._engine.stats()
        return (stats.pages_total - 2) * stats.page_size

    def _group(self, request: SessionRequest) -> Group:
        # A stop string is found here, in the text, and ends a path for which more steps may be queued by then.
        watched = request.watched or bool(request.stop)
        return Group(request.prompt.ids, request.n, self._sampling(request), request.seed, stays_open=True,
                     watched=watched)

    def _sampling(self, request: SessionRequest) -> SamplingParams:
        s = request.sampling
        return SamplingParams(
            max_tokens=request.path_budget,
            temperature=s.temperature,
            top_k=int(s.top_k),
            top_p=s.top_p,
            min_p=s.min_p,
            repetition_penalty=s.repetition_penalty,
            presence_penalty=s.presence_penalty,
            frequency_penalty=s.frequency_penalty,
            thinking=self._thinking(request),
        )

    def _thinking(self, request: SessionRequest) -> Thinking | None:
        markers = self._tokenizer.markers
        if markers is None or not request.prompt.thinks:
            return None
        return Thinking(markers.open_id, markers.close_id, tuple(markers.close_ids), request.think_budget,
                        request.min_think, request.answer_reserve)


class NativeSession:
    """One group of the engine."""

    def __init__(self, handle: GroupHandle, tokenizer: Tokenizer, request: SessionRequest) -> None:
        self._handle = handle
        self._tokenizer = tokenizer
        self._request = request
        self._phase = tokenizer.opening_phase(request.prompt.ids)
        self._texts: dict[int, PathText] = {}
        self._injected: dict[int, int] = {}
        self._stopped: set[int] = set()

    async def events(self) -> AsyncIterator[SessionEvent]:
        with _running():
            async for event in self._handle.events():
                match event:
                    case Committed(paths=paths):
                        deltas = [self._text(path.index).push(path) for path in paths]
                        yield Advanced(tuple(map(self._advance, paths, deltas)))
                        for path, delta in zip(paths, deltas, strict=True):
                            if delta.stop_hit is not None:
                                self._stopped.add(path.index)
                                await self._handle.finish(path.index, FinishReason.STOP_STRING)
                    case PathFinished():
                        yield self._end(event)
                    case GroupFinished():
                        yield SessionEnded(event.prompt_tokens, event.prefilled_tokens)

    async def add_paths(self, n: int) -> range:
        with _running():
            return await self._handle.add_paths(n)

    async def cancel(self, indices: Sequence[int]) -> int:
        with _running():
            return await self._handle.cancel(indices)

    async def close_thinking(self, indices: Sequence[int]) -> None:
        with _running():
            await self._handle.close_thinking(indices)

    async def close(self) -> None:
        # A dead engine holds nothing any more; that it died is for `events` to say.
        with suppress(EngineError):
            await self._handle.close()

    def _text(self, index: int) -> PathText:
        if index not in self._texts:
            from engine.text.path_text import PathText

            self._texts[index] = PathText(self._tokenizer, self._request.stop, phase=self._phase)
        return self._texts[index]

    def _advance(self, path: PathTokens, delta: TextDelta) -> PathAdvanced:
        injected = self._injected.get(path.index, 0) + path.injected
        self._injected[path.index] = injected
        return PathAdvanced(path.index, path.phase, path.think_tokens, path.generated, injected, delta.thinking,
                            delta.answer)

    def _end(self, event: PathFinished) -> PathEnded:
        text = self._text(event.index)
        text.finish()
        usage = event.usage
        cut = event.index in self._stopped and event.reason in (FinishReason.EOS, FinishReason.LENGTH)
        reason = FinishReason.STOP_STRING if cut else event.reason
        return PathEnded(event.index, reason, usage.think, usage.generated, usage.injected, text.thinking,
                         text.answer, text.closed, event.message)


@contextmanager
def _running() -> Iterator[None]:
    """The engine's errors as ours."""
    try:
        yield
    except EngineClosed as error:
        raise BackendFailed(str(error)) from error
    except EngineError as error:
        raise InvalidRequest(str(error)) from error


@contextmanager
def _loading(folder: Path) -> Iterator[None]:
    """What goes wrong with a model's folder, as one error that names it."""
    try:
        yield
    except InvalidParameter as error:
        raise InvalidRequest(str(error)) from error
    except EngineError as error:
        raise ModelError(str(error) if str(folder) in str(error) else f"model {folder}: {error}") from error
