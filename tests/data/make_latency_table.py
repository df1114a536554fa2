#!/usr/bin/env python3
"""Writes a latency table for --latency-model, sampled from the default (polynomial) timing model.

usage: make_latency_table.py OUT.json|OUT.npz [TOTAL_TOKENS]

A pattern for tables of your own: replace predict_prefill and predict_decode. docs/latency-models.md describes the files.
The polynomial decode depends on the share of the cache that is in use: TOTAL_TOKENS (default 1048576) is the size of
the whole cache, and a batch is taken to use batch * context tokens of it.
"""
import json
import struct
import sys
import zipfile

BATCH = [1, 2, 4, 8, 16, 32, 64]
NEW_TOKENS = [1, 64, 128, 512, 1024, 4096, 8192]
PREFIX = [0, 1024, 8192]
CONTEXT = [1, 128, 512, 2048, 8192, 16384]


def predict_prefill(batch, new_tokens, prefix):
    tokens = float(batch * new_tokens)
    return 4.209989e-07 * tokens * tokens + 1.518344e-02 * tokens + 1.650142e01


def predict_decode(batch, context, total_tokens):
    share = batch * context / total_tokens
    return -25.74 * share * share + 54.01 * share + 5.74


def make_table(total_tokens):
    return {
        "format": "understudy-latency-table",
        "version": 1,
        "description": f"polynomial model, {total_tokens} tokens of cache",
        "prefill": {
            "batch": BATCH,
            "new_tokens": NEW_TOKENS,
            "prefix": PREFIX,
            "ms": [[[predict_prefill(b, n, p) for p in PREFIX] for n in NEW_TOKENS] for b in BATCH],
        },
        "decode": {
            "batch": BATCH,
            "context": CONTEXT,
            "ms": [[predict_decode(b, c, total_tokens) for c in CONTEXT] for b in BATCH],
        },
    }


def npy(values):
    """Nested lists as a .npy file of float64."""
    shape, level = [], values
    while isinstance(level, list):
        shape.append(len(level))
        level = level[0]
    flat = values
    for _ in shape[1:]:
        flat = [x for part in flat for x in part]
    text = "{'descr': '<f8', 'fortran_order': False, 'shape': (%s,), }" % ", ".join(map(str, shape))
    text = text.ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode() + struct.pack(f"<{len(flat)}d", *flat)


def write_npz(path, table):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as out:
        for phase in ("prefill", "decode"):
            for name, values in table[phase].items():
                out.writestr(zipfile.ZipInfo(f"{phase}_{name}.npy"), npy(values), zipfile.ZIP_DEFLATED)


def main():
    if len(sys.argv) not in (2, 3) or not sys.argv[1].endswith((".json", ".npz")):
        sys.exit(__doc__.strip())
    table = make_table(int(sys.argv[2]) if len(sys.argv) == 3 else 1048576)
    if sys.argv[1].endswith(".npz"):
        write_npz(sys.argv[1], table)
    else:
        with open(sys.argv[1], "w", encoding="utf-8") as out:
            json.dump(table, out)
            out.write("\n")


if __name__ == "__main__":
    main()
