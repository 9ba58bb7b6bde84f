"""The rows of a record as Markdown tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from scripts.decode.points import Point
from scripts.decode.record import Record, Row

# ms per step on an H200, Qwen3-8B in bfloat16: the peer (vLLM 0.25.1, default settings), and what is reached for.
PEER = {
    "1x1k": 5.27,
    "16x1k": 5.98,
    "64x1k": 8.20,
    "1x32k": 6.45,
    "16x10k": 10.95,
    "16x32k": 22.95,
    "8x45k": 17.45,
    "32x16k": 23.01,
}
REACH = {
    "1x1k": 4.8,
    "16x1k": 5.4,
    "64x1k": 7.7,
    "1x32k": 6.0,
    "16x10k": 10.6,
    "16x32k": 22.7,
    "8x45k": 17.2,
    "32x16k": 22.9,
}
PEER_PREFILL = {"1x32k": 1.32, "16x10k": 4.70, "16x32k": 20.5}
PEER_MODEL = "qwen3-8b"

Column = tuple[str, Callable[[Row], str]]


def tables(record: Record) -> Iterator[str]:
    """Every list that has rows: a heading line, the table, an empty line."""
    steps = [row | _against_graph(row, record.lists["rows"]) for row in record.lists["rows"]]
    for title, rows, columns in (
        ("Decode", [row for row in steps if "budget" not in row], DECODE),
        ("All tokens of many paths", [row for row in steps if "budget" in row], WHOLE),
        ("Prefill", record.lists["prefill"], PREFILL),
        ("Gaps between tokens while a prompt arrives", record.lists["gaps"], GAPS),
        ("Start", record.lists["startup"], START),
    ):
        if rows:
            yield f"**{title}**"
            yield ""
            yield from table(sorted(rows, key=_order), columns)
            yield ""


def table(rows: Sequence[Row], columns: Sequence[Column]) -> Iterator[str]:
    yield "| " + " | ".join(name for name, _ in columns) + " |"
    yield "|" + "---|" * len(columns)
    for row in rows:
        yield "| " + " | ".join(show(row) for _, show in columns) + " |"


def _order(row: Row) -> tuple[str, ...]:
    """By model and mode, then as a number would be."""
    numbers = [f"{row.get(key, 0):>9}" for key in ("context", "batch", "chunk")]
    return (str(row.get("model")), str(row.get("mode", "")), *numbers, str(row.get("cache", "")))


def _against_graph(row: Row, rows: Sequence[Row]) -> Row:
    """How much longer a step takes than the same one in a graph with nothing else asked for."""
    same = ("model", "batch", "context", "kv_dtype", "weight_dtype")
    for other in rows:
        if other.get("mode") == "graph" != row.get("mode") and all(row[key] == other[key] for key in same):
            return {"against_graph": float(str(row["ms_per_step"])) / float(str(other["ms_per_step"]))}
    return {}


def _value(key: str, form: str = "{:.2f}") -> Callable[[Row], str]:
    """What stands under `key`, or nothing."""

    def show(row: Row) -> str:
        found = row.get(key)
        return "" if found is None else form.format(found)

    return show


def _point(row: Row) -> str:
    return Point(int(str(row["batch"])), int(str(row["context"]))).name


def _known(figures: dict[str, float]) -> Callable[[Row], str]:
    """The figure of that point, for the rows that it can be compared with."""

    def show(row: Row) -> str:
        comparable = row["model"] == PEER_MODEL and row.get("mode", "graph") == "graph"
        return f"{figures[_point(row)]:.2f}" if comparable and _point(row) in figures else ""

    return show


GAP_KEYS = ("gap_us_p50", "gap_us_p99")

DECODE: tuple[Column, ...] = (
    ("model", _value("model", "{}")),
    ("mode", _value("mode", "{}")),
    ("batch x context", _point),
    ("ms/step", _value("ms_per_step", "**{:.2f}**")),
    ("peer", _known(PEER)),
    ("reach", _known(REACH)),
    ("against graph", _value("against_graph")),
    ("tokens/s", _value("tokens_per_s", "{:,.0f}")),
    ("share of floor", _value("floor_share")),
    ("host ms/step", _value("host_ms", "{:.3f}")),
    ("kernels", _value("kernels_per_step", "{:.0f}")),
    ("launches", _value("launches_per_step", "{:.1f}")),
    ("gap us p50 / p99", lambda row: " / ".join(filter(None, (_value(k, "{:.1f}")(row) for k in GAP_KEYS)))),
    ("GPU idle", _value("gpu_idle_share", "{:.1%}")),
)
WHOLE: tuple[Column, ...] = (
    ("model", _value("model", "{}")),
    ("mode", _value("mode", "{}")),
    ("paths", _value("batch", "{:,}")),
    ("ms/step early", _value("ms_per_step", "**{:.3f}**")),
    ("at 1k", _value("ms_at_1k", "{:.3f}")),
    ("whole", _value("ms_whole", "{:.3f}")),
    ("tokens/s at 1k", _value("tokens_per_s_at_1k", "{:,.0f}")),
    ("whole", _value("tokens_per_s_whole", "{:,.0f}")),
    ("tokens a path", _value("budget", "{:,}")),
    ("kernels", _value("kernels_per_step", "{:.0f}")),
    ("gap us p50", _value("gap_us_p50", "{:.1f}")),
    ("GPU idle", _value("gpu_idle_share", "{:.1%}")),
)
PREFILL: tuple[Column, ...] = (
    ("model", _value("model", "{}")),
    ("batch x context", _point),
    ("seconds", _value("seconds", "**{:.2f}**")),
    ("peer", _known(PEER_PREFILL)),
    ("prompt tokens/s", _value("tokens_per_s", "{:,.0f}")),
)
GAPS: tuple[Column, ...] = (
    ("model", _value("model", "{}")),
    ("streams", _value("streams", "{}")),
    ("arriving", _value("arriving", "{:,}")),
    ("chunk", _value("chunk", "{:,}")),
    ("longest ms", _value("longest_ms", "{:.1f}")),
    ("p99 ms", _value("p99_ms", "{:.1f}")),
    ("p50 ms", _value("p50_ms", "{:.1f}")),
    ("p50 ms before", _value("before_p50_ms", "{:.1f}")),
    ("s to its first token", _value("first_token_s")),
)
START: tuple[Column, ...] = (
    ("model", _value("model", "{}")),
    ("kernel cache", _value("cache", "{}")),
    ("ready after s", _value("ready_s", "**{:.1f}**")),
    ("with imports s", _value("process_s", "{:.1f}")),
    ("graphs", _value("graphs", "{}")),
    ("capture s", _value("graph_s", "{:.1f}")),
    ("graph MB", _value("graph_mb", "{:.0f}")),
)
