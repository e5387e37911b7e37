#!/usr/bin/env python3
"""The speed questions of a whole run, one sub-command each. Both sides alternate within one run, after one warm-up each;
medians and the spread are printed as a Markdown table, every single run as JSON lines.

    llama-cpp   the same GGUF file and threads as llama.cpp (needs llama-cpp-python): prefill and decode tokens/s
    numerics    exact against float sums (--numerics fast), one rank and two
    ranks       two ranks of one thread against one rank of two threads
    eviction    what evictions and their statistics cost at budget 1,024 and interval 128
    statistics  prefill with attention statistics beside prefill without
    attention   decode attention beside the machine's read bandwidth
    all         all of them

    bench/spine.py all --build build --model FILE.gguf --runs 10 --json figures.jsonl
"""
import argparse
import ctypes
import datetime
import json
import os
import pathlib
import shlex
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "launch" / "quickstart_prompt.txt").read_text()
CHARACTERS_PER_TOKEN = 4.23  # of this text with SmolLM2's tokenizer; results state the tokens counted
BUDGET, INTERVAL = 1024, 128


class Bench:
    """One run of this script: where things are, and where raw figures go."""

    def __init__(self, options):
        self.options = options
        self.winnow = str(pathlib.Path(options.build) / "bin" / "winnow")
        self.raw = open(options.json, "a") if options.json else None

    def record(self, question, **fields):
        if self.raw:
            self.raw.write(json.dumps({"question": question, **fields}) + "\n")
            self.raw.flush()

    def program(self, name, *arguments):
        """Runs a program of this folder: its table, and its JSON lines parsed."""
        command = [str(pathlib.Path(self.options.build) / "bin" / name), *map(str, arguments)]
        lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
        parsed = [json.loads(line) for line in lines if line.startswith("{")]
        for fields in parsed:
            self.record(**{**fields, "question": name})
        return [line for line in lines if not line.startswith("{")], parsed

    def generate(self, prompt_tokens, max_tokens, *flags, ranks=1, threads=1):
        """One `winnow generate --json`: its JSON object."""
        text = TEXT
        while len(text) < prompt_tokens * CHARACTERS_PER_TOKEN:
            text += TEXT
        with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as prompts:
            prompts.write(json.dumps({"prompt": text[: int(prompt_tokens * CHARACTERS_PER_TOKEN)]}) + "\n")
            prompts.flush()
            command = [self.winnow, "generate", "--model", self.options.model, "--prompts", prompts.name,
                       "--max-tokens", str(max_tokens + 1), "--ignore-eos", "--threads", str(threads), "--json", *flags]
            if ranks > 1:
                command = ["mpirun", "-np", str(ranks), *mpirun_flags(ranks), *command]
            done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise SystemExit(f"{shlex.join(command)}: exit {done.returncode}\n{done.stderr}")
        return json.loads(done.stdout)

    def rates(self, *arguments, **settings):
        result = self.generate(*arguments, **settings)
        timing = result["timing"]
        return {"prefill": timing["prefill_tokens_per_second"], "decode": timing["decode_tokens_per_second"],
                "prompt_tokens": result["usage"]["prompt_tokens"], "work": result["work"], "kv": result["kv"]}


def mpirun_flags(ranks):
    script = f'source {shlex.quote(str(ROOT / "launch" / "mpirun_flags.sh"))}; winnow_mpirun_flags {ranks}; ' \
             'echo "${MPIRUN_FLAGS[@]}"'
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True).stdout.split()


def alternate(bench, question, sides, runs):
    """sides {name: function giving {"prefill", "decode", ...}}: {name: [results]}, in turn, one warm-up each."""
    results = {name: [] for name in sides}
    for run in range(-1, runs):
        for name, side in sides.items():
            result = side()
            if run < 0:
                continue
            results[name].append(result)
            bench.record(question, side=name, run=run, load=os.getloadavg()[0], **result)
    return results


def values(results, metric):
    return [result[metric] for result in results]


def median(results, metric):
    return statistics.median(values(results, metric))


def cell(results, metric):
    numbers = values(results, metric)
    return f"{statistics.median(numbers):.1f} ({min(numbers):.1f} to {max(numbers):.1f})"


