"""Basic serving through the frontend in KV router mode: two worker processes, one stack for the
file.
"""

import threading

import pytest

from lib import http, load, sse, stack


@pytest.fixture(scope="module")
def workers(shared_site):
    return [shared_site.start_worker() for _ in range(2)]


@pytest.fixture(scope="module")
def frontend(shared_site, workers):
    return shared_site.start_frontend().wait_ready(instances=2)


def worker_requests(workers):
    return sum(
        w.metrics().total("dynamo_component_requests_total", dynamo_endpoint="generate")
        for w in workers
    )


@pytest.fixture
def usage(expect):
    """usage(object): the three counts of a usage object, after a look at whether details may come
    with it.
    """

    def counts(found):
        plain = {key: found[key] for key in ("prompt_tokens", "completion_tokens", "total_tokens")}
        assert (found.keys() > plain.keys()) == expect("usage_details"), found
        if expect("usage_details"):
            assert (
                0 <= found["prompt_tokens_details"]["cached_tokens"] <= found["prompt_tokens"]
            ), found
        return plain

    return counts


def test_c001_hundred_streams_have_every_token_and_twelve_data_lines(frontend, observe):
    replies = frontend.many([load.HOT_PROMPT] * 100, max_tokens=10)
    load.assert_full_streams(replies, 10)
    assert {len(reply.events) for reply in replies} == {12}
    observe("slowest_seconds", round(max(reply.seconds for reply in replies), 2))


def test_the_model_is_listed_once_under_the_path_that_the_workers_were_given(frontend):
    assert frontend.models() == [str(stack.MODEL)]


def test_c001_chunks_have_the_same_shape(frontend, observe):
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=3)
    load.assert_full_stream(reply, 3)
    chunks = reply.events[:-1]
    observe.same("chunk_keys", sorted({key for chunk in chunks for key in chunk}))
    observe.same(
        "choices",
        [
            {**choice, "delta": sorted(choice["delta"])}
            for chunk in chunks
            for choice in chunk["choices"]
        ],
    )
    assert len({chunk["id"] for chunk in chunks}) == 1
    assert all(text.startswith(" ") for text in sse.contents(reply.events)), reply


def test_c003_thousand_unary_chats_at_once(frontend):
    replies = frontend.many([load.HOT_PROMPT] * 1024, max_tokens=1, stream=False)
    assert [r for r in replies if r.status != 200 or r.error] == []
    assert {r.json()["usage"]["completion_tokens"] for r in replies} == {1}


def test_c004_worker_id_and_timing_fields(frontend, observe):
    reply = frontend.chat(load.words(60, seed=4), max_tokens=4, nvext=load.WITH_TIMING)
    load.assert_full_stream(reply, 4)
    ids = sse.nvext(reply.events, "worker_id")
    assert ids and all(entry == ids[0] for entry in ids)
    assert ids[0]["prefill_worker_id"] == ids[0]["decode_worker_id"]
    assert ids[0]["prefill_dp_rank"] == ids[0]["decode_dp_rank"] == 0
    (timing,) = sse.nvext(reply.events, "timing")
    observe.same("timing_keys", sorted(timing))
    assert timing["request_received_ms"] > 0 and timing["ttft_ms"] > 0
    assert timing["total_time_ms"] >= timing["ttft_ms"]
    assert timing["prefill_wait_time_ms"] >= 0 and timing["prefill_time_ms"] > 0


def test_c004_u45_both_workers_get_a_fair_share_of_unlike_prompts(frontend, workers, observe):
    texts = [load.words(60, seed=4500 + i) for i in range(40)]
    replies = frontend.many(texts, max_tokens=10, nvext=load.WITH_WORKER)
    load.assert_full_streams(replies, 10)
    shares = load.spread(replies)
    assert set(shares) == {worker.instance_id() for worker in workers}
    assert min(shares.values()) >= 10, shares
    observe("shares", sorted(shares.values()))


