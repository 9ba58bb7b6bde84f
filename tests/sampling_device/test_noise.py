"""The noise inside a kernel is that of engine.sampling: the words bit for bit, their logarithms to the last places."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from engine.sampling.device import noise
from engine.sampling.device.slots import WIDTH, Column
from engine.sampling.gumbel import Noise


@triton.jit
def _words(path, words, logs, count, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    whiten, multiply = noise.row_words(path)
    found = noise.token_words(at, whiten, multiply)
    tl.store(words + at, found.to(tl.int32, bitcast=True), mask=at < count)
    tl.store(logs + at, noise.log_exponential(found), mask=at < count)


@triton.jit
def _logs(words, logs, BLOCK: tl.constexpr):
    at = tl.arange(0, BLOCK)
    found = noise.log_exponential(tl.load(words + at).to(tl.uint32, bitcast=True))
    tl.store(logs + at, found)


def test_words_and_noise_of_a_path_equal_the_cpus(device: torch.device) -> None:
    vocab = 20_000
    cpu = Noise(3, vocab, torch.device("cpu"))
    for slot, (seed, index, position) in enumerate(
        ((0, 0, 0), (2**63 - 1, 4095, 123_456), (77, 3, 2**31 - 1))
    ):
        cpu.admit(slot, seed, index)
        state = torch.zeros(WIDTH, dtype=torch.int32)
        state[Column.KEY_0], state[Column.KEY_1] = cpu.keys[:, slot]
        state[Column.GENERATED] = position
        words = torch.zeros(vocab, dtype=torch.int32, device=device)
        logs = torch.zeros(vocab, device=device)
        _words[(triton.cdiv(vocab, 4096),)](state.to(device), words, logs, vocab, BLOCK=4096)
        rows = cpu._hash.rows(cpu.keys[:, [slot]], torch.tensor([position], dtype=torch.int32))
        assert torch.equal(words.cpu(), cpu._hash.cells(cpu._hash.tokens, *rows)[0])
        wanted = cpu.exponentials(torch.tensor([slot]), torch.tensor([position]))[0]
        torch.testing.assert_close(logs.cpu(), wanted, rtol=0, atol=4e-6)


def test_the_logarithms_hold_at_both_ends_of_the_words(device: torch.device) -> None:
    """log(-log1p(-v)) in float64, from the smallest v, which wins every race, to the largest, which must not be
    infinite; and around the places where 1 - v changes its last bits."""
    edges = [0, 1, 2, 3, 100, 127, 128, 129, 255, 256, 257, 1 << 12, (1 << 24) + 1, (1 << 31) - 1, 1 << 31]
    edges += [(1 << 30) + 5, (1 << 31) + (1 << 30), (1 << 32) - 257, (1 << 32) - 129, (1 << 32) - 1]
    words = torch.tensor(edges * 13)[:256]
    words[len(edges) :] = torch.randint(
        0, 1 << 32, (256 - len(edges),), generator=torch.Generator().manual_seed(1)
    )
    logs = torch.zeros(256, device=device)
    _logs[(1,)](torch.where(words >> 31 == 1, words - (1 << 32), words).int().to(device), logs, BLOCK=256)
    v = ((words.float() * 2.0**-32) + 2.0**-33).clamp(max=1 - 2.0**-24).double()
    assert logs.isfinite().all()
    torch.testing.assert_close(logs.cpu().double(), (-torch.log1p(-v)).log(), rtol=3e-7, atol=2e-7)
