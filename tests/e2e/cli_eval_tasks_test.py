"""winnow eval ruler, needle and qa as a user runs them: the same rows from any number of processes, what is refused."""

import json
import os
import unittest

from cli_case import CliCase, main

# Nearly every byte is a token of the tiny model, whose answers are noise: what is tested is the way there.
SHARED = ("--threads", 1, "--kv-interval", 16, "--kv-recent-tokens", 8, "--max-tokens", 4)
ROW = {"policy", "scope", "allocation", "budget", "ratio", "interval", "kept_ratio", "evicted_entries",
       "evictions_per_answer", "answers_without_eviction", "peak_bytes"}
GSM8K = [{"question": f"What is {i} plus {i}?", "answer": f"{i} + {i} = {2 * i}\n#### {2 * i}"} for i in range(4)]


def lines(objects):
    return "".join(json.dumps(one) + "\n" for one in objects)


class EvalTasksCase(CliCase):
    def eval(self, kind, *arguments, policies="streaming-llm,snapkv-prefill", budget=("--kv-ratio", 0.3), **options):
        return self.run_winnow("eval", kind, "--model", self.model, "--policies", policies, *budget, *SHARED,
                               *arguments, **options)

    def eval_json(self, *arguments, **options):
        run = self.eval(*arguments, "--json", **options)
        self.assertEqual(run.code, 0, run.errors)
        [result] = run.objects
        return result

    def refuse(self, parts, *arguments, code=2, **options):
        run = self.eval(*arguments, **options)
        self.assertEqual(run.code, code, run.errors)
        self.assertEqual(run.output, "")
        for part in parts:
            self.assertIn(part, run.errors)

    def check_rows(self, rows, *more):
        for row in rows:
            self.assertLessEqual(ROW | set(more), set(row))
            self.assertEqual(row["evicted_entries"] > 0, row["policy"] != "full")
            self.assertEqual(row["kept_ratio"] < 1, row["policy"] != "full")


class Ruler(EvalTasksCase):
    ASK = ("ruler", "--tasks", "niah_single_1,fwe", "--length", 1200, "--samples", 1)

    def test_rows_are_the_same_from_one_and_two_processes(self):
        one, two = (self.eval_json(*self.ASK, "--check-ranks", np=np) for np in (1, 2))
        self.assertEqual(one["rows"], two["rows"])
        self.assertEqual(one["settings"], two["settings"])
        self.assertEqual(len(one["rows"]), 3 * 3)  # full and two policies; all and two tasks
        self.check_rows(one["rows"], "task", "samples", "score", "full_score", "retained", "ci95", "standard_error")
        self.assertEqual(one["format"]["rows"], "ruler")
        self.assertEqual(one["settings"]["tasks"], ["niah_single_1", "fwe"])
        other = self.eval_json(*self.ASK, "--max-num-seqs", 1, "--max-num-batched-tokens", 100)
        self.assertEqual(one["rows"], other["rows"])

    def test_the_question_is_compressed_only_if_asked_for(self):
        kept = [[row["kept_ratio"] for row in self.eval_json(*self.ASK, *more)["rows"]] for more in ((), ("--query-aware",))]
        self.assertNotEqual(kept[0], kept[1])

    def test_answers_are_written_and_tasks_without_their_file_left_out(self):
        path = self.path("answers.jsonl")
        run = self.eval("ruler", "--length", 3000, "--samples", 1, "--answers", path, policies="random",
                        budget=("--kv-budget", 64))
        self.assertEqual(run.code, 0, run.errors)
        self.assertIn("qa_1 is left out: it needs --squad FILE", run.errors)
        self.assertIn("niah_multikey_3", run.output)
        with open(path, encoding="utf-8") as file:
            answers = [json.loads(line) for line in file]
        self.assertEqual(len(answers), 11 * 2)
        self.assertEqual({answer["policy"] for answer in answers}, {"full", "random"})

    def test_files_of_the_user_are_read(self):
        squad = {"data": [{"paragraphs": [{"context": f"Town {i} is old. " * 9, "qas": [
            {"question": f"Which town is {i}?", "answers": [{"text": f"Town {i}"}]}]} for i in range(5)]}]}
        result = self.eval_json("ruler", "--tasks", "qa_1,niah_single_2", "--length", 900, "--samples", 2,
                                "--squad", self.write("squad.json", json.dumps(squad)),
                                "--haystack", self.write("hay.txt", "A first sentence. And another one!\n" * 3))
        self.check_rows(result["rows"])
        self.assertEqual(result["settings"]["haystack"], self.path("hay.txt"))

    def test_what_cannot_be_done_is_refused(self):
        self.refuse(["RULER task", "niah_single_1", 'found "niah"'], "ruler", "--tasks", "niah")
        self.refuse(["--squad FILE"], "ruler", "--tasks", "qa_1")
        self.refuse(["--length 5000", "4096"], "ruler", "--length", 5000)
        self.refuse(["task vt", "--length 300"], "ruler", "--tasks", "vt", "--length", 300)
        self.refuse(["full never evicts"], *self.ASK, policies="full")
        self.refuse(["every row was refused", "never evicted"], *self.ASK, budget=("--kv-budget", 2000))
        self.refuse(["--kv-ratio"], *self.ASK, budget=("--kv-ratio", 1))
        self.refuse(["squad.json: not valid JSON"], "ruler", "--squad", self.write("squad.json", "{"), np=2)
        self.refuse(["empty.txt", "no word"], "ruler", "--haystack", self.write("empty.txt", " \n"))


