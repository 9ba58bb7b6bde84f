"""What a pool and a step can hold, and what a group needs of it at worst."""

from __future__ import annotations

from dataclasses import dataclass

from engine.errors import DoesNotFit
from engine.types import Group


@dataclass(frozen=True, slots=True)
class Limits:
    """pages: of the pool. step_tokens: rows of one step, decode and prefill together. block: rows that a chunk
    is cut into; every chunk but a prompt's last is a multiple of it. queue_steps: forward passes that may be launched
    at once while nobody can act on a token. idle_tokens: of a step in which nothing decodes, where that is more."""

    pages: int
    page_size: int
    max_paths: int
    step_tokens: int
    block: int
    context_length: int
    queue_steps: int = 1
    idle_tokens: int = 0

    def chunk_blocks(self, rows: int) -> int:
        """Blocks of prompt that fit into a step beside that many decoding rows."""
        tokens = self.step_tokens if rows else max(self.step_tokens, self.idle_tokens)
        return tokens // self.block - -(-rows // self.block)

    def shared_pages(self, group: Group) -> int:
        """Pages that the prompt fills and every path reads."""
        return (len(group.prompt_ids) - 1) // self.page_size

    def prompt_pages(self, group: Group) -> int:
        return -(-(len(group.prompt_ids) - 1) // self.page_size)

    def path_pages(self, group: Group) -> int:
        """Worst case of one path's own pages: the last sampled token is never written to the cache."""
        tokens = len(group.prompt_ids) - 1 + group.sampling.max_tokens
        return -(-tokens // self.page_size) - self.shared_pages(group)

    def refuse_impossible(self, group: Group) -> None:
        """Raises DoesNotFit, with the numbers, where one path of the group can never run."""
        prompt, budget = len(group.prompt_ids), group.sampling.max_tokens
        if prompt + budget > self.context_length:
            raise DoesNotFit(
                f"prompt of {prompt} tokens + budget of {budget} exceeds the context of {self.context_length}; "
                f"the largest budget here is {max(0, self.context_length - prompt)}"
            )
        need = self.prompt_pages(group) + self.path_pages(group)
        if need > self.pages:
            partial = self.prompt_pages(group) - self.shared_pages(group)  # each path has a copy of this page
            fits = (self.pages - partial) * self.page_size - (prompt - 1)
            raise DoesNotFit(
                f"prompt of {prompt} tokens + budget of {budget} needs {need} pages of {self.page_size}, the pool "
                f"has {self.pages}; the largest budget here is {max(0, fits)}"
            )
