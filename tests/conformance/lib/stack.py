"""A site: servers, frontends and workers of one namespace, started on demand and ended together."""

import os
import pathlib
import secrets
import signal
import sys

from lib import http, metrics, ports, proc, router_process, servers, wait

ROOT = pathlib.Path(__file__).resolve().parents[3]
MODEL = ROOT / "tests/data/tiny-model"
BLOCK_SIZE = 16
SPEEDUP = 10
COMPONENT = "mocker"
SERVING = {COMPONENT, "backend", "prefill"}  # components whose instances answer requests
READY_SECONDS = 40
_KEEP = (
    "PATH",
    "LANG",
    "LC_ALL",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "ASAN_OPTIONS",
    "UBSAN_OPTIONS",
    "TSAN_OPTIONS",
)


class Frontend:
    """The real frontend. Its client calls are chat(), completion() and their start_ forms."""

    def __init__(self, child, port, site):
        self.child = child
        self.port = port
        self.site = site
        self.model = None  # the name it is listed under, once it is

    # --- requests
    def start_chat(
        self,
        text,
        max_tokens=10,
        stream=True,
        timeout=http.DEFAULT_TIMEOUT,
        headers=None,
        hold=None,
        **more,
    ):
        """Starts a chat with one user message and returns the running Reply; `more` goes into the
        body as it is.
        """
        body = {
            "model": self.model,
            "messages": [{"role": "user", "content": text}],
            "stream": stream,
            **more,
        }
        if max_tokens is not None:
            body["max_tokens"] = max_tokens
        return http.start(self.port, "POST", "/v1/chat/completions", body, headers, timeout, hold)

    def chat(self, text, timeout=http.DEFAULT_TIMEOUT, **more):
        return self.start_chat(text, timeout=timeout, **more).wait(timeout + 5)

    def completion(self, prompt, max_tokens=10, stream=False, timeout=http.DEFAULT_TIMEOUT, **more):
        body = {
            "model": self.model,
            "prompt": prompt,
            "stream": stream,
            "max_tokens": max_tokens,
            **more,
        }
        return http.start(self.port, "POST", "/v1/completions", body, None, timeout).wait(
            timeout + 5
        )

    def many(self, texts, timeout=http.DEFAULT_TIMEOUT, **more):
        """Sends one chat per text at once and waits for all of them."""
        return [
            r.wait(timeout + 5)
            for r in [self.start_chat(text, timeout=timeout, **more) for text in texts]
        ]

    # --- state
    def models(self):
        return [model["id"] for model in http.get(self.port, "/v1/models").json()["data"]]

    def instances(self):
        """Instance ids of the generate endpoint that this frontend lists."""
        listed = http.get(self.port, "/health").json().get("instances") or []
        return {
            f"{entry['instance_id']:x}"
            for entry in listed
            if entry.get("endpoint") == "generate" and entry.get("component") in SERVING
        }

    def metrics(self):
        return metrics.scrape(self.port)

    def _models_if_all_alive(self):
        for child in [self.child, *(worker.child for worker in self.site.workers)]:
            child.assert_not_ended()
        return self.models()

    def wait_listed(self, instances=1):
        """Waits until a model and so many instances of it are listed; fails at once when a process
        has ended by itself.
        """
        self.model = wait.until(self._models_if_all_alive, READY_SECONDS, "a model is listed")[0]
        wait.until(
            lambda: len(self.instances()) >= instances,
            READY_SECONDS,
            f"{instances} instances are listed",
        )
        return self

    def wait_ready(self, instances=1):
        """Ready: a model is listed, the instances are there, and a chat of one token is answered
        with 200.
        """
        self.wait_listed(instances)
        wait.until(
            lambda: self.chat("hello", max_tokens=1, stream=False, timeout=5).status == 200,
            READY_SECONDS,
            "a chat is served",
        )
        return self


class Worker:
    """A worker process of either implementation. `system_port` serves its /metrics, /health and
    /live.
    """

    def __init__(self, child, system_port, site):
        self.child = child
        self.system_port = system_port
        self.site = site

    def metrics(self):
        return metrics.scrape(self.system_port)

    def health(self, path="/health"):
        return http.get(self.system_port, path)

    def instance_ids(self):
        """Ids (hex) of the instances of this process, from its metrics; empty until it has some."""
        return self.metrics().label_values("dynamo_component_inflight_requests", "worker_id")

    def instance_id(self):
        """The id (hex) of a process with one worker."""
        (only,) = wait.until(
            self.instance_ids, READY_SECONDS, "the worker's metrics name its instance"
        )
        return only

    def inflight(self):
        return self.metrics().total(
            "dynamo_component_inflight_requests", dynamo_endpoint="generate"
        )

    def terminate(self):
        self.child.signal(signal.SIGTERM)
        return self

    def kill(self):
        self.child.kill()


