"""Draw a token by a race of exponentials: the Gumbel-max trick with noise from a hash.

argmax(scores - log E), E ~ Exp(1) independent for each token, is a sample of softmax(scores) (Gumbel 1954;
Maddison, Tarlow and Minka, "A* sampling", 2014). One pass over the vocabulary, no sort, no normalisation, and
two distributions that differ little give the same token most of the time.

E = -log1p(-v) with v = (word + 1/2) / 2^32: a small E, which is what wins, comes from a small v, where float32
resolves every word exactly. The usual form -log(u) would resolve winners to 2^-24 only.
"""

from __future__ import annotations

import torch
from torch import Tensor

from engine.sampling.hashing import WordHash, path_key

# Cells of one block, about 256 KiB for each of three buffers: they stay in a core's cache. A whole
# 16 x 151,936 matrix passed through memory once per operation takes several times longer.
_BLOCK_CELLS = 1 << 16


class Noise:
    """The noise of every slot's path. keys: [2, slots] int32 on `device`, the name of the slot's path."""

    def __init__(self, slots: int, vocab_size: int, device: torch.device) -> None:
        self.keys = torch.zeros((2, slots), dtype=torch.int32, device=device)
        self._hash = WordHash(vocab_size, device)
        self._scale = torch.tensor(-(2.0**-32), device=device)
        self._half = torch.tensor(-(2.0**-33), device=device)
        self._most = torch.tensor(-(1 - 2.0**-24), device=device)

    def admit(self, slot: int, seed: int, index: int) -> None:
        self.keys[:, slot] = torch.tensor(path_key(seed, index), dtype=torch.int32)

    def draw(self, scores: Tensor, slots: Tensor, positions: Tensor, weight: Tensor | None) -> Tensor:
        """One token for each row: [rows] int64.

        scores: [rows, vocab] float32, logits over temperature. slots, positions: [rows] int64; the position is
        the number of tokens the path has generated. weight: [rows, 1] float32 factor of the noise, 0 for a
        greedy row; None where every row has its full noise.
        """
        rows, vocab = scores.shape
        whiten, multiply = self._hash.rows(self.keys.index_select(1, slots), positions.to(torch.int32))
        width = max(1, _BLOCK_CELLS // max(rows, 1))
        if vocab <= width:
            return self._race(scores, self._hash.tokens, whiten, multiply, weight).argmax(1)
        bests: list[Tensor] = []
        winners: list[Tensor] = []
        for start in range(0, vocab, width):
            part = slice(start, start + width)
            race = self._race(scores[:, part], self._hash.tokens[part], whiten, multiply, weight)
            best, winner = race.max(1)
            bests.append(best)
            winners.append(winner + start)
        block = torch.stack(bests).argmax(0, keepdim=True)
        return torch.stack(winners).gather(0, block).squeeze(0)

    def exponentials(self, slots: Tensor, positions: Tensor) -> Tensor:
        """log E of every token of the given rows: [rows, vocab] float32. What `draw` subtracts; for tests."""
        whiten, multiply = self._hash.rows(self.keys.index_select(1, slots), positions.to(torch.int32))
        return self._log_exponential(self._hash.cells(self._hash.tokens, whiten, multiply))

    def _race(
        self, scores: Tensor, tokens: Tensor, whiten: Tensor, multiply: Tensor, weight: Tensor | None
    ) -> Tensor:
        noise = self._log_exponential(self._hash.cells(tokens, whiten, multiply))
        if weight is not None:
            noise.mul_(weight)  # log E is finite, so 0 leaves the scores of a greedy row as they are
        return torch.sub(scores, noise, out=noise)

    def _log_exponential(self, words: Tensor) -> Tensor:
        """log(-log1p(-v)). words: [rows, n] int32, read as unsigned. Returns float32, finite.

        The factors are powers of two, hence exact: fused or not, the sum rounds once. The clamp is for the
        128 largest words, whose v rounds to 1 and would give an infinite E.
        """
        minus_v = words.view(torch.uint32).to(torch.float32).mul_(self._scale).add_(self._half)
        return minus_v.clamp_min_(self._most).log1p_().neg_().log_()
