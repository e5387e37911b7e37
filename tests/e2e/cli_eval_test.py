"""winnow eval loss as a user runs it: the same rows from any number of processes, what is refused and how."""

import json
import os
import unittest

from cli_case import CliCase, main

WORDS = ("the river ran past a mill where nobody had ground corn since the war and the wheel stood still "
         "in green water while swallows went in and out of the broken windows all summer long ").split()
FIELDS = {"policy", "scope", "allocation", "budget", "ratio", "interval", "timing", "texts", "num_texts", "positions", "loss",
          "full_loss", "loss_ratio", "loss_ratio_low_entropy", "loss_ratio_high_entropy", "kl", "top1_agreement",
          "kept_ratio", "kept_ratio_average", "evicted_entries", "evictions_per_text", "peak_bytes_per_rank", "load_per_rank",
          "ci95"}


def made_up(seed, length):
    """Bytes are tokens, nearly all of them."""
    text = ""
    while len(text) < length:
        seed = seed * 1103515245 + 12345 & 0x7FFFFFFF
        text += WORDS[(seed >> 16) % len(WORDS)] + " "
    return text[:length]


class EvalCase(CliCase):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        lines = [{"id": f"{kind}-{i}", "kind": kind, "text": made_up(i, 240), "prompt": made_up(i, 240)[:20],
                  "split": "test" if i < 3 else "train"}
                 for kind in ("prose", "code") for i in range(4)]
        cls.texts = cls.path("texts.jsonl")
        with open(cls.texts, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)

    def eval(self, *arguments, text=None, policies="random", budget=("--kv-budget", 32), model=None, **options):
        shared = ("--kv-interval", 8, "--kv-recent-tokens", 8, "--threads", 1)
        given = set(arguments)
        defaults = [word for flag, value in zip(shared[::2], shared[1::2]) if flag not in given
                    for word in (flag, value)]
        return self.run_winnow("eval", "loss", "--model", model or self.model, "--text", text or self.texts,
                               *(("--policies", policies) if policies else ()), *budget, *defaults, *arguments,
                               **options)

    def eval_json(self, *arguments, **options):
        run = self.eval("--json", *arguments, **options)
        self.assertEqual(run.code, 0, run.errors)
        [result] = run.objects
        return result, run

    def refuse(self, parts, *arguments, code=2, **options):
        run = self.eval(*arguments, **options)
        self.assertEqual(run.code, code, run.errors)
        self.assertEqual(run.output, "")
        for part in parts:
            self.assertIn(part, run.errors)
        return run

    @staticmethod
    def rows_text(run):
        """The rows as they were printed: not one digit may differ."""
        begin, end = run.output.index('"rows":['), run.output.index(',"refused":')
        rows = json.loads(run.output[begin + len('"rows":'):end])
        peaks = [row.pop("peak_bytes_per_rank") for row in rows]
        text = run.output[begin:end]
        for of_ranks in peaks + [row.pop("load_per_rank") for row in rows]:
            text = text.replace(json.dumps(of_ranks, separators=(",", ":")), "[]", 1)
        return text, [sum(peak) for peak in peaks]