def test_c005_usage_comes_in_a_last_chunk_without_choices(frontend, usage, observe):
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=7, stream_options={"include_usage": True})
    load.assert_full_stream(reply, 7)
    last = reply.events[-2]
    assert last["choices"] == []
    assert usage(last["usage"]) == {"prompt_tokens": 75, "completion_tokens": 7, "total_tokens": 82}


def test_c006_unary_chat_has_the_same_shape(frontend, usage, observe):
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=5, stream=False)
    assert reply.status == 200, reply
    answer = reply.json()
    (choice,) = answer["choices"]
    assert len(choice["message"]["content"].split()) == 5
    observe.same(
        "shape",
        {
            "keys": sorted(answer),
            "finish": choice["finish_reason"],
            "usage": usage(answer["usage"]),
            "message": sorted(choice["message"]),
            "choice": sorted(choice),
        },
    )


@pytest.mark.parametrize(
    "prompt,prompt_tokens", [("ba bi bo", None), ([1000, 1001, 1002], 3)], ids=["text", "ids"]
)
def test_c006_completion_unary_and_streaming(frontend, usage, observe, prompt, prompt_tokens):
    unary = frontend.completion(prompt, max_tokens=6)
    assert unary.status == 200, unary
    answer = unary.json()
    assert [choice["finish_reason"] for choice in answer["choices"]] == ["length"]
    assert len(answer["choices"][0]["text"].split()) == 6
    assert prompt_tokens in (None, answer["usage"]["prompt_tokens"])
    observe.same("usage", usage(answer["usage"]))
    load.assert_full_stream(frontend.completion(prompt, max_tokens=6, stream=True), 6)


def test_c006_completion_of_two_prompts_gives_two_choices(frontend, observe):
    reply = frontend.completion(["ba bi bo", "ba ba"], max_tokens=3)
    assert reply.status == 200, reply
    choices = sorted(reply.json()["choices"], key=lambda choice: choice["index"])
    assert [(c["index"], len(c["text"].split()), c["finish_reason"]) for c in choices] == [
        (0, 3, "length"),
        (1, 3, "length"),
    ]


def test_c006_responses_api(frontend, observe):
    body = {"model": frontend.model, "input": "ba bi", "max_output_tokens": 4}
    reply = http.start(frontend.port, "POST", "/v1/responses", body).wait()
    assert reply.status == 200, reply
    answer = reply.json()
    assert len(answer["output"][0]["content"][0]["text"].split()) == 4
    observe.same("status", answer["status"])


@pytest.mark.parametrize("stream", [False, True], ids=["unary", "stream"])
def test_c006_n_two(frontend, observe, stream):
    reply = frontend.chat(load.HOT_PROMPT, max_tokens=3, n=2, stream=stream)
    assert reply.status == 200 and not sse.errors(reply.events), reply
    if stream:
        observe.same("finish_reasons", sse.finish_reasons(reply.events))
        observe.same("tokens", [len(sse.contents(reply.events, index)) for index in (0, 1)])
    else:
        observe.same(
            "choices",
            [len(choice["message"]["content"].split()) for choice in reply.json()["choices"]],
        )


def test_c006_prompt_of_thirteen_thousand_tokens_has_exact_usage(frontend, usage):
    reply = frontend.chat(load.words(13243, seed=6), max_tokens=4, stream=False)
    assert reply.status == 200, reply
    assert usage(reply.json()["usage"]) == {
        "prompt_tokens": 13246,
        "completion_tokens": 4,
        "total_tokens": 13250,
    }


def test_u38_prompt_as_long_as_the_context(frontend, usage, observe):
    reply = frontend.chat(load.words(131072 - 3, seed=38), max_tokens=2, stream=False)
    assert reply.status == 200, reply
    observe.same("usage", usage(reply.json()["usage"]))


@pytest.mark.parametrize("count", [1, 2])
def test_u38_one_and_two_tokens(frontend, count):
    load.assert_full_stream(frontend.chat(load.HOT_PROMPT, max_tokens=count), count)
    unary = frontend.chat(load.HOT_PROMPT, max_tokens=count, stream=False)
    assert unary.status == 200 and unary.json()["usage"]["completion_tokens"] == count, unary
    assert len(unary.json()["choices"][0]["message"]["content"].split()) == count


