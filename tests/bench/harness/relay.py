"""KV events of engines through a relay to the event plane: ours beside the reference's, and ours alone under load.

`understudy_relay_load` plays the engines (a PUB and a replay socket per rank) and reads what comes over NATS. An event
is a block stored or removed.
"""
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import urllib.request

from harness.processes import Child, Failure, free_low_port, until

BLOCK = 16
READY_SECONDS = 60
# SUB sockets say nothing when they are connected, and the reference has no replay to ask.
CONNECT_SECONDS = 2
LOAD_SECONDS = 300
COMPONENT, ENDPOINT = "backend", "generate"


class Relay:
    """One relay process for engines at ports side by side; their instance ids are 1, 2, 3 ..."""

    count = 0

    def __init__(self, peer, servers, base, replay_base, engines, ranks, release):
        Relay.count += 1
        self.peer, self.namespace = peer, f"relay{Relay.count}"
        self.status_port = free_low_port()
        env = {key: value for key, value in os.environ.items() if not key.startswith(("DYN_", "NATS_", "ETCD_"))}
        env.update(NATS_SERVER=servers.nats_url, ETCD_ENDPOINTS=servers.etcd_url, DYN_NAMESPACE=self.namespace,
                   DYN_LOG="warn", DYN_SYSTEM_PORT=str(self.status_port), DYN_EVENT_PLANE="nats",
                   DYN_REQUEST_PLANE="nats", DYN_DISCOVERY_BACKEND="etcd")
        endpoints = [f"tcp://127.0.0.1:{base + i * ranks}" for i in range(engines)]
        if peer.name == "ours":
            argv = [*peer.argv, "relay", "--no-follow", "--block-size", BLOCK, "--data-parallel-size", ranks,
                    "--dynamo-release", release, "--zmq-endpoint", ",".join(endpoints), "--instance-id",
                    ",".join(f"{i + 1:x}" for i in range(engines))]
            if replay_base:
                replays = [f"tcp://127.0.0.1:{replay_base + i * ranks}" for i in range(engines)]
                argv += ["--zmq-replay-endpoint", ",".join(replays)]
        else:
            script = pathlib.Path(__file__).with_name("relay_reference.py")
            path = f"{self.namespace}.{COMPONENT}.{ENDPOINT}"
            argv = [peer.argv[0], script, path, json.dumps([base, engines, ranks, BLOCK])]
        self.child = Child(f"relay of {peer.title}", argv, env, servers.folder / f"relay-{Relay.count}.log")

    def subject(self, release):
        scope = f"namespace.{self.namespace}.component.{COMPONENT}"
        return f"{scope}.kv-events" if release == "1.3" else f"{scope}.endpoint.{ENDPOINT}.kv-events"

    def wait_ready(self):
        def ready():
            self.child.require_running()
            return re.search(r"^ready ", self.child.log.read_text(errors="replace"), re.M)
        until(ready, READY_SECONDS, f"the relay of {self.peer.title} is ready", step=0.05)
        time.sleep(CONNECT_SECONDS)

    def batches(self, outcome):
        """Of our relay's own count."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.status_port}/metrics", timeout=10) as answer:
            text = answer.read().decode()
        found = re.search(rf'^understudy_engine_batches_total{{.*outcome="{outcome}"}} (\d+)', text, re.M)
        return int(found.group(1))


def free_ports(count, least=13_000):
    """The first of so many free ports side by side."""
    for first in range(least, 32_000 - count, 61):
        probes = []
        try:
            for port in range(first, first + count):
                probes.append(socket.socket())
                probes[-1].bind(("127.0.0.1", port))
            return first
        except OSError:
            continue
        finally:
            for probe in probes:
                probe.close()
    raise Failure(f"no {count} free ports side by side")


def run(context, peer, tool, engines, ranks, rate, seconds, replay, release="1.3", late=False, held=512, batch=8):
    """One load through one relay; the tool's figures and what our relay says was lost."""
    sockets = engines * ranks
    base = free_ports(sockets)
    replay_base = free_ports(sockets, base + sockets) if replay else 0
    relay = None
    command = [tool, "--nats", context.servers.nats_url, "--base-port", base, "--replay-base", replay_base,
               "--engines", engines, "--ranks", ranks, "--rate", rate, "--seconds", seconds,
               "--blocks-per-batch", batch, "--blocks-held", held,
               "--subject", f"namespace.relay{Relay.count + 1}.component.{COMPONENT}."
               + ("kv-events" if release == "1.3" else f"endpoint.{ENDPOINT}.kv-events")]
    load = subprocess.Popen([str(part) for part in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, text=True)
    try:
        if load.stdout.readline() != "engines are up\n":
            raise Failure(f"relay_load: {load.stderr.read().strip()[-400:]}")
        if late:
            print(0, file=load.stdin, flush=True)
            time.sleep(1)
        relay = Relay(peer, context.servers, base, replay_base, engines, ranks, release)
        relay.wait_ready()
        if not late:
            print(relay.child.pid, file=load.stdin, flush=True)
        out, err = load.communicate(timeout=LOAD_SECONDS)
        if load.returncode:
            relay.child.require_running()
            raise Failure(f"relay_load ended with {load.returncode}: {err.strip()[-400:]}")
        figures = json.loads(out.splitlines()[-1])
        if peer.name == "ours":
            figures["lost_batches"] = relay.batches("lost")
        return figures
    finally:
        load.kill()
        load.wait()
        if relay:
            relay.child.stop()


def side_by_side(context, tool, engines, rate):
    """Both relays in turns, in the form of 1.3."""
    context.say(f"relay, {engines} engines x 2 ranks, {rate} events/s")
    results = {peer.name: [] for peer in context.peers}
    for number in range(context.rounds):
        for peer in context.rotated(number):
            results[peer.name].append(
                run(context, peer, tool, engines, 2, rate, 5 if context.quick else 20, replay=True))
    return results


def ours_only(context, tool, replay):
    """Many engines at once: nothing may be lost with replay sockets, and every lost batch is counted without."""
    seconds, rate = (5, 20_000) if context.quick else (60, 100_000)
    peer = next(peer for peer in context.peers if peer.name == "ours")
    if replay:
        context.say(f"relay, 256 engines x 2 ranks, {rate} events/s for {seconds} s")
        figures = run(context, peer, tool, 256, 2, rate, seconds, True, release="1.6", batch=16)
        if figures["missing"] or figures["unreadable"]:
            raise Failure(f"relay: {figures['missing']} of {figures['sent']} events are missing")
    else:
        context.say("relay that comes late, without replay sockets")
        figures = run(context, peer, tool, 8, 2, 4_000, 10, False, late=True, held=10**6)
        if figures["missing"] != figures["lost_batches"] * figures["blocks_per_batch"]:
            raise Failure(f"relay: {figures['missing']} events are missing, "
                          f"{figures['lost_batches']} batches were counted as lost")
    return {"ours": [figures]}
