"""Workers that end: SIGKILL, SIGTERM, drain limits, restarts. One stack per test."""

import signal
import time

import pytest

from lib import load, ports, sse, wait

LEASE_SECONDS = 10
KILLED_ERROR = {
    "error": {"message": "Internal server error", "type": "internal_server_error", "code": 500}
}


def two_workers(site, mode="round-robin", migration_limit=0, env=None, speedup=1):
    """A frontend and two single-worker processes by instance id."""
    workers = [site.start_worker(speedup=speedup, env=env) for _ in range(2)]
    frontend = site.start_frontend(mode, migration_limit=migration_limit).wait_ready(instances=2)
    return frontend, {worker.instance_id(): worker for worker in workers}


def six_streams(frontend, tokens, until):
    """Six streams, half on each worker, each with at least `until` tokens by now; by worker id."""
    streams = [
        frontend.start_chat(load.words(20, seed=i), max_tokens=tokens, nvext=load.WITH_WORKER)
        for i in range(6)
    ]
    load.wait_tokens(streams, until)
    groups = load.by_worker(streams)
    assert sorted(len(group) for group in groups.values()) == [3, 3]
    return groups


def migrations(frontend):
    return frontend.metrics().total(
        "dynamo_frontend_model_migration_total", migration_type="ongoing_request"
    )


def chat_status(frontend):
    return frontend.chat("hello", max_tokens=1, stream=False, timeout=10).status


def left_or_draining(frontend, instance, expect):
    """After a SIGTERM: of ours the frontend learns at once that it has left; the reference stays
    listed.

    Chats that wait for their connection at that very moment are cut off by the 1.3 frontend itself
    (it cancels what is pending for a removed instance), so whoever wants to know what happens to
    later chats waits here first.
    """
    if expect("instance_listed_while_draining"):
        wait.holds_for(
            lambda: instance in frontend.instances(), 0.3, "the frontend goes on listing it"
        )
    else:
        wait.until(
            lambda: instance not in frontend.instances(),
            2,
            "the frontend has dropped it",
            every=0.01,
        )


def test_c090_c092_killed_worker_breaks_its_streams_and_leaves_with_its_lease(site, observe):
    frontend, workers = two_workers(site)
    groups = six_streams(frontend, 150, until=30)
    victim, survivor = groups
    lease = site.lease_of(victim)
    workers[victim].kill()
    killed_at = time.monotonic()
    for stream in groups[victim]:
        stream.wait(10)
        assert stream.status == 200 and 30 <= len(sse.contents(stream.events)) < 150, stream
        assert sse.errors(stream.events) == [KILLED_ERROR] and sse.is_done(stream.events), stream
    load.assert_full_streams([stream.wait() for stream in groups[survivor]], 150)
    assert migrations(frontend) == 3
    replies = frontend.many([load.HOT_PROMPT] * 10, max_tokens=2, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 2)
    wait.until(
        lambda: site.keys_of_lease(lease) == [],
        LEASE_SECONDS + 5,
        "etcd has dropped every key of the worker",
    )
    wait.until(lambda: frontend.instances() == {survivor}, 5, "the frontend has dropped it too")
    observe("seconds_until_gone", round(time.monotonic() - killed_at, 1))
    load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 10, max_tokens=2), 2)


def test_c091_killed_workers_streams_migrate(site, observe):
    frontend, workers = two_workers(site, migration_limit=3)
    groups = six_streams(frontend, 150, until=30)
    victim = next(iter(groups))
    workers[victim].kill()
    for name, group in groups.items():
        load.assert_full_streams([stream.wait() for stream in group], 150)
        assert {load.worker_of(stream) for stream in group} == {name}
    assert migrations(frontend) == 3


