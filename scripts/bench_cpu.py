"""Decode speed on the CPU: this engine against transformers' `generate`, same model, same process.

    python -m scripts.bench_cpu                          # the embedded model, 16 paths x 512 tokens
    python -m scripts.bench_cpu --model random-llama     # a random Llama of 0.43 B parameters, made on the spot

Both sample at temperature 1.0 and never stop early. Runs alternate, the first of each is thrown away, and the
medians of the rest are compared. The engine is measured whole: from `open` to the last event.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import tempfile
import time
from pathlib import Path

import torch
import transformers
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

from engine.async_engine import AsyncEngine
from engine.config import EngineConfig
from engine.types import Group, GroupFinished, SamplingParams
from reasoner.models import embedded_path

PROMPT_TOKENS = 40


def random_llama(folder: Path) -> Path:
    """A Llama of 0.43 B random parameters in `folder`: speed does not depend on the weights."""
    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=1024,
        intermediate_size=4096,
        num_hidden_layers=24,
        num_attention_heads=16,
        num_key_value_heads=4,
        vocab_size=32_000,
        max_position_embeddings=4096,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def prompt_of(vocab: int) -> tuple[int, ...]:
    return tuple((7 * i + 11) % (vocab - 100) for i in range(PROMPT_TOKENS))


async def ours(engine: AsyncEngine, paths: int, tokens: int) -> float:
    """Tokens a second."""
    sampling = SamplingParams(max_tokens=tokens, ignore_eos=True)
    begun = time.perf_counter()
    handle = await engine.open(Group(prompt_of(engine.model.vocab_size), paths, sampling, seed=1))
    async for event in handle.events():
        if isinstance(event, GroupFinished):
            assert event.usage.generated == paths * tokens
    return paths * tokens / (time.perf_counter() - begun)


def theirs(model: torch.nn.Module, vocab: int, paths: int, tokens: int) -> float:
    """Tokens a second of `generate`, which is told to go on to the last token."""
    ids = torch.tensor([prompt_of(vocab)] * paths)
    begun = time.perf_counter()
    out = model.generate(  # type: ignore[operator]
        ids,
        attention_mask=torch.ones_like(ids),
        do_sample=True,
        temperature=1.0,
        top_k=0,
        max_new_tokens=tokens,
        min_new_tokens=tokens,
        eos_token_id=None,
        pad_token_id=0,
    )
    assert out.shape == (paths, PROMPT_TOKENS + tokens)
    return paths * tokens / (time.perf_counter() - begun)


async def compare(folder: Path, dtype: str, args: argparse.Namespace) -> dict[str, object]:
    engine = await AsyncEngine.start(EngineConfig(folder, dtype=dtype, threads=args.threads))
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=getattr(torch, dtype)).eval()
    a: list[float] = []
    b: list[float] = []
    for run in range(args.runs + 1):
        a.append(await ours(engine, args.paths, args.tokens))
        b.append(await asyncio.to_thread(theirs_in_thread, model, engine.model.vocab_size, args))
        note = " (thrown away)" if run == 0 else ""
        print(f"{dtype} run {run}: ours {a[-1]:.0f}, transformers {b[-1]:.0f} tokens/s{note}", flush=True)
    await engine.close()
    mine, other = statistics.median(a[1:]), statistics.median(b[1:])
    return {
        "dtype": dtype,
        "ours_tokens_per_s": round(mine, 1),
        "transformers_tokens_per_s": round(other, 1),
        "ratio": round(mine / other, 3),
        "ours_runs": [round(x, 1) for x in a],
        "transformers_runs": [round(x, 1) for x in b],
    }


def theirs_in_thread(model: torch.nn.Module, vocab: int, args: argparse.Namespace) -> float:
    torch.set_num_threads(args.threads)
    return theirs(model, vocab, args.paths, args.tokens)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="embedded", help="embedded, random-llama, or a folder")
    parser.add_argument("--paths", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=512)
    parser.add_argument("--runs", type=int, default=3, help="runs that count")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtypes", nargs="+", default=["float32", "bfloat16"])
    parser.add_argument("--out", type=Path, help="write the figures as JSON")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    with tempfile.TemporaryDirectory() as made:
        folder = {"embedded": embedded_path, "random-llama": lambda: random_llama(Path(made))}.get(
            args.model, lambda: Path(args.model)
        )()
        rows = [asyncio.run(compare(folder, dtype, args)) for dtype in args.dtypes]
    report = {
        "model": args.model,
        "paths": args.paths,
        "tokens_per_path": args.tokens,
        "threads": args.threads,
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
        "torch": torch.__version__,
        "transformers": transformers.__version__,
        "rows": rows,
    }
    print(json.dumps(report))
    if args.out:
        args.out.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
