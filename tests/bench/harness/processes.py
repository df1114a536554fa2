"""Child processes that never outlive the run, and what /proc says about them."""
import os
import pathlib
import random
import signal
import socket
import subprocess
import time

STOP_SECONDS = 10
ESTABLISHED = "01"


class Failure(Exception):
    """Ends the run with one line."""


class Child:
    """A process in a group of its own, its output in a file."""

    def __init__(self, name, argv, env, log):
        self.name = name
        self.log = pathlib.Path(log)
        self.started = time.monotonic()
        with open(self.log, "wb") as out:
            self.process = subprocess.Popen(
                [str(part) for part in argv], env=env, stdin=subprocess.DEVNULL, stdout=out,
                stderr=subprocess.STDOUT, start_new_session=True)

    @property
    def pid(self):
        return self.process.pid

    def require_running(self):
        if self.process.poll() is not None:
            tail = self.log.read_text(errors="replace").splitlines()[-8:]
            raise Failure("\n".join([f"{self.name} ended with {self.process.returncode}:", *tail]))

    def stop(self):
        """SIGTERM, then SIGKILL to what is left of the group. Returns the seconds until it ended."""
        begin = time.monotonic()
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait()
        return time.monotonic() - begin


def free_low_port():
    """One that fits into 15 bits: the reference reads DYN_SYSTEM_PORT as a signed 16-bit number."""
    for port in random.sample(range(12_000, 30_000), 100):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue
    raise Failure("no free port between 12000 and 30000")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(condition, seconds, what, step=0.005):
    """Polls; the condition may raise Failure to give up early."""
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        if time.monotonic() > deadline:
            raise Failure(f"not within {seconds} s: {what}")
        time.sleep(step)
    return value


def status_field(pid, field):
    """A number of /proc/PID/status; memory fields are in kB."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1])
    return 0


def connections_to(pid, port):
    """TCP connections of a process to a port of this machine, by the inodes of its descriptors."""
    inodes = set()
    for entry in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(entry)
        except OSError:
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    count = 0
    for table in ("tcp", "tcp6"):
        for line in pathlib.Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
            column = line.split()
            remote_port = int(column[2].rpartition(":")[2], 16)
            count += column[3] == ESTABLISHED and remote_port == port and column[9] in inodes
    return count