def test_c093_sigterm_breaks_no_stream(site, expect, observe):
    frontend, workers = two_workers(site)
    groups = six_streams(frontend, 250, until=30)
    leaving = next(iter(groups))
    lease = site.lease_of(leaving)
    key = next(k for k in site.instance_keys() if k.endswith(f"/generate/{leaving}"))
    workers[leaving].terminate()
    if expect("instance_listed_while_draining"):
        wait.holds_for(
            lambda: key in site.instance_keys(), 0.3, "the instance stays listed while streams run"
        )
    else:
        wait.until(lambda: key not in site.instance_keys(), 0.5, "the instance record goes first")
    assert not all(
        stream.finished.is_set() for stream in groups[leaving]
    ), "streams are still running"
    code, _ = workers[leaving].child.wait_exit(20)
    assert code == 0
    assert site.keys_of_lease(lease) == []
    for group in groups.values():
        load.assert_full_streams([stream.wait() for stream in group], 250)
    assert migrations(frontend) == 0
    wait.until(lambda: len(frontend.instances()) == 1, 5, "the frontend has dropped it")
    load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 4, max_tokens=2), 2)


def test_c094_new_chats_are_refused_while_the_only_worker_drains(site, expect, observe):
    worker = site.start_worker(speedup=1)
    frontend = site.start_frontend().wait_ready()
    instance = worker.instance_id()
    stream = frontend.start_chat(load.HOT_PROMPT, max_tokens=900)
    load.wait_tokens([stream], 30)
    worker.terminate()
    left_or_draining(frontend, instance, expect)
    assert chat_status(frontend) == expect("status_while_draining")
    assert not stream.finished.is_set() and worker.child.is_running()
    assert ports.is_listening(worker.system_port) == expect("status_server_while_draining")
    load.assert_full_stream(stream.wait(20), 900)
    assert worker.child.wait_exit(5)[0] == 0


def test_c094_second_signal(site, expect):
    worker = site.start_worker(speedup=1)
    frontend = site.start_frontend().wait_ready()
    instance = worker.instance_id()
    stream = frontend.start_chat(load.HOT_PROMPT, max_tokens=900)
    load.wait_tokens([stream], 30)
    worker.terminate()
    left_or_draining(frontend, instance, expect)
    worker.terminate()
    code, _ = worker.child.wait_exit(20)
    assert code == 0
    stream.wait(5)
    if expect("second_signal_ends_streams"):
        assert 30 <= len(sse.contents(stream.events)) < 900
        assert sse.errors(stream.events) == [KILLED_ERROR] and sse.is_done(stream.events), stream
    else:
        load.assert_full_stream(stream, 900)


@pytest.mark.parametrize("limit", [0, 3], ids=["no-migration", "migration"])
def test_c095_drain_limit(site, expect, observe, limit):
    env = {"DYN_RUNTIME_GRACEFUL_SHUTDOWN_TIMEOUT_SECS": 1}
    frontend, workers = two_workers(site, migration_limit=limit, env=env)
    groups = six_streams(frontend, 500, until=30)
    leaving, staying = groups
    workers[leaving].terminate()
    code, seconds = workers[leaving].child.wait_exit(5)
    assert code == 0 and seconds >= 0.8, seconds
    observe("seconds", round(seconds, 1))
    load.assert_full_streams([stream.wait() for stream in groups[staying]], 500)
    ended = [stream.wait() for stream in groups[leaving]]
    if limit and expect("drain_limit_migrates"):
        load.assert_full_streams(ended, 500)
        assert migrations(frontend) == 3
        return
    for stream in ended:
        assert stream.status == 200 and 30 <= len(sse.contents(stream.events)) < 500, stream
        assert sse.errors(stream.events) == [KILLED_ERROR] and sse.is_done(stream.events), stream


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=["sigterm", "sigint"])
def test_c096_idle_worker_ends_at_once(site, observe, number):
    worker = site.start_worker()
    frontend = site.start_frontend().wait_ready()
    lease = site.lease_of(worker.instance_id())
    worker.child.signal(number)
    code, seconds = worker.child.wait_exit(5)
    assert code == 0
    observe("seconds", round(seconds, 2))
    assert site.keys_of_lease(lease) == []
    wait.until(lambda: frontend.models() == [], 2, "no model is listed")
    assert chat_status(frontend) == 404


