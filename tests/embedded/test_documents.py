"""Training data: every line of a trace holds, nothing held out is trained, chunks are whole."""

from __future__ import annotations

import re
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from reasoner.evaluate.tasks import countdown, integer_math
from reasoner.evaluate.tasks.countdown import Countdown
from scripts.embedded import documents, feed, math_traces
from scripts.embedded.arithmetic import evaluate
from scripts.embedded.conversation import garble
from scripts.embedded.documents import UNLEARNED, DataConfig, document
from scripts.embedded.replay import replay
from scripts.embedded.search_traces import Search, SearchStyle, compose, sum_of_all
from scripts.embedded.tokenizer import vocabulary

GOOD = "3 5 25 to 60\n25-5=20 -> 3 20\n20*3=60 yes\n25-5=20\n(25-5)*3=60\n"


@pytest.mark.parametrize("size", [2, 3, 4])
@pytest.mark.parametrize("style", [SearchStyle(), SearchStyle(leaf_bonus=4.0, inner_bonus=2.5)])
def test_every_line_of_a_search_replays(size: int, style: SearchStyle) -> None:
    rng = Random(f"{size}{style}")
    for _ in range(40):
        problem = countdown.generate(rng, size, held_out=False)
        search = Search(rng, problem, style)
        check = replay(problem.numbers, problem.target, "".join(search.lines()))
        assert check.clean, check
        assert check.solved
        assert search.solution is not None
        assert search.closest == search.solution
        answer, value = compose(search.solution)[-1]
        made = evaluate(answer)
        assert made is not None
        assert (made[0], value, tuple(sorted(made[1]))) == (problem.target, problem.target, problem.state)


@pytest.mark.parametrize(
    ("right", "wrong", "kind"),
    [
        ("3 5 25 to", "3 5 26 to", "head"),
        ("25-5=20 ->", "25-5=21 ->", "arithmetic"),
        ("25-5=20 ->", "25-4=21 ->", "operands"),
        ("-> 3 20", "-> 3 21", "state"),
        ("20*3=60 yes", "20*3=60 no", "verdict"),
        ("20*3=60 yes", "back 3 21\n20*3=60 yes", "back"),
        ("20*3=60 yes", "hm\n20*3=60 yes", "syntax"),
        ("(25-5)*3=60", "(25-5)*3=61", "recap"),
        ("(25-5)*3=60\n", "", "recap"),
    ],
)
def test_replay_finds_a_planted_error(right: str, wrong: str, kind: str) -> None:
    assert replay([3, 25, 5], 60, GOOD).solved
    check = replay([3, 25, 5], 60, GOOD.replace(right, wrong, 1))
    assert check.errors[kind], check
    assert not (check.clean and check.solved)


def test_a_cut_last_line_is_no_error() -> None:
    assert replay([3, 25, 5], 60, GOOD[:30]).clean


def test_the_sum_of_all_uses_every_number() -> None:
    made = evaluate(compose(sum_of_all(Countdown((9, 4, 4, 30), 24)))[-1][0])
    assert made is not None
    assert (made[0], sorted(made[1])) == (47, [4, 4, 9, 30])


@pytest.mark.parametrize("kind", integer_math.SENTENCES)
def test_every_equality_of_a_math_trace_holds_and_ends_in_the_answer(kind: str) -> None:
    rng = Random(kind)
    for _ in range(60):
        problem = integer_math.generate(rng, held_out=False, kind=kind)
        text = "".join(math_traces.thinking(problem))
        for chain in re.findall(
            r"(?<![\dx*+(])\d+(?:[*+\-/]\d+)+(?:=\d+(?:[*+\-/]\d+)*)+(?![\dx*+\-/])", text
        ):
            values = {made[0] for part in chain.split("=") if (made := evaluate(part))}
            assert len(values) == 1, (chain, text)
        if kind in ("expression", "remainder", "chain"):
            assert re.findall(r"\d+", text)[-1] == str(problem.answer), text


def test_documents_fit_and_learn_only_the_turn_of_the_assistant() -> None:
    rng, config, v = Random(5), DataConfig(longest=1024, replayed=1.0), vocabulary()
    for _ in range(120):
        ids = document(rng, config)
        assert len(ids) <= config.longest
        assert max(i & ~UNLEARNED for i in ids) < v.size
        learned = v.decode(i for i in ids if not i & UNLEARNED)
        context = v.decode(i & ~UNLEARNED for i in ids if i & UNLEARNED)
        assert context.startswith("<|im_start|>")
        assert "<|im_start|>" not in learned
        assert (
            not learned
            or learned.endswith("<|im_end|>")
            or len(ids) == config.longest
            or "yes" not in learned
        )


def test_a_forced_close_is_context_and_its_answer_is_learned() -> None:
    config = replace(DataConfig(), unthought=0.0, cut=1.0, mix=(("countdown4", 1.0),))
    ids = document(Random(3), config)
    text = vocabulary().decode(i & ~UNLEARNED for i in ids)
    learned = vocabulary().decode(i for i in ids if not i & UNLEARNED)
    assert "\n</think>\n\nThe answer is \\boxed{" in text
    assert "</think>" not in learned
    assert learned.endswith("}.<|im_end|>")


def test_the_trainer_refuses_held_out_problems(monkeypatch: pytest.MonkeyPatch) -> None:
    held = countdown.generate(Random(0), 4, held_out=True)
    monkeypatch.setattr(countdown, "generate", lambda *_, **__: held)
    with pytest.raises(AssertionError):
        documents.puzzle(Random(0), "countdown4", DataConfig())


def test_chunks_are_whole_and_padding_is_not_learned() -> None:
    rng, config = Random(9), DataConfig()
    chunk = next(feed.pack(iter(lambda: document(rng, config), None)))
    rows, length = chunk.shape
    assert rows * length == feed.CHUNK
    assert chunk.dtype == np.uint16
    padded = vocabulary().end_of_text | UNLEARNED
    ends = [row[np.flatnonzero(row != padded)[-1] + 1 :] for row in chunk]
    assert all((end == padded).all() for end in ends)


def test_a_garbled_sentence_keeps_its_numbers() -> None:
    rng, text = Random(4), "Use 3, 7, 11 and 25 to make 56."
    for _ in range(20):
        changed = garble(rng, text)
        assert changed != text
        assert re.findall(r"\d+", changed) == ["3", "7", "11", "25", "56"]