def loss(slow, fast, metric):
    """How much slower `slow` is, in percent: of the medians, and the median and quartiles over pairs of runs."""
    pairs = sorted(100 * (f / s - 1) for s, f in zip(values(slow, metric), values(fast, metric)))
    of_medians = 100 * (median(fast, metric) / median(slow, metric) - 1)
    return f"{of_medians:+.1f} % (pairs: {statistics.median(pairs):+.1f} %, middle half " \
           f"{pairs[len(pairs) // 4]:+.1f} to {pairs[len(pairs) * 3 // 4 - (len(pairs) % 4 == 0)]:+.1f})"


def table(header, rows):
    print("| " + " | ".join(header) + " |")
    print("|" + "---|" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def heading(title):
    print(f"### {title}\n\nLoad average at the start: {os.getloadavg()[0]:.2f}\n", flush=True)


def llama_cpp_once(options):
    """In a process of its own, so that none of its threads runs beside winnow: prints one JSON object."""
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda *_: None)  # a name, since the library keeps only the pointer
    llama_cpp.llama_log_set(silent, ctypes.c_void_p(0))
    llama_cpp.llama_backend_init()
    model = llama_cpp.llama_model_load_from_file(options.model.encode(), llama_cpp.llama_model_default_params())
    params = llama_cpp.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = 2048, 512, 512
    params.n_threads = params.n_threads_batch = options.threads
    params.flash_attn_type = options.flash_attention
    params.no_perf = True
    context = llama_cpp.llama_init_from_model(model, params)

    def decode(tokens):
        array = (llama_cpp.llama_token * len(tokens))(*tokens)
        if llama_cpp.llama_decode(context, llama_cpp.llama_batch_get_one(array, len(tokens))) != 0:
            raise SystemExit("llama_decode failed")
        llama_cpp.llama_synchronize(context)

    prompt = [100 + i % 40000 for i in range(options.prompt_tokens)]  # which tokens they are does not change the work
    decode(prompt)  # warm-up: weights are mapped and packed
    llama_cpp.llama_memory_clear(llama_cpp.llama_get_memory(context), True)
    started = time.perf_counter()
    decode(prompt)
    prefill = time.perf_counter() - started
    started = time.perf_counter()
    for token in range(options.max_tokens):
        decode([100 + token])
    seconds = time.perf_counter() - started
    print(json.dumps({"prefill": len(prompt) / prefill, "decode": options.max_tokens / seconds}))


