"""Each policy's decisions, asked directly: no run, no backend."""

from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from engine.types import FinishReason
from reasoner.actions import Action, Select, Spawn, Stop, Verify, action_from_json, action_to_json
from reasoner.budget import Asked, Room, resolve
from reasoner.errors import BadRecord
from reasoner.events import AnswerReady, Cancelled, Event, PathFinished, PathStarted, Verified
from reasoner.policies.base import Capabilities, Capability, Policy
from reasoner.policies.best_of_n import BestOfN
from reasoner.policies.first_verified import FirstVerified
from reasoner.policies.majority import Majority
from reasoner.problem import Message, Task
from reasoner.view import View, advance
from reasoner.votes import ranked, tally, tied
from verifiers.base import Outcome, Verdict, failed, passed, unknown

TASK = Task((Message("user", "Which one?"),))
OFFER = Capabilities(frozenset(Capability), resolve(Asked(), Room(4096, None, True, 2, 1), 4))


class Asking:
    """Feeds events to a policy and keeps what it said last."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.view = View()
        self.said: Sequence[Action] = policy.start(TASK, OFFER, random.Random(0))

    def tell(self, kind: type[Event], *fields: object) -> list[Action]:
        event = kind(0, 0, 0.0, *fields)
        self.view = advance(self.view, event)
        self.said = list(self.policy.on(event, self.view))
        return self.said

    def begin(self, n: int) -> None:
        for index in range(n):
            assert self.tell(PathStarted, index, 0) == []

    def answer(self, path: int, answer: str | None) -> list[Action]:
        assert self.tell(PathFinished, path, FinishReason.EOS, 10, 14) == []
        return self.tell(AnswerReady, path, answer, answer)


def score(value: float) -> Verdict:
    return Verdict(Outcome.PASS if value > 0.5 else Outcome.FAIL, value, "score", "by a model")


def test_every_policy_starts_its_n_paths() -> None:
    for cls in (BestOfN, FirstVerified, Majority):
        assert Asking(cls(n=5)).said == [Spawn(5)]


def test_first_verified_verifies_answers_as_they_come_and_stops_at_the_first_pass() -> None:
    asking = Asking(FirstVerified(n=3))
    asking.begin(3)
    assert asking.answer(2, "4") == [Verify(2)]
    assert asking.tell(Verified, 2, failed("no")) == []
    assert asking.answer(0, "5") == [Verify(0)]
    assert asking.tell(Verified, 0, passed("yes")) == [Select(0, why="first to pass"), Stop("verified")]


def test_first_verified_asks_for_no_verdict_where_there_is_no_answer() -> None:
    asking = Asking(FirstVerified(n=2))
    asking.begin(2)
    assert asking.answer(0, None) == []
    assert asking.answer(1, None) == [Stop("none_passed")]


def test_first_verified_waits_for_the_last_verdict_before_it_gives_up() -> None:
    asking = Asking(FirstVerified(n=2))
    asking.begin(2)
    asking.answer(0, "4")
    asking.answer(1, "5")
    assert asking.tell(Verified, 1, failed("no")) == []
    assert asking.tell(Verified, 0, unknown("out of order")) == [
        Select(0, why="best of those that did not pass"), Stop("none_passed")]


def test_first_verified_ends_when_the_last_path_is_cancelled() -> None:
    asking = Asking(FirstVerified(n=2))
    asking.begin(2)
    asking.answer(0, "4")
    asking.tell(Verified, 0, failed("no"))
    assert asking.tell(Cancelled, 1, 99, "budget")[-1] == Stop("none_passed")


def test_best_of_n_does_not_stop_at_a_pass() -> None:
    asking = Asking(BestOfN(n=3))
    asking.begin(3)
    for path, answer in enumerate(["4", "5", "6"]):
        assert asking.answer(path, answer) == [Verify(path)]
    assert asking.tell(Verified, 0, score(0.6)) == []
    assert asking.tell(Verified, 1, score(0.9)) == []
    assert asking.tell(Verified, 2, score(0.7)) == [Select(1, why="best score"), Stop("all_judged")]


def test_best_of_n_breaks_equal_scores_by_votes_then_by_the_lowest_path() -> None:
    asking = Asking(BestOfN(n=4))
    asking.begin(4)
    for path, answer in enumerate(["4", "5", "6", "6"]):
        asking.answer(path, answer)
    for path in range(4):
        asking.tell(Verified, path, score(0.8))
    assert asking.said[0] == Select(2, why="best score")


def test_majority_waits_for_all_and_counts_only_answers() -> None:
    asking = Asking(Majority(n=4))
    asking.begin(4)
    assert asking.answer(3, None) == []
    assert asking.answer(2, "5") == []
    assert asking.answer(0, "4") == []
    assert asking.answer(1, "5") == [Select(key="5", why="2 of 4 paths agree"), Stop("all_voted")]


def test_majority_without_an_answer_selects_none() -> None:
    asking = Asking(Majority(n=1))
    asking.begin(1)
    assert asking.answer(0, None) == [Stop("all_voted")]


def test_majority_does_not_let_a_cancelled_path_vote() -> None:
    asking = Asking(Majority(n=3))
    asking.begin(3)
    asking.answer(0, "4")
    asking.tell(Cancelled, 1, 50, "budget")
    assert asking.tell(Cancelled, 2, 50, "budget")[0] == Select(key="4", why="1 of 3 paths agree")


def seen(*answers: str | None, verdicts: dict[int, Verdict] | None = None) -> View:
    asking = Asking(Majority(n=len(answers)))
    asking.begin(len(answers))
    for path, answer in enumerate(answers):
        asking.answer(path, answer)
    for path, verdict in (verdicts or {}).items():
        asking.tell(Verified, path, verdict)
    return asking.view


def test_votes_are_ordered_by_count_then_by_their_lowest_path() -> None:
    votes = tally(seen("a", "b", "b", "c", "c", None))
    assert [(vote.key, vote.count, vote.paths) for vote in votes] == [("b", 2, (1, 2)), ("c", 2, (3, 4)),
                                                                      ("a", 1, (0,))]
    assert tied(votes, "b")
    assert tied(votes, "c")
    assert not tied(votes, "a")
    assert not tied(votes, None)


def test_an_unknown_verdict_ranks_between_pass_and_fail() -> None:
    view = seen("a", "b", "c", "d", verdicts={0: failed("no"), 1: unknown("lost"), 2: passed("yes")})
    assert [path.index for path in ranked(view)] == [2, 1, 3, 0]


def test_among_failed_ones_the_better_score_ranks_first() -> None:
    view = seen("a", "a", "b", verdicts={0: score(0.1), 1: score(0.1), 2: score(0.4)})
    assert [path.index for path in ranked(view)] == [2, 0, 1]


def test_the_view_keeps_the_order_of_answers() -> None:
    asking = Asking(Majority(n=3))
    asking.begin(3)
    asking.answer(2, "x")
    asking.answer(0, "y")
    assert [path.order for path in asking.view.paths] == [1, None, 0]


def test_actions_survive_json_and_senseless_ones_are_refused() -> None:
    from reasoner.actions import Cancel, CloseThinking

    for action in (Spawn(3), Verify(1), Cancel((1, 2), "why"), CloseThinking((0,)), Select(key="a", why="b"),
                   Select(path=0), Stop("done")):
        assert action_from_json(action_to_json(action)) == action
    for senseless in (lambda: Spawn(0), lambda: Select(), lambda: Select(1, "a")):
        with pytest.raises(ValueError, match=r"must spawn|select either"):
            senseless()
    with pytest.raises(BadRecord, match="unknown action 'jump'; known: spawn"):
        action_from_json({"action": "jump"})
