#!/usr/bin/env python3
"""Writes the golden logits that the C++ tests compare the engine with; README.md describes the three files.

The truth is NumpyModel of reference_model.py (float64 on the de-quantised weights). The largest difference to
transformers' float32 is printed, so that whoever makes the files sees that the two still agree.
"""

import argparse
import hashlib
from pathlib import Path

import numpy as np

from reference_model import HEADER, IDS_MAGIC, GgufModel, NumpyModel, TransformersModel, build_tokenizer, log_softmax

TOP_MAGIC = b"WNTOPLG1"
FULL_MAGIC = b"WNFULLG1"


def cut_sequences(ids, num_sequences, num_tokens):
    """Slices spread evenly over the text, so that a text longer than needed is used from its start to its end."""
    stride = len(ids) // num_sequences
    if stride < num_tokens:
        raise SystemExit(f"the text has {len(ids)} tokens, expected at least {num_sequences * num_tokens}")
    return np.array([ids[s * stride : s * stride + num_tokens] for s in range(num_sequences)], dtype="<i4")


def top_records(logits, top_k):
    """One record a position: log-sum-exp, then the ids and the values of the largest logits, largest first."""
    record = np.dtype([("lse", "<f4"), ("ids", "<i4", top_k), ("values", "<f4", top_k)])
    # A stable sort of the negated logits puts the lower id first where two are equal, as greedy sampling does.
    order = np.argsort(-logits, axis=-1, kind="stable")[:, :top_k]
    out = np.empty(len(logits), dtype=record)
    out["ids"] = order
    out["values"] = np.take_along_axis(logits, order, axis=-1)
    largest = logits[np.arange(len(logits)), order[:, 0]]
    out["lse"] = largest - log_softmax(logits)[np.arange(len(logits)), order[:, 0]]
    return out


def main():
    parser = argparse.ArgumentParser(description="Writes logits_ids.bin, logits_top.bin and logits_full.bin.")
    parser.add_argument("--model", required=True, help="GGUF file of the llama architecture")
    parser.add_argument("--text", required=True, help="UTF-8 text that the token ids come from")
    parser.add_argument("--out", required=True, help="directory for the three files")
    parser.add_argument("--sequences", type=int, default=4, help="number of sequences (default: %(default)s)")
    parser.add_argument("--tokens", type=int, default=500, help="tokens of each sequence (default: %(default)s)")
    parser.add_argument("--top", type=int, default=32, help="largest logits kept a position (default: %(default)s)")
    parser.add_argument(
        "--full-positions",
        type=int,
        nargs="+",
        default=[15, 31, 63, 95],
        help="positions of sequence 0 whose logits are kept whole; early ones, so that a slow engine can run them"
        " (default: %(default)s)",
    )
    parser.add_argument("--no-transformers", action="store_true", help="skip the second model")
    args = parser.parse_args()

    gguf_model = GgufModel(args.model)
    text = Path(args.text).read_text(encoding="utf-8")
    sequences = cut_sequences(build_tokenizer(gguf_model.metadata).encode(text).ids, args.sequences, args.tokens)
    truth = NumpyModel(gguf_model)
    check = None if args.no_transformers else TransformersModel(gguf_model)

    out = Path(args.out)
    out.mkdir(parents=True, exist_ok=True)
    ids_header = HEADER.pack(IDS_MAGIC, args.sequences, args.tokens, gguf_model.vocab, 0)
    (out / "logits_ids.bin").write_bytes(ids_header + sequences.tobytes())
    records = []
    for index, ids in enumerate(sequences):
        logits = truth.logits(ids)
        records.append(top_records(logits, args.top).tobytes())
        if index == 0:
            where = np.array([(0, position) for position in args.full_positions], dtype="<u4")
            full_header = HEADER.pack(FULL_MAGIC, len(where), 0, gguf_model.vocab, 0)
            full = logits[args.full_positions].astype("<f4")
            (out / "logits_full.bin").write_bytes(full_header + where.tobytes() + full.tobytes())
        if check is not None:
            largest = np.abs(logits - check.logits(ids)).max()
            print(f"sequence {index}: largest difference to {check.name} {largest:.3e}")
    top_header = HEADER.pack(TOP_MAGIC, args.sequences, args.tokens, gguf_model.vocab, args.top)
    (out / "logits_top.bin").write_bytes(top_header + b"".join(records))
    for path in [Path(args.model)] + [out / f"logits_{name}.bin" for name in ("ids", "top", "full")]:
        data = path.read_bytes()
        print(f"{path.name}: {len(data)} bytes, sha256 {hashlib.sha256(data).hexdigest()}")


if __name__ == "__main__":
    main()
