"""The worker's own metrics and health, and what happens when clients go away."""

import pytest

from lib import http, load, sse, wait

COMPONENT_FAMILIES = {
    "dynamo_component_requests_total": "counter",
    "dynamo_component_request_duration_seconds": "histogram",
    "dynamo_component_request_bytes_total": "counter",
    "dynamo_component_response_bytes_total": "counter",
    "dynamo_component_inflight_requests": "gauge",
    "dynamo_component_cancellation_total": "counter",
    "dynamo_component_uptime_seconds": "gauge",
}
LONG = 1500  # tokens of a stream that is cut: 9 s at speed 1


@pytest.fixture(scope="module")
def pair(shared_site):
    """One worker at real speed and its frontend."""
    worker = shared_site.start_worker(speedup=1)
    return shared_site.start_frontend().wait_ready(), worker


@pytest.fixture
def frontend(pair):
    return pair[0]


@pytest.fixture
def worker(pair):
    wait.until(lambda: pair[1].inflight() == 0, 10, "nothing is left of the test before")
    return pair[1]


def counter(worker, name):
    return worker.metrics().total(f"dynamo_component_{name}", dynamo_endpoint="generate")


@pytest.fixture
def cuts(worker, expect):
    """cuts(n): waits until n more cancelled requests have been counted than at the start of the
    test.
    """

    def count():
        scraped = worker.metrics()
        total = scraped.total("dynamo_component_cancellation_total", dynamo_endpoint="generate")
        if expect("a_failed_write_may_count_in_place_of_a_cancellation"):
            total += scraped.total("dynamo_component_errors_total", error_type="publish_response")
        return total

    before = count()

    def waits(more):
        if expect("a_failed_write_may_count_in_place_of_a_cancellation"):
            wait.until(
                lambda: count() >= before + more, 5, f"{more} cancelled requests are counted"
            )
        else:
            wait.until(
                lambda: count() == before + more,
                5,
                f"exactly {more} cancelled requests are counted",
            )

    return waits


def test_c015_families_types_and_labels(frontend, worker, observe, expect):
    load.assert_full_stream(frontend.chat(load.HOT_PROMPT, max_tokens=5), 5)
    scraped = worker.metrics()
    have = {name: kind for name, kind in scraped.families.items() if name in COMPONENT_FAMILIES}
    assert have == COMPONENT_FAMILIES
    labels = {
        name: sorted(l)
        for name, l, _ in scraped.samples
        if name.startswith("dynamo_component_") and l.get("dynamo_endpoint") == "generate"
    }
    observe.same("labels", {name: labels[name] for name in labels if "errors_total" not in name})
    assert expect("engine_families") <= len(
        [name for name in scraped.families if name.startswith("vllm:")]
    )


def test_c015_counters_follow_the_traffic(frontend, worker):
    names = (
        "requests_total",
        "request_duration_seconds_count",
        "request_bytes_total",
        "response_bytes_total",
    )
    before = {name: counter(worker, name) for name in names}
    load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 5, max_tokens=5), 5)
    wait.until(
        lambda: counter(worker, "request_duration_seconds_count")
        == before["request_duration_seconds_count"] + 5,
        5,
        "five durations",
    )
    after = {name: counter(worker, name) for name in names}
    assert after["requests_total"] == before["requests_total"] + 5
    assert after["request_bytes_total"] > before["request_bytes_total"] + 5 * 75
    assert after["response_bytes_total"] > before["response_bytes_total"]


@pytest.mark.parametrize("path", ["/health", "/live"])
def test_health_and_live(worker, expect, path):
    reply = worker.health(path)
    assert reply.status == expect("health_status"), reply
    answer = reply.json()
    assert answer["status"] == expect("health_text")
    assert answer["endpoints"]["generate"] == "ready"


def test_unknown_status_path_is_404(worker):
    assert http.get(worker.system_port, "/nothing/here").status == 404


