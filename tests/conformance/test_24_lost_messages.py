"""Messages of the event plane that never reach a router (U5, U15): the next one shows the gap, the router asks,
and is told what it missed.
"""

import random
from collections import Counter

import pytest

from lib import proxy, wait

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 30
BLOCK = 8


def prompt(seed, blocks):
    chooser = random.Random(seed)
    return [chooser.randrange(1000, 30000) for _ in range(blocks * BLOCK)]


@pytest.fixture
def cable(site):
    """Between the NATS server and the router that is about to lose something."""
    made = proxy.Proxy(("127.0.0.1", site.nats.port))
    yield made
    made.close()


def wait_same(one, other, least):
    wait.until(
        lambda: len(one.blocks()) >= least and one.blocks() == other.blocks(),
        SYNC_SECONDS,
        "both routers know the same blocks",
    )


@pytest.mark.parametrize("flags", [[], ["--data-parallel-size", 2]], ids=["one-rank", "two-ranks"])
def test_u15_a_router_that_missed_messages_asks_for_them(site, cable, flags):
    worker = site.start_worker(flags, speedup=1000, block_size=BLOCK)
    steady = site.start_router(BLOCK)
    loser = site.start_router(BLOCK, env={"NATS_SERVER": f"nats://127.0.0.1:{cable.port}"})
    ranks = range(2 if flags else 1)
    number = int(worker.instance_id(), 16)

    def fill(seeds):
        for seed in seeds:
            for rank in ranks:
                assert steady.generate(prompt(seed * 2 + rank, 2), 1, number, rank)

    fill(range(10))
    wait_same(steady, loser, 20 * len(ranks))
    cable.cut()
    fill(range(10, 20))
    wait.until(
        lambda: len(steady.blocks()) == 40 * len(ranks), SYNC_SECONDS, "one router hears everything"
    )
    assert len(loser.blocks()) == 20 * len(ranks)
    cable.mend()
    fresh = iter(range(20, 1000))

    def caught_up():
        fill([next(fresh)])  # what is said next shows that something is missing
        known = Counter(rank for _, rank, *_ in loser.blocks())
        return all(known[rank] > 30 for rank in ranks)

    wait.until(caught_up, SYNC_SECONDS, "the gap is seen and filled")
    wait_same(steady, loser, 42 * len(ranks))
