"""A ZMQ event plane with brokers between workers and routers (events.md 3.1): they are named by a variable or
found through discovery, there may be several, and what one loses is asked for again.
"""

import json
import random

import pytest

from lib import broker, wait

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 30
BLOCK = 8


def prompt(seed, blocks):
    chooser = random.Random(seed)
    return [chooser.randrange(1000, 30000) for _ in range(blocks * BLOCK)]


@pytest.fixture
def brokers():
    made = [broker.Broker() for _ in range(2)]
    yield made
    for one in made:
        one.close()


def fill(router, seeds, blocks=2):
    for seed in seeds:
        assert router.generate(prompt(seed, blocks), 2)


def wait_learns(router, seeds, least):
    """What is said before all connections stand is lost: goes on until the router knows so many
    blocks.
    """

    def learnt():
        fill(router, [next(seeds)])
        return len(router.blocks()) >= least

    wait.until(learnt, SYNC_SECONDS, f"the router knows {least} blocks")


def wait_same(router, other):
    wait.until(
        lambda: router.blocks() and router.blocks() == other.blocks(),
        SYNC_SECONDS,
        "both routers know the same blocks",
    )


@pytest.mark.parametrize("count", [1, 2])
def test_routers_learn_through_brokers(zmq_site, brokers, observe, count):
    used = brokers[:count]
    env = {"DYN_ZMQ_BROKER_URL": broker.url(*used)}
    zmq_site.start_worker(env=env, speedup=1000, block_size=BLOCK)
    router = zmq_site.start_router(BLOCK, env=env)
    seeds = iter(range(2500, 3500))
    wait_learns(router, seeds, 40)
    wait_same(router, zmq_site.start_router(BLOCK, env=env))
    observe("channels", len(zmq_site.etcd.keys("v1/event_channels/")))
    assert not zmq_site.etcd.keys("v1/event_channels/")
    for one in used:
        assert any(key.endswith("kv-events") for key in one.keys), "it all went through here"


def test_brokers_are_found_through_discovery(zmq_site, brokers):
    namespace = zmq_site.namespace
    record = {
        "type": "EventChannel",
        "namespace": namespace,
        "component": "zmq_broker",
        "scope": {"kind": "component", "namespace": namespace, "component": "zmq_broker"},
        "topic": "events",
        "instance_id": 7,
        "transport": {
            "kind": "ZmqBroker",
            "config": {"xsub_endpoints": [brokers[0].xsub], "xpub_endpoints": [brokers[0].xpub]},
        },
    }
    for key in (
        f"v1/event_channels/{namespace}/zmq_broker/events/7",
        f"v1/event_channels/namespace/{namespace}/component/zmq_broker/topic/events/7",
    ):
        zmq_site.etcd.put(key, json.dumps(record), 0)
    env = {"DYN_ZMQ_BROKER_ENABLED": "true"}
    zmq_site.start_worker(env=env, speedup=1000, block_size=BLOCK)
    router = zmq_site.start_router(BLOCK, env=env)
    wait_learns(router, iter(range(2700, 3700)), 40)
    wait_same(router, zmq_site.start_router(BLOCK, env=env))
    assert brokers[0].keys


def test_u15_what_a_broker_lost_is_asked_for(zmq_site, brokers):
    env = {"DYN_ZMQ_BROKER_URL": broker.url(brokers[0])}
    zmq_site.start_worker(env=env, speedup=1000, block_size=BLOCK)
    router = zmq_site.start_router(BLOCK, env=env)
    seeds = iter(range(2900, 3900))
    wait_learns(router, seeds, 20)
    known = len(router.blocks())
    brokers[0].lose()
    fill(router, [next(seeds) for _ in range(10)])
    assert len(router.blocks()) == known
    brokers[0].pass_on()
    wait_learns(router, seeds, known + 20)
    wait_same(router, zmq_site.start_router(BLOCK, env=env))
