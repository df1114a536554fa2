"""The reference worker: the mocker of the wheel that runs this suite."""

import importlib.metadata
import sys

NAME = "reference"


def argv(flags):
    """Command line for a list of worker flags."""
    return [sys.executable, "-m", "dynamo.mocker", *flags]


def version():
    return f"ai-dynamo {importlib.metadata.version('ai-dynamo')}"


def check():
    """Nothing to check: the wheel is what pytest itself runs in."""