class Rows(EvalCase):
    POLICIES = "streaming-llm,random,h2o,snapkv,tova,keydiff,knorm,ada-snapkv,golden"

    def test_rows_are_byte_for_byte_the_same_from_one_two_and_three_processes(self):
        ask = ("--max-texts", 1, "--check-ranks")
        budgets = ("--kv-budget", "32,48")
        runs = [self.eval_json(*ask, policies=self.POLICIES, budget=budgets, np=np)[1] for np in (1, 2, 3)]
        want, bytes_of_all = self.rows_text(runs[0])
        for run in runs[1:]:
            self.assertEqual(self.rows_text(run), (want, bytes_of_all))
        rows = runs[0].objects[0]["rows"]
        self.assertEqual(len(rows), 2 * 9 * 3)  # budgets, policies; all, prose, code
        self.assertEqual([row["budget"] for row in rows], [32] * 27 + [48] * 27)
        self.assertEqual([row["texts"] for row in rows[:3]], ["all", "prose", "code"])
        threads = self.eval_json(*ask, "--threads", 3, policies=self.POLICIES, budget=budgets)[1]
        self.assertEqual(self.rows_text(threads)[0], want)

    def test_a_row_says_what_was_asked_and_found(self):
        result, _ = self.eval_json(policies="random,h2o", budget=("--kv-ratio", "0.2"))
        self.assertEqual(set(result["rows"][0]), FIELDS)
        self.assertEqual([row["policy"] for row in result["rows"]], ["random"] * 3 + ["h2o"] * 3)
        for row in result["rows"]:
            self.assertEqual((row["budget"], row["ratio"], row["interval"], row["scope"]), (None, 0.2, 8, "head"))
            self.assertEqual(row["num_texts"], 8 if row["texts"] == "all" else 4)
            self.assertGreaterEqual(row["evictions_per_text"], 8)
            self.assertGreater(row["evicted_entries"], 0)
            self.assertGreater(row["kl"], 0)
            self.assertLess(row["kept_ratio"], row["kept_ratio_average"])
            self.assertLess(row["kept_ratio_average"], 1)
            self.assertAlmostEqual(row["loss_ratio"], row["loss"] / row["full_loss"], 12)
            low, high = row["ci95"]
            self.assertLessEqual(low, row["loss"] - row["full_loss"])
            self.assertGreaterEqual(high, row["loss"] - row["full_loss"])
        self.assertEqual(result["refused"], [])
        settings = {"policies": ["random", "h2o"], "budgets": [], "ratios": [0.2], "interval": 8, "sink_tokens": 4,
                    "recent_tokens": 8, "protect_prompt": False, "scope": "policy", "allocation": "policy", "prompt_tokens": None,
                    "seed": 0,
                    "kv_cache_dtype": "bf16", "numerics": "exact", "text_files": [self.texts], "split": None,
                    "max_texts": None, "max_text_tokens": 4096}
        texts = result["settings"].pop("texts")
        self.assertEqual(result["settings"], settings)
        self.assertEqual(texts["count"], 8)
        self.assertRegex(texts["hash"], "^[0-9a-f]{16}$")
        self.assertEqual(result["format"], {"name": "winnow-result", "version": 1, "rows": "loss"})
        self.assertEqual(result["command"][1:4], ["eval", "loss", "--model"])
        self.assertEqual(result["model"]["name"], "tiny random model")
        self.assertEqual((result["environment"]["ranks"], result["environment"]["hosts"]), (1, 1))
        self.assertGreater(result["timing"]["tokens_per_second"], 0)

    def test_the_full_cache_is_the_same_beside_any_policy(self):
        alone = self.eval_json(policies="h2o")[0]["rows"]
        beside = self.eval_json(policies="random,knorm,h2o")[0]["rows"]
        self.assertEqual(beside[-3:], alone)

    def test_a_seed_moves_random_and_nothing_else(self):
        one, again, other = (self.eval_json("--seed", seed, policies="random,h2o")[0]["rows"] for seed in (1, 1, 2))
        self.assertEqual(one, again)
        self.assertNotEqual(one[0]["loss"], other[0]["loss"])
        self.assertEqual(one[3:], other[3:])

    def test_splits_and_numbers_of_texts_choose(self):
        for flags, texts in ((("--split", "test"), 6), (("--max-texts", 1), 2),
                             (("--split", "train", "--max-texts", 5), 2)):
            self.assertEqual(self.eval_json(*flags)[0]["rows"][0]["num_texts"], texts)
        self.refuse(["no document of the split 'dev'"], "--split", "dev")

    def test_a_table_for_people(self):
        run = self.eval(policies="random,h2o")
        self.assertEqual(run.code, 0, run.errors)
        lines = run.output.splitlines()
        self.assertEqual(lines[0].split()[:4], ["policy", "budget", "texts", "loss"])
        self.assertEqual([line.split()[0] for line in lines[1:7]], ["random"] * 3 + ["h2o"] * 3)


class AfterThePrompt(EvalCase):
    def test_policies_of_the_prompt_are_measured_beside_the_others(self):
        runs = [self.eval_json("--prompt-tokens", 100, policies="snapkv-prefill,h2o", np=np)[1] for np in (1, 3)]
        self.assertEqual(self.rows_text(runs[0]), self.rows_text(runs[1]))
        rows = {row["policy"]: row for row in runs[0].objects[0]["rows"] if row["texts"] == "all"}
        self.assertEqual([rows[p]["timing"] for p in ("snapkv-prefill", "h2o")], ["after_prefill", "chunked"])
        self.assertEqual([rows[p]["evictions_per_text"] for p in ("snapkv-prefill",)], [1])
        # Every text has 240 tokens, nearly; the last is only predicted.
        self.assertLess(rows["snapkv-prefill"]["positions"], rows["h2o"]["positions"])
        self.assertGreater(rows["snapkv-prefill"]["kl"], 0)
        self.assertNotEqual(rows["snapkv-prefill"]["full_loss"], rows["h2o"]["full_loss"])

    def test_too_few_evictions_give_no_row(self):
        result, _ = self.eval_json("--prompt-tokens", 100, "--max-texts", 3, policies="snapkv-prefill,h2o")
        self.assertEqual([row["policy"] for row in result["refused"]], ["snapkv-prefill"])
        self.assertIn("6 evictions together", result["refused"][0]["reason"])
        self.assertEqual({row["policy"] for row in result["rows"]}, {"h2o"})
        # Their own prompts have 20 tokens, fewer than the budget.
        self.refuse(["prose-0 saw no eviction", "not longer than the budget"], policies="snapkv-prefill")

    def test_a_prompt_leaves_some_text(self):
        self.refuse(["--prompt-tokens 4000", "prose-0", "215 tokens"], "--prompt-tokens", 4000)
        self.refuse(["--prompt-tokens: expected 1 or more, found 0"], "--prompt-tokens", 0)