def test_u42_special_tokens_in_the_prompt_are_counted_alike(frontend, usage, observe):
    reply = frontend.chat("<s> ba </s><|user|> bi <unk>", max_tokens=3, stream=False)
    assert reply.status == 200, reply
    observe.same("usage", usage(reply.json()["usage"]))


def test_other_sampling_and_stop_settings_change_nothing(frontend):
    more = {
        "temperature": 0.5,
        "top_p": 0.9,
        "seed": 7,
        "presence_penalty": 0.1,
        "frequency_penalty": -0.1,
        "min_tokens": 9,
        "ignore_eos": True,
        "stop": ["never in this text"],
        "logprobs": False,
        "user": "someone",
    }
    load.assert_full_stream(frontend.chat(load.HOT_PROMPT, max_tokens=9, **more), 9)


@pytest.mark.parametrize(
    "case,body,status",
    [
        ("negative", {"max_tokens": -1}, 400),
        ("hot", {"temperature": 5}, 400),
        ("unknown", {"model": "nope"}, 404),
    ],
)
def test_requests_that_the_frontend_refuses_never_reach_a_worker(
    frontend, workers, observe, case, body, status
):
    before = worker_requests(workers)
    whole = {
        "model": frontend.model,
        "messages": [{"role": "user", "content": "x"}],
        "max_tokens": 1,
    } | body
    reply = http.start(frontend.port, "POST", "/v1/chat/completions", whole).wait()
    assert reply.status == status, (case, reply)
    assert worker_requests(workers) == before


def test_c053_asking_only_for_the_instance_does_not_reach_a_worker(frontend, workers):
    before = worker_requests(workers)
    reply = frontend.chat(
        load.HOT_PROMPT, max_tokens=5, nvext={"annotations": ["query_instance_id:"]}
    )
    assert reply.status == 200 and sse.is_done(reply.events), reply
    assert load.worker_of(reply) in {worker.instance_id() for worker in workers}
    assert len(sse.nvext(reply.events, "token_ids")[0]) == 75
    assert worker_requests(workers) == before


def test_256_concurrent_streams(frontend, observe):
    texts = [load.words(50, seed=256_000 + i) for i in range(256)]
    replies = frontend.many(texts, max_tokens=50, stream_options={"include_usage": True})
    load.assert_full_streams(replies, 50)
    assert {sse.usage(r.events)["completion_tokens"] for r in replies} == {50}
    observe("slowest_seconds", round(max(r.seconds for r in replies), 2))


def test_u39_64_streams_of_500_tokens_are_complete(frontend, observe):
    texts = [load.words(30, seed=39_000 + i) for i in range(64)]
    replies = frontend.many(texts, max_tokens=500, stream_options={"include_usage": True})
    load.assert_full_streams(replies, 500)
    for reply in replies:
        finish = [i for i, e in enumerate(reply.events[:-2]) if e["choices"][0]["finish_reason"]]
        assert finish == [
            len(reply.events) - 3
        ], "the finish reason comes after every token and before usage and [DONE]"
        assert sse.usage(reply.events)["completion_tokens"] == 500
    observe("slowest_seconds", round(max(r.seconds for r in replies), 2))


def test_u39_slow_readers_get_every_token_and_hold_up_nobody(frontend):
    """16 clients read nothing until 32 others have had 1000 tokens each; then they find all 2000 of
    theirs.
    """
    go = threading.Event()
    texts = [load.words(30, seed=3900 + i) for i in range(48)]
    slow = [frontend.start_chat(text, max_tokens=2000, hold=go) for text in texts[:16]]
    load.assert_full_streams(frontend.many(texts[16:], max_tokens=1000), 1000)
    assert not any(reply.finished.is_set() for reply in slow)
    go.set()
    load.assert_full_streams([reply.wait() for reply in slow], 2000)
