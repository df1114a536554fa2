"""Which Dynamo release this run is about: the one of the wheel that runs the suite."""

import importlib.metadata

ALL = ("r13", "r16")


def version():
    return importlib.metadata.version("ai-dynamo")


def name():
    major, minor = version().split(".")[:2]
    return f"r{major}{minor}"
