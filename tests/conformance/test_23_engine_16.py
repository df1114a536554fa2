"""The engine of 1.6 behind its own frontend: what of a prompt it finds in its cache."""

import pytest

from lib import load, stack

pytestmark = pytest.mark.releases("r16")


@pytest.fixture(params=["vllm", "trtllm"])
def frontend(request, site):
    site.start_worker(["--engine-type", request.param])
    return site.start_frontend(mode="round-robin").wait_ready()


def cached_tokens(answer):
    usage = answer.json()["usage"]
    return usage["prompt_tokens"], (usage.get("prompt_tokens_details") or {}).get("cached_tokens")


def test_a_prompt_sent_again_is_found_but_for_what_is_recomputed(frontend, observe):
    """vLLM computes at least the last block again, TensorRT-LLM nothing: told to the client."""
    seen = []
    for count in range(2 * stack.BLOCK_SIZE, 4 * stack.BLOCK_SIZE + 1, 5):
        text = load.words(count, seed=2300 + count)
        for _ in range(2):
            seen.append(cached_tokens(frontend.chat(text, max_tokens=3, stream=False)))
    observe.same("prompt and cached tokens", [list(pair) for pair in seen])


def test_a_longer_prompt_finds_the_blocks_of_a_shorter_one(frontend, observe):
    text = load.words(6 * stack.BLOCK_SIZE, seed=2390)
    seen = []
    for words in (40, 55, 70, 90):
        prompt = " ".join(text.split()[:words])
        seen.append(cached_tokens(frontend.chat(prompt, max_tokens=2, stream=False)))
    observe.same("prompt and cached tokens", [list(pair) for pair in seen])
