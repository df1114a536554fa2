"""C-025 with the event plane that Dynamo takes when nothing is said: ZMQ."""

import pytest

from lib import load, sse, wait

pytestmark = pytest.mark.releases("r13", "r16")

SYNC_SECONDS = 15


def test_c025_over_zmq(zmq_site):
    for _ in range(2):
        zmq_site.start_worker()
    frontend = zmq_site.start_frontend().wait_ready(instances=2)
    text = load.words(72, seed=2510)

    def hit_rate():
        reply = frontend.chat(text, max_tokens=4, nvext=load.WITH_TIMING)
        load.assert_full_stream(reply, 4)
        return sse.nvext(reply.events, "timing")[-1]["kv_hit_rate"]

    assert hit_rate() == 0.0
    wait.until(lambda: hit_rate() > 0.5, SYNC_SECONDS, "the prefix is known")
