#!/usr/bin/env python3
"""winnow's tokenizer beside Hugging Face's, in one run, taking turns, one thread each: the same ids, and how fast.

    cmake --build build --target tokenizer_bench
    python3 bench/tokenizer.py --bench build/bin/tokenizer_bench --text TEXT DIRECTORY...    (needs tokenizers, numpy)

DIRECTORY holds a tokenizer.json. Prints a Markdown row for each: megabytes a second of the better of the rounds, and the
median of the rounds' ratios. Hugging Face's side is encode() of a text and decode() of its ids; reading files and loading count
on neither side. Exit code 1 if ids differ.
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


def chunks(text, num_bytes):
    """As bench/tokenizer_bench.cpp cuts it."""
    data = text.encode()
    while num_bytes > 0 and len(data) > num_bytes:
        line_end = data.find(b"\n", num_bytes - 1)
        if line_end < 0:
            break
        yield data[: line_end + 1].decode()
        data = data[line_end + 1 :]
    yield data.decode()


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bench", required=True)
    parser.add_argument("--text", required=True)
    parser.add_argument("--chunk", type=int, default=0, help="bytes of a text, to the next line end; 0: all in one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("directories", nargs="+")
    options = parser.parse_args()
    with open(options.text, encoding="utf-8", newline="") as file:
        text = file.read()
    megabytes = len(text.encode()) / 1e6
    parts = list(chunks(text, options.chunk))
    print("| tokenizer | tokens | ids | encode, HF | encode, winnow | ratio | decode, HF | decode, winnow | ratio |")
    print("|---|---|---|---|---|---|---|---|---|")
    all_equal = True
    for directory in options.directories:
        theirs = Tokenizer.from_file(os.path.join(directory, "tokenizer.json"))
        times = []
        for _ in range(options.rounds):
            encode, ids = seconds(lambda: [theirs.encode(part).ids for part in parts])
            decode, _ = seconds(lambda: [theirs.decode(part, skip_special_tokens=False) for part in ids])
            expected = [token for part in ids for token in part]
            with tempfile.NamedTemporaryFile() as file:
                command = [options.bench, directory, options.text, "--special", "--ids", file.name, "--chunk", str(options.chunk)]
                ours = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
                equal = numpy.fromfile(file.name, dtype=numpy.int32).tolist() == expected
            times.append((encode, ours["encode_seconds"], decode, ours["decode_seconds"]))
            all_equal = all_equal and equal
        speed = [megabytes / min(column) for column in zip(*times)]
        ratios = [statistics.median(row[i] / row[i + 1] for row in times) for i in (0, 2)]
        print(f"| {os.path.basename(os.path.normpath(directory))} | {len(expected):,} | {'equal' if equal else 'DIFFERENT'} "
              f"| {speed[0]:.2f} MB/s | {speed[1]:.1f} MB/s | {ratios[0]:.1f} | {speed[2]:.1f} MB/s | {speed[3]:.0f} MB/s "
              f"| {ratios[1]:.0f} |", flush=True)  # fmt: skip
    return 0 if all_equal else 1


if __name__ == "__main__":
    sys.exit(main())
