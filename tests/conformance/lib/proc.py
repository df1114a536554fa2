"""Child processes: own group, log to a file, killed as a group by the one who started them."""

import os
import shutil
import signal
import subprocess
import time

MARK = "UNDERSTUDY_CONFORMANCE_RUN"
TAIL_BYTES = 4000


class Child:
    """One child process and whatever it starts; it can be started again with `start`."""

    def __init__(self, name, argv, env, log_path):
        self.name = name
        self.argv = [str(part) for part in argv]
        self.env = {key: str(value) for key, value in env.items()}
        self.env[MARK] = str(os.getpid())
        self.log_path = log_path
        self.process = None
        self.started_at = None
        self.told_to_end = False

    def start(self):
        """Starts the process; its group is its own and dies with it even when pytest itself is
        killed.
        """
        guard = shutil.which("setpriv")
        argv = ([guard, "--pdeathsig", "KILL", "--"] if guard else []) + self.argv
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                argv,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.started_at = time.monotonic()
        self.told_to_end = False
        return self

    @property
    def pid(self):
        return self.process.pid

    def exit_code(self):
        """The exit code, or None while it runs."""
        return self.process.poll()

    def is_running(self):
        return self.process is not None and self.process.poll() is None

    def signal(self, number):
        """Sends a signal to the main process only."""
        self.told_to_end |= number in (signal.SIGTERM, signal.SIGINT, signal.SIGKILL)
        os.kill(self.process.pid, number)

    def assert_not_ended(self):
        """Fails at once, with the log, when it has ended without having been told to."""
        assert (
            self.is_running() or self.told_to_end
        ), f"{self.name} ended with {self.exit_code()}\n{self.log_tail()}"

    def wait_exit(self, seconds):
        """Waits for the end and returns (exit code, seconds it took)."""
        begin = time.monotonic()
        try:
            code = self.process.wait(seconds)
        except subprocess.TimeoutExpired:
            raise AssertionError(
                f"{self.name} still runs after {seconds} s\n{self.log_tail()}"
            ) from None
        return code, time.monotonic() - begin

    def kill(self):
        """SIGKILL for the whole group, also when the main process is stopped or gone; waits for the
        end.
        """
        if self.process is None:
            return
        self.told_to_end = True
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)

    def log_text(self):
        return self.log_path.read_text(errors="replace") if self.log_path.exists() else ""

    def log_tail(self):
        return f"--- {self.name}: {' '.join(self.argv)}\n{self.log_text()[-TAIL_BYTES:]}"


def marked_processes():
    """Processes of this run that are still alive (found by the mark in their environment)."""
    wanted = f"{MARK}={os.getpid()}".encode()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid():
            continue
        try:
            with open(f"/proc/{entry}/environ", "rb") as handle:
                if wanted in handle.read().split(b"\0"):
                    with open(f"/proc/{entry}/cmdline", "rb") as command:
                        found.append(
                            (
                                int(entry),
                                command.read().replace(b"\0", b" ").decode(errors="replace"),
                            )
                        )
        except OSError:
            continue
    return found
