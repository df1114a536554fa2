"""Prefill and decode on different workers (C-070 to C-077, C-079), pairs of one implementation and
mixed ones.
"""

import os
import shlex

import pytest

from launch import reference
from lib import load, ports, stack, wait

pytestmark = pytest.mark.releases("r13", "r16")

RELEASE_SECONDS = 30


def start_prefill(site, bootstrap=True, flags=(), impl=None, **more):
    flags = ["--disaggregation-mode", "prefill", *flags]
    env = {"DYN_HTTP_RPC_HOST": "127.0.0.1"}
    if bootstrap:
        flags += ["--bootstrap-ports", ports.free_port()]
    return site.start_worker(
        flags, env=env, component="prefill", name="prefill", impl=impl, **more
    )


def start_decode(site, flags=(), impl=None, **more):
    flags = ["--disaggregation-mode", "decode", *flags]
    return site.start_worker(flags, component="backend", name="decode", impl=impl, **more)


def chat(frontend, text, tokens=10):
    reply = frontend.chat(text, max_tokens=tokens)
    load.assert_full_stream(reply, tokens)
    return reply


def served(worker):
    """Requests that a worker has taken so far."""
    return worker.metrics().total("dynamo_component_requests_total", dynamo_endpoint="generate")


def received(worker):
    """Requests that a decode worker has begun to answer. Of a prefill worker nothing can be counted
    in time: the 1.3 frontend leaves some of its streams, and the reference counts those nowhere.
    """
    return worker.metrics().total("dynamo_work_handler_time_to_first_response_seconds_count")


def wait_served(workers, count):
    """A request counts when its stream has ended on the worker's side too."""
    wait.until(lambda: sum(map(served, workers)) == count, 10, f"{count} requests were served")


def wait_pair(site, instances):
    """A frontend that serves: both roles are there and a whole request came through."""
    frontend = site.start_frontend().wait_listed(instances)
    wait.until(
        lambda: frontend.chat("hello", max_tokens=2, stream=False, timeout=5).status == 200,
        60,
        "a request passes prefill and decode",
    )
    return frontend


def running(worker):
    """Requests inside the simulated engine of a worker (the reference names them by engine)."""
    values = worker.metrics()
    return values.total("vllm:num_requests_running") + values.total("sglang:num_running_reqs")


def wait_empty(*workers):
    for worker in workers:
        wait.until(lambda: running(worker) == 0, RELEASE_SECONDS, "the engine has nothing left to do")
        wait.until(lambda: worker.inflight() == 0, RELEASE_SECONDS, "no request is under way")


@pytest.fixture(params=["same", "its_decode", "its_prefill"])
def mixed_roles(request):
    """Implementations of the prefill and the decode worker: one for both, or the reference on one
    side. For the reference all three are the same.
    """
    ours = request.config.impl
    return (
        reference if request.param == "its_prefill" else ours,
        reference if request.param == "its_decode" else ours,
    )


@pytest.fixture
def mixed(site, mixed_roles):
    """(site, prefill, decode) of these implementations."""
    prefill = start_prefill(site, impl=mixed_roles[0])
    decode = start_decode(site, impl=mixed_roles[1])
    return site, prefill, decode


def test_m208_m209_m210_c071_a_pair_hands_over(mixed, observe):
    site, prefill, decode = mixed
    frontend = wait_pair(site, 2)
    before = served(decode)
    for i in range(8):
        chat(frontend, load.words(40 + i, seed=710 + i))
    wait_served([decode], before + 8)
    unary = frontend.chat(load.words(40, seed=719), max_tokens=7, stream=False).json()
    observe.same("usage", {k: unary["usage"][k] for k in ("prompt_tokens", "completion_tokens")})
    many = frontend.many([load.words(30, seed=7200 + i) for i in range(32)], max_tokens=10)
    load.assert_full_streams(many, 10)
    wait_empty(prefill, decode)


