"""What is measured. Each scenario gives, per round and peer, a flat set of figures."""
import json
import subprocess

from harness import timing
from harness.processes import Failure, connections_to, status_field, until
from harness.stack import FREE_RUNNING, NO_PREFIX_CACHE, Worker

LOAD_SECONDS = 180
MANY_WORKERS = 50
VARIANTS = {"no-events": NO_PREFIX_CACHE, "default": []}


class Context:
    """What every scenario needs: servers, peers, the load generator, how long to go on."""

    def __init__(self, servers, peers, loadgen, rounds, quick, say):
        self.servers, self.peers, self.loadgen = servers, peers, loadgen
        self.rounds, self.quick, self.say = rounds, quick, say

    def rotated(self, round_number):
        """The order of the peers changes every round, so that a noisy moment does not hit always the same."""
        cut = round_number % len(self.peers)
        return self.peers[cut:] + self.peers[:cut]

    def load(self, worker, *flags, target=None):
        """One run of the load generator; its figures, flat."""
        command = [str(self.loadgen), "--json", "--target", target or worker.targets()[0], "--timeout",
                   str(LOAD_SECONDS), "--pid", f"worker={worker.child.pid}", *map(str, flags)]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if done.returncode:
            worker.child.require_running()
            said = done.stderr.strip()[-400:]
            raise Failure(f"{worker.peer.title}: load generator gave up ({done.returncode}): {said}")
        figures = flatten(json.loads(done.stdout.splitlines()[-1]))
        return {**figures, "worker.anon_kb": status_field(worker.child.pid, "RssAnon")}


def flatten(tree, prefix=""):
    flat = {}
    for key, value in tree.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[prefix + key] = value
    return flat


def alternate(context, flags, measure):
    """Starts one worker per peer, measures them in turns, stops them. Figures by peer name, a list of rounds each."""
    workers = {}
    try:
        for peer in context.peers:
            workers[peer.name] = Worker(peer, context.servers, flags)
        for worker in workers.values():
            worker.wait_registered()
        results = {peer.name: [] for peer in context.peers}
        for number in range(context.rounds):
            for peer in context.rotated(number):
                figures = measure(workers[peer.name])
                if figures is not None:
                    results[peer.name].append(figures)
        return results
    finally:
        for worker in workers.values():
            worker.stop()


def real_time(context, variant):
    """256 streams of 256 tokens at the modelled pace, one prompt for all."""
    context.say(f"real time, 256 streams, {variant}")
    return alternate(context, VARIANTS[variant], lambda worker: context.load(
        worker, "-c", 256, "-n", 256, "--isl", 128, "--osl", 256, "--distinct", 1, "--warmup", 1))


def free_running(context, variant):
    """Requests of 128/64 tokens as fast as they go, 256 at a time, every prompt new."""
    context.say(f"free running, 256 at a time, {variant}")
    requests = 500 if context.quick else 1500
    return alternate(context, FREE_RUNNING + VARIANTS[variant], lambda worker: context.load(
        worker, "-c", 256, "-n", requests, "--isl", 128, "--osl", 64, "--warmup", 256))


def inter_token(context, streams):
    """Inter-token time at the modelled pace against the model."""
    context.say(f"inter-token time, {streams} streams")
    trace = context.servers.folder / "trace.csv"
    # Long streams: a late first or last token moves the mean by its lateness / tokens.
    tokens = 256 if context.quick else 1024

    def measure(worker):
        before = core_gaps(worker)
        figures = context.load(worker, "-c", streams, "-n", streams, "--isl", 128, "--osl", tokens, "--trace", trace)
        error = timing.error_percent(trace, 128, side_by_side=streams > 1)
        if error is None:
            raise Failure(f"{worker.peer.title}: the {streams} streams did not run side by side")
        return {**figures, **error, **core_error(before, core_gaps(worker), figures["itl_us.mean"])}

    return alternate(context, [], measure)


def core_gaps(worker):
    """Count and sum (s) of the gaps between tokens that the worker's scheduler modelled; None when it doesn't say."""
    count = worker.metric("understudy_engine_token_gaps")
    return None if count is None else (count, worker.metric("understudy_engine_token_gap_modelled_seconds"))


def core_error(before, after, measured_us):
    """The measured mean gap of a run against the mean that the scheduler itself computed for the same passes."""
    if before is None or after is None or after[0] == before[0]:
        return {}
    modelled_ms = (after[1] - before[1]) / (after[0] - before[0]) * 1000
    return {"itl_core_error_pct": (measured_us / 1000 / modelled_ms - 1) * 100, "itl_core_ms": modelled_ms}


def start_up(context):
    """Process start to its records in etcd; CPU and memory at that moment, and how long it takes to stop."""
    context.say("start-up")
    results = {peer.name: [] for peer in context.peers}
    for number in range(context.rounds):
        for peer in context.rotated(number):
            worker = Worker(peer, context.servers, [])
            try:
                seconds = worker.wait_registered()
                pid = worker.child.pid
                figures = {"start_ms": seconds * 1000, "idle_rss_kb": status_field(pid, "VmRSS"),
                           "idle_anon_kb": status_field(pid, "RssAnon"), "threads": status_field(pid, "Threads")}
            finally:
                stopped = worker.stop()
            results[peer.name].append({**figures, "stop_ms": stopped * 1000})
    return results


def many_workers(context, peer):
    """One process with one worker and one with MANY_WORKERS: threads, connections and leases, and that all serve."""
    context.say(f"{MANY_WORKERS} workers in one process of {peer.title}")
    rows = {}
    for count in (1, MANY_WORKERS):
        leases_before = context.servers.lease_count()
        worker = Worker(peer, context.servers, [*FREE_RUNNING, "--num-workers", str(count), "--stagger-delay", "0"])
        try:
            rows[f"workers_{count}"] = observe_many(context, worker, count, leases_before)
        finally:
            worker.stop()
    return rows


def observe_many(context, worker, count, leases_before):
    seconds = worker.wait_registered()
    until(lambda: len(worker.targets()) == count, 60, f"{count} endpoints are registered")
    pid = worker.child.pid
    seen = {"first_registered_ms": seconds * 1000, "instances": len(worker.targets()),
            "threads": status_field(pid, "Threads"), "rss_kb": status_field(pid, "VmRSS"),
            "nats_connections": connections_to(pid, context.servers.nats_port),
            "etcd_connections": connections_to(pid, context.servers.etcd_port),
            "leases": context.servers.lease_count() - leases_before}
    served = 0
    for target in worker.targets():
        served += context.load(worker, "-c", 2, "-n", 4, "--osl", 8, target=target)["requests"] == 4
    return {**seen, "served": served}
