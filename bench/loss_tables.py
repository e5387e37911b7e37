#!/usr/bin/env python3
"""The loss tables of docs/evaluation.md: every policy at every budget on the same texts, one result file a table.

    eval/prepare_texts.py --data DIR --out texts/short --min-tokens 1280
    eval/prepare_texts.py --data DIR --out texts/long --min-tokens 2560
    bench/loss_tables.py --build build --model FILE.gguf --texts texts --out bench/results/loss --threads 2
    bench/loss_tables.py ... --ranks 1,2,3      # rows of one text at (256, 64), byte for byte, from 1, 2 and 3 ranks

A table that is there already is left alone, so that an interrupted run goes on. `winnow eval report` makes Markdown
and plots of the files.
"""
import argparse
import json
import pathlib
import shutil
import subprocess
import sys

CHUNKED = ("golden,streaming-llm,streaming-llm-compacted,random,h2o,snapkv,keydiff,knorm,tova,r-kv,pyramidkv,"
           "ada-snapkv,expected-attention")
AFTER_PROMPT = ("streaming-llm,h2o,snapkv-prefill,pyramidkv-prefill,ada-snapkv-prefill,expected-attention-prefill,"
                "kvzip,kvzip-plus")
# name: (texts, policies, flags). A budget and interval of (512, 128) needs texts of 4 x 640 tokens.
TABLES = {
    "256_64": ("short", CHUNKED, ["--kv-budget", "256", "--kv-interval", "64"]),
    "half": ("short", CHUNKED, ["--kv-ratio", "0.5", "--kv-interval", "64"]),
    "quarter": ("short", CHUNKED, ["--kv-ratio", "0.25", "--kv-interval", "64"]),
    "eighth": ("short", CHUNKED, ["--kv-ratio", "0.125", "--kv-interval", "64"]),
    "512_128": ("long", CHUNKED, ["--kv-budget", "512", "--kv-interval", "128"]),
    "prompt_256": ("short", AFTER_PROMPT, ["--kv-budget", "256", "--kv-interval", "64", "--prompt-tokens", "1024"]),
}
KINDS = ("prose", "code", "exam", "scratchpad")


def eval_loss(options, texts, policies, flags, texts_per_kind, kinds=KINDS, ranks=1):
    """The JSON object of one `winnow eval loss`."""
    files = [str(pathlib.Path(options.texts) / texts / f"{kind}-test.jsonl") for kind in kinds]
    winnow = str(pathlib.Path(options.build) / "bin" / "winnow")
    launch = [] if ranks == 1 else [shutil.which("mpirun"), "--oversubscribe", "--bind-to", "none", "-np", str(ranks)]
    threads = options.threads if ranks == 1 else 1
    command = [*launch, winnow, "eval", "loss", "--model", options.model, "--text", *files, "--max-texts",
               str(texts_per_kind), "--policies", policies, *flags, "--threads", str(threads), "--json"]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"loss_tables: exit code {done.returncode} of {' '.join(command)}")
    return json.loads(done.stdout)


def write_tables(options):
    out = pathlib.Path(options.out)
    out.mkdir(parents=True, exist_ok=True)
    for name in options.tables:
        path = out / f"{name}.json"
        if path.exists():
            continue
        texts, policies, flags = TABLES[name]
        result = eval_loss(options, texts, policies, flags, options.texts_per_kind)
        path.write_text(json.dumps(result, indent=1) + "\n")
        for row in sorted(result["rows"], key=lambda row: row["loss_ratio"]):
            print(f"{name} {row['policy']} {row['loss_ratio']:.4f}", flush=True)


# Of one rank count, whatever it is: what is left out says how the ranks did.
def comparable(rows):
    return json.dumps([{key: value for key, value in row.items() if "per_rank" not in key and "imbalance" not in key}
                       for row in rows])


def compare_ranks(options):
    texts, policies, flags = TABLES["256_64"]
    rows = {ranks: comparable(eval_loss(options, texts, policies, flags, 1, KINDS[:1], ranks)["rows"])
            for ranks in options.ranks}
    first = options.ranks[0]
    for ranks in options.ranks[1:]:
        if rows[ranks] != rows[first]:
            sys.exit(f"loss_tables: the rows of {ranks} ranks are not those of {first}")
    print(f"{len(json.loads(rows[first]))} rows, {len(rows[first])} bytes: equal from "
          f"{', '.join(map(str, options.ranks))} ranks")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", default="build")
    parser.add_argument("--model", required=True)
    parser.add_argument("--texts", required=True, help="a folder with short/ and long/, made by eval/prepare_texts.py")
    parser.add_argument("--out", default="bench/results/loss")
    parser.add_argument("--texts-per-kind", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tables", type=lambda text: text.split(","), default=list(TABLES))
    parser.add_argument("--ranks", type=lambda text: [int(part) for part in text.split(",")])
    options = parser.parse_args()
    compare_ranks(options) if options.ranks else write_tables(options)


if __name__ == "__main__":
    main()