def test_the_commands_of_the_readme_make_a_pair(site):
    """Both lines as they stand there, but for the port, the folder's path and the program."""
    lines = (stack.ROOT / "README.md").read_text().splitlines()
    commands = [shlex.split(line) for line in lines if "understudy --disaggregation-mode" in line]
    assert [command[2] for command in commands] == ["prefill", "decode"]
    replaced = {"5800": str(ports.free_port()), "tests/data/tiny-model": str(stack.MODEL)}
    for _, *flags, background in commands:
        assert background == "&"
        argv = site.impl.argv([replaced.get(flag, flag) for flag in flags])
        site.child(flags[1], argv, site.env({"DYN_HTTP_RPC_HOST": "127.0.0.1"}))
    frontend = wait_pair(site, 2)
    chat(frontend, "hello", tokens=8)


def test_c071_sglang_pair_hands_over(site):
    flags = ["--engine-type", "sglang"]
    prefill = start_prefill(site, flags=flags)
    decode = start_decode(site, flags=flags)
    frontend = wait_pair(site, 2)
    many = frontend.many([load.words(30, seed=7300 + i) for i in range(16)], max_tokens=10)
    load.assert_full_streams(many, 10)
    wait_empty(prefill, decode)


def test_m211_c070_without_bootstrap_the_prompt_is_computed_twice(site):
    workers = [start_prefill(site, bootstrap=False), start_decode(site)]
    frontend = wait_pair(site, 2)
    many = frontend.many([load.words(30, seed=7000 + i) for i in range(16)], max_tokens=10)
    load.assert_full_streams(many, 10)
    wait_empty(*workers)


def test_c072_two_of_each_under_load(site):
    prefills = [start_prefill(site) for _ in range(2)]
    decodes = [start_decode(site) for _ in range(2)]
    frontend = wait_pair(site, 4)
    before = sum(map(served, decodes))
    replies = frontend.many([load.words(30, seed=7400 + i) for i in range(64)], max_tokens=10)
    load.assert_full_streams(replies, 10)
    wait_served(decodes, before + 64)
    wait_empty(*prefills, *decodes)


def test_cancel_at_each_stage_gives_everything_back(mixed):
    """Clients that leave during the prefill, during the hand-off and during the decode."""
    site, prefill, decode = mixed
    frontend = wait_pair(site, 2)
    long = load.words(900, seed=7500)
    for hold in (0.0, 0.002, 0.01, 0.05):
        reply = frontend.start_chat(long, max_tokens=40)
        wait.until(lambda: reply.task is not None, 1, "the request is on its way")
        reply.finished.wait(hold)
        reply.close()
    streaming = [frontend.start_chat(load.words(20, seed=7510 + i), max_tokens=60) for i in range(4)]
    load.wait_tokens(streaming, 3)
    for reply in streaming:
        reply.close()
    wait_empty(prefill, decode)
    chat(frontend, load.words(40, seed=7520))
    wait_empty(prefill, decode)


SLOW_TRANSFER = ["--kv-bytes-per-token", 100_000, "--kv-transfer-bandwidth", 0.001]  # 20 s and more


def in_transfer(frontend, decode, seed):
    """A request whose prompt is computed and on its way to the decode worker. A frontend lists
    workers a moment before it routes to them, so the first ones may be refused.
    """
    replies = []
    before = 0  # the last one was sent: what is received then is not it

    def under_way():
        nonlocal before
        if not replies or replies[-1].finished.is_set():
            before = received(decode)
            replies.append(frontend.start_chat(load.words(150, seed=seed), max_tokens=20))
        return received(decode) > before and not replies[-1].finished.is_set()

    wait.until(under_way, 30, "the decode worker has the request")
    return replies[-1]


def test_m213_c071_ranks_of_both_roles(site):
    """Data-parallel size 2 on both sides: every request comes through, whatever rank it is on."""
    flags = ["--data-parallel-size", 2]
    prefill = start_prefill(site, flags=flags)
    decode = start_decode(site, flags=flags)
    frontend = wait_pair(site, 2)
    many = frontend.many([load.words(40, seed=7350 + i) for i in range(24)], max_tokens=10)
    load.assert_full_streams(many, 10)
    wait_empty(prefill, decode)


