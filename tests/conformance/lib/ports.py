"""Free ports for child processes.

Ports come from below the kernel's ephemeral range, so that a connection some child opens meanwhile
can't take one, and each is held by a lock file until this process ends, so that two suites on one
machine don't collide.
"""

import atexit
import fcntl
import os
import pathlib
import random
import socket
import tempfile

FIRST, LAST = 14000, 31999
_held = []


def _is_free(port):
    for family, host in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            if family == socket.AF_INET6:
                probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            try:
                probe.bind((host, port))
            except OSError:
                return False
    return True


def _lock(port):
    folder = pathlib.Path(tempfile.gettempdir()) / f"understudy-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    handle = open(folder / f"{port}.lock", "w", encoding="ascii")
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        handle.close()
        return False
    _held.append(handle)
    atexit.register(pathlib.Path(handle.name).unlink, missing_ok=True)
    return True


def free_port():
    """Returns a port that nobody listens on and that no other call will return while this process
    lives.
    """
    for _ in range(2000):
        port = random.randint(FIRST, LAST)
        if _is_free(port) and _lock(port):
            return port
    raise RuntimeError(f"no free port in {FIRST}..{LAST}")


def free_range(count):
    """Returns the first of so many consecutive ports, each as free_port gives one."""
    for _ in range(2000):
        first = random.randint(FIRST, LAST - count)
        span = range(first, first + count)
        if all(_is_free(port) for port in span) and all(_lock(port) for port in span):
            return first
    raise RuntimeError(f"no {count} free ports side by side in {FIRST}..{LAST}")


def is_listening(port):
    """Whether something accepts connections on the loopback port right now."""
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