class Load:
    """Chats at a steady rate, each of some 60 ms, until stopped."""

    def __init__(self, frontend, per_second):
        self.frontend, self.pause, self.replies = frontend, 1 / per_second, []

    def run_for(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            self.replies.append(
                self.frontend.start_chat(
                    load.words(20, seed=len(self.replies)), max_tokens=10, timeout=20
                )
            )
            time.sleep(self.pause)  # the rate of the load, not a wait

    def wait_established(self):
        """Waits until every chat so far has its first token."""
        load.wait_tokens(self.replies, 1)

    def failures(self):
        return [r for r in self.replies if not load.is_full_stream(r.wait(30), 10)]


def leave_under_load(site, mode, expect, between):
    """Two workers at 50 chats a second; one gets SIGTERM while a long stream keeps it draining for
    a second or two.

    between: the signal comes while no chat waits for its connection. Returns (failed chats, time of
    the signal).
    """
    frontend, workers = two_workers(site, mode)
    long = frontend.start_chat(load.HOT_PROMPT, max_tokens=500, nvext=load.WITH_WORKER)
    load.wait_tokens([long], 30)
    leaving = load.worker_of(long)
    traffic = Load(frontend, 50)
    traffic.run_for(0.5)
    if between:
        traffic.wait_established()
    workers[leaving].terminate()
    signal_at = time.monotonic()
    if between:
        left_or_draining(frontend, leaving, expect)
    traffic.run_for(2)
    failures = traffic.failures()
    load.assert_full_stream(long.wait(), 500)
    assert workers[leaving].child.wait_exit(10)[0] == 0
    return failures, signal_at


@pytest.mark.parametrize("mode", ["kv", "round-robin"])
def test_u31_sigterm_of_one_of_two_under_load_without_migration(site, expect, observe, mode):
    failures, _ = leave_under_load(site, mode, expect, between=True)
    observe("failures", len(failures))
    observe("statuses", sorted({str(r.status) for r in failures}))
    assert bool(failures) == expect("sigterm_under_load_loses_chats"), failures[:3]


def test_u31_sigterm_at_any_moment_cuts_off_only_chats_that_wait_for_their_connection(
    site, expect, observe
):
    """Without the pause: what the 1.3 frontend itself cancels may fail, chats that come later may
    not.
    """
    failures, signal_at = leave_under_load(site, "round-robin", expect, between=False)
    observe("failures", len(failures))
    assert len(failures) <= 3, failures
    assert all(r.sent_at < signal_at + 0.5 for r in failures), "every chat sent later is served"


def test_u31_sigkill_of_one_of_two_under_load_with_migration(site, observe):
    frontend, workers = two_workers(site, migration_limit=3)
    traffic = Load(frontend, 50)
    traffic.run_for(0.5)
    next(iter(workers.values())).kill()
    traffic.run_for(2.5)
    assert traffic.failures() == []


def test_c102_killed_worker_restarted_at_once(site, observe):
    """Same command line, ports and namespace: a new instance, and no chat fails for longer than the
    bench time.
    """
    worker = site.start_worker()
    frontend = site.start_frontend().wait_ready()
    before = worker.instance_id()
    worker.kill()
    worker.child.start()
    killed_at = time.monotonic()
    wait.until(lambda: chat_status(frontend) == 200, 8, "a chat is served by the new instance")
    observe("seconds_without_service", round(time.monotonic() - killed_at, 1))
    after = worker.instance_id()
    assert after != before
    wait.until(
        lambda: frontend.instances() == {after}, LEASE_SECONDS + 5, "the old instance has expired"
    )
    replies = frontend.many([load.HOT_PROMPT] * 10, max_tokens=2, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 2)
    assert set(load.spread(replies)) == {after}