def test_c072_several_of_each_of_both_implementations(site):
    prefills = [start_prefill(site), start_prefill(site, impl=reference)]
    decodes = [start_decode(site), start_decode(site, impl=reference)]
    frontend = wait_pair(site, 4)
    replies = frontend.many([load.words(30, seed=7800 + i) for i in range(64)], max_tokens=10)
    load.assert_full_streams(replies, 10)
    wait_empty(*prefills, *decodes)
    assert all(received(worker) > 0 for worker in decodes)


@pytest.mark.releases("r16")
def test_m210_frontends_of_both_releases_share_a_pair(site, mixed_roles):
    prefill = start_prefill(site, impl=mixed_roles[0])
    decode = start_decode(site, impl=mixed_roles[1])
    newer = wait_pair(site, 2)
    older = site.start_frontend(python=os.environ["UNDERSTUDY_OLD_PYTHON"]).wait_listed(2)
    for frontend in (newer, older):
        chat(frontend, "hello")
    replies = [
        frontend.start_chat(load.words(30, seed=8000 + i), max_tokens=10)
        for i in range(16)
        for frontend in (newer, older)
    ]
    for reply in replies:
        load.assert_full_stream(reply.wait(30), 10)
    wait_empty(prefill, decode)


def test_m212_u36_client_leaves_during_the_transfer(site, mixed_roles):
    """U36: blocks of both sides come back when nobody waits for the first token any more."""
    prefill = start_prefill(site, flags=SLOW_TRANSFER, impl=mixed_roles[0])
    decode = start_decode(site, impl=mixed_roles[1])
    frontend = site.start_frontend().wait_listed(2)
    reply = in_transfer(frontend, decode, seed=7900)
    reply.close()
    wait_empty(prefill, decode)


def test_killed_during_the_transfer(site, mixed_roles):
    """A worker that dies while a prompt is on its way never hangs the client, and the other side
    gets its blocks back.
    """
    prefill = start_prefill(site, flags=SLOW_TRANSFER, impl=mixed_roles[0])
    decode = start_decode(site, impl=mixed_roles[1])
    frontend = site.start_frontend().wait_listed(2)
    reply = in_transfer(frontend, decode, seed=7910)
    prefill.kill()
    reply.wait(30)
    wait_empty(decode)
    prefill = start_prefill(site, impl=mixed_roles[0])
    wait.until(
        lambda: frontend.chat("hello", max_tokens=2, stream=False, timeout=20).status == 200,
        90,
        "a new prefill worker serves",
    )
    wait_empty(prefill, decode)


def test_c075_killed_prefill_never_hangs_a_request(site):
    prefill = start_prefill(site)
    decode = start_decode(site)
    frontend = wait_pair(site, 2)
    running_now = [
        frontend.start_chat(load.words(200, seed=7600 + i), max_tokens=200) for i in range(4)
    ]
    load.wait_tokens(running_now, 2)
    prefill.kill()
    for reply in running_now:
        reply.wait(60)
    refused = frontend.chat("nobody computes this", max_tokens=4, stream=False, timeout=40)
    assert refused.status in (500, 503)
    start_prefill(site)
    wait.until(
        lambda: frontend.chat("hello", max_tokens=2, stream=False, timeout=20).status == 200,
        90,
        "a new prefill worker serves",
    )
    wait_empty(decode)


def test_killed_decode_gives_the_sources_blocks_back(site):
    prefill = start_prefill(site)
    decode = start_decode(site)
    frontend = wait_pair(site, 2)
    streams = [
        frontend.start_chat(load.words(200, seed=7700 + i), max_tokens=300) for i in range(4)
    ]
    load.wait_tokens(streams, 2)
    decode.kill()
    for stream in streams:
        stream.wait(60)
    start_decode(site)
    wait.until(
        lambda: frontend.chat("hello", max_tokens=2, stream=False, timeout=20).status == 200,
        90,
        "a new decode worker serves",
    )
    wait_empty(prefill)


def test_c079_decode_worker_publishes_no_kv_events(site):
    decode = start_decode(site)
    start_prefill(site)
    wait_pair(site, 2)
    instance = decode.instance_id()
    keys = site.keys_of_lease(site.lease_of(instance, component="backend"))
    assert not [key for key in keys if "kv_indexer_query" in key or "kv-events" in key], keys
