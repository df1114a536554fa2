"""Our worker: the release binary, or the one UNDERSTUDY_BIN names."""

import os
import pathlib
import subprocess

import pytest

from lib import release

NAME = "ours"
ROOT = pathlib.Path(__file__).resolve().parents[3]


def binary():
    return pathlib.Path(os.environ.get("UNDERSTUDY_BIN") or ROOT / "build/release/bin/understudy")


def argv(flags):
    """Command line for a list of worker flags: the same flags as the reference's; the engine is that
    of the release that it is compared with.
    """
    semantics = {"r13": "1.3", "r16": "1.6"}[release.name()]
    return [str(binary()), "--engine-semantics", semantics, *flags]


def relay_argv(endpoint, worker_id, port, replay_port, ranks, block_size):
    """Command line of a relay that reads an engine at port + rank and speaks for another worker."""
    flags = ["--endpoint", f"dyn://{endpoint}", "--instance-id", f"{worker_id:x}"]
    flags += ["--zmq-endpoint", f"tcp://127.0.0.1:{port}", "--data-parallel-size", ranks]
    flags += ["--block-size", block_size]
    if replay_port:
        flags += ["--zmq-replay-endpoint", f"tcp://127.0.0.1:{replay_port}"]
    return [str(binary()), "relay", *[str(flag) for flag in flags]]


def version():
    return subprocess.run(
        [binary(), "--version"], capture_output=True, text=True, check=True
    ).stdout.strip()


def check():
    """Says in one line what is missing."""
    if not os.access(binary(), os.X_OK):
        raise pytest.UsageError(
            f"conformance: no worker at {binary()}: run ./dev build or set UNDERSTUDY_BIN"
        )
