#!/usr/bin/env python3
"""winnow's tokenizer beside Hugging Face's, in one run, taking turns, one thread each: the same ids, and how fast.

    cmake --build build --target tokenizer_bench
    python3 bench/tokenizer.py --bench build/bin/tokenizer_bench --text TEXT DIRECTORY...    (needs tokenizers, numpy)

DIRECTORY holds a tokenizer.json. Prints a Markdown row for each: megabytes a second of the better of the rounds, and the
median of the rounds' ratios. Hugging Face's side is encode() of the whole text and decode() of its ids; reading files and
loading count on neither side. Exit code 1 if ids differ.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"

import numpy
from tokenizers import Tokenizer


def seconds(work):
    start = time.perf_counter()
    result = work()
    return time.perf_counter() - start, result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("directories", nargs="+")
    options = parser.parse_args()
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    megabytes = len(text.encode()) / 1e6
    print("| tokenizer | tokens | ids | encode, HF | encode, winnow | ratio | decode, HF | decode, winnow | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    all_equal = True
    for directory in options.directories:
        theirs = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
        times = []
        for _ in range(options.rounds):
            encode, encoding = seconds(lambda: theirs.encode(text))
            decode, _ = seconds(lambda: theirs.decode(encoding.ids, skip_special_tokens=False))
            with tempfile.NamedTemporaryFile() as ids:
                command = [options.bench, directory, options.text, "--special", "--ids", ids.name]
                ours = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                equal = numpy.fromfile(ids.name, dtype=numpy.int32).tolist() == encoding.ids
            times.append((encode, ours["encode_seconds"], decode, ours["decode_seconds"]))
            all_equal = all_equal and equal
        speed = [megabytes / min(column) for column in zip(*times)]
        ratios = [statistics.median(row[i] / row[i + 1] for row in times) for i in (0, 2)]
        print(f"| {os.path.basename(os.path.normpath(directory))} | {len(encoding.ids):,} | {'equal' if equal else 'DIFFERENT'} "
              f"| {speed[0]:.2f} MB/s | {speed[1]:.1f} MB/s | {ratios[0]:.1f} | {speed[2]:.1f} MB/s | {speed[3]:.0f} MB/s "
              f"| {ratios[1]:.0f} |", flush=True)  # fmt: skip
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
