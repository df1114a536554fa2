"""A KV router of the wheel in a process of its own (its runtime keeps state per process), driven by lines of JSON.

Run as a program it is that process; Router is the other end, in the tests.
"""

import asyncio
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading

ANSWER_SECONDS = 30
FOLDER = pathlib.Path(__file__).resolve().parents[1]


class Router:
    """A running KvRouter. Every call waits for its answer; start_generate gives a handle to wait on later."""

    def __init__(self, endpoint, block_size, env, log, **config):
        argv = [sys.executable, "-m", "lib.router_process", endpoint, str(block_size), json.dumps(config)]
        self._log = open(log, "w", encoding="utf-8")
        self._child = subprocess.Popen(
            argv,
            cwd=FOLDER,
            env={key: str(value) for key, value in env.items()},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            start_new_session=True,
        )
        self._answers = {}
        self._guard = threading.Lock()
        self._count = 0
        threading.Thread(target=self._read, daemon=True).start()
        self.call("hello")

    def _read(self):
        for line in self._child.stdout:
            if line.startswith("{"):
                answer = json.loads(line)
                self._answers[answer["id"]].put(answer)
        for waiting in list(self._answers.values()):
            waiting.put({"error": "the router process has ended"})

    def start(self, op, **arguments):
        """Sends a command; the returned function waits for its result."""
        with self._guard:
            self._count += 1
            number = self._count
            self._answers[number] = queue.Queue()
            self._child.stdin.write(json.dumps({"id": number, "op": op, **arguments}) + "\n")
            self._child.stdin.flush()

        def result(seconds=ANSWER_SECONDS):
            answer = self._answers[number].get(timeout=seconds)
            assert "error" not in answer, f"{op}: {answer['error']}"
            return answer["result"]

        return result

    def call(self, op, seconds=ANSWER_SECONDS, **arguments):
        return self.start(op, **arguments)(seconds)

    # --- what a router can be asked
    def instances(self):
        """Ids of the instances that can be reached now."""
        return self.call("instances")

    def generate(self, tokens, max_tokens, worker=None, rank=None):
        """Routes a request; returns its token ids."""
        return self.start_generate(tokens, max_tokens, worker, rank)()

    def start_generate(self, tokens, max_tokens, worker=None, rank=None):
        return self.start("generate", tokens=tokens, max_tokens=max_tokens, worker=worker, rank=rank)

    def best_worker(self, tokens):
        """(worker, rank, overlapping blocks) that would be chosen."""
        return tuple(self.call("best_worker", tokens=tokens))

    def overlap(self, tokens):
        """{(worker, rank): device blocks} for a prompt."""
        rows = self.call("overlap", tokens=tokens)["workers"]
        return {(row["worker_id"], row["dp_rank"]): row["device_blocks"] for row in rows}

    def blocks(self):
        """{(worker, rank, block hash, tokens hash)} that the router believes to be cached."""
        return {tuple(row) for row in self.call("blocks")}

    def close(self):
        if self._child.poll() is None:
            self._child.kill()
        self._child.wait()
        self._log.close()


def dump_blocks(dump):
    """Flattens dump_events: entries are edges of a tree, and one can hold several blocks."""
    found = []
    for entry in json.loads(dump):
        event = entry["event"]
        stored = event["data"].get("stored") if isinstance(event["data"], dict) else None
        for block in stored["blocks"] if stored else []:
            found.append([entry["worker_id"], event["dp_rank"], block["block_hash"], block["tokens_hash"]])
    return found


async def _generate(router, command):
    stream = await router.generate(
        token_ids=command["tokens"],
        model="any",
        stop_conditions={"max_tokens": command["max_tokens"], "ignore_eos": True},
        worker_id=command["worker"],
        dp_rank=command["rank"],
    )
    tokens = []
    async for item in stream:
        tokens += item.get("token_ids") or []
    return tokens


async def _run(router, client, command):
    op = command["op"]
    if op == "generate":
        return await _generate(router, command)
    if op == "blocks":
        return dump_blocks(await router.dump_events())
    if op == "overlap":
        return await router.get_overlap_scores(command["tokens"])
    if op == "best_worker":
        return list(await router.best_worker(command["tokens"]))
    if op == "instances":
        return client.instance_ids()
    return None


async def _serve(endpoint_path, block_size, config):
    from dynamo.llm import KvRouter, KvRouterConfig
    from dynamo.runtime import DistributedRuntime

    loop = asyncio.get_running_loop()
    runtime = DistributedRuntime(
        loop,
        os.environ["DYN_DISCOVERY_BACKEND"],
        os.environ["DYN_REQUEST_PLANE"],
        event_plane=os.environ["DYN_EVENT_PLANE"],
    )
    endpoint = runtime.endpoint(endpoint_path)
    client = await endpoint.client()
    router = KvRouter(endpoint, block_size, KvRouterConfig(**config))

    async def answer(command):
        try:
            reply = {"id": command["id"], "result": await _run(router, client, command)}
        except Exception as error:  # whatever the wheel raises belongs to the test that asked
            reply = {"id": command["id"], "error": f"{type(error).__name__}: {error}"}
        print(json.dumps(reply), flush=True)

    reader = asyncio.StreamReader(limit=2**24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    running = set()
    while line := await reader.readline():
        task = asyncio.create_task(answer(json.loads(line)))
        running.add(task)
        task.add_done_callback(running.discard)


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])))