class Needle(EvalTasksCase):
    ASK = ("needle", "--lengths", "400,600", "--depths", "0,50")

    def test_every_length_and_depth_has_a_row(self):
        one, two = (self.eval_json(*self.ASK, np=np) for np in (1, 2))
        self.assertEqual(one["rows"], two["rows"])
        self.check_rows(one["rows"], "length", "depth", "score", "rouge1_recall", "samples")
        cells = [(row["policy"], row["length"], row["depth"]) for row in one["rows"]]
        self.assertEqual(cells, [(policy, length, depth) for policy in ("full", "streaming-llm", "snapkv-prefill")
                                 for length in (400, 600) for depth in (0, 50)])
        run = self.eval(*self.ASK)
        self.assertIn("snapkv-prefill, budget 0.3", run.output)
        self.assertIn("   50 %", run.output)

    def test_what_cannot_be_done_is_refused(self):
        self.refuse(["--depths", "101"], "needle", "--depths", "101")
        self.refuse(["--lengths 9000", "4096"], "needle", "--lengths", "9000")
        self.refuse(["length of 50"], "needle", "--lengths", "50")
        self.refuse(["--lengths: 400 is given twice"], "needle", "--lengths", "400,400")
        self.refuse(["--kv-ratio: 0.3 is given twice"], "needle", "--lengths", "400", budget=("--kv-ratio", "0.3,0.3"))


class Qa(EvalTasksCase):
    def ask(self):
        """Problems behind three worked ones: alone they are too short to evict anything."""
        data, shots = (self.write(name, lines(GSM8K)) for name in ("gsm8k.jsonl", "shots.jsonl"))
        return "qa", "--data", data, "--shots", 3, "--shots-data", shots

    def test_rows_count_every_answer_once(self):
        ask = (*self.ask(), "--samples", 2, "--temperature", 1, "--seed", 3)
        one, two = (self.eval_json(*ask, np=np) for np in (1, 2))
        self.assertEqual(one["rows"], two["rows"])
        self.check_rows(one["rows"], "task", "metric", "problems", "score", "sampling_error", "tokens_per_answer")
        for row in one["rows"]:
            self.assertEqual((row["task"], row["problems"], row["samples_per_problem"]), ("gsm8k", 4, 2))
            self.assertEqual(sum(row[name] for name in ("right", "wrong", "looping", "truncated", "none")), 8)

    def test_groups_of_ranks_give_the_rows_of_one(self):
        ask = (*self.ask(), "--samples", 2, "--temperature", 1)
        one, groups = self.eval_json(*ask), self.eval_json(*ask, "--dp", 2, "--max-num-seqs", 1, np=2)
        self.assertEqual(one["rows"], groups["rows"])
        self.assertEqual((groups["environment"]["tensor_parallel"], groups["environment"]["data_parallel"]), (1, 2))
        self.refuse(["--dp 2", "found 3"], *ask, "--dp", 2, np=3)

    def test_a_killed_run_goes_on_and_ends_with_the_same_rows(self):
        ask = (*self.ask(), "--max-num-seqs", 1)
        out = self.path("killed.json")
        self.refuse(["--resume: expected --out"], *ask, "--resume")
        self.kill_when_journal_has(4, out, "eval", *ask, "--model", self.model, "--policies", "snapkv-prefill",
                                   "--kv-ratio", 0.3, *SHARED)
        self.refuse(["give --resume"], *ask, "--out", out, policies="snapkv-prefill")
        self.refuse(["settings/seed: the journal has 0, this run 5"], *ask, "--out", out, "--resume", "--seed", 5,
                    policies="snapkv-prefill")
        run = self.eval(*ask, "--out", out, "--resume", "--dp", 2, policies="snapkv-prefill", np=2)
        self.assertEqual(run.code, 0, run.errors)
        self.assertFalse(os.path.exists(out + ".journal"))
        with open(out, encoding="utf-8") as file:
            result = json.load(file)
        self.assertEqual(result["rows"], self.eval_json(*ask, policies="snapkv-prefill")["rows"])
        self.assertGreaterEqual(result["timing"]["resumed_answers"], 4)

    def test_a_long_document_loses_its_middle(self):
        document = {"dataset": "qasper", "input": "why?", "context": "first " + "word " * 1000 + "last", "answers": ["x"]}
        result = self.eval_json("qa", "--data", self.write("bench.jsonl", lines([document])))
        self.check_rows(result["rows"])
        self.assertEqual(result["rows"][0]["metric"], "f1")

    def test_what_cannot_be_done_is_refused(self):
        good = self.write("good.jsonl", lines(GSM8K))
        bad = self.write("bad.jsonl", lines(GSM8K) + "\n{\n")
        self.refuse(["bad.jsonl line 6: not valid JSON"], "qa", "--data", bad, np=2)
        self.refuse(["--format", "found \"csv\""], "qa", "--data", good, "--format", "csv")
        self.refuse(["line 1", "expected the field \"input\""], "qa", "--data", good, "--format", "bbh")
        self.refuse(["--temperature"], "qa", "--data", good, "--samples", 4)
        self.refuse(["--shots-data"], "qa", "--data", good, "--shots", 4)
        self.refuse(["nowhere.jsonl"], "qa", "--data", self.path("nowhere.jsonl"))
        long = self.write("long.jsonl", lines([{"question": "x" * 5000, "answer": "#### 1"}]))
        self.refuse(["long.jsonl line 1", "4096"], "qa", "--data", long)


if __name__ == "__main__":
    main()
