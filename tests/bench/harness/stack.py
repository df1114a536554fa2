"""nats-server, etcd and the workers under comparison."""
import base64
import hashlib
import http.client
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time
import urllib.request

from harness.processes import Child, Failure, free_low_port, free_port, until

ROOT = pathlib.Path(__file__).resolve().parents[3]
REQUIREMENTS = ROOT / "tests/conformance/venv/requirements-r13.txt"
MODEL = ROOT / "tests/data/tiny-model"
SERVER_SECONDS = 15
WORKER_SECONDS = 60
FREE_RUNNING = ["--speedup-ratio", "1000000"]
NO_PREFIX_CACHE = ["--no-enable-prefix-caching"]


def program(name):
    found = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if not found:
        raise Failure(f"{name} is not installed: ./dev setup")
    return found


def venv_r13():
    """The venv with the reference worker: the one named, else the conformance suite's, made if absent."""
    if named := os.environ.get("UNDERSTUDY_VENV_R13"):
        return pathlib.Path(named)
    folder = pathlib.Path(os.environ.get("UNDERSTUDY_VENV_DIR") or ROOT / "build/venv") / "r13"
    python = os.environ.get("PYTHON", "python3")
    version = subprocess.run([python, "--version"], capture_output=True, text=True, check=True)
    digest = hashlib.sha256(REQUIREMENTS.read_bytes()).hexdigest()
    stamp = f"{version.stdout.strip()}\n{digest}  -\n"
    if not (folder / "stamp").is_file() or (folder / "stamp").read_text() != stamp:
        print(f"installing the reference worker into {folder} (some minutes, once)", file=sys.stderr)
        shutil.rmtree(folder, ignore_errors=True)
        folder.parent.mkdir(parents=True, exist_ok=True)
        for command in ([python, "-m", "venv", folder],
                        [folder / "bin/pip", "install", "-q", "--disable-pip-version-check", "-r", REQUIREMENTS]):
            if subprocess.run([str(part) for part in command], stdout=sys.stderr).returncode:
                raise Failure(f"failed: {' '.join(map(str, command))}")
        (folder / "stamp").write_text(stamp)
    return folder


class Servers:
    """One nats-server and one etcd for the whole run."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.children = []
        self.nats_port, self.etcd_port = free_port(), free_port()
        self.nats_url = f"nats://127.0.0.1:{self.nats_port}"
        self.etcd_url = f"http://127.0.0.1:{self.etcd_port}"

    def start(self):
        env = dict(os.environ)
        peer = f"http://127.0.0.1:{free_port()}"
        nats = ["-a", "127.0.0.1", "-p", self.nats_port]
        etcd = ["--data-dir", self.folder / "etcd", "--log-level", "error", "--name", "bench",
                "--listen-client-urls", self.etcd_url, "--advertise-client-urls", self.etcd_url,
                "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
                "--initial-cluster", f"bench={peer}"]
        for name, flags in (("nats-server", nats), ("etcd", etcd)):
            child = Child(name, [program(name), *flags], env, self.folder / f"{name}.log")
            self.children.append(child)
        for child, port in zip(self.children, (self.nats_port, self.etcd_port)):
            until(lambda: self.answers(child, port), SERVER_SECONDS, f"{child.name} answers")
        return self

    @staticmethod
    def answers(child, port):
        child.require_running()
        link = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
        try:
            link.connect()
            return True
        except OSError:
            return False
        finally:
            link.close()

    def call(self, path, body):
        """One call of etcd's JSON gateway; None while it does not answer."""
        link = http.client.HTTPConnection("127.0.0.1", self.etcd_port, timeout=5)
        try:
            link.request("POST", path, json.dumps(body))
            answer = link.getresponse()
            text = answer.read()
            return json.loads(text) if answer.status == 200 else None
        except (OSError, http.client.HTTPException):
            return None
        finally:
            link.close()

    def records(self, prefix):
        """Keys under a prefix with their decoded JSON."""
        end = prefix[:-1] + chr(ord(prefix[-1]) + 1)
        encode = lambda text: base64.b64encode(text.encode()).decode()  # noqa: E731
        answer = self.call("/v3/kv/range", {"key": encode(prefix), "range_end": encode(end)}) or {}
        return {base64.b64decode(kv["key"]).decode(): json.loads(base64.b64decode(kv["value"]))
                for kv in answer.get("kvs", [])}

    def lease_count(self):
        return len((self.call("/v3/lease/leases", {}) or {}).get("leases", []))

    def stop(self):
        for child in self.children:
            child.stop()


class Peer:
    """A kind of worker: how it is started. Flags are the same for all kinds but for `worker_flags`."""

    def __init__(self, name, title, argv, worker_flags=()):
        self.name, self.title, self.argv = name, title, [str(part) for part in argv]
        self.worker_flags = worker_flags


class Worker:
    """One started worker, found by its own namespace."""

    count = 0

    def __init__(self, peer, servers, flags):
        Worker.count += 1
        self.peer, self.servers = peer, servers
        self.namespace = f"bench{Worker.count}"
        self.status_port = free_low_port()
        env = {key: value for key, value in os.environ.items() if not key.startswith(("DYN_", "NATS_", "ETCD_"))}
        env.update(NATS_SERVER=servers.nats_url, ETCD_ENDPOINTS=servers.etcd_url, DYN_NAMESPACE=self.namespace,
                   HF_HUB_OFFLINE="1", DYN_LOG="warn", DYN_SYSTEM_PORT=str(self.status_port))
        argv = [*peer.argv, "--model-path", MODEL, "--discovery-backend", "etcd", "--request-plane", "nats",
                "--event-plane", "nats", *peer.worker_flags, *flags]
        self.child = Child(peer.title, argv, env, servers.folder / f"{peer.name}-{Worker.count}.log")

    def wait_registered(self):
        """Waits for the model record and the endpoint's record. Returns seconds since the process began."""
        def registered():
            self.child.require_running()
            return self.servers.records(f"v1/mdc/{self.namespace}/") and self.targets()
        until(registered, WORKER_SECONDS, f"{self.peer.title} is registered", step=0.002)
        return time.monotonic() - self.child.started

    def targets(self):
        """Addresses for the load generator, one per instance."""
        found = self.servers.records(f"v1/instances/{self.namespace}/")
        subjects = [value["transport"]["nats_tcp"] for value in found.values() if value["endpoint"] == "generate"]
        return [f"{self.servers.nats_url}/{subject}" for subject in sorted(subjects)]

    def metric(self, name):
        """Sum over a family's series on the status port; None when the worker has no such family."""
        url = f"http://127.0.0.1:{self.status_port}/metrics"
        with urllib.request.urlopen(url, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        values = [float(line.rsplit(" ", 1)[1]) for line in lines if re.match(rf"{name}[ {{]", line)]
        return sum(values) if values else None

    def stop(self):
        return self.child.stop()
