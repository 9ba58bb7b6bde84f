"""A group's stream as the caller's side ends it, when the step loop cannot."""

from engine.stream import GroupStream
from engine.types import (
    Committed,
    FinishReason,
    Group,
    GroupFinished,
    PathFinished,
    PathTokens,
    PathUsage,
    Phase,
    SamplingParams,
)

NOTHING = PathUsage(0, 0, 0)


def stream_of(n: int, first_index: int = 0) -> GroupStream:
    return GroupStream(Group((1, 2, 3), n, SamplingParams(50), first_index=first_index))


def tokens(index: int, generated: int, injected: int = 0) -> PathTokens:
    return PathTokens(index, (7,), Phase.ANSWER, generated // 2, generated, injected)


def ending(stream: GroupStream) -> list[object]:
    """What comes behind everything that has come before."""
    before = stream.events.qsize()
    stream.fail("gone")
    return [stream.events.get_nowait() for _ in range(stream.events.qsize())][before:]


def failed(index: int, usage: PathUsage, step: int) -> PathFinished:
    return PathFinished(index, FinishReason.ERROR, usage, step, "gone")


def test_each_live_path_ends_with_what_it_had_spent_and_the_group_with_the_sum():
    stream = stream_of(3, first_index=10)
    stream.put(Committed(4, (tokens(10, 1, injected=1), tokens(11, 1))))
    stream.put(Committed(5, (tokens(10, 2, injected=1), tokens(11, 2))))
    stream.put(PathFinished(11, FinishReason.EOS, PathUsage(2, 1, 0), 5))
    assert ending(stream) == [
        failed(10, PathUsage(2, 1, 2), 5),
        failed(12, NOTHING, -1),
        GroupFinished(3, 2, PathUsage(4, 2, 2)),
    ]


def test_paths_that_were_added_end_too_and_a_prompt_without_a_token_counts_nothing():
    stream = stream_of(1)
    stream.add((1, 2))
    assert ending(stream) == [*[failed(i, NOTHING, -1) for i in range(3)], GroupFinished(3, 0, NOTHING)]


def test_nothing_but_the_group_is_left_to_end_where_every_path_has():
    stream = stream_of(1)
    stream.put(PathFinished(0, FinishReason.CANCELLED, NOTHING, -1))
    assert ending(stream) == [GroupFinished(3, 0, NOTHING)]
