"""KV events: the router knows what the workers have cached (C-020, 025, 026, 031, 040 to 044, 050).

What a router that joins late knows comes from the workers' own answers to its queries; what an old
one knows comes from the events. Both must be the same set of blocks.
"""

import random

import pytest

from lib import load, sse, wait

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 15
BLOCK = 8
RANKS = 4


def prompt(seed, blocks, block_size=BLOCK):
    chooser = random.Random(seed)
    return [chooser.randrange(1000, 30000) for _ in range(blocks * block_size)]


def numbers(worker):
    return int(worker.instance_id(), 16)


def wait_blocks(router, count, what="blocks are known"):
    wait.until(
        lambda: len(router.blocks()) == count, SYNC_SECONDS, f"{count} {what}, now {len(router.blocks())}"
    )
    return router.blocks()


def wait_same(*routers, least=1):
    """Waits until all routers know the same blocks, and at least so many; returns them."""

    def agree():
        first, *others = [router.blocks() for router in routers]
        return len(first) >= least and all(other == first for other in others)

    wait.until(agree, SYNC_SECONDS, "the routers know the same blocks")
    return routers[0].blocks()


def hit_rate(reply):
    return sse.nvext(reply.events, "timing")[-1]["kv_hit_rate"]


def timed_chat(frontend, text):
    reply = frontend.chat(text, max_tokens=4, nvext=load.WITH_TIMING)
    load.assert_full_stream(reply, 4)
    return reply


# --- the frontend finds the worker that holds the prefix


def test_c025_repeated_prompt_hits_where_it_was(shared_site, observe):
    for _ in range(2):
        shared_site.start_worker()
    frontend = shared_site.start_frontend().wait_ready(instances=2)
    texts = (load.words(72, seed=25000 + number) for number in range(1000))

    def found_at_once():
        """A prompt that was known when it came again: before that the other worker may get it, too."""
        text = next(texts)
        first = timed_chat(frontend, text)
        assert hit_rate(first) == 0.0
        return (text, first) if hit_rate(timed_chat(frontend, text)) > 0.5 else None

    text, first = wait.until(found_at_once, SYNC_SECONDS, "a prefix is known")
    again = [timed_chat(frontend, text) for _ in range(3)]
    assert {load.worker_of(reply) for reply in again} == {load.worker_of(first)}
    observe.same("hit_rates", [round(hit_rate(reply), 4) for reply in again])


def test_c026_growing_prefix_stays_on_one_worker(shared_site, observe):
    frontend = shared_site.start_frontend().wait_ready(instances=2)
    units = (load.words(63, seed=26000 + number) for number in range(1000))

    def grown():
        """All replies, if each prompt was known when it came again (as above)."""
        unit = next(units)
        replies = []
        for times in range(1, 5):
            replies.append(timed_chat(frontend, unit * times))
            if hit_rate(timed_chat(frontend, unit * times)) < 0.8:
                return None
        return replies

    replies = wait.until(grown, SYNC_SECONDS, "each prompt is known when it comes again")
    assert len({load.worker_of(reply) for reply in replies}) == 1
    observe.same("hit_rates", [round(hit_rate(reply), 4) for reply in replies])


def test_c031_without_prefix_caching_nothing_is_reused(site):
    site.start_worker(["--no-enable-prefix-caching"])
    frontend = site.start_frontend().wait_ready()
    replies = [timed_chat(frontend, load.HOT_PROMPT) for _ in range(4)]
    assert [hit_rate(reply) for reply in replies] == [0.0] * 4


def test_c050_busy_thresholds_come_and_go(plane_site):
    flags = ["--num-gpu-blocks-override", 64]
    plane_site.start_worker(flags, speedup=0.05, block_size=4)
    frontend = plane_site.start_frontend(
        flags=["--active-decode-blocks-threshold", 0.2, "--kv-cache-block-size", 4]
    ).wait_ready()
    streams = [
        frontend.start_chat(load.words(40, seed=500 + i), max_tokens=20) for i in range(12)
    ]

    def probe():
        """A refusal comes at once; one that is let in is given up: its answer takes long."""
        reply = frontend.chat("probe", max_tokens=1, stream=False, timeout=1)
        return reply if reply.status == 529 else None

    refused = wait.until(probe, 20, "a busy pool is refused")
    assert refused.json() == {
        "message": "Service temporarily overloaded",
        "type": "Overloaded",
        "code": 529,
    }
    for stream in streams:
        stream.close()
    wait.until(
        lambda: frontend.chat("again", max_tokens=1, stream=False).status == 200,
        60,
        "an idle pool is open again",
    )


