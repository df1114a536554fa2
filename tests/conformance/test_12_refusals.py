"""Requests that a worker must refuse or cut short: one worker, so that a benched instance shows at
once.
"""

import time

import pytest

from lib import load, sse, wait

SECONDS = 20
BENCH_SECONDS = 10  # the 1.3 frontend takes a failed instance back after 5 s


@pytest.fixture(scope="module")
def stack_of_one(shared_site):
    worker = shared_site.start_worker()
    return shared_site.start_frontend().wait_ready(), worker


@pytest.fixture
def frontend(stack_of_one):
    """The file's frontend, with its worker in rotation before and after the test."""
    made = stack_of_one[0]
    heal(made)
    yield made
    heal(made)


def good(frontend):
    return frontend.chat("hello", max_tokens=1, stream=False, timeout=5).status == 200


def heal(frontend):
    """Waits until the worker is in rotation again; returns the seconds it took."""
    begin = time.monotonic()
    wait.until(lambda: good(frontend), BENCH_SECONDS, "the worker is in rotation again", every=0.1)
    return time.monotonic() - begin


def summary(reply):
    """What a client sees of a refusal: status, texts, and how a stream ended."""
    if reply.events:
        found = sse.errors(reply.events)
        return {"status": reply.status, "errors": found, "done": sse.is_done(reply.events)}
    return {
        "status": reply.status,
        "body": reply.json() if reply.body else None,
        "transport": bool(reply.error),
    }


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_c008_chat_without_max_tokens(frontend, expect, observe, kind):
    reply = frontend.chat("hello", max_tokens=None, stream=kind == "stream", timeout=5)
    healed = heal(frontend)
    assert summary(reply) == expect(f"no_max_tokens_{kind}")
    assert (healed > 1) == expect(
        "no_max_tokens_benches_the_worker"
    ), f"in rotation again after {healed:.2f} s"
    observe("seconds_out_of_rotation", round(healed, 1))


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_c009_max_tokens_zero(frontend, expect, observe, kind):
    reply = frontend.chat("hello", max_tokens=0, stream=kind == "stream", timeout=4)
    assert bool(reply.error) == expect("max_tokens_zero_hangs"), reply
    if not reply.error:
        assert summary(reply) == expect(f"max_tokens_zero_{kind}")
    assert good(frontend), "the next chat is served at once"


@pytest.mark.parametrize("kind", ["unary", "stream"])
def test_c007_stop_string(frontend, expect, observe, kind):
    reply = frontend.chat("hello", max_tokens=400, stop=["e"], stream=kind == "stream")
    healed = heal(frontend)
    assert reply.error is None
    if kind == "stream":
        tokens = len(sse.contents(reply.events))
        assert reply.status == 200 and tokens < 400, reply
        assert sse.finish_reasons(reply.events) == expect("stop_string_finish_reasons")
        assert sse.errors(reply.events) == expect("stop_string_stream_errors")
        assert "e" not in "".join(sse.contents(reply.events))
        assert sse.is_done(reply.events)
    else:
        assert reply.status == expect("stop_string_unary_status"), reply
    assert (healed > 1) == expect(
        "stop_string_benches_the_worker"
    ), f"in rotation again after {healed:.2f} s"


def test_c007_stop_string_leaves_nothing_running(frontend, stack_of_one):
    worker = stack_of_one[1]
    frontend.chat("hello", max_tokens=400, stop=["e"])
    wait.until(lambda: worker.inflight() == 0, 5, "no request in flight after a stop string")


@pytest.fixture
def small_pool(site):
    """A worker whose whole cache is 64 blocks of 4 tokens."""
    worker = site.start_worker(["--num-gpu-blocks-override", "64"], block_size=4)
    return site.start_frontend(flags=["--kv-cache-block-size", "4"]).wait_ready(), worker


def test_c010_prompt_larger_than_the_whole_cache(small_pool, expect):
    frontend, _ = small_pool
    text = load.words(300, seed=10)
    unary = frontend.chat(text, max_tokens=5, stream=False, timeout=10)
    stream = frontend.chat(text, max_tokens=5, timeout=10)
    assert summary(unary) == expect("too_long_prompt_unary")
    assert summary(stream) == expect("too_long_prompt_stream")
    assert good(frontend), "the next chat is served at once"


def test_c010_answer_that_cannot_fit_blocks_nobody_once_its_client_has_left(
    small_pool, expect, observe
):
    """A prompt that fits with an answer that doesn't (13 + 400 tokens in 256): the client gives up
    after 3 s.
    """
    frontend, worker = small_pool
    reply = frontend.chat(load.words(10, seed=13), max_tokens=400, timeout=3)
    observe("hangs", bool(reply.error))
    wait.until(lambda: worker.inflight() == 0, 5, "the request is no longer in flight")
    assert good(frontend) == expect("serves_after_too_long_answer")


@pytest.mark.parametrize("mode", ["direct", "round-robin"])
def test_dp_rank_out_of_range_is_refused(site, expect, observe, mode):
    worker = site.start_worker(["--data-parallel-size", "4"])
    frontend = site.start_frontend("kv").wait_ready()
    raw = site.start_frontend(mode)
    headers = {"x-worker-instance-id": str(int(worker.instance_id(), 16))}
    raw.wait_listed()

    def ask(rank, stream=False):
        return raw.chat(
            "hello",
            max_tokens=2,
            stream=stream,
            headers=headers | {"x-dp-rank": str(rank)},
            timeout=5,
        )

    wait.until(lambda: ask(0).status == 200, SECONDS, "rank 0 serves")
    load.assert_full_stream(ask(3, stream=True), 2)
    for kind in ("unary", "stream"):
        reply = ask(4, stream=kind == "stream")
        begin = time.monotonic()
        wait.until(lambda: ask(0).status == 200, BENCH_SECONDS, "rank 0 serves again", every=0.1)
        healed = time.monotonic() - begin
        assert summary(reply) == expect(f"dp_rank_{kind}")
        assert (healed > 1) == expect(
            "dp_rank_benches_the_worker"
        ), f"in rotation again after {healed:.2f} s"
    assert good(frontend)


def test_dp_rank_out_of_range_is_refused_by_the_kv_router_itself(site, observe):
    worker = site.start_worker(["--data-parallel-size", "4"])
    frontend = site.start_frontend("kv").wait_ready()
    before = worker.metrics().total("dynamo_component_requests_total", dynamo_endpoint="generate")
    headers = {"x-worker-instance-id": str(int(worker.instance_id(), 16)), "x-dp-rank": "4"}
    reply = frontend.chat("hello", max_tokens=2, stream=False, headers=headers)
    assert reply.status == 500, reply
    assert (
        worker.metrics().total("dynamo_component_requests_total", dynamo_endpoint="generate")
        == before
    )
    assert good(frontend)
