"""The basics through the frontends of both releases (C-001, 003, 005, 008)."""

import pytest

from lib import load, sse, wait

pytestmark = pytest.mark.releases("r13", "r16")


@pytest.fixture(scope="module")
def frontend(shared_site):
    for _ in range(2):
        shared_site.start_worker()
    return shared_site.start_frontend().wait_ready(instances=2)


def test_c001_a_hundred_streams_over_two_workers(frontend):
    replies = frontend.many(
        [load.words(30, seed=2200 + i) for i in range(100)], max_tokens=10, nvext=load.WITH_WORKER
    )
    load.assert_full_streams(replies, 10)
    assert len(load.spread(replies)) == 2


def test_c003_unary_answers_count_their_tokens(frontend, observe):
    answer = frontend.chat(load.words(20, seed=2230), max_tokens=12, stream=False).json()
    assert answer["choices"][0]["finish_reason"] == "length"
    counts = ("prompt_tokens", "completion_tokens", "total_tokens")
    observe.same("usage", {name: answer["usage"][name] for name in counts})


def test_c005_completions_stream_and_not(frontend):
    unary = frontend.completion(load.words(20, seed=2250), max_tokens=8)
    assert unary.status == 200 and unary.json()["choices"][0]["finish_reason"] == "length"
    streamed = frontend.completion(load.words(20, seed=2251), max_tokens=8, stream=True)
    assert len(sse.contents(streamed.events)) == 8 and sse.is_done(streamed.events)


def test_a_client_that_leaves_frees_the_worker(site):
    worker = site.start_worker(speedup=1)
    frontend = site.start_frontend().wait_ready()
    stream = frontend.start_chat(load.words(20, seed=2260), max_tokens=150)
    load.wait_tokens([stream], 3)
    assert worker.inflight() == 1
    stream.close()
    wait.until(lambda: worker.inflight() == 0, 10, "the worker has let go")
    load.assert_full_stream(frontend.chat("still here", max_tokens=4), 4)
