"""Small pure helpers that put numbers into words, shared by every command."""

from __future__ import annotations

from collections.abc import Sequence


def count(number: int) -> str:
    """1234567 -> "1,234,567"."""
    return f"{number:,}"


def plural(number: int, noun: str) -> str:
    """(1, "path") -> "1 path"; (2, "path") -> "2 paths"."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def seconds(value: float) -> str:
    """0.42 -> "0.4 s"; 75 -> "75 s"; 754 -> "12 min 34 s"."""
    if value < 10:
        return f"{value:.1f} s"
    if value < 120:
        return f"{value:.0f} s"
    minutes, rest = divmod(round(value), 60)
    return f"{minutes} min {rest:02d} s"


def size(number: float) -> str:
    """Bytes in binary units: 1536 -> "1.5 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(number) < 1024:
            return f"{number:.0f} {unit}" if unit == "B" else f"{number:.1f} {unit}"
        number /= 1024
    return f"{number:.1f} TiB"


def columns(rows: Sequence[Sequence[str]], gap: str = "  ") -> list[str]:
    """Left-aligned columns as wide as their widest cell; the last one is not padded."""
    if not rows:
        return []
    widths = [max(len(row[k]) for row in rows) for k in range(len(rows[0]))]
    return [gap.join(cell.ljust(w) for cell, w in zip(row, widths, strict=True)).rstrip() for row in rows]
