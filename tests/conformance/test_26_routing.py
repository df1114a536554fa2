"""What routers make of our caches, loads and roles besides listening to events: their own predictions, queries,
durable events, pins, thresholds that are off, requests for given workers (C-021, 024, 028, 029, 032, 051, 054, 074).
"""

import random
import re

import pytest

from launch import ours
from lib import load, sse, stack, wait
from test_30_disagg import start_decode, start_prefill

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 15
BLOCK = 8


def prompt(seed, blocks):
    chooser = random.Random(seed)
    return [chooser.randrange(1000, 30000) for _ in range(blocks * BLOCK)]


def number(worker):
    return int(worker.instance_id(), 16)


def test_c021_without_events_a_router_predicts(site):
    """The workers tell of no blocks at all; a router that predicts finds its own choices again, one
    that listens does not.
    """
    workers = [site.start_worker(["--no-enable-prefix-caching"], block_size=BLOCK) for _ in range(2)]
    predicts = site.start_router(BLOCK, instances=2, use_kv_events=False)
    listens = site.start_router(BLOCK, instances=2)
    for seed, worker in enumerate(workers):
        tokens = prompt(2100 + seed, 4)
        assert len(predicts.generate(tokens, 2, number(worker), 0)) == 2
        assert predicts.best_worker(tokens)[0] == number(worker)
        assert predicts.best_worker(tokens)[2] >= 3
        assert listens.best_worker(tokens)[2] == 0


@pytest.mark.releases("r13")
def test_c024_durable_events_reach_early_and_late_routers(site):
    """KV events in a JetStream stream: a router that comes late reads it from its beginning."""
    flags = ["--durable-kv-events", "--data-parallel-size", 2]
    if site.impl is ours:
        flags += ["--dynamo-release", "1.3"]
    site.start_worker(flags, block_size=BLOCK)
    early = site.start_router(BLOCK, durable_kv_events=True)
    for seed in range(20):
        assert early.generate(prompt(2400 + seed, 2), 2)
    wait.until(lambda: len(early.blocks()) == 40, SYNC_SECONDS, "the events are heard")
    late = site.start_router(BLOCK, durable_kv_events=True)
    wait.until(lambda: late.blocks() == early.blocks(), SYNC_SECONDS, "the stream is read")
    assert len({row[1] for row in late.blocks()}) == 2


def test_c028_a_query_of_unrelated_prompts_changes_nothing(site):
    worker = site.start_worker(["--data-parallel-size", 4], block_size=BLOCK)
    router = site.start_router(BLOCK)
    chosen = [router.best_worker(prompt(2800 + seed, 3)) for seed in range(50)]
    assert {row[0] for row in chosen} == {number(worker)}
    ranks = {row[1] for row in chosen}
    assert ranks <= {0, 1, 2, 3} and len(ranks) >= 2
    assert not router.blocks()
    assert set(router.overlap(prompt(2800, 3)).values()) <= {0}


def test_c029_a_pin_that_is_not_there_is_refused_by_the_router(site, observe):
    worker = site.start_worker(["--data-parallel-size", 4], block_size=BLOCK)
    router = site.start_router(BLOCK)
    texts = []
    for pin in ((number(worker), 9), (12345, 0)):
        with pytest.raises(AssertionError) as refused:
            router.generate(prompt(2900, 2), 2, *pin)
        texts.append(re.sub(r"\d{6,}", "W", str(refused.value)))
    observe.same("refusals", texts)
    assert router.generate(prompt(2901, 2), 2, number(worker), 3)


def test_c032_an_evicted_prompt_is_found_nowhere(plane_site):
    flags = ["--num-gpu-blocks-override", 64]
    worker = plane_site.start_worker(flags, speedup=1000, block_size=BLOCK)
    router = plane_site.start_router(BLOCK)
    first = prompt(3200, 4)
    router.generate(first, 2)
    where = (number(worker), 0)
    wait.until(lambda: router.overlap(first)[where] == 4, SYNC_SECONDS, "it is known")
    for seed in range(40):
        router.generate(prompt(3201 + seed, 4), 2)
    wait.until(lambda: router.overlap(first).get(where, 0) == 0, SYNC_SECONDS, "it is gone")


def test_c051_without_thresholds_nobody_is_refused(site):
    site.start_worker(["--num-gpu-blocks-override", 64], speedup=0.05, block_size=4)
    frontend = site.start_frontend(flags=["--kv-cache-block-size", 4]).wait_ready()
    streams = [
        frontend.start_chat(load.words(40, seed=5100 + i), max_tokens=20) for i in range(12)
    ]
    probes = [frontend.start_chat(f"probe {i}", max_tokens=1) for i in range(4)]
    load.assert_full_streams([reply.wait(60) for reply in streams], 20)
    load.assert_full_streams([reply.wait(60) for reply in probes], 1)


def test_c074_prompts_for_each_rank_of_a_prefill_worker(site):
    prefill = start_prefill(site, flags=["--data-parallel-size", 4])
    start_decode(site)
    frontend = site.start_frontend(mode="round-robin").wait_listed(2)
    router = site.start_router(stack.BLOCK_SIZE, component="prefill")
    for rank in range(4):
        pin = {"prefill_worker_id": number(prefill), "prefill_dp_rank": rank}
        reply = frontend.chat(load.words(60, seed=7400 + rank), max_tokens=4, nvext=pin)
        load.assert_full_stream(reply, 4)
    wait.until(
        lambda: {row[:2] for row in router.blocks()}
        == {(number(prefill), rank) for rank in range(4)},
        SYNC_SECONDS,
        "every rank has stored something",
    )


@pytest.mark.releases("r13")
def test_c054_requests_name_both_their_workers(site):
    prefills = [start_prefill(site) for _ in range(2)]
    decodes = [start_decode(site) for _ in range(2)]
    frontend = site.start_frontend(mode="direct").wait_listed(4)
    for prefill in prefills:
        for decode in decodes:
            headers = {
                "x-worker-instance-id": str(number(decode)),
                "x-prefill-instance-id": str(number(prefill)),
            }
            reply = frontend.chat("hello there", headers=headers, max_tokens=4, nvext=load.WITH_WORKER)
            load.assert_full_stream(reply, 4)
            (ids,) = sse.nvext(reply.events, "worker_id")[:1]
            assert ids["prefill_worker_id"] == number(prefill)
            assert ids["decode_worker_id"] == number(decode)
    assert frontend.chat("hello", stream=False, max_tokens=2).status == 500
