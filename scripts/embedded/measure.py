"""What is measured on a trained model: the fixed 128 problems, every phrasing, every kind, forced closing."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random
from statistics import fmean, median
from typing import Any

from reasoner.evaluate import tasks
from reasoner.evaluate.tasks import countdown, phrasings
from reasoner.evaluate.tasks.base import countdown_problem
from reasoner.problem import Problem
from scripts.embedded.conversation import chat_prompt
from scripts.embedded.grading import Sample, curve, grade, pass_rate, solved
from scripts.embedded.replay import replay
from scripts.embedded.sampler import Sampler, Tokens
from scripts.embedded.tokenizer import vocabulary

BUDGETS = (64, 128, 256, 512, 1024, 2048, 4096)
PATHS = (1, 2, 4, 8, 16)
Graded = list[list[Sample]]


@dataclass(frozen=True, slots=True)
class Measured:
    """Per problem: the graded samples, and the sampled ids behind them."""

    graded: Graded
    ids: list[list[Tokens]]


@dataclass(frozen=True, slots=True)
class Scale:
    """How much to measure; the defaults fit two minutes of one H200. shorter: longest path of the kinds
    that need fewer tokens."""

    paths: int = 16
    seeds: int = 3
    fixed: int = 128
    longest: int = 4096
    kinds: int = 160
    shorter: int = 2048
    per_phrasing: int = 48
    batch: int = 8192


def sample_all(
    sampler: Sampler,
    problems: Sequence[Problem],
    paths: int,
    *,
    longest: int,
    seed: int = 0,
    temperature: float = 1.0,
    thinking: bool = True,
    batch: int = 8192,
) -> Measured:
    """`paths` samples of every problem, graded."""
    prompts = [vocabulary().encode(chat_prompt(problem.prompt, None, thinking)) for problem in problems]
    jobs = [i for i in range(len(problems)) for _ in range(paths)]
    measured = Measured([[] for _ in problems], [[] for _ in problems])
    for start in range(0, len(jobs), batch):
        part = jobs[start : start + batch]
        chosen = [prompts[i] for i in part]
        sampled = sampler.sample(chosen, longest, temperature=temperature, seed=seed * 1_000_003 + start)
        for i, ids in zip(part, sampled, strict=True):
            measured.graded[i].append(grade(problems[i], ids, thinking))
            measured.ids[i].append(ids)
    return measured


def measure(sampler: Sampler, scale: Scale, log: Callable[[str], None]) -> dict[str, Any]:
    """All figures of the model card, as JSON values."""
    fixed = list(tasks.get("countdown4_128").problems(scale.fixed))
    runs = []
    for seed in range(scale.seeds):
        runs.append(
            sample_all(sampler, fixed, scale.paths, longest=scale.longest, seed=seed, batch=scale.batch)
        )
        log(f"countdown4_128 seed {seed}: {_short(runs[-1].graded, scale)}")
    report: dict[str, Any] = {"countdown4_128": fixed_figures([run.graded for run in runs], scale)}
    report["traces"] = trace_figures(fixed, runs[0])
    report["forced_close"] = forced_figures(sampler, fixed, runs[0])
    log(f"traces {report['traces']} forced close {report['forced_close']}")
    for name in ("countdown3", "integer_math"):
        problems = list(tasks.get(name).problems(scale.kinds))
        run = sample_all(sampler, problems, scale.paths, longest=scale.shorter, batch=scale.batch)
        report[name] = kind_figures(run.graded, scale.paths, scale.shorter)
        if name == "integer_math":
            report[name]["by_kind"] = _by(problems, run.graded, lambda problem: problem.data["kind"], scale)
        log(f"{name} {_short(run.graded, scale)} {report[name].get('by_kind', '')}")
    greedy = sample_all(sampler, fixed, 1, longest=scale.longest, temperature=0.0)
    unthought = sample_all(sampler, fixed, scale.paths, longest=64, thinking=False)
    report["countdown4_128"]["greedy"] = round(pass_rate(greedy.graded, scale.longest), 4)
    report["countdown4_128"]["without_thinking"] = round(pass_rate(unthought.graded, 64), 4)
    report["phrasings"] = phrasing_figures(sampler, scale)
    log(f"phrasings {report['phrasings']}")
    return report


def fixed_figures(runs: Sequence[Graded], scale: Scale) -> dict[str, Any]:
    """Pass rates and problems solved on the fixed set, by sampling seed and as a mean over them."""
    figures: dict[str, Any] = {"problems": len(runs[0]), "paths": scale.paths, "seeds": len(runs)}
    for budget in (512, scale.longest):
        rates = [pass_rate(run, budget) for run in runs]
        counts = [solved(run, budget) for run in runs]
        figures[f"budget_{budget}"] = {
            "pass@1": round(fmean(rates), 4),
            "pass@1_by_seed": [round(rate, 4) for rate in rates],
            f"solved_by_{scale.paths}": round(fmean(counts), 2),
            "solved_by_seed": counts,
        }
    curves = [curve(run, _budgets(scale.longest), _counts(scale.paths)) for run in runs]
    figures["pass@n_by_budget"] = {
        budget: {n: round(fmean(one[budget][n] for one in curves), 4) for n in row}
        for budget, row in curves[0].items()
    }
    return figures | kind_tokens([samples for run in runs for samples in run])


def kind_figures(graded: Graded, paths: int, longest: int) -> dict[str, Any]:
    """pass@1 of samples of up to `longest` tokens, and the curve."""
    figures = {"problems": len(graded), "longest": longest, "pass@1": round(pass_rate(graded, longest), 4)}
    table = {"pass@n_by_budget": curve(graded, _budgets(longest), _counts(paths))}
    return figures | kind_tokens(graded) | table


def kind_tokens(graded: Graded) -> dict[str, Any]:
    """Thinking tokens of all samples, and how their paths ended."""
    samples = [sample for samples in graded for sample in samples]
    thinking = sorted(sample.thinking for sample in samples)
    return {
        "thinking_tokens": {
            "mean": round(fmean(thinking), 1),
            "median": median(thinking),
            "p95": thinking[int(0.95 * len(thinking))],
        },
        "answered": round(sum(sample.answer is not None for sample in samples) / len(samples), 4),
        "answered_wrong": round(
            sum(sample.answer is not None and not sample.right for sample in samples) / len(samples), 4
        ),
    }


def phrasing_figures(sampler: Sampler, scale: Scale) -> list[dict[str, Any]]:
    """pass@1 of every phrasing on the same puzzles of three numbers: what differs is how they are asked."""
    rng = Random("phrasings")
    puzzles = [countdown.generate(rng, 3, held_out=True) for _ in range(scale.per_phrasing)]
    problems = [
        countdown_problem(
            phrasings.phrase(p, puzzle.numbers, puzzle.target),
            list(puzzle.numbers),
            puzzle.target,
            p.use_all,
            "",
        )
        for p in phrasings.PHRASINGS
        for puzzle in puzzles
    ]
    graded = sample_all(sampler, problems, 4, longest=1024, batch=scale.batch).graded
    rates = []
    for index, phrasing in enumerate(phrasings.PHRASINGS):
        own = graded[index * len(puzzles) : (index + 1) * len(puzzles)]
        rates.append({"phrasing": phrasing.text, "pass@1": round(pass_rate(own, 1024), 4)})
    return rates


def trace_figures(problems: Sequence[Problem], run: Measured, per_problem: int = 2) -> dict[str, Any]:
    """How many sampled countdown traces replay without a wrong line, and what is wrong in the others."""
    errors: Counter[str] = Counter()
    traces = clean = operations = 0
    for problem, ids in zip(problems, run.ids, strict=True):
        for sampled in ids[:per_problem]:
            check = replay(problem.data["numbers"], problem.data["target"], thinking_text(sampled))
            errors += check.errors
            traces, clean, operations = traces + 1, clean + check.clean, operations + check.operations
    per_thousand = {kind: round(1000 * count / max(1, operations), 3) for kind, count in errors.items()}
    return {"traces": traces, "clean": round(clean / traces, 4), "errors_per_1000_operations": per_thousand}


def thinking_text(ids: Tokens) -> str:
    """The text between the think tags of sampled ids."""
    text = vocabulary().decode(ids.tolist())
    return text.removeprefix("<think>\n").split("</think>")[0]


def forced_figures(sampler: Sampler, problems: Sequence[Problem], run: Measured) -> dict[str, float]:
    """Share of right answers when thinking is cut at a line's end within a budget and closed by force."""
    v = vocabulary()
    close = v.encode("</think>\n\n")
    rates = {}
    for budget in (64, 256, 1024):
        prompts, own = [], []
        for problem, ids in zip(problems, run.ids, strict=True):
            for sampled in ids[:4]:
                thought = v.decode(sampled[:budget].tolist())
                cut, closed, _ = thought.partition("</think>")
                kept = cut if closed else cut[: cut.rfind("\n") + 1]
                prompts.append(v.encode(chat_prompt(problem.prompt) + kept) + close)
                own.append(problem)
        sampled_answers = sampler.sample(prompts, 64, seed=budget)
        right = [grade(p, ids, thinking=False).right for p, ids in zip(own, sampled_answers, strict=True)]
        rates[str(budget)] = round(fmean(right), 4)
    return rates


def _by(
    problems: Sequence[Problem], graded: Graded, key: Callable[[Problem], str], scale: Scale
) -> dict[str, float]:
    groups: dict[str, Graded] = {}
    for problem, samples in zip(problems, graded, strict=True):
        groups.setdefault(key(problem), []).append(samples)
    return {name: round(pass_rate(group, scale.longest), 4) for name, group in sorted(groups.items())}


def _short(graded: Graded, scale: Scale) -> str:
    return " ".join(
        f"[{budget}: {pass_rate(graded, budget):.3f}, {solved(graded, budget)}/{len(graded)}]"
        for budget in _budgets(scale.longest)
    )


def _budgets(longest: int) -> list[int]:
    return [budget for budget in BUDGETS if budget <= longest]


def _counts(paths: int) -> list[int]:
    return [n for n in PATHS if n <= paths]
