"""Ranks and workers: data-parallel ranks, several workers in one process, several processes."""

import collections

import pytest

from lib import load, ports, sse, wait


def ranks(replies):
    found = [sse.nvext(reply.events, "worker_id")[0] for reply in replies]
    assert all(entry["prefill_dp_rank"] == entry["decode_dp_rank"] for entry in found)
    return collections.Counter(entry["decode_dp_rank"] for entry in found)


@pytest.fixture(scope="module")
def four_ranks(shared_site):
    worker = shared_site.start_worker(["--data-parallel-size", "4"])
    return shared_site.start_frontend().wait_ready(), worker


def test_four_dp_ranks_all_get_load(four_ranks, observe):
    frontend, _ = four_ranks
    replies = frontend.many(
        [load.words(60, seed=130 + i) for i in range(64)], max_tokens=20, nvext=load.WITH_WORKER
    )
    load.assert_full_streams(replies, 20)
    shares = ranks(replies)
    assert set(shares) == {0, 1, 2, 3}, shares
    observe("shares", sorted(shares.values()))


@pytest.mark.parametrize("rank", [0, 1, 2, 3])
def test_a_pinned_dp_rank_serves(four_ranks, rank):
    frontend, worker = four_ranks
    headers = {"x-worker-instance-id": str(int(worker.instance_id(), 16)), "x-dp-rank": str(rank)}
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=5, headers=headers, nvext=load.WITH_WORKER)
    load.assert_full_stream(reply, 5)
    assert ranks([reply]) == {rank: 1}


def test_several_workers_in_one_process_all_serve(site, observe):
    worker = site.start_worker(["--num-workers", "3"])
    frontend = site.start_frontend().wait_ready(instances=3)
    listed = frontend.instances()
    assert len(listed) == 3
    replies = frontend.many(
        [load.words(60, seed=1300 + i) for i in range(60)], max_tokens=10, nvext=load.WITH_WORKER
    )
    load.assert_full_streams(replies, 10)
    shares = load.spread(replies)
    assert set(shares) == listed and min(shares.values()) >= 5, shares
    observe("shares", sorted(shares.values()))
    worker.terminate()
    assert worker.child.wait_exit(10)[0] == 0
    assert site.instance_keys() == [
        key for key in site.instance_keys() if "router-discovery" in key
    ]


def test_two_processes_of_three_workers_all_serve(site):
    processes = [site.start_worker(["--num-workers", "3"]) for _ in range(2)]
    frontend = site.start_frontend("round-robin").wait_ready(instances=6)
    replies = frontend.many([load.HOT_PROMPT] * 120, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 10)
    assert sorted(load.spread(replies).values()) == [20] * 6
    processes[0].terminate()
    assert processes[0].child.wait_exit(10)[0] == 0
    wait.until(lambda: len(frontend.instances()) == 3, 5, "the other process's workers are left")
    replies = frontend.many([load.HOT_PROMPT] * 30, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 10)
    assert sorted(load.spread(replies).values()) == [10] * 3


def test_c016_a_taken_status_port_does_not_stop_a_worker_from_serving(site, expect):
    """Two processes are told the same status port: the second one goes on without it."""
    first = site.start_worker()
    frontend = site.start_frontend("round-robin").wait_ready()
    second = site.start_worker(env={"DYN_SYSTEM_PORT": first.system_port})
    frontend.wait_ready(instances=2)
    replies = frontend.many([load.HOT_PROMPT] * 20, max_tokens=5, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 5)
    assert sorted(load.spread(replies).values()) == [10, 10]
    assert first.child.is_running() and second.child.is_running()
    assert str(first.system_port) in second.child.log_text(), "the log names the port"
    assert ports.is_listening(first.system_port)