class Site:
    """Own NATS, own etcd (or a folder), own namespace; everything ends with close()."""

    def __init__(self, folder, impl, discovery="etcd", event_plane="nats"):
        self.folder = pathlib.Path(folder)
        self.impl = impl
        self.discovery = discovery
        self.event_plane = event_plane
        self.namespace = f"ns{secrets.token_hex(4)}"
        self.file_store = self.folder / "filekv"
        self.nats = servers.Nats(self.folder)
        self.etcd = servers.Etcd(self.folder) if discovery == "etcd" else None
        self.children = []
        self.workers = []
        self.routers = []
        self.count = 0

    def start_servers(self):
        self.nats.start()
        if self.etcd:
            self.etcd.start()
        return self

    def env(self, extra=None):
        """Environment of a child: nothing of the caller's but the basics, and a home of its own."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        env = {key: os.environ[key] for key in _KEEP if key in os.environ}
        env |= {
            "HOME": home,
            "NATS_SERVER": self.nats.url,
            "DYN_REQUEST_PLANE": "nats",
            "DYN_EVENT_PLANE": self.event_plane,
            "DYN_DISCOVERY_BACKEND": self.discovery,
            "HF_HUB_OFFLINE": 1,
            "DYN_NAMESPACE": self.namespace,
            "DYN_LOG": "info",
            "TOKENIZERS_PARALLELISM": "false",
        }
        if self.etcd:
            env["ETCD_ENDPOINTS"] = self.etcd.url
        else:
            env["DYN_FILE_KV"] = self.file_store
        return env | (extra or {})

    def child(self, name, argv, env):
        self.count += 1
        started = proc.Child(name, argv, env, self.folder / f"{self.count:02d}-{name}.log").start()
        self.children.append(started)
        return started

    def start_frontend(self, mode="kv", flags=(), env=None, migration_limit=0, python=None):
        """Starts a frontend (of this run's release, or of the wheel beside `python`) and returns it
        without waiting.
        """
        port = ports.free_port()
        argv = [
            python or sys.executable,
            "-m",
            "dynamo.frontend",
            "--http-port",
            port,
            "--http-host",
            "127.0.0.1",
            "--router-mode",
            mode,
            "--kv-cache-block-size",
            BLOCK_SIZE,
            "--namespace",
            self.namespace,
            "--migration-limit",
            migration_limit,
            *flags,
        ]
        return Frontend(self.child(f"frontend-{mode}", argv, self.env(env)), port, self)

    def start_worker(
        self,
        flags=(),
        env=None,
        speedup=SPEEDUP,
        block_size=BLOCK_SIZE,
        name="worker",
        component=COMPONENT,
        impl=None,
    ):
        """Starts a worker process (either implementation, same flags) and returns it without
        waiting.
        """
        system_port = ports.free_port()
        argv = (impl or self.impl).argv(
            [
                "--model-path",
                str(MODEL),
                "--endpoint",
                f"dyn://{self.namespace}.{component}.generate",
                "--speedup-ratio",
                str(speedup),
                "--block-size",
                str(block_size),
                "--discovery-backend",
                self.discovery,
                "--request-plane",
                "nats",
                "--event-plane",
                self.event_plane,
                *[str(flag) for flag in flags],
            ]
        )
        more = {"DYN_SYSTEM_PORT": system_port, "DYN_SYSTEM_HOST": "127.0.0.1"} | (env or {})
        self.workers.append(Worker(self.child(name, argv, self.env(more)), system_port, self))
        return self.workers[-1]

    def start_relay(self, worker, port, ranks, block_size, replay_port=None):
        """Starts a relay of an engine's sockets that speaks for `worker`, and returns its process
        without waiting.
        """
        argv = self.impl.relay_argv(
            endpoint=f"{self.namespace}.{COMPONENT}.generate",
            worker_id=int(worker.instance_id(), 16),
            port=port,
            replay_port=replay_port,
            ranks=ranks,
            block_size=block_size,
        )
        return self.child("relay", argv, self.env())

    def start_router(
        self, block_size=BLOCK_SIZE, instances=1, env=None, component=COMPONENT, **config
    ):
        """Starts a KV router in a process of its own (`env`: variables besides the site's) and waits
        until it can reach so many instances.
        """
        self.count += 1
        router = router_process.Router(
            f"{self.namespace}.{component}.generate",
            block_size,
            self.env(env),
            self.folder / f"{self.count:02d}-router.log",
            **config,
        )
        self.routers.append(router)
        wait.until(
            lambda: len(router.instances()) >= instances,
            READY_SECONDS,
            f"the router reaches {instances} instances",
        )
        return router

    def instance_keys(self):
        """Discovery keys of this namespace (etcd only)."""
        return self.etcd.keys(f"v1/instances/{self.namespace}/")

    def lease_of(self, instance, component=COMPONENT):
        """Lease id that the instance record of a hex instance id hangs on (etcd only)."""
        items = self.etcd.items(f"v1/instances/{self.namespace}/{component}/generate/")
        return next(lease for key, (_, lease) in items.items() if key.endswith(f"/{instance}"))

    def keys_of_lease(self, lease):
        """Every discovery key that hangs on a lease (etcd only)."""
        return [key for key, (_, have) in self.etcd.items("v1/").items() if have == lease]

    def logs(self):
        """Tails of all logs, for a failure report."""
        found = [child.log_tail() for child in self.children]
        found += [
            server.child.log_tail() for server in (self.nats, self.etcd) if server and server.child
        ]
        return "\n".join(found)

    def close(self):
        for router in self.routers:
            router.close()
        for child in self.children:
            child.kill()
        for server in (self.nats, self.etcd):
            if server and server.child:
                server.child.kill()
                server.wipe()  # 64 MB of log file each, over the whole suite


def hub_lookup_argv():
    """A command that asks the model hub for a model that isn't local, as a worker or frontend
    would.
    """
    code = "from huggingface_hub import snapshot_download as get; get('nobody/no-such-model')"
    return [sys.executable, "-c", code]
