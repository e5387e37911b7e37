#!/usr/bin/env python3
"""Compares a dump of an engine's full logits with the truth, and llama.cpp's logits beside it, as a Markdown table.

The dump: HEADER with magic WNLOGIT1 and the counts sequences, tokens, vocab, 0, then float32 [sequence][token][vocab].
One sequence is in memory at a time.
"""

import argparse

import numpy as np

from reference_model import HEADER, GgufModel, LlamaCppModel, NumpyModel, TransformersModel, log_softmax, read_ids
from rounded_model import RoundedModel

DUMP_MAGIC = b"WNLOGIT1"


class DumpModel:
    """The logits of a dump file, read sequence by sequence."""

    def __init__(self, path, sequences, vocab):
        with open(path, "rb") as file:
            header = file.read(HEADER.size)
        if len(header) < HEADER.size:
            raise SystemExit(f"{path}: expected a header of {HEADER.size} bytes, found {len(header)} bytes")
        magic, num_sequences, num_tokens, dump_vocab, _ = HEADER.unpack(header)
        if magic != DUMP_MAGIC:
            raise SystemExit(f"{path}: expected magic {DUMP_MAGIC!r}, found {magic!r}")
        expected, found = (*sequences.shape, vocab), (num_sequences, num_tokens, dump_vocab)
        if found != expected:
            raise SystemExit(f"{path}: expected sequences, tokens, vocab {expected}, found {found}")
        self.name = "winnow"
        self.data = np.memmap(path, "<f4", "r", offset=HEADER.size)
        if self.data.size != np.prod(expected):
            raise SystemExit(f"{path}: expected {np.prod(expected)} logits, found {self.data.size}")
        self.data = self.data.reshape(expected)

    def logits(self, index):
        return np.array(self.data[index])


class Figures:
    """Differences between one engine and the truth, gathered over all positions."""

    def __init__(self, name):
        self.name = name
        self.largest = self.max_kl = self.sum_abs = self.sum_kl = 0.0
        self.num_logits = self.num_positions = self.num_same = 0

    def add(self, truth, truth_log_p, ours):
        if not np.isfinite(ours).all():
            raise SystemExit(f"{self.name}: a logit is not finite")
        difference = np.abs(truth - ours)
        # KL(truth || ours): what is lost by sampling from ours instead of from the truth, in nats.
        kl = (np.exp(truth_log_p) * (truth_log_p - log_softmax(ours))).sum(axis=-1)
        self.largest = max(self.largest, float(difference.max()))
        self.sum_abs += float(difference.sum())
        self.num_logits += difference.size
        self.max_kl = max(self.max_kl, float(kl.max()))
        self.sum_kl += float(kl.sum())
        self.num_positions += len(kl)
        self.num_same += int(np.count_nonzero(truth.argmax(axis=-1) == ours.argmax(axis=-1)))

    def row(self):
        return (
            f"| {self.name} | {self.largest:.5f} | {self.sum_abs / self.num_logits:.6f} "
            f"| {100.0 * self.num_same / self.num_positions:.2f} % ({self.num_same}/{self.num_positions}) "
            f"| {self.sum_kl / self.num_positions:.3e} | {self.max_kl:.3e} |"
        )


def main():
    parser = argparse.ArgumentParser(description="Compares full logits with the reference model, as a Markdown table.")
    parser.add_argument("--model", required=True, help="GGUF file")
    parser.add_argument("--ids", required=True, help="golden ids file, logits_ids.bin")
    parser.add_argument("--dump", help="the engine's logits of those ids")
    parser.add_argument("--llama-cpp", action="store_true", help="add a row for llama.cpp (llama-cpp-python)")
    parser.add_argument("--transformers", action="store_true", help="add a row for transformers in float32")
    parser.add_argument(
        "--roundings",
        action="store_true",
        help="add rows for transformers with int8 activations and 16-bit keys and values",
    )
    parser.add_argument("--threads", type=int, default=2, help="threads of llama.cpp (default: %(default)s)")
    args = parser.parse_args()
    if not (args.dump or args.llama_cpp or args.transformers or args.roundings):
        parser.error("nothing to compare: give --dump, --llama-cpp, --transformers or --roundings")

    sequences, vocab = read_ids(args.ids)
    gguf_model = GgufModel(args.model)
    if gguf_model.vocab != vocab:
        raise SystemExit(f"{args.ids}: expected a vocabulary of {gguf_model.vocab}, found {vocab}")
    engines = []  # Pairs: figures, and a function from (index, ids) to logits.
    others = []
    if args.dump:
        dump = DumpModel(args.dump, sequences, vocab)
        engines.append((Figures(dump.name), lambda index, ids: dump.logits(index)))
    if args.llama_cpp:
        others.append(LlamaCppModel(args.model, args.threads, sequences.shape[1]))
    if args.transformers:
        others.append(TransformersModel(gguf_model))
    if args.roundings:
        others.append(RoundedModel(gguf_model, kv_dtype="bfloat16"))
        others.append(RoundedModel(gguf_model, int8_activations=True))
        others.append(RoundedModel(gguf_model, int8_activations=True, kv_dtype="float16"))
        others.append(RoundedModel(gguf_model, int8_activations=True, kv_dtype="bfloat16"))
    for other in others:
        engines.append((Figures(other.name), lambda index, ids, other=other: other.logits(ids)))

    reference = NumpyModel(gguf_model)
    for index, ids in enumerate(sequences):
        truth = reference.logits(ids)
        truth_log_p = log_softmax(truth)
        for figures, logits_of in engines:
            figures.add(truth, truth_log_p, logits_of(index, ids))
    print(f"| against {reference.name} | largest difference | mean difference | same top-1 | mean KL | largest KL |")
    print("|---|---|---|---|---|---|")
    for figures, _ in engines:
        print(figures.row())


if __name__ == "__main__":
    main()