class Patterns(EvalCase):
    def patterns(self, *arguments, text=None, budget=32, np=None):
        return self.run_winnow("eval", "patterns", "--model", self.model, "--text", text or self.texts, "--policies",
                               "streaming-llm,golden", "--kv-budget", budget, "--kv-interval", 8,
                               "--kv-recent-tokens", 8, "--threads", 1, *arguments, np=np)

    def test_kinds_and_what_is_held_of_them_are_the_same_from_any_number_of_processes(self):
        runs = [self.patterns("--json", "--max-texts", 1, np=np) for np in (None, 3, 5)]
        for run in runs:
            self.assertEqual(run.code, 0, run.errors)
        one, three, five = (run.objects[0]["rows"] for run in runs)
        self.assertEqual(one, three)
        self.assertEqual(one, five)
        self.assertEqual([row["policy"] for row in one], ["full", "streaming-llm", "golden"])
        kinds = ["global", "semantic", "local", "idle"]
        self.assertEqual(list(one[0]["pairs"]), kinds)
        self.assertEqual(len(one[0]["heads"]), 2 * 3)
        for kind in kinds:
            self.assertEqual(one[0]["pairs"][kind], sum(head[kind] for head in one[0]["heads"]))
        self.assertAlmostEqual(sum(one[0]["shares"].values()), 1, 12)
        for row in one[1:]:
            self.assertEqual(list(row["held"]), kinds)
            self.assertEqual(len(row["held_per_layer"]), 2)
        self.assertGreater(one[2]["held"]["global"], one[1]["held"]["global"])

    def test_a_table_for_people_and_refusals(self):
        run = self.patterns("--max-texts", 1)
        self.assertEqual(run.code, 0, run.errors)
        self.assertIn("global semantic", run.output)
        self.assertIn("golden", run.output.splitlines()[-1])
        short = self.write("short.txt", made_up(1, 40))
        for part, options in (("short.txt: expected 49 tokens or more", {"text": short}),
                              ("every row was refused", {"budget": 1000})):
            run = self.patterns(**options)
            self.assertEqual((run.code, run.output), (2, ""))
            self.assertIn(part, run.errors)


class RefusedRows(EvalCase):
    def test_a_budget_that_leaves_too_few_evictions_gives_no_row_and_says_why(self):
        result, run = self.eval_json(policies="random,h2o", budget=("--kv-budget", "32,200"), np=2)
        self.assertEqual({row["budget"] for row in result["rows"]}, {32})
        self.assertEqual([(row["policy"], row["budget"]) for row in result["refused"]],
                         [("random", "200"), ("h2o", "200")])
        for row in result["refused"]:
            self.assertIn("at least 8 are needed", row["reason"])
        self.assertTrue(any("no row for random at budget 200" in line for line in run.messages), run.errors)

    def test_if_no_row_is_left_the_command_fails(self):
        for np in (None, 2):
            self.refuse(["every row was refused", "prose-0", "at least 8"], "--json", budget=("--kv-budget", 200), np=np)


