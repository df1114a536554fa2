"""Inter-token time against the timing model, from a trace of the load generator.

The model: one decode pass of the default engine takes -25.74 p^2 + 54.01 p + 5.74 ms (at least 1), p being the share of
KV blocks in use when the pass begins. A stream that holds its prompt and g tokens uses ceil((prompt + g) / block) blocks
(prompts of these runs share nothing). So the blocks of every pass follow from the trace alone, and so does its time.
"""
import bisect
import collections
import csv
import math

BLOCK_TOKENS = 64
BLOCKS_TOTAL = 16384
# Tokens of one pass arrive together; passes are at least 5.7 ms apart.
SAME_PASS_MS = 2.5


def decode_ms(share):
    return max(1.0, -25.74 * share * share + 54.01 * share + 5.74)


def blocks_of(prompt, generated):
    return math.ceil((prompt + generated) / BLOCK_TOKENS)


def read_streams(path):
    """Arrival times in ms of every request's tokens, in order."""
    streams = collections.defaultdict(list)
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            streams[int(row["request"])].append(float(row["us"]) / 1000)
    return list(streams.values())


def compare(group, prompt):
    """Sums of measured and modelled gaps, and their count, for streams that ran side by side.

    Counted is the time in which all of them got tokens: from the pass that gave the last one its first token (so no
    prefill is inside) until the first one ended. Within it no gap is left out: a late token makes one gap longer and
    the next one shorter, and dropping either would make the mean wrong.
    """
    begin = max(times[0] for times in group) - SAME_PASS_MS
    end = min(times[-1] for times in group) + SAME_PASS_MS
    measured = expected = 0.0
    count = 0
    for times in group:
        for before, now in zip(times, times[1:]):
            if before < begin or now > end:
                continue
            held = (bisect.bisect_left(other, now - SAME_PASS_MS) for other in group)
            measured += now - before
            expected += decode_ms(sum(blocks_of(prompt, tokens) for tokens in held) / BLOCKS_TOTAL)
            count += 1
    return measured, expected, count


def error_percent(path, prompt, side_by_side):
    """Measured mean gap over the model's mean, minus 1, in %, and both means in ms; None when nothing can be compared.

    `side_by_side`: all requests of the trace ran at once; otherwise they ran one after the other.
    """
    streams = read_streams(path)
    groups = [streams] if side_by_side else [[times] for times in streams]
    parts = [compare(group, prompt) for group in groups]
    measured, expected, count = (sum(column) for column in zip(*parts))
    if not count:
        return None
    return {"itl_error_pct": (measured / expected - 1) * 100, "itl_ms": measured / count,
            "itl_model_ms": expected / count, "gaps": count}