def llama_cpp(bench):
    heading("winnow and llama.cpp")
    roof = read_roof(bench)
    rows, prompt_tokens, decode_tokens = [], 512, 128
    for threads in (1, 2):
        counted = bench.rates(prompt_tokens, 1, threads=threads)["prompt_tokens"]

        def other(flash_attention):
            command = [sys.executable, __file__, "llama-cpp-once", "--model", bench.options.model, "--threads",
                       str(threads), "--prompt-tokens", str(counted), "--max-tokens", str(decode_tokens),
                       "--flash-attention", str(flash_attention)]
            return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)

        results = alternate(bench, f"llama-cpp, {threads} threads", {
            "winnow": lambda: bench.rates(prompt_tokens, decode_tokens, threads=threads),
            "llama.cpp": lambda: other(0),
            "llama.cpp, flash attention": lambda: other(1)}, max(3, bench.options.runs // 2))
        for name, runs in results.items():
            rows.append([name, str(threads), cell(runs, "prefill"), cell(runs, "decode")])
        best = {metric: max(median(runs, metric) for name, runs in results.items() if name != "winnow")
                for metric in ("prefill", "decode")}
        rows.append(["winnow / the better llama.cpp", str(threads)] +
                    [f"{median(results['winnow'], metric) / best[metric]:.2f}" for metric in ("prefill", "decode")])
        weights = results["winnow"][0]["work"]["weight_bytes_per_rank"][0]
        if threads == 1:
            rows.append([f"bound: {weights / 1e6:.0f} MB of weights a token at {roof:.1f} GB/s", "1", "",
                         f"{roof * 1e9 / weights:.0f}"])
    print(f"{counted} prompt tokens, then {decode_tokens}; llama.cpp: llama_decode, batch 512, mmap, f16 cache. "
          "Tokens/s, median (smallest to largest).\n")
    table(["engine", "threads", "prefill", "decode"], rows)


def numerics(bench):
    heading("Exact and float sums")
    prompt_tokens, decode_tokens, rows = 512, 128, []
    for ranks in (1, 2):
        sides = {mode: lambda mode=mode: bench.rates(prompt_tokens, decode_tokens, "--numerics", mode, ranks=ranks)
                 for mode in ("exact", "fast")}
        results = alternate(bench, f"numerics, {ranks} ranks", sides, bench.options.runs)
        for mode, runs in results.items():
            rows.append([mode, str(ranks), cell(runs, "prefill"), cell(runs, "decode")])
        rows.append(["exact costs", str(ranks)] +
                    [loss(results["exact"], results["fast"], metric) for metric in ("prefill", "decode")])
    table(["numerics", "ranks of 1 thread", "prefill, tokens/s", "decode, tokens/s"], rows)


def ranks(bench):
    heading("Ranks and threads")
    decode_tokens, rows = 128, []
    for prompt_tokens in (128, 768):
        results = alternate(bench, f"ranks, {prompt_tokens} prompt tokens", {
            "1 x 2": lambda: bench.rates(prompt_tokens, decode_tokens, ranks=1, threads=2),
            "2 x 1": lambda: bench.rates(prompt_tokens, decode_tokens, ranks=2, threads=1)}, bench.options.runs)
        slots = results["1 x 2"][0]["prompt_tokens"] + decode_tokens
        for name, runs in results.items():
            work = runs[0]["work"]
            forward, steps = work["collectives"]["forward"], max(1, work["steps"])
            rows.append([name, str(slots), cell(runs, "prefill"), cell(runs, "decode"),
                         f"{forward['calls'] / steps:.0f}", f"{forward['payload_bytes'] / max(1, work['rows']):.0f}"])
        rows.append(["2 x 1 / 1 x 2", str(slots)] +
                    [f"{median(results['2 x 1'], metric) / median(results['1 x 2'], metric):.3f}"
                     for metric in ("prefill", "decode")] + ["", ""])
    table(["ranks x threads", "slots at the end", "prefill, tokens/s", "decode, tokens/s", "all-reduces a step",
           "bytes of them a row"], rows)


def eviction(bench):
    heading(f"Eviction at budget {BUDGET:,}, interval {INTERVAL}")
    # Every chunked policy by its own program; decode rates of a few, as a check.
    names, decode_tokens = ("streaming-llm", "snapkv", "h2o", "ada-snapkv"), 2 * INTERVAL
    results = alternate(bench, "eviction", {
        name: lambda name=name: bench.rates(BUDGET + INTERVAL, decode_tokens, *policy_flags(name)) for name in names},
        max(3, bench.options.runs // 2))
    _, direct = bench.program("eviction_bench", 1)
    token_us = 1e6 / median(results["streaming-llm"], "decode")
    rows = []
    for cost in direct:
        microseconds = cost["eviction_us"] / INTERVAL + cost["statistics_us_per_token"]
        quadratic = cost["quadratic_us"] / INTERVAL
        apart = f"{100 * quadratic / token_us:.2f} %" if quadratic else ""
        rows.append([cost["policy"], cell(results[cost["policy"]], "decode") if cost["policy"] in results else "",
                     f"{cost['eviction_us']:.0f}", f"{cost['statistics_us_per_token']:.1f}", f"{microseconds:.1f}",
                     f"{100 * max(0, microseconds - quadratic) / token_us:.2f} %", apart])
    print(f"{decode_tokens} tokens after about {BUDGET + INTERVAL} of prompt; one rank, one thread. Shares: an "
          f"eviction's share of {INTERVAL} tokens plus statistics, over the decode time of streaming-llm "
          f"({token_us:.0f} us); what is quadratic in the slots stands apart.\n")
    table(["policy", "decode, tokens/s", "one eviction, us", "statistics, us a token", "both, us a token",
           "of decode", "quadratic part, of decode"], rows)


def policy_flags(name, budget=BUDGET):
    return "--kv-eviction", name, "--kv-budget", str(budget), "--kv-interval", str(INTERVAL)


def prefill_statistics(bench):
    heading("Prefill with statistics")
    prompt_tokens = 1536
    # Below its budget a prompt is not evicted, and h2o alone counts: nothing but statistics is different from `full`.
    # Under a budget the window of every interval is observed (snapkv: mass, r-kv: queries), and evictions come with it.
    cases = {"no budget reached": {"none": (), "h2o: every row": policy_flags("h2o", 2 * prompt_tokens)},
             f"({BUDGET // 2}, {INTERVAL})": {
                 "streaming-llm: none": policy_flags("streaming-llm", BUDGET // 2),
                 "snapkv: 32 rows of 128": policy_flags("snapkv", BUDGET // 2),
                 "h2o: every row": policy_flags("h2o", BUDGET // 2),
                 "r-kv: queries of 8 rows": policy_flags("r-kv", BUDGET // 2)},
             # The time of a replay is part of the prompt's.
             f"{BUDGET // 2}, after the prompt": {
                 "snapkv-prefill: 32 rows": policy_flags("snapkv-prefill", BUDGET // 2),
                 "kvzip: replay": policy_flags("kvzip", BUDGET // 2),
                 "kvzip-plus: replay": policy_flags("kvzip-plus", BUDGET // 2)}}
    rows = []
    for case, sides in cases.items():
        results = alternate(bench, f"statistics, {case}", {
            name: lambda flags=flags: bench.rates(prompt_tokens, 1, *flags) for name, flags in sides.items()},
            max(3, bench.options.runs // 2))
        without = next(iter(results.values()))
        for name, runs in results.items():
            rows.append([case, name, cell(runs, "prefill"),
                         f"{median(without, 'prefill') / median(runs, 'prefill'):.3f}"])
    slots, heads = without[0]["prompt_tokens"], 90
    print(f"{slots} prompt tokens, one rank, one thread. The last column is the time beside the first row of its part. "
          f"Bound of `every row`: a 64-bit counter read and written per visible slot of {heads} heads, "
          f"{2 * 8 * heads * slots / 2 / 1e6:.1f} MB a token, once a tile of up to 8 rows.\n")
    table(["budget", "statistics", "prefill, tokens/s", "time beside none"], rows)


def read_roof(bench):
    """GB/s of one thread, from a short run of the attention program."""
    _, lines = bench.program("attention_bench", 1, "auto", "quick")
    return max(fields["roof_gb_s"] for fields in lines)


def attention(bench):
    heading("Attention beside the read roof")
    lines, _ = bench.program("attention_bench", 1)
    print("\n".join(["```", *lines, "```", ""]), flush=True)


QUESTIONS = {"llama-cpp": llama_cpp, "numerics": numerics, "ranks": ranks, "eviction": eviction,
             "statistics": prefill_statistics, "attention": attention}


def state(options):
    """What every figure is to be read with."""
    git = lambda *arguments: subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True,
                                            text=True).stdout.strip()
    cpu = next((line.split(":", 1)[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), "?")
    commit = git("rev-parse", "--short", "HEAD") + (" with changes" if git("status", "--porcelain", "-uno") else "")
    model = pathlib.Path(options.model)
    fields = {"command": shlex.join(sys.argv), "date": datetime.datetime.now(datetime.timezone.utc).isoformat("T", "minutes"),
              "cpu": f"{cpu}, {len(os.sched_getaffinity(0))} of {os.cpu_count()} CPUs",
              "load": "%.2f %.2f %.2f" % os.getloadavg(), "commit": commit,
              "model": f"{model.name}, {model.stat().st_size} bytes", "runs": options.runs}
    table(["", ""], [[name, str(value)] for name, value in fields.items()])
    return fields


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("question", choices=[*QUESTIONS, "all", "llama-cpp-once"], metavar="QUESTION")
    parser.add_argument("--build", default=str(ROOT / "build"), help="build folder with bin/winnow and the programs")
    parser.add_argument("--model", required=True)
    parser.add_argument("--runs", type=int, default=10, help="of each side; llama-cpp, eviction and statistics take half of it")
    parser.add_argument("--json", help="file that gets every single run, one JSON object a line")
    for hidden in ("--threads", "--prompt-tokens", "--max-tokens", "--flash-attention"):
        parser.add_argument(hidden, type=int, default=1, help=argparse.SUPPRESS)  # of llama-cpp-once
    options = parser.parse_args()
    if options.question == "llama-cpp-once":
        return llama_cpp_once(options)
    bench = Bench(options)
    started = time.monotonic()
    bench.record("state", **state(options))
    for name in QUESTIONS if options.question == "all" else [options.question]:
        QUESTIONS[name](bench)
    print(f"Load average at the end: {os.getloadavg()[0]:.2f}; {(time.monotonic() - started) / 60:.1f} minutes.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