def test_c097_client_leaves_in_mid_stream(frontend, worker, cuts, expect, observe):
    gone = frontend.metrics().total("dynamo_frontend_disconnected_clients")
    stream = frontend.start_chat(load.HOT_PROMPT, max_tokens=LONG)
    load.wait_tokens([stream], 5)
    running = expect("running_gauge")
    assert counter(worker, "inflight_requests") == 1
    assert worker.metrics().total(running) == 1
    stream.close()
    wait.until(lambda: counter(worker, "inflight_requests") == 0, 3, "no request in flight")
    cuts(1)
    wait.until(
        lambda: frontend.metrics().total("dynamo_frontend_disconnected_clients") == gone + 1,
        3,
        "the frontend has noticed",
    )
    if expect("engine_runs_on_after_cancel"):
        wait.holds_for(
            lambda: worker.metrics().total(running) == 1,
            1,
            "the engine still simulates the request",
        )
    else:
        wait.until(
            lambda: worker.metrics().total(running) == 0, 1, "the engine has dropped the request"
        )
    load.assert_full_stream(frontend.chat(load.HOT_PROMPT, max_tokens=5), 5)


def test_u35_client_leaves_before_the_first_token(frontend, worker, cuts):
    stream = frontend.start_chat(load.words(60_000, seed=35), max_tokens=LONG)
    wait.until(
        lambda: counter(worker, "inflight_requests") == 1,
        10,
        "the request has reached the worker",
        every=0.01,
    )
    assert not sse.contents(stream.events), "the prompt takes longer than this"
    stream.close()
    wait.until(lambda: counter(worker, "inflight_requests") == 0, 10, "no request in flight")
    cuts(1)
    load.assert_full_stream(frontend.chat("hello", max_tokens=5), 5)


def test_u35_unary_client_leaves(frontend, worker, cuts):
    chat = frontend.start_chat(load.HOT_PROMPT, max_tokens=LONG, stream=False)
    wait.until(
        lambda: counter(worker, "inflight_requests") == 1, 5, "the request has reached the worker"
    )
    chat.close()
    wait.until(lambda: counter(worker, "inflight_requests") == 0, 5, "no request in flight")
    cuts(1)


def test_u35_a_finished_stream_is_no_cancellation(frontend, worker):
    before = counter(worker, "cancellation_total")
    stream = frontend.start_chat(load.HOT_PROMPT, max_tokens=3).wait()
    stream.close()
    load.assert_full_stream(stream, 3)
    wait.until(lambda: counter(worker, "inflight_requests") == 0, 5, "no request in flight")
    assert counter(worker, "cancellation_total") == before


def test_u34_64_streams_cut_after_five_tokens(frontend, worker, cuts):
    lines = worker.child.log_text().count("\n")
    streams = [
        frontend.start_chat(load.words(20, seed=3400 + i), max_tokens=LONG) for i in range(64)
    ]
    load.wait_tokens(streams, 5)
    for stream in streams:
        stream.close()
    wait.until(lambda: counter(worker, "inflight_requests") == 0, 5, "no request in flight")
    cuts(64)
    assert worker.child.is_running()
    load.assert_full_stream(frontend.chat(load.HOT_PROMPT, max_tokens=5), 5)
    assert worker.child.log_text().count("\n") - lines < 64 * 10, "no flood of log lines"


def test_u35_a_killed_frontend_frees_the_worker(site):
    """All connections break at once; another frontend is served as before."""
    worker = site.start_worker(speedup=1)
    first = site.start_frontend().wait_ready()
    second = site.start_frontend().wait_ready()
    streams = [first.start_chat(load.words(20, seed=350 + i), max_tokens=LONG) for i in range(8)]
    load.wait_tokens(streams, 5)
    assert worker.inflight() == 8
    first.child.kill()
    wait.until(lambda: worker.inflight() == 0, 5, "no request in flight")
    assert all(stream.wait(5).error for stream in streams)
    load.assert_full_streams(second.many([load.HOT_PROMPT] * 4, max_tokens=5), 5)
