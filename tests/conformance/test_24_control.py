"""Live control: clearing the cache (C-033), draining one of two workers, a client of the wheel at the control endpoint."""

import threading

import pytest

from launch import ours
from lib import control, endpoint_client, http, load, ports, wait

pytestmark = pytest.mark.releases("r13", "r16")

PROMPT = list(range(100, 180))  # five blocks


def _outcomes(answers):
    """What the instances of an endpoint said, without their names."""
    return [items for _, items in sorted(answers.items())]


def test_c033_the_frontend_has_no_route_that_clears(site, observe):
    site.start_worker()
    frontend = site.start_frontend().wait_ready()
    answer = http.start(frontend.port, "POST", "/clear_kv_blocks", {}).wait()
    observe.same("status", answer.status)


@pytest.mark.parametrize("outlet", ["in-process", "sockets"])
def test_c033_a_client_clears_by_the_endpoint_that_dynamos_workers_have(plane_site, expect, outlet):
    """Also when the engine tells of its cache on sockets of its own, where a clear is a batch of
    AllBlocksCleared.
    """
    site = plane_site
    base = ports.free_range(2)
    flags = ["--zmq-kv-events-ports", base, "--zmq-replay-ports", base + 1]
    worker = site.start_worker(flags if outlet == "sockets" else [])
    router = site.start_router()
    router.generate(PROMPT, 2)
    wait.until(router.blocks, 10, "the router knows blocks of the worker")
    served = expect("clear_endpoint")
    answers = endpoint_client.ask(site, "mocker", "clear_kv_blocks", {}, instances=len(served))
    assert _outcomes(answers) == served
    if site.impl is ours:
        assert list(answers) == [worker.instance_id()]
        wait.until(lambda: not router.blocks(), 10, "the router has forgotten them")
        fresh = site.start_router()
        assert not fresh.blocks(), "an empty dump"
        router.generate(PROMPT, 2)
        wait.until(router.blocks, 10, "and learns them anew")


def test_a_client_of_the_wheel_reads_the_stream_of_the_control_endpoint(site, expect):
    site.start_worker(["--data-parallel-size", "2"])
    site.start_router()
    count = expect("control_instances")
    stats = endpoint_client.ask(
        site,
        "mocker",
        "control",
        {"version": 1, "op": "stats", "interval_ms": 20},
        items=3,
        instances=count,
    )
    for items in stats.values():
        assert [item["type"] for item in items] == ["stats"] * 3
        assert [rank["rank"] for rank in items[0]["ranks"]] == [0, 1]
    cleared = endpoint_client.ask(
        site, "mocker", "control", {"version": 1, "op": "clear_kv_blocks"}, instances=count
    )
    for items in cleared.values():
        assert [item["type"] for item in items] == ["cleared"]
    assert len(stats) == len(cleared) == count


def test_a_client_of_the_wheel_is_told_what_is_wrong(site, expect):
    site.start_worker()
    site.start_router()
    count = expect("control_instances")
    answers = endpoint_client.ask(
        site, "mocker", "control", {"version": 1, "op": "explode"}, instances=count
    )
    assert len(answers) == count
    for items in answers.values():
        assert len(items) == 1
        assert "'explode' is not known (allowed: stats, clear_kv_blocks" in str(items[0]["error"])


def test_no_request_fails_while_one_of_two_workers_drains_and_comes_back(site):
    workers = [site.start_worker() for _ in range(2)]
    # A request that is being routed while the frontend learns of the drain is the frontend's to retry.
    frontend = site.start_frontend(mode="round-robin", migration_limit=1).wait_ready(instances=2)
    drained, other = (worker.instance_id() for worker in workers)
    long = [frontend.start_chat(load.words(20, seed=9), max_tokens=150) for _ in range(4)]
    load.wait_tokens(long, 1)
    replies, stop = [], threading.Event()

    def keep_asking():
        number = 0
        while not stop.is_set():
            number += 1
            replies.append(frontend.chat(load.words(12, seed=number), max_tokens=4))

    threads = [threading.Thread(target=keep_asking) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        switch = control.Switch(site, drained).drain()
        wait.until(lambda: frontend.instances() == {other}, 10, "the frontend lists the other one")
        mark = len(replies)
        wait.until(lambda: len(replies) > mark + 10, 30, "requests go on")
        switch.resume()
        wait.until(lambda: frontend.instances() == {drained, other}, 10, "both are listed")
        before = workers[0].metrics().total(
            "dynamo_component_requests_total", dynamo_endpoint="generate"
        )
        wait.until(
            lambda: workers[0].metrics().total(
                "dynamo_component_requests_total", dynamo_endpoint="generate"
            )
            > before,
            30,
            "traffic is back",
        )
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    load.assert_full_streams(replies, 4)
    load.assert_full_streams([reply.wait() for reply in long], 150)
