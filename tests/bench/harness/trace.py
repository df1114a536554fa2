"""A Mooncake trace made of a seed: mixed lengths, prefixes that many prompts share, arrivals at random."""
import json
import random

BLOCK = 64  # tokens of a hash id
PREFIXES = 200
PREFIX_SHARE = 0.6  # of the requests
FRESH = 1_000_000  # ids from here on are used once


def rows(count, seed, requests_per_s):
    """The same arguments give the same rows on every machine."""
    chance = random.Random(seed)
    prefixes = [[number * 1000 + block for block in range(chance.randint(2, 12))] for number in range(PREFIXES)]
    now, fresh = 0.0, FRESH
    for _ in range(count):
        now += chance.expovariate(requests_per_s) * 1000
        # A few prefixes are in most prompts, most are in few.
        prefix = prefixes[min(int(chance.paretovariate(0.9)) - 1, PREFIXES - 1)] if chance.random() < PREFIX_SHARE else []
        tail = chance.randint(1, 10)
        ids = [*prefix, *range(fresh, fresh + tail)]
        fresh += tail
        yield {"timestamp": int(now), "input_length": len(ids) * BLOCK - chance.randint(0, BLOCK - 1),
               "output_length": max(1, min(512, int(chance.lognormvariate(3.3, 0.9)))), "hash_ids": ids}


def write(path, count, seed=7, requests_per_s=60):
    with open(path, "w", encoding="ascii") as out:
        for row in rows(count, seed, requests_per_s):
            out.write(json.dumps(row, separators=(",", ":")) + "\n")
