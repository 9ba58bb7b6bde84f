"""The vocabulary of the engine: what a group is asked to do, and the events that tell how it went.

Everything here is frozen and made of plain Python values: these objects, and nothing else, cross the
boundary between the caller and the step loop.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from typing import NamedTuple

from engine.errors import InvalidParameter


class FinishReason(StrEnum):
    """Why a path ended. Each path has exactly one."""

    EOS = "eos"  # the model ended its turn
    STOP_TOKEN = "stop_token"  # a stop token of the caller
    STOP_STRING = "stop_string"  # a stop string of the caller, found by the text layer
    LENGTH = "length"  # its own token budget is spent
    CANCELLED = "cancelled"  # the caller ended it
    ERROR = "error"  # the engine failed; the message is in the event


class Statistic(StrEnum):
    """What a path may be measured by on the way, of the raw distribution: before penalties, bias, temperature and
    filters. Forced tokens count in none but ENTROPY.

    Confidence of a token: minus the mean log-probability of the 20 most likely tokens (DeepConf, arXiv 2508.15260).
    """

    LOGPROB_SUM = "logprob_sum"  # log-probabilities of the sampled tokens so far, in nats
    ENTROPY = "entropy"  # of the newest token's distribution, in nats
    CONFIDENCE = "confidence"  # mean over the last `window` tokens, or over all while there are fewer
    LOWEST_CONFIDENCE = "lowest_confidence"  # smallest mean of a full window so far; inf before the first


class Phase(IntEnum):
    """Where a path is between its prompt and its answer."""

    UNDECIDED = 0  # nothing sampled yet: the first token decides
    THINKING = 1
    ANSWER = 2


@dataclass(frozen=True, slots=True)
class Thinking:
    """How a model marks its thinking, and what a path may spend on it.

    open_id, close_id: the single tokens around the thinking. close_ids: what a forced close injects (starts
    with close_id). max_tokens, min_tokens: bounds on tokens inside the thinking, markers not counted.
    answer_reserve: tokens of the path's budget kept for the answer: thinking is closed by force when only the
    close and this many tokens are left. hold: the path stands still when its thinking has ended, natural or
    forced, until it is resumed; it keeps its pages.
    """

    open_id: int
    close_id: int
    close_ids: tuple[int, ...]
    max_tokens: int | None = None
    min_tokens: int = 0
    answer_reserve: int = 0
    hold: bool = False

    def __post_init__(self) -> None:
        _integers("close_ids", self.close_ids)
        budgets = () if self.max_tokens is None else (self.max_tokens,)
        _integers(
            "a thinking budget or marker",
            (self.open_id, self.close_id, *budgets, self.min_tokens, self.answer_reserve),
        )
        _flag("hold", self.hold)
        if not self.close_ids or self.close_ids[0] != self.close_id:
            raise InvalidParameter("close_ids must begin with close_id")
        if self.max_tokens is not None and self.max_tokens < 0:
            raise InvalidParameter(f"the thinking budget must be >= 0, got {self.max_tokens}")
        if self.min_tokens < 0 or self.answer_reserve < 0:
            raise InvalidParameter("min_tokens and answer_reserve must be >= 0")
        if self.max_tokens is not None and self.min_tokens > self.max_tokens:
            raise InvalidParameter(f"min thinking {self.min_tokens} exceeds max thinking {self.max_tokens}")


@dataclass(frozen=True, slots=True)
class SamplingParams:
    """How each path of a group samples. Budgets are in generated tokens, thinking and answer together.

    Order of application (as in the Hugging Face processors): penalties, bias, temperature, top-k, top-p, min-p.
    temperature 0 is greedy. top_k 0, top_p 1 and min_p 0 are off. repetition_penalty counts prompt and
    generated tokens; presence and frequency penalties count generated tokens only (OpenAI's definition).
    logprobs: None for none, 0 for the sampled token's, k for the k most likely beside it (of the raw
    distribution, before penalties, bias, temperature and filters). logit_bias: (token, value) pairs, values in
    [-100, 100] as OpenAI has it. statistics: what each step reports of the path, see `Statistic`; window: tokens
    that a confidence is averaged over.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    stop_ids: tuple[int, ...] = ()
    ignore_eos: bool = False
    logprobs: int | None = None
    logit_bias: tuple[tuple[int, float], ...] = ()
    statistics: tuple[Statistic, ...] = ()
    window: int = 2048
    thinking: Thinking | None = None

    def __post_init__(self) -> None:
        for name in ("max_tokens", "top_k", "window"):
            _integers(name, (getattr(self, name),))
        _integers("logprobs", () if self.logprobs is None else (self.logprobs,))
        _integers("stop_ids", self.stop_ids)
        for name in ("temperature", "top_p", "min_p", *PENALTIES):
            _number(name, getattr(self, name))
        _flag("ignore_eos", self.ignore_eos)
        _require(self.max_tokens >= 1, "max_tokens must be >= 1", self.max_tokens)
        _require(self.temperature >= 0, "temperature must be >= 0", self.temperature)
        _require(self.top_k >= 0, "top_k must be >= 0 (0 is off)", self.top_k)
        _require(0 < self.top_p <= 1, "top_p must lie in (0, 1]", self.top_p)
        _require(0 <= self.min_p < 1, "min_p must lie in [0, 1)", self.min_p)
        _require(self.repetition_penalty > 0, "repetition_penalty must be > 0", self.repetition_penalty)
        for name in ("presence_penalty", "frequency_penalty"):
            value = getattr(self, name)
            _require(-2 <= value <= 2, f"{name} must lie in [-2, 2]", value)
        _require(
            self.logprobs is None or 0 <= self.logprobs <= MAX_LOGPROBS,
            f"logprobs must lie in [0, {MAX_LOGPROBS}]",
            self.logprobs,
        )
        _require(1 <= self.window <= MAX_WINDOW, f"window must lie in [1, {MAX_WINDOW}]", self.window)
        _bias(self.logit_bias)
        _statistics(self.statistics)
        if self.thinking is not None:
            if not isinstance(self.thinking, Thinking):
                raise InvalidParameter(f"thinking must be a Thinking, got {self.thinking!r}")
            need = len(self.thinking.close_ids) + self.thinking.answer_reserve
            _require(
                self.max_tokens > need,
                f"a budget that must close thinking ({len(self.thinking.close_ids)} tokens) "
                f"and answer ({self.thinking.answer_reserve}) needs more than {need} tokens",
                self.max_tokens,
            )


