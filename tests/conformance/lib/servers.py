"""nats-server and etcd as child processes on fixed ports, so that they can be stopped and come back
at the same place.
"""

import base64
import json
import os
import pathlib
import shutil
import signal
import urllib.request

from lib import ports, proc, wait


class Server:
    """A server that can be started, stopped, paused and started again at the same address."""

    def __init__(self, name, folder):
        self.name = name
        self.folder = pathlib.Path(folder)
        self.port = ports.free_port()
        self.runs = 0
        self.child = None

    def argv(self):
        raise NotImplementedError

    def start(self):
        self.child = proc.Child(
            self.name, self.argv(), dict(os.environ), self.folder / f"{self.name}.log"
        ).start()
        self.runs += 1
        wait.until(self.answers, 10, f"{self.name} accepts connections")
        return self

    def answers(self):
        assert self.child.is_running(), f"{self.name} ended\n{self.child.log_tail()}"
        return ports.is_listening(self.port)

    def kill(self):
        """Stops it hard and makes sure that nobody answers at its address any more."""
        self.child.kill()
        assert not ports.is_listening(self.port), f"{self.name} still answers after SIGKILL"

    def pause(self):
        self.child.signal(signal.SIGSTOP)

    def resume(self):
        self.child.signal(signal.SIGCONT)

    def wipe(self):
        """Throws the data away (only while stopped)."""
        shutil.rmtree(self.data, ignore_errors=True)


class Nats(Server):
    def __init__(self, folder):
        super().__init__("nats-server", folder)
        self.data = self.folder / "nats-data"
        self.url = f"nats://127.0.0.1:{self.port}"

    def argv(self):
        return ["nats-server", "-a", "127.0.0.1", "-p", self.port, "-js", "-sd", self.data]


class Etcd(Server):
    def __init__(self, folder):
        super().__init__("etcd", folder)
        self.data = self.folder / "etcd-data"
        self.peer_port = ports.free_port()
        self.url = f"http://127.0.0.1:{self.port}"

    def argv(self):
        peer = f"http://127.0.0.1:{self.peer_port}"
        return [
            "etcd",
            "--data-dir",
            self.data,
            "--logger",
            "zap",
            "--log-level",
            "warn",
            "--name",
            "default",
            "--listen-client-urls",
            self.url,
            "--advertise-client-urls",
            self.url,
            "--listen-peer-urls",
            peer,
            "--initial-advertise-peer-urls",
            peer,
            "--initial-cluster",
            f"default={peer}",
        ]

    def answers(self):
        return super().answers() and self.keys("v1/") is not None

    def call(self, path, body, seconds=5):
        request = urllib.request.Request(self.url + path, json.dumps(body).encode())
        opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with opener.open(request, timeout=seconds) as answer:
            return json.load(answer)

    def items(self, prefix):
        """All keys under a prefix with their value (text) and lease id (0 = none)."""
        key = base64.b64encode(prefix.encode()).decode()
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        body = {"key": key, "range_end": base64.b64encode(end.encode()).decode()}
        found = self.call("/v3/kv/range", body).get("kvs", [])
        return {
            base64.b64decode(kv["key"]).decode(): (
                base64.b64decode(kv.get("value", "")).decode(),
                int(kv.get("lease", 0)),
            )
            for kv in found
        }

    def keys(self, prefix):
        return sorted(self.items(prefix))

    def put(self, key, value, lease):
        encoded = [base64.b64encode(text.encode()).decode() for text in (key, value)]
        self.call("/v3/kv/put", {"key": encoded[0], "value": encoded[1], "lease": str(lease)})

    def delete(self, key):
        self.call("/v3/kv/deleterange", {"key": base64.b64encode(key.encode()).decode()})

    def revoke(self, lease):
        self.call("/v3/lease/revoke", {"ID": str(lease)})
