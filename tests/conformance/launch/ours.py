"""Our worker: the release binary, or the one UNDERSTUDY_BIN names."""

import os
import pathlib
import subprocess

import pytest

NAME = "ours"
ROOT = pathlib.Path(__file__).resolve().parents[3]


def binary():
    return pathlib.Path(os.environ.get("UNDERSTUDY_BIN") or ROOT / "build/release/bin/understudy")


def argv(flags):
    """Command line for a list of worker flags: the same flags as the reference's."""
    return [str(binary()), *flags]


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
