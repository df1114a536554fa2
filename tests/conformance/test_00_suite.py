"""The suite's own tools must be able to fail: a check that can't is worth nothing."""

import signal

import pytest

from lib import load, ports, record, sse, wait


def test_sse_parser_gives_the_same_events_for_any_split():
    stream = b': hi\n\ndata: {"a": 1}\n\nevent: error\ndata: {"message": "m", "code": 500}\n\ndata: [DONE]\n\n'
    whole = sse.Parser().feed(stream)
    assert whole == [
        {"sse_comment": "hi"},
        {"a": 1},
        {"sse_event": "error"},
        {"message": "m", "code": 500},
        "[DONE]",
    ]
    for cut in range(len(stream)):
        parser = sse.Parser()
        assert parser.feed(stream[:cut]) + parser.feed(stream[cut:]) == whole


def test_free_ports_differ_and_are_free():
    found = [ports.free_port() for _ in range(50)]
    assert len(set(found)) == 50
    assert not any(ports.is_listening(port) for port in found)


def test_waiting_for_something_that_never_comes_fails():
    with pytest.raises(AssertionError, match="not within 0.1 s: a miracle"):
        wait.until(lambda: False, 0.1, "a miracle")


def test_a_test_without_a_matching_record_is_unproven(tmp_path):
    path = tmp_path / "record.json"
    records = record.Records(path)
    assert "no recorded pass" in records.problem("t", "d1", "w1")
    records.update({"t": {"digest": "d1", "wheel": "w1", "observed": {"k": 1}}}, None)
    records = record.Records(path)
    assert records.problem("t", "d1", "w1") is None and records.observed("t", "k") == 1
    assert "has changed" in records.problem("t", "d2", "w1")
    assert "was proven with w1" in records.problem("t", "d1", "w2")
    assert all(
        record.PROVE in records.problem(*case)
        for case in (("u", "d1", "w1"), ("t", "d2", "w1"), ("t", "d1", "w2"))
    )


def test_the_digest_of_a_record_covers_the_file_and_the_values_expected_of_the_reference(tmp_path):
    test_file, expected = tmp_path / "test_x.py", tmp_path / "x.toml"

    def digest(body, reference, ours):
        test_file.write_text(body)
        expected.write_text(f'[test_x.k]\nreference = {reference}\nours = {ours}\nreason = "r"\n')
        return record.digest(test_file, record.Expectations(expected))

    proven = digest("a", 1, 2)
    assert digest("a", 1, 3) == proven
    assert digest("b", 1, 2) != proven and digest("a", 4, 2) != proven


def test_a_difference_needs_a_reason(tmp_path):
    expected = tmp_path / "x.toml"
    expected.write_text("[test_x.k]\nreference = 1\nours = 2\n")
    with pytest.raises(AssertionError, match="reason"):
        record.Expectations(expected)


def test_a_stopped_worker_fails_the_streaming_check(site):
    """Negative control of C-001: with its only worker stopped by SIGSTOP the check must not pass."""
    frontend = site.start_frontend()
    worker = site.start_worker()
    frontend.wait_ready()
    load.assert_full_streams(frontend.many([load.HOT_PROMPT] * 4, max_tokens=10), 10)
    worker.child.signal(signal.SIGSTOP)
    replies = frontend.many([load.HOT_PROMPT] * 4, max_tokens=10, timeout=3)
    with pytest.raises(AssertionError):
        load.assert_full_streams(replies, 10)
