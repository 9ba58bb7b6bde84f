"""Text of a growing sequence of ids, piece by piece."""

from __future__ import annotations

import codecs
from collections.abc import Iterable

from engine.text.pieces import Pieces


class Detokenizer:
    """Turns ids into text as they come. What `push` and `flush` return, joined, is the text of all ids.

    Only whole characters come out: at most three bytes of a started one are held back. Bytes that can never
    become a character are U+FFFD at once, one for each maximal invalid part (Unicode 16, section 3.9), so the cost
    of a token is the length of its bytes, whatever came before. Re-decoding a window of ids until its text is valid,
    as other engines do, is quadratic on a stream that never becomes valid.
    """

    def __init__(self, pieces: Pieces) -> None:
        self._pieces = pieces
        self._utf8 = codecs.getincrementaldecoder("utf-8")("replace")
        self._drops_space = pieces.drops_space

    def push(self, ids: Iterable[int]) -> str:
        """The text that these ids complete."""
        data = b"".join(self._pieces[token] for token in ids)
        if self._drops_space and data:
            self._drops_space = False
            data = data.removeprefix(b" ")
        return self._utf8.decode(data)

    def flush(self) -> str:
        """The end of the text: U+FFFD where a character was left unfinished. The next text may start here."""
        text = self._utf8.decode(b"", final=True)
        self._utf8.reset()
        self._drops_space = self._pieces.drops_space
        return text


def decode(pieces: Pieces, ids: Iterable[int]) -> str:
    """The text of a whole sequence."""
    detokenizer = Detokenizer(pieces)
    return detokenizer.push(ids) + detokenizer.flush()
