#!/usr/bin/env python3
"""winnow and llama.cpp on the same GGUF file and thread count, in turn: prefill and decode tokens/s.

Needs llama-cpp-python (PyPI). Each run of each side is a fresh model; medians and the spread are printed as a Markdown
row, and all runs as one JSON line. llama.cpp runs at its defaults (f16 KV cache, no flash attention, batch of 512).

    bench/against_llama_cpp.py --winnow build/bin/winnow --model FILE.gguf --threads 1 --runs 5
"""
import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

PROMPT = pathlib.Path(__file__).resolve().parent.parent / "launch" / "quickstart_prompt.txt"
PREFILL_TOKENS, DECODE_TOKENS = 512, 128


def run_llama_cpp(model, threads, text):
    from llama_cpp import Llama

    engine = Llama(model, n_ctx=2048, n_threads=threads, n_threads_batch=threads, n_batch=PREFILL_TOKENS, verbose=False)
    ids = engine.tokenize(text.encode(), add_bos=False)[:PREFILL_TOKENS]
    started = time.perf_counter()
    engine.eval(ids)
    prefill = len(ids) / (time.perf_counter() - started)
    started = time.perf_counter()
    for token in range(DECODE_TOKENS):
        engine.eval([100 + token])  # which token it is does not change the work
    return prefill, DECODE_TOKENS / (time.perf_counter() - started)


def run_winnow(winnow, model, threads, prompt_file):
    command = [winnow, "generate", "--model", model, "--prompts", prompt_file, "--max-tokens", str(DECODE_TOKENS + 1),
               "--ignore-eos", "--threads", str(threads), "--json"]
    timing = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)["timing"]
    return timing["prefill_tokens_per_second"], timing["decode_tokens_per_second"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--winnow", default="build/bin/winnow")
    parser.add_argument("--model", required=True)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--runs", type=int, default=5)
    options = parser.parse_args()
    text = PROMPT.read_text()
    # About 560 tokens: both sides' rates are per token, and the extra ones only lengthen winnow's attention.
    part = text[:2370]
    runs = {"winnow": [], "llama.cpp": []}
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
        prompts.write(json.dumps({"prompt": part}) + "\n")
        prompts.flush()
        for _ in range(options.runs):
            runs["winnow"].append(run_winnow(options.winnow, options.model, options.threads, prompts.name))
            runs["llama.cpp"].append(run_llama_cpp(options.model, options.threads, text))
    for name, values in runs.items():
        cells = []
        for column in zip(*values):
            cells.append(f"{statistics.median(column):.0f} ({min(column):.0f}-{max(column):.0f})")
        print(f"| {name} | {options.threads} | {' | '.join(cells)} |")
    print(json.dumps({"model": options.model, "threads": options.threads, "runs": runs}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
