"""NATS and etcd that stop, pause, lose their data or are absent. One stack per test."""

import time

import pytest

from lib import load, wait

TTL = 6  # seconds of every lease here, so that outages longer than it stay short


def start_pair(site, mode="kv"):
    env = {"ETCD_LEASE_TTL": TTL, "DYN_NATS_REQUEST_TIMEOUT_SECS": 2}
    worker = site.start_worker(env=env)
    return site.start_frontend(mode, env=env).wait_ready(), worker


def served(frontend):
    return frontend.chat("hello", max_tokens=1, stream=False, timeout=8).status == 200


def fresh_frontend_serves(site, worker, instance):
    """The 1.3 frontend ends when etcd comes back: a new one must find the same instance and be
    served by it.
    """
    frontend = site.start_frontend(env={"ETCD_LEASE_TTL": TTL}).wait_ready()
    assert frontend.instances() == {instance}
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_stream(reply, 10)
    assert load.worker_of(reply) == instance
    assert worker.child.is_running()


def test_c042_nats_restarted_empty(site, observe):
    frontend, worker = start_pair(site)
    before, keys = frontend.instances(), site.instance_keys()
    site.nats.kill()
    assert not served(frontend)
    site.nats.wipe()
    site.nats.start()
    began = time.monotonic()
    wait.until(lambda: served(frontend), 15, "a chat is served again")
    observe("seconds_until_served", round(time.monotonic() - began, 1))
    wait.until(
        lambda: all(served(frontend) for _ in range(20)), 15, "twenty chats in a row are served"
    )
    assert frontend.instances() == before and site.instance_keys() == keys
    load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 20, max_tokens=10), 10)
    assert frontend.child.is_running() and worker.child.is_running()


def test_c042_streams_outlive_a_nats_restart(site):
    """Answers don't go over NATS: a stream that has begun goes on while NATS is away."""
    worker = site.start_worker(speedup=1)
    frontend = site.start_frontend().wait_ready()
    stream = frontend.start_chat(load.HOT_PROMPT, max_tokens=300)
    load.wait_tokens([stream], 20)
    site.nats.kill()
    load.assert_full_stream(stream.wait(20), 300)
    site.nats.start()
    wait.until(lambda: served(frontend), 15, "a chat is served again")
    assert worker.child.is_running()


def lease_ttl(site, lease):
    return int(site.etcd.call("/v3/lease/timetolive", {"ID": str(lease)}).get("TTL", -1))


def test_u27_etcd_paused_for_most_of_the_lease(site, observe):
    """0.8 of the lease without an answer, begun right after a renewal: the worker keeps its lease
    and its records.
    """
    frontend, worker = start_pair(site)
    instance = worker.instance_id()
    lease = site.lease_of(instance)
    keys = site.keys_of_lease(lease)
    wait.until(lambda: lease_ttl(site, lease) < TTL - 1, TTL, "the lease has aged", every=0.02)
    wait.until(
        lambda: lease_ttl(site, lease) >= TTL - 1,
        TTL,
        "the lease has just been renewed",
        every=0.02,
    )
    site.etcd.pause()
    end = time.monotonic() + 0.8 * TTL
    while time.monotonic() < end:
        assert served(frontend), "chats are served while etcd is silent"
    site.etcd.resume()
    wait.until(lambda: lease_ttl(site, lease) >= TTL - 2, TTL + 2, "the lease is renewed again")
    assert site.keys_of_lease(lease) == keys
    assert worker.child.is_running() and worker.instance_id() == instance


def test_c098_etcd_down_for_three_seconds(site, observe):
    frontend, worker = start_pair(site)
    instance = worker.instance_id()
    site.etcd.kill()
    end = time.monotonic() + 3
    while time.monotonic() < end:
        assert served(frontend), "chats are served while etcd is away"
    site.etcd.start()
    wait.holds_for(worker.child.is_running, TTL, "the worker goes on")
    fresh_frontend_serves(site, worker, instance)


def outlives(site, worker, instance, expect):
    """After the loss of its lease: the reference ends with code 0, ours is back under the same id."""
    if expect("exits_when_the_lease_is_lost"):
        assert worker.child.wait_exit(3 * TTL)[0] == 0
        return
    wait.until(
        lambda: any(instance in key for key in site.instance_keys()),
        3 * TTL,
        "the instance is registered again",
    )
    wait.until(lambda: worker.health().status == 200, 5, "the worker calls itself healthy")
    fresh_frontend_serves(site, worker, instance)


def stop_etcd(site, how):
    site.etcd.pause() if how == "silent" else site.etcd.kill()


def start_etcd(site, how):
    if how == "silent":
        site.etcd.resume()
    else:
        site.etcd.start()


@pytest.mark.parametrize("how", ["gone", "silent"])
def test_c099_u27_etcd_away_for_longer_than_the_lease(site, expect, how):
    frontend, worker = start_pair(site)
    instance = worker.instance_id()
    stop_etcd(site, how)
    assert served(frontend), "a chat is served at first"
    if expect(f"exits_while_etcd_is_{how}"):
        wait.until(lambda: not worker.child.is_running(), 3 * TTL, "the worker ends")
    else:
        wait.until(
            lambda: worker.health().status == 503, 2 * TTL, "the worker calls itself unhealthy"
        )
        wait.holds_for(worker.child.is_running, 1.5 * TTL, "the worker goes on")
    start_etcd(site, how)
    outlives(site, worker, instance, expect)


def test_c100_etcd_back_without_its_data(site, expect):
    _, worker = start_pair(site)
    instance = worker.instance_id()
    site.etcd.kill()
    site.etcd.wipe()
    site.etcd.start()
    outlives(site, worker, instance, expect)


def test_a_revoked_lease(site, expect):
    _, worker = start_pair(site)
    instance = worker.instance_id()
    site.etcd.revoke(site.lease_of(instance))
    assert not any(instance in key for key in site.instance_keys())
    outlives(site, worker, instance, expect)


@pytest.mark.parametrize("absent", ["nats", "etcd"])
def test_c101_server_absent_at_start(site, observe, absent):
    server = site.nats if absent == "nats" else site.etcd
    server.kill()
    worker = site.start_worker()
    code, seconds = worker.child.wait_exit(20)
    assert code == 1
    observe("seconds", round(seconds, 1))
    log = worker.child.log_text().lower()
    assert (
        "nats server is running" in log if absent == "nats" else "check etcd server status" in log
    ), worker.child.log_tail()
