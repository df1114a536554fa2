"""Messages of the event plane that never reach a router (U5, U15): the next one shows the gap, the router asks,
and is told what it missed.
"""

import json
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


@pytest.fixture
def zmq_cable(zmq_site):
    """zmq_cable(): from now on routers reach the one publisher of KV events through a proxy, which
    is returned.
    """
    made = []

    def cable():
        for key, (text, lease) in zmq_site.etcd.items("v1/event_channels/").items():
            record = json.loads(text)
            if record["topic"] != "kv-events":
                continue
            config = record["transport"]["config"]
            host, port = config["endpoint"].removeprefix("tcp://").rsplit(":", 1)
            made.append(proxy.Proxy((host, int(port))))
            config["endpoint"] = f"tcp://127.0.0.1:{made[-1].port}"
            zmq_site.etcd.put(key, json.dumps(record), lease)
        return made

    yield cable
    for one in made:
        one.close()


def test_u15_a_router_that_missed_zmq_messages_asks_for_them(zmq_site, zmq_cable):
    worker = zmq_site.start_worker(speedup=1000, block_size=BLOCK)
    worker.instance_id()
    wait.until(
        lambda: any("kv-events" in key for key in zmq_site.etcd.keys("v1/event_channels/")),
        SYNC_SECONDS,
        "the channel is registered",
    )
    cables = zmq_cable()
    router = zmq_site.start_router(BLOCK)
    fresh = iter(range(5000, 6000))

    def learns(least):
        assert router.generate(prompt(next(fresh), 2), 2)
        return len(router.blocks()) >= least

    wait.until(lambda: learns(20), SYNC_SECONDS, "the router hears of blocks")
    for cable in cables:
        cable.cut()
    known = len(router.blocks())
    for _ in range(10):
        assert router.generate(prompt(next(fresh), 2), 2)
    assert len(router.blocks()) == known
    for cable in cables:
        cable.mend()
    wait.until(lambda: learns(known + 22), SYNC_SECONDS, "the gap is seen and filled")
    wait_same(router, zmq_site.start_router(BLOCK), known + 22)
