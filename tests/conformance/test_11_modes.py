"""Every router mode over one pair of workers: four frontends at once, one stack for the file."""

import pytest

from lib import load

MODES = ["round-robin", "random", "power-of-two", "least-loaded"]


@pytest.fixture(scope="module")
def workers(shared_site):
    return [shared_site.start_worker() for _ in range(2)]


@pytest.fixture(scope="module")
def frontends(shared_site, workers):
    started = {mode: shared_site.start_frontend(mode) for mode in MODES}
    for frontend in started.values():
        frontend.wait_ready(instances=2)
    return started


@pytest.mark.parametrize("mode", MODES)
def test_c002_hundred_streams_in_each_mode(frontends, workers, observe, mode):
    replies = frontends[mode].many([load.HOT_PROMPT] * 100, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 10)
    shares = load.spread(replies)
    assert set(shares) == {worker.instance_id() for worker in workers}, shares
    observe("shares", sorted(shares.values()))
    if mode == "round-robin":
        assert sorted(shares.values()) == [50, 50]


def test_c045_two_frontends_share_the_pool(frontends):
    pair = [frontends["round-robin"], frontends["random"]]
    assert pair[0].instances() == pair[1].instances()
    running = [pair[i % 2].start_chat(load.HOT_PROMPT, max_tokens=10) for i in range(100)]
    load.assert_full_streams([reply.wait() for reply in running], 10)
