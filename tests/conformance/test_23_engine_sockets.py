"""Engines that tell of their caches on ZMQ sockets of their own, and relays that read them there
(C-022, U5, U7; events.md 1.7, 1.8). On both event planes.

The relay of these tests speaks for a second worker, which has no cache events of its own: what routers
believe of it is exactly what came through the relay.
"""

import random

import pytest

from lib import load, ports, sse, wait

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 20
BLOCK = 8
RANKS = 2


def prompt(seed, blocks):
    chooser = random.Random(seed)
    return [chooser.randrange(1000, 30000) for _ in range(blocks * BLOCK)]


def number(worker):
    return int(worker.instance_id(), 16)


def of(router, worker):
    """{(rank, block hash, tokens hash)} that the router believes a worker to hold."""
    return {row[1:] for row in router.blocks() if row[0] == number(worker)}


def wait_blocks(router, worker, count):
    wait.until(
        lambda: len(of(router, worker)) == count,
        SYNC_SECONDS,
        f"{count} blocks of {worker.instance_id()}, now {len(of(router, worker))}",
    )


def sockets(count=RANKS):
    """Flags of a worker whose engine has sockets, and its base port."""
    base = ports.free_range(2 * count)
    return ["--zmq-kv-events-ports", base, "--zmq-replay-ports", base + count], base


def test_c022_choices_follow_the_cache(plane_site):
    flags, _ = sockets(4)
    worker = plane_site.start_worker(["--data-parallel-size", 4, *flags], block_size=BLOCK)
    other_flags, _ = sockets(4)
    other = plane_site.start_worker(["--data-parallel-size", 4, *other_flags], block_size=BLOCK)
    router = plane_site.start_router(BLOCK, instances=2)
    a, b, c, d, e, f = (prompt(seed, 1) for seed in range(220, 226))
    assert len(router.generate(a + b, 2, number(worker), 0)) == 2
    assert len(router.generate(a + c + d, 2, number(worker), 0)) == 2
    assert len(router.generate(a + c + e, 2, number(other), 1)) == 2
    wait_blocks(router, worker, 4)
    wait_blocks(router, other, 3)
    overlap = router.overlap(a + c + d + f)
    assert overlap.pop((number(worker), 0)) == 3 and overlap.pop((number(other), 1)) == 2
    assert set(overlap.values()) <= {0}
    assert router.best_worker(a + c + d + f)[:2] == (number(worker), 0)


def test_c025_hit_rates_are_those_of_the_reference(plane_site, observe):
    flags, _ = sockets(1)
    plane_site.start_worker(flags)
    frontend = plane_site.start_frontend().wait_ready()
    text = load.words(72, seed=2230)

    def hit_rate():
        reply = frontend.chat(text, max_tokens=4, nvext=load.WITH_TIMING)
        load.assert_full_stream(reply, 4)
        return round(sse.nvext(reply.events, "timing")[-1]["kv_hit_rate"], 4)

    assert hit_rate() == 0.0
    wait.until(lambda: hit_rate() > 0.5, SYNC_SECONDS, "the prefix is known")
    observe.same("hit_rates", [hit_rate() for _ in range(3)])


def test_dump_equals_the_cache_under_eviction(plane_site, expect):
    """A pool of 64 blocks, more prompts than it holds: a fresh router, which asks, is told what an old
    one, which listened, knows.
    """
    flags, _ = sockets(1)
    worker = plane_site.start_worker(
        ["--num-gpu-blocks-override", 64, *flags], speedup=1000, block_size=BLOCK
    )
    router = plane_site.start_router(BLOCK)
    chooser = random.Random(23)
    for index in range(100):
        tokens = prompt(chooser.randrange(5), 2) + prompt(2300 + index, chooser.randrange(1, 5))
        assert router.generate(tokens, chooser.randrange(1, 20))
    fresh = plane_site.start_router(BLOCK)
    wait.until(
        lambda: of(router, worker) and of(router, worker) == of(fresh, worker),
        SYNC_SECONDS,
        "both routers know the same blocks",
    )
    assert (len(of(fresh, worker)) <= 64) == expect("removals_reach_the_router")


