#!/usr/bin/env python3
"""Makes tests/vectors/engine/profile_results: raw profiling results, and what the reference makes of them.

usage: make_profile_results.py     (needs ai-dynamo==1.3.0.post1, numpy and scikit-learn==1.7.2)

The raw data is invented: a linear engine with noise from a fixed seed. The answers are those of
convert_profile_results_to_npz of the Python package dynamo.mocker. Each case is a folder as a profiler leaves it and an
expected.json: both prefill arrays and the decode axes whole, decode_itl at every STEP-th row and column.
"""
import json
import os
import shutil
import tempfile
from pathlib import Path

import numpy as np
from dynamo.mocker.utils.planner_profiler_perf_data_converter import convert_profile_results_to_npz

ROOT = Path(__file__).resolve().parent.parent / "vectors" / "engine" / "profile_results"
STEP = 9  # divides 99: first and last are there


def prefill(random, count, base_ms, per_token_ms, noise):
    isl = np.linspace(100, 16372, count).astype(np.int64)
    return isl, base_ms + per_token_ms * isl + random.normal(0.0, noise, count)


def decode(random, contexts, pool, base_ms, per_request_ms, per_token_ms, noise, first_share=None):
    usage, context, itl = [], [], []
    for ctx in contexts:
        for share in np.linspace(first_share or ctx / pool, 0.97, 9):
            tokens = share * pool
            usage.append(share)
            context.append(float(ctx))
            itl.append(base_ms + per_request_ms * tokens / ctx + per_token_ms * tokens + random.normal(0.0, noise))
    return np.array(usage), np.array(context), np.array(itl)


def write_npz(folder, isl, ttft, usage, context, itl, pool, compressed=False):
    save = np.savez_compressed if compressed else np.savez
    for name, arrays in (
        ("selected_prefill_interpolation", {"prefill_isl": isl, "prefill_ttft": ttft, "prefill_thpt_per_gpu": isl / ttft}),
        ("selected_decode_interpolation",
         {"x_kv_usage": usage, "y_context_length": context, "z_itl": itl, "z_thpt_per_gpu": 1000.0 / itl,
          "max_kv_tokens": np.array([pool])}),
    ):
        os.makedirs(folder / name)
        save(folder / name / "raw_data.npz", **arrays)


def write_json(folder, isl, ttft, usage, context, itl, pool):
    (folder / "prefill_raw_data.json").write_text(
        json.dumps({"prefill_isl": isl.tolist(), "prefill_ttft": ttft.tolist()}) + "\n")
    (folder / "decode_raw_data.json").write_text(
        json.dumps({"x_kv_usage": usage.tolist(), "y_context_length": context.tolist(), "z_itl": itl.tolist(),
                    "max_kv_tokens": pool}) + "\n")


def expected(folder):
    with tempfile.TemporaryDirectory() as scratch:
        path = Path(scratch) / "perf_data.npz"
        convert_profile_results_to_npz(folder, path)
        with np.load(path) as data:
            answer = {name: data[name].tolist() for name in data if name != "decode_itl"}
            answer["decode_itl_every"] = STEP
            answer["decode_itl"] = data["decode_itl"][::STEP, ::STEP].tolist()
    (folder / "expected.json").write_text(json.dumps(answer) + "\n")


def main():
    shutil.rmtree(ROOT, ignore_errors=True)
    random = np.random.default_rng(20261130)
    pool = 945029
    contexts = (350, 3600, 7000, 13585)
    isl, ttft = prefill(random, 17, 12.0, 0.022, 3.0)
    cases = {
        # An ordinary engine, in both kinds of files.
        "npz": (write_npz, decode(random, contexts, pool, 5.5, 0.012, 2.2e-5, 0.8)),
        "json": (write_json, decode(random, contexts, pool, 5.5, 0.012, 2.2e-5, 0.8)),
        # More requests seem to take less time: that slope becomes 0.
        "weak_slope": (write_json, decode(random, contexts, pool, 9.0, -0.004, 5.0e-5, 0.1)),
        # The fitted plane goes below zero: the least time takes its place.
        "floor": (write_json, decode(random, contexts, pool, -3.0, 0.02, 2.0e-5, 0.1, 0.3)),
        # One request at every point: nothing tells what a second one costs.
        "one_request": (write_json, decode(random, (13585,), 13585, 4.0, 0.0, 3.0e-5, 0.01, 0.1)),
        # Batch and tokens grow together but for the rounding.
        "one_context": (write_json, decode(random, (350,), pool, 5.5, 0.012, 2.2e-5, 1e-4)),
    }
    for name, (write, decode_arrays) in cases.items():
        folder = ROOT / name
        os.makedirs(folder)
        write(folder, isl, ttft, *decode_arrays, pool if name != "one_request" else 13585)
        expected(folder)
    folder = ROOT / "compressed"
    os.makedirs(folder)
    write_npz(folder, isl.astype(np.float64), ttft, *decode(random, contexts, pool, 5.5, 0.012, 2.2e-5, 0.8), pool, True)
    expected(folder)


if __name__ == "__main__":
    main()
