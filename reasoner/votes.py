"""Counting equal answers and ranking candidates: pure, with one documented order for every tie.

Only paths that ended by themselves with an answer vote: no answer is not a class, and a cancelled path is
not a vote. Classes are ordered by count, then by their lowest path.
"""

from __future__ import annotations

from collections.abc import Sequence

from reasoner.result import Vote
from reasoner.view import PathView, View


def tally(view: View) -> tuple[Vote, ...]:
    """The vote classes, most votes first; equal counts in the order of their lowest path."""
    classes: dict[str, list[PathView]] = {}
    for path in view.candidates:
        if path.key is not None:
            classes.setdefault(path.key, []).append(path)
    votes = [Vote(key, members[0].answer or "", len(members), tuple(p.index for p in members))
             for key, members in classes.items()]
    return tuple(sorted(votes, key=lambda vote: (-vote.count, vote.paths[0])))


def tied(votes: Sequence[Vote], key: str | None) -> bool:
    """Whether another class has as many votes as that of `key`."""
    count = next((vote.count for vote in votes if vote.key == key), None)
    return count is not None and any(vote.count == count and vote.key != key for vote in votes)


def ranked(view: View) -> tuple[PathView, ...]:
    """The candidates, best first: what passed by score, then what nothing is known about, then what failed by
    score; equal ones by the votes of their class, then by index. An unknown verdict counts as no verdict."""
    count = {vote.key: vote.count for vote in tally(view)}

    def order(path: PathView) -> tuple[int, float, int, int]:
        tier = 0 if path.passed else 2 if path.failed else 1
        return tier, -(path.score or 0.0), -count[path.key or ""], path.index

    return tuple(sorted(view.candidates, key=order))