@pytest.fixture
def pair(plane_site):
    """An engine with sockets, and a worker that is told about by a relay of them only."""
    flags, base = sockets()
    flags += ["--data-parallel-size", RANKS]
    engine = plane_site.start_worker(flags, speedup=1000, block_size=BLOCK, name="engine")
    told = plane_site.start_worker(
        ["--no-enable-prefix-caching", "--data-parallel-size", RANKS],
        block_size=BLOCK,
        name="told",
    )
    router = plane_site.start_router(BLOCK, instances=2)
    return plane_site, router, engine, told, base, flags


def fill(router, worker, seeds, blocks=3):
    for seed in seeds:
        assert router.generate(prompt(seed, blocks), 1, number(worker), seed % RANKS)


def wait_heard(router, engine, told, first_seed=5000):
    """Makes the engine store new blocks until some of each rank have come through the relay: what is
    said before its sockets are connected is lost to it.
    """
    seeds = iter(range(first_seed, first_seed + 1000))

    def heard():
        fill(router, engine, [next(seeds), next(seeds)], blocks=1)
        both = of(router, told) & of(router, engine)
        return {rank for rank, *_ in both} == set(range(RANKS))

    wait.until(heard, SYNC_SECONDS, "the relay hears both ranks")


def test_a_relay_tells_of_the_cache_it_listens_to(pair):
    site, router, engine, told, base, _ = pair
    site.start_relay(told, base, RANKS, BLOCK)
    wait_heard(router, engine, told)
    before = of(router, engine)
    fill(router, engine, range(10))
    wait_blocks(router, engine, len(before) + 30)
    fresh = of(router, engine) - before
    wait.until(lambda: fresh <= of(router, told), SYNC_SECONDS, "the relay's blocks are known")
    assert of(router, told) <= of(router, engine)
    late = site.start_router(BLOCK, instances=2)
    wait.until(
        lambda: of(late, told) == of(router, told), SYNC_SECONDS, "a late router knows them, too"
    )
    assert router.overlap(prompt(4, 3))[(number(told), 0)] == 3


def test_u5_a_relay_that_comes_late_asks_for_the_beginning(pair, expect):
    """The reference's relay knows only what is said after it came."""
    site, router, engine, told, base, _ = pair
    fill(router, engine, range(10))
    wait_blocks(router, engine, 30)
    beginning = of(router, engine)
    site.start_relay(told, base, RANKS, BLOCK, replay_port=base + RANKS)
    wait_heard(router, engine, told)
    assert (beginning <= of(router, told)) == expect("a_late_relay_knows_the_beginning")


def test_u7_an_engine_that_starts_anew_leaves_no_ghosts(pair, expect):
    """The reference's relay takes the new life for a continuation of the old one."""
    site, router, engine, told, base, flags = pair
    site.start_relay(told, base, RANKS, BLOCK, replay_port=base + RANKS)
    wait_heard(router, engine, told)
    fill(router, engine, range(10))
    wait.until(
        lambda: len(of(router, told)) >= 30, SYNC_SECONDS, "blocks of the old life are known"
    )
    engine.kill()
    again = site.start_worker(flags, speedup=1000, block_size=BLOCK, name="engine")
    wait.until(
        lambda: number(again) in router.instances(), SYNC_SECONDS, "the new engine is reached"
    )
    wait_heard(router, again, told, first_seed=7000)
    assert (of(router, told) <= of(router, again)) == expect("no_ghosts")


def test_a_relay_ends_and_its_workers_blocks_with_it(pair):
    site, router, engine, told, base, _ = pair
    relay = site.start_relay(told, base, RANKS, BLOCK)
    wait_heard(router, engine, told)
    relay.kill()
    wait.until(lambda: not of(router, told), 45, "nothing is known of the worker any more")
