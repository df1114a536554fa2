"""Driving a live worker: ours by its control endpoint, the reference, which has none, by what can be done to it
from outside.
"""

import json
import subprocess

from launch import ours


def ctl(site, *arguments, component="mocker"):
    """Lines of JSON that `understudy ctl` printed."""
    done = subprocess.run(
        [
            str(ours.binary()),
            "ctl",
            *arguments,
            "--endpoint",
            f"dyn://{site.namespace}.{component}.generate",
            "--json",
        ],
        env={key: str(value) for key, value in site.env().items()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, (arguments, done.stderr, done.stdout)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Switch:
    """Takes an instance out of discovery and puts it back."""

    def __init__(self, site, instance, component="mocker"):
        self._site = site
        self._instance = instance
        self._component = component
        self._key = f"v1/instances/{site.namespace}/{component}/generate/{instance}"
        self._record = None

    def drain(self):
        if self._site.impl is ours:
            (state,) = ctl(self._site, "drain", "--instance", self._instance, component=self._component)
            assert state["changed"]
        else:
            self._record = self._site.etcd.items(self._key)[self._key]
            self._site.etcd.delete(self._key)
        return self

    def resume(self):
        if self._site.impl is ours:
            (state,) = ctl(self._site, "resume", "--instance", self._instance, component=self._component)
            assert state["changed"]
        else:
            self._site.etcd.put(self._key, *self._record)
        return self