# --- what routers know


@pytest.fixture
def ranks_site(plane_site):
    flags = ["--data-parallel-size", RANKS]
    return plane_site, [plane_site.start_worker(flags, block_size=BLOCK) for _ in range(2)]


def test_c020_choices_follow_the_cache(ranks_site):
    site, workers = ranks_site
    router = site.start_router(BLOCK, instances=2)
    first, second = (numbers(worker) for worker in workers)
    a, b, c, d, e, f, g = (prompt(seed, 1) for seed in range(20, 27))
    assert len(router.generate(a + b, 2, first, 0)) == 2
    assert len(router.generate(a + c + d, 2, first, 0)) == 2
    assert len(router.generate(a + c + e, 2, second, 1)) == 2
    wait_blocks(router, 4 + 3)
    overlap = router.overlap(a + c + d + f)
    assert overlap.pop((first, 0)) == 3 and overlap.pop((second, 1)) == 2
    assert set(overlap.values()) <= {0}
    assert router.best_worker(a + c + d + f)[:2] == (first, 0)
    assert len(router.generate(a + c + d + f, 2)) == 2
    known = wait_blocks(router, 8)
    assert {row[:2] for row in known} == {(first, 0), (second, 1)}


def test_c040_late_router_learns_what_the_early_one_saw(ranks_site):
    site, workers = ranks_site
    early = site.start_router(BLOCK, instances=2)
    for seed in range(25):
        assert len(early.generate(prompt(400 + seed, 2), 10)) == 10
    late = site.start_router(BLOCK, instances=2)
    wait_same(early, late, least=50)
    for seed in range(25):
        assert len(late.generate(prompt(450 + seed, 2), 10)) == 10
    blocks = wait_same(early, late, least=100)
    assert len({row[:2] for row in blocks}) == 2 * RANKS


def test_dump_equals_the_cache_under_eviction(plane_site):
    """A pool of 64 blocks, 300 prompts of shared and own blocks: what is left is what a fresh
    router is told.
    """
    plane_site.start_worker(["--num-gpu-blocks-override", 64], speedup=1000, block_size=BLOCK)
    router = plane_site.start_router(BLOCK)
    chooser = random.Random(64)
    waiting = []
    for number in range(300):
        tokens = prompt(chooser.randrange(5), 2) + prompt(6000 + number, chooser.randrange(1, 5))
        waiting.append(router.start_generate(tokens, chooser.randrange(1, 20)))
        if len(waiting) == 8:
            assert waiting.pop(0)()
    for result in waiting:
        assert result()
    fresh = plane_site.start_router(BLOCK)
    blocks = wait_same(router, fresh)
    assert 32 <= len(blocks) <= 64


def test_c044_a_dead_worker_is_forgotten_and_a_new_one_learnt(plane_site):
    worker = plane_site.start_worker(block_size=BLOCK)
    router = plane_site.start_router(BLOCK)
    for seed in range(10):
        router.generate(prompt(440 + seed, 2), 2)
    wait_blocks(router, 20)
    worker.kill()
    wait.until(lambda: not router.blocks(), 45, "the dead worker's blocks are forgotten")
    plane_site.start_worker(block_size=BLOCK)
    wait.until(lambda: len(router.instances()) == 1, 40, "the new worker is reached")
    for seed in range(10):
        router.generate(prompt(440 + seed, 2), 2)
    late = plane_site.start_router(BLOCK)
    assert len(wait_same(router, late, least=20)) == 20


def test_c042_nats_restart_inside_a_burst(plane_site):
    """Events that the outage swallows are asked for again, or the next one tells that some are
    missing.
    """
    site = plane_site
    site.start_worker(speedup=1000, block_size=BLOCK)
    router = site.start_router(BLOCK)
    for seed in range(10):
        router.generate(prompt(420 + seed, 3), 4)
    wait_blocks(router, 30)
    running = [router.start_generate(prompt(4200 + seed, 30), 400) for seed in range(20)]
    site.nats.kill()
    site.nats.start()
    for result in running:
        try:
            result(40)
        except AssertionError:
            pass  # what was under way may fail; what matters is what the router knows afterwards

    def served():
        try:
            return len(router.generate(prompt(4299, 3), 4)) == 4
        except AssertionError:
            return False

    wait.until(served, 40, "a request is served again")
    fresh = site.start_router(BLOCK)
    router.generate(prompt(4300, 3), 4)
    wait_same(router, fresh, least=36)
