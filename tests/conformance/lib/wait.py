"""Polling with a deadline: the only way this suite waits for anything."""

import time


def until(condition, seconds, what, every=0.05):
    """Calls `condition` until it returns something true and returns that; after `seconds` raises
    AssertionError naming `what`.

    Exceptions of the kind a not yet started server causes (OSError) count as "not yet".
    """
    deadline = time.monotonic() + seconds
    last = None
    while True:
        try:
            last = condition()
            if last:
                return last
        except OSError as error:
            last = error
        if time.monotonic() >= deadline:
            raise AssertionError(f"not within {seconds} s: {what} (last seen: {last!r})")
        time.sleep(every)


def holds_for(condition, seconds, what, every=0.1):
    """Asserts that `condition` stays true for the whole time (for claims that something does not
    happen).
    """
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        assert condition(), f"did not hold for {seconds} s: {what}"
        time.sleep(every)