MAX_LOGPROBS = 20
MAX_WINDOW = 2048  # tokens of a confidence window: each costs every path four bytes
MAX_BIAS = 512  # tokens of one logit_bias
MAX_PATHS = 4096  # of one group: each costs the step loop a record
INDEX_LIMIT = 2**31  # of path indices: a device holds them in 32 bits
PENALTIES = ("repetition_penalty", "presence_penalty", "frequency_penalty")


def _require(holds: bool, rule: str, value: object) -> None:
    if not holds:
        raise InvalidParameter(f"{rule}, got {value}")


def _integers(name: str, values: object) -> None:
    if not isinstance(values, tuple) or not all(type(value) is int for value in values):
        raise InvalidParameter(
            f"{name} must be {'integers in a tuple' if name.endswith('ids') else 'an integer'}"
        )


def _number(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not _finite(value):
        raise InvalidParameter(f"{name} must be a finite number, got {value!r}")


def _finite(value: int | float) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that no float can hold
        return False


def _flag(name: str, value: object) -> None:
    if not isinstance(value, bool):
        raise InvalidParameter(f"{name} must be true or false, got {value!r}")


def _bias(pairs: object) -> None:
    if not isinstance(pairs, tuple) or not all(isinstance(pair, tuple) and len(pair) == 2 for pair in pairs):
        raise InvalidParameter("logit_bias must be a tuple of (token, value) pairs")
    _require(len(pairs) <= MAX_BIAS, f"logit_bias must name at most {MAX_BIAS} tokens", len(pairs))
    for token, value in pairs:
        _integers("a token of logit_bias", (token,))
        _number("a value of logit_bias", value)
        _require(-100 <= value <= 100, "a value of logit_bias must lie in [-100, 100]", value)
    _require(len(dict(pairs)) == len(pairs), "logit_bias must name each token once", pairs)


def _statistics(names: object) -> None:
    if not isinstance(names, tuple) or not all(isinstance(name, Statistic) for name in names):
        raise InvalidParameter(
            f"statistics must be a tuple of Statistic ({', '.join(Statistic)}), got {names!r}"
        )
    _require(len(set(names)) == len(names), "statistics must name each once", names)


def check_count(n: int) -> None:
    """Raises InvalidParameter unless n is a number of paths that one group may have."""
    _integers("n", (n,))
    _require(1 <= n <= MAX_PATHS, f"n must lie in [1, {MAX_PATHS}]", n)


def check_indices(first: int, n: int) -> None:
    """Raises InvalidParameter unless n paths can be numbered from first on."""
    _require(first + n < INDEX_LIMIT, "path indices must stay below 2**31", first + n)


@dataclass(frozen=True, slots=True)
class Group:
    """One problem inside the engine: a prompt and n paths that share its pages.

    seed: with a path's index and a position it determines every random number of that path.
    first_index: index of the first path; paths added later continue the numbering.
    stays_open: the group ends only when it is closed, so that paths can be added after all others have ended.
    watched: somebody may act on a token of it (a stop string, a verifier, a policy), so that at most one step runs
    ahead of what the caller knows; otherwise several may be queued at once.
    """

    prompt_ids: tuple[int, ...]
    n: int
    sampling: SamplingParams
    seed: int = 0
    first_index: int = 0
    stays_open: bool = False
    watched: bool = True

    def __post_init__(self) -> None:
        _integers("prompt_ids", self.prompt_ids)
        _require(len(self.prompt_ids) > 0, "the prompt must hold at least one token", len(self.prompt_ids))
        if not isinstance(self.sampling, SamplingParams):
            raise InvalidParameter(f"sampling must be SamplingParams, got {self.sampling!r}")
        _flag("stays_open", self.stays_open)
        _flag("watched", self.watched)
        _integers("seed", (self.seed,))
        _integers("first_index", (self.first_index,))
        check_count(self.n)
        _require(0 <= self.seed < 2**63, "seed must lie in [0, 2**63)", self.seed)
        _require(self.first_index >= 0, "first_index must be >= 0", self.first_index)
        check_indices(self.first_index, self.n)


@dataclass(frozen=True, slots=True)
class TokenLogprobs:
    """logprob of the sampled token, and the most likely (id, logprob) pairs, best first."""

    logprob: float
    top: tuple[tuple[int, float], ...] = ()


class PathTokens(NamedTuple):
    """Tokens that one step committed to one path. injected: how many of them the budget forced. phase, think_tokens,
    generated and statistics are those after the last of them; statistics in the order they were asked for.

    A named tuple, because thousands are made at every step: a frozen dataclass takes three times as long to make and
    to send to another process.
    """

    index: int  # type: ignore[assignment]  # hides tuple.index, which nobody needs here
    ids: tuple[int, ...]
    phase: Phase
    think_tokens: int  # so far, markers not counted
    generated: int  # so far, all
    injected: int = 0
    logprobs: tuple[TokenLogprobs, ...] = ()
    statistics: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class PathUsage:
    """Tokens of one ended path. generated = think + answer + markers + injected answer of a forced close."""

    generated: int
    think: int
    injected: int


@dataclass(frozen=True, slots=True)
class Committed:
    """One step's tokens for one group: the only per-step event."""

    step: int
    paths: tuple[PathTokens, ...]


@dataclass(frozen=True, slots=True)
class PathHeld:
    """The path's thinking has ended and it waits to be resumed, cancelled or finished."""

    index: int
    step: int


@dataclass(frozen=True, slots=True)
class PathFinished:
    index: int
    reason: FinishReason
    usage: PathUsage
    step: int  # last step that committed a token to it; -1 where none did
    message: str = ""


@dataclass(frozen=True, slots=True)
class GroupFinished:
    """The last event of every group: all its paths have finished, all its pages are back."""

    prompt_tokens: int
    prefilled_tokens: int  # prompt tokens that were computed, once for all paths
    usage: PathUsage


GroupEvent = Committed | PathHeld | PathFinished | GroupFinished


@dataclass(frozen=True, slots=True)
class EngineStats:
    """A snapshot between two steps."""

    steps: int = 0
    pages_total: int = 0
    pages_used: int = 0
    page_size: int = 0
    groups_waiting: int = 0
    groups_running: int = 0
    paths_waiting: int = 0
    paths_running: int = 0
    tokens_generated: int = 0
    tokens_prefilled: int = 0
    step_seconds: float = 0.0  # mean of the last steps
    host_seconds: float = 0.0  # of these, what the host worked: planning, launching, committing
    kv_bytes: int = 0  # of the pages in use
