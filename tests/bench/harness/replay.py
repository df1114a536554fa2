"""Offline replay of one trace by both, and the cost of the engine's core alone. No server takes part."""
import json
import os
import pathlib
import subprocess
import tempfile
import time

from harness import trace
from harness.processes import Failure

REQUESTS, REQUESTS_QUICK = 100_000, 10_000
SECONDS_MAX = 600
ENGINE = {"block_size": trace.BLOCK}
# Flags of ours, options of the reference's entry. With eight workers the load is six times as dense.
SETUPS = {
    "1-worker": ([], {}),
    "8-workers-kv": (["--num-workers", "8", "--router-mode", "kv_router", "--arrival-speedup-ratio", "6"],
                     {"num_workers": 8, "router_mode": "kv_router", "arrival_speedup_ratio": 6.0}),
}
# What both report; with one worker it is the same work to the last token.
COMPARED = ("completed_requests", "total_output_tokens", "duration_ms", "mean_ttft_ms", "mean_itl_ms",
            "prefix_cache_reused_ratio")
SAME_WITHIN = 1e-6
SEQUENCES = 256
CORE = {"engine/16k-blocks": 16384, "engine/1M-blocks": 1 << 20}


def replay(context, setup):
    """Figures per round and peer: cost, and what was simulated."""
    count = REQUESTS_QUICK if context.quick else REQUESTS
    context.say(f"offline replay of {count:,} requests, {setup}")
    results = {peer.name: [] for peer in context.peers}
    with tempfile.TemporaryDirectory(prefix="bench-replay-") as folder:
        path = pathlib.Path(folder) / "trace.jsonl"
        trace.write(path, count)
        for number in range(context.rounds):
            for peer in context.rotated(number):
                run = ours if peer.name == "ours" else reference
                results[peer.name].append(run(context, peer, path, setup))
    if setup == "1-worker" and len(results) == 2:
        require_same(results)
    return results


def figures(report, wall_s, cpu_s, rss_kb):
    tokens = report["total_output_tokens"]
    return {"wall_s": wall_s, "cpu_s": cpu_s, "rss_max_kb": rss_kb, "cpu_ns_per_token": cpu_s * 1e9 / tokens,
            **{key: report[key] for key in COMPARED}}


def ours(_context, peer, path, setup):
    """The whole process, from start to end."""
    out = path.with_name("report.json")
    command = [peer.argv[0], "replay", str(path), "--dynamo-release", "1.3", "--trace-block-size", str(trace.BLOCK),
               "--extra-engine-args", json.dumps(ENGINE), "--report", str(out), "--quiet", *SETUPS[setup][0]]
    started = time.perf_counter()
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    wall = time.perf_counter() - started
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise Failure(f"{peer.title}: replay ended with {process.returncode}")
    return figures(json.loads(out.read_text()), wall, used.ru_utime + used.ru_stime, used.ru_maxrss)


def reference(_context, peer, path, setup):
    """The call of the reference's entry alone: its interpreter's start is left out."""
    options = {"trace_block_size": trace.BLOCK, **SETUPS[setup][1]}
    script = pathlib.Path(__file__).with_name("replay_reference.py")
    done = subprocess.run([peer.argv[0], str(script), str(path), json.dumps(ENGINE), json.dumps(options)],
                          capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
    if done.returncode:
        raise Failure(f"{peer.title}: replay ended with {done.returncode}: {done.stderr.strip()[-400:]}")
    said = json.loads(done.stdout.splitlines()[-1])
    return figures(said["report"], said["wall_s"], said["cpu_s"], said["rss_max_kb"])


def require_same(results):
    for key in COMPARED:
        own, other = results["ours"][0][key], results["reference"][0][key]
        if abs(own - other) > SAME_WITHIN * max(abs(own), abs(other)):
            raise Failure(f"the two replays differ in {key}: ours {own}, reference {other}")


def core(context, name, binary):
    """Steady decoding of 256 sequences in a pool of so many blocks, with KV events, by google-benchmark."""
    context.say(f"engine core, {name}")
    rounds = []
    for _ in range(context.rounds):
        command = [str(binary), f"--benchmark_filter=^DecodePass/blocks:{CORE[name]}/block_size:64/events:1$",
                   f"--benchmark_min_time={0.2 if context.quick else 1}", "--benchmark_format=json"]
        done = subprocess.run(command, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=SECONDS_MAX)
        found = json.loads(done.stdout)["benchmarks"] if done.returncode == 0 else []
        if not found:
            raise Failure(f"{binary.name} measured nothing: {done.stderr.strip()[-400:]}")
        ns = found[0]["cpu_time"]
        rounds.append({"passes_per_s": 1e9 / ns, "ns_per_sequence_pass": ns / SEQUENCES})
    return {"ours": rounds}
