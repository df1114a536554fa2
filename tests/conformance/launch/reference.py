"""The reference worker: the mocker of the wheel that runs this suite."""

import importlib.metadata
import json
import pathlib
import sys

NAME = "reference"


def argv(flags):
    """Command line for a list of worker flags."""
    return [sys.executable, "-m", "dynamo.mocker", *flags]


def relay_argv(endpoint, worker_id, port, replay_port, ranks, block_size):
    """Command line of a relay that reads an engine at port + rank and speaks for another worker. The
    reference asks no replay socket.
    """
    script = pathlib.Path(__file__).resolve().parents[1] / "lib/relay_process.py"
    options = {"worker_id": worker_id, "port": port, "ranks": ranks, "block_size": block_size}
    return [sys.executable, str(script), endpoint, json.dumps(options)]


def version():
    return f"ai-dynamo {importlib.metadata.version('ai-dynamo')}"


def check():
    """Nothing to check: the wheel is what pytest itself runs in."""
