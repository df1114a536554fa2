"""Prompts, and checks that many tests make on many answers."""

import collections
import random

from lib import sse, wait

_WORDS = [
    onset + vowel
    for onset in "b c d f g h j k l m n p r s t v w z br cl dr".split()
    for vowel in "a i o u ai ea ou".split()
]


def words(count, seed):
    """A text of `count` pseudo-words, each one token of the tiny model; the same seed gives the
    same text.
    """
    chooser = random.Random(seed)
    return "".join(f" {chooser.choice(_WORDS)}" for _ in range(count))


HOT_PROMPT = words(72, seed=75)


def assert_full_stream(reply, tokens):
    """One complete streamed chat: 200, exactly `tokens` content chunks, one finish reason `length`,
    [DONE], no error.
    """
    assert reply.error is None and reply.status == 200, reply
    assert not sse.errors(reply.events), reply
    assert len(sse.contents(reply.events)) == tokens, (len(sse.contents(reply.events)), reply)
    assert sse.finish_reasons(reply.events) == ["length"], reply
    assert sse.is_done(reply.events), reply


def assert_full_streams(replies, tokens):
    for reply in replies:
        assert_full_stream(reply, tokens)


def is_full_stream(reply, tokens):
    """The same as a question."""
    try:
        assert_full_stream(reply, tokens)
    except AssertionError:
        return False
    return True


def worker_of(reply):
    """Hex id of the worker that served a chat sent with WITH_WORKER (streamed or not)."""
    events = reply.events or [reply.json()]
    return f"{sse.nvext(events, 'worker_id')[0]['decode_worker_id']:x}"


def spread(replies):
    """How many answers each worker gave."""
    return collections.Counter(worker_of(reply) for reply in replies)


WITH_WORKER = {"extra_fields": ["worker_id"]}
WITH_TIMING = {"extra_fields": ["worker_id", "timing"]}


def wait_tokens(replies, count, seconds=20):
    """Waits until every running stream has at least `count` content chunks."""
    wait.until(
        lambda: all(len(sse.contents(r.events)) >= count for r in replies),
        seconds,
        f"{count} tokens in every stream",
    )


def by_worker(replies):
    """Running streams sent WITH_WORKER, grouped by the hex id of their first worker."""
    groups = collections.defaultdict(list)
    for reply in replies:
        groups[worker_of(reply)].append(reply)
    return groups
