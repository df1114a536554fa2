"""Hand-offs between a prefill and a decode worker: what they cost beyond the modelled transfer."""
import json
import subprocess

from harness.processes import Failure, free_port
from harness.stack import FREE_RUNNING, Worker

PROMPT_TOKENS = 60
TRANSFER_MS = 10.0
KV_BYTES_PER_TOKEN = 1_000_000
# GB/s with which a prompt takes TRANSFER_MS
BANDWIDTH = PROMPT_TOKENS * KV_BYTES_PER_TOKEN / 1e9 / (TRANSFER_MS / 1000)
SECONDS = 180


class Pair:
    """A prefill and a decode worker of one implementation."""

    def __init__(self, peer, servers):
        self.peer, self.port = peer, free_port()
        transfer = ["--kv-bytes-per-token", str(KV_BYTES_PER_TOKEN), "--kv-transfer-bandwidth", str(BANDWIDTH)]
        self.prefill = Worker(peer, servers, [*FREE_RUNNING, *transfer, "--disaggregation-mode", "prefill",
                                              "--bootstrap-ports", str(self.port)])
        self.decode = Worker(peer, servers, [*FREE_RUNNING, "--disaggregation-mode", "decode"])

    def wait_registered(self):
        for worker in (self.prefill, self.decode):
            worker.wait_registered()

    def measure(self, program, servers, requests):
        subject = lambda worker: worker.targets()[0].removeprefix(servers.nats_url + "/")  # noqa: E731
        command = [program, "--nats", servers.nats_url, "--prefill", subject(self.prefill),
                   "--decode", subject(self.decode), "--bootstrap-port", self.port, "--requests", requests,
                   "--prompt-tokens", PROMPT_TOKENS, "--transfer-ms", TRANSFER_MS]
        done = subprocess.run([str(part) for part in command], capture_output=True, text=True,
                              stdin=subprocess.DEVNULL, timeout=SECONDS)
        if done.returncode:
            raise Failure(f"{self.peer.title}: {done.stderr.strip()[-400:]}")
        times = json.loads(done.stdout)["handoff_ms"]
        return {f"handoff_ms.{name}": value for name, value in times.items()}

    def stop(self):
        for worker in (self.prefill, self.decode):
            worker.stop()


def handoff(context, program):
    """One request after the other, 60 prompt tokens, a transfer of 10 ms."""
    context.say("hand-offs")
    requests = 30 if context.quick else 100
    pairs = {}
    try:
        for peer in context.peers:
            pairs[peer.name] = Pair(peer, context.servers)
        for pair in pairs.values():
            pair.wait_registered()
        results = {peer.name: [] for peer in context.peers}
        for number in range(context.rounds):
            for peer in context.rotated(number):
                results[peer.name].append(pairs[peer.name].measure(program, context.servers, requests))
        return results
    finally:
        for pair in pairs.values():
            pair.stop()