class Flags(EvalCase):
    def test_policies_that_cannot_be_compared_are_refused(self):
        self.refuse(["h3o", "streaming-llm"], policies="random,h3o")
        self.refuse(["--policies", "full never evicts"], policies="full,random")
        plain = self.write("no-prompt.txt", made_up(1, 240))
        self.refuse(["no-prompt.txt", "snapkv-prefill", "after a prompt", "--prompt-tokens"], text=plain,
                    policies="snapkv-prefill", np=2)
        self.refuse(["keydiff", "--kv-scope layer"], "--kv-scope", "layer", policies="keydiff")
        self.refuse(["golden", "--kv-scope layer"], "--kv-scope", "layer", policies="golden")
        self.refuse(["--policies", "random is given twice"], policies="random,h2o,random")
        self.refuse(["head, layer or sequence"], "--kv-scope", "model")
        self.refuse(["--policies is required"], policies=None)

    def test_budgets_that_make_no_sense_are_refused(self):
        self.refuse(["budget", "1"], budget=("--kv-budget", 64, "--kv-ratio", 0.5))
        self.refuse(["budget"], budget=())
        for ratio in ("0", "1", "2", "-0.5", "nan", "inf"):
            self.refuse(["--kv-ratio: expected above 0 and below 1"], budget=("--kv-ratio", ratio))
        self.refuse(["--kv-ratio"], budget=("--kv-ratio", "half"))
        self.refuse(["--kv-budget: expected 1 or more, found 0"], budget=("--kv-budget", "64,0"))
        self.refuse(["--kv-budget: expected 1 or more, found -3"], budget=("--kv-budget=-3",))
        self.refuse(["--kv-budget"], budget=("--kv-budget", "12.5"))
        self.refuse(["--kv-budget: 64 is given twice"], budget=("--kv-budget", "64,48,64"))
        self.refuse(["--kv-budget", "010"], budget=("--kv-budget", "64,010"))
        self.refuse(["policy random", "budget", "10", "smaller", "4 sink", "8 recent"], budget=("--kv-budget", 10))
        self.refuse(["prose-0", "smaller"], budget=("--kv-ratio", 0.01), np=2)

    def test_other_numbers_out_of_range_are_refused(self):
        for flag, value in (("--kv-interval", 0), ("--kv-recent-tokens", -1), ("--max-texts", 0),
                            ("--max-text-tokens", 1), ("--threads", 0), ("--numerics", "slow"),
                            ("--kv-cache-dtype", "f16"), ("--backend", "gpu"), ("--cpu-kernels", "neon")):
            self.refuse([flag if flag not in ("--backend", "--cpu-kernels") else str(value)], f"{flag}={value}")

    def test_a_rank_with_other_arguments_ends_the_job(self):
        other = self.command_line("eval", "loss", "--model", self.model, "--text", self.texts, "--policies", "random",
                                  "--kv-budget", 48, "--threads", 1)
        self.refuse(["rank 1", "expected the arguments of rank 0", "--kv-budget 48"], ":", "-np", 1, *other, np=1)

    def test_a_disk_that_is_full_is_no_success(self):
        for extra in ((), ("--json",)):
            with open("/dev/full", "wb") as full:
                process = self.start("eval", "loss", "--model", self.model, "--text", self.texts,
                                     "--policies", "random", "--kv-budget", 32, "--kv-interval", 8,
                                     "--kv-recent-tokens", 8, "--threads", 1,
                                     *extra, stdout=full)
            _, errors = process.communicate(timeout=100)
            self.assertEqual(process.returncode, 1, errors)
            self.assertIn(b"standard output could not be written", errors)

    def test_prompts_are_protected_only_where_there_are_some(self):
        self.assertEqual(self.eval_json("--kv-protect-prompt")[0]["settings"]["protect_prompt"], True)
        plain = self.write("plain.txt", made_up(1, 240))
        self.refuse(["--kv-protect-prompt", "plain.txt", "has no \"prompt\""], "--kv-protect-prompt", text=plain)

    def test_files_that_cannot_be_read_are_named(self):
        self.refuse(["nowhere.txt", "No such file"], text=self.path("nowhere.txt"), np=2)
        self.refuse([self.folder, "is a directory"], text=self.folder)
        self.refuse(["latin.txt", "UTF-8"], text=self.write("latin.txt", b"caf\xe9 au lait"))
        self.refuse(["bad.jsonl line 2", "not valid JSON"], text=self.write("bad.jsonl", '{"text": "ab"}\n{"text"\n'))
        self.refuse(["short.txt", "2 tokens or more"], text=self.write("short.txt", "a"))
        self.refuse(["nowhere.gguf"], model=self.path("nowhere.gguf"), code=3, np=3)
        if os.path.exists("/dev/zero"):
            self.refuse(["/dev/zero", "at most"], text="/dev/zero")

    def test_without_a_command_the_help_says_which_there_are(self):
        run = self.run_winnow("eval")
        self.assertEqual(run.code, 2, run.errors)
        self.assertIn("subcommand is required", run.errors)
        self.assertIn("loss", self.run_winnow("eval", "--help").output)
        run = self.run_winnow("eval", "loss", "--help")
        self.assertEqual(run.code, 0, run.errors)
        for flag in ("--text", "--policies", "--kv-ratio", "--json"):
            self.assertIn(flag, run.output)


if __name__ == "__main__":
    main()
