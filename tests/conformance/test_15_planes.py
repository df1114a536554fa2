"""C-001 over other settings: file discovery, msgpack, no network."""

import socketserver
import threading

import pytest

from lib import load, stack, wait


def serve_hundred(frontend):
    replies = frontend.many([load.HOT_PROMPT] * 100, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 10)
    return replies


def instance_files(site):
    folder = site.file_store / "v1/instances"
    return (
        [path.name for path in folder.iterdir() if "generate" in path.name]
        if folder.exists()
        else []
    )


def test_c001_with_file_discovery(file_site):
    workers = [file_site.start_worker() for _ in range(2)]
    frontend = file_site.start_frontend().wait_ready(instances=2)
    assert set(load.spread(serve_hundred(frontend))) <= {worker.instance_id() for worker in workers}
    assert len(instance_files(file_site)) == 2
    workers[0].terminate()
    assert workers[0].child.wait_exit(10)[0] == 0
    wait.until(
        lambda: len(frontend.instances()) == 1, 5, "the frontend has dropped the worker that ended"
    )
    assert len(instance_files(file_site)) == 1
    serve_hundred(frontend)


def test_c092_killed_worker_leaves_file_discovery(file_site, observe):
    workers = [file_site.start_worker() for _ in range(2)]
    frontend = file_site.start_frontend().wait_ready(instances=2)
    dead, alive = (worker.instance_id() for worker in workers)
    workers[0].kill()
    wait.until(lambda: frontend.instances() == {alive}, 20, f"{dead} is dropped and {alive} stays")
    serve_hundred(frontend)


@pytest.mark.parametrize("codec", ["msgpack", "json"])
def test_c001_in_either_codec(site, expect, codec):
    site.start_worker()
    frontend = site.start_frontend(env={"DYN_REQUEST_PLANE_CODEC": codec}).wait_ready()
    serve_hundred(frontend)
    refused = frontend.chat("hello", max_tokens=None, stream=False)
    assert {"status": refused.status, "message": refused.json()["message"]} == expect(
        "refused_in_either_codec"
    )


def test_msgpack_and_json_frontends_share_a_worker(site):
    worker = site.start_worker()
    pair = [
        site.start_frontend(env={"DYN_REQUEST_PLANE_CODEC": codec}) for codec in ("msgpack", "json")
    ]
    for frontend in pair:
        frontend.wait_ready()
    running = [
        pair[i % 2].start_chat(load.words(40, seed=150 + i), max_tokens=20) for i in range(40)
    ]
    load.assert_full_streams([reply.wait() for reply in running], 20)
    wait.until(lambda: worker.inflight() == 0, 5, "no request in flight")


class Trap:
    """Counts connections to what the children are told is the model hub and the proxy to everything
    else.
    """

    def __enter__(self):
        trap = self
        self.hits = 0

        class Handler(socketserver.BaseRequestHandler):
            def handle(self):
                trap.hits += 1

        self.server = socketserver.ThreadingTCPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        url = f"http://127.0.0.1:{self.server.server_address[1]}"
        self.env = {
            "HF_ENDPOINT": url,
            "HTTPS_PROXY": url,
            "https_proxy": url,
            "HF_HUB_OFFLINE": "",
        }
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()


def test_u47_a_local_model_folder_needs_no_network(site):
    """No offline switch is set: whoever wanted the hub would ask it, and nobody does."""
    with Trap() as trap:
        site.start_worker(env=trap.env)
        frontend = site.start_frontend(env=trap.env).wait_ready()
        load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 5, max_tokens=5), 5)
        assert trap.hits == 0


def test_u47_the_trap_catches_who_asks_the_hub(site):
    """Negative control: a model that is no folder makes a process ask the hub, and the trap sees
    it.
    """
    with Trap() as trap:
        site.child("asks-the-hub", stack.hub_lookup_argv(), site.env(trap.env))
        wait.until(lambda: trap.hits > 0, 20, "a connection to the hub")
