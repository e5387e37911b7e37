"""winnow eval loss over groups of ranks, and after it was killed: the same bytes."""

import json
import os
import unittest

from cli_case import main
from cli_eval_test import EvalCase


class Groups(EvalCase):
    ASK = ("--max-texts", 2, "--check-ranks")
    POLICIES = "streaming-llm,h2o,ada-snapkv"

    def test_rows_are_the_same_for_any_tp_and_dp(self):
        budgets = ("--kv-budget", "32,48")
        want = self.rows_text(self.eval_json(*self.ASK, policies=self.POLICIES, budget=budgets)[1])
        for tp, dp in ((1, 2), (1, 3), (2, 2)):
            result, run = self.eval_json(*self.ASK, "--dp", dp, "--tp", tp, policies=self.POLICIES, budget=budgets,
                                         np=tp * dp)
            self.assertEqual(self.rows_text(run), want, (tp, dp))
            environment = result["environment"]
            self.assertEqual((environment["tensor_parallel"], environment["data_parallel"], environment["ranks"]),
                             (tp, dp, tp * dp))

    def test_ranks_that_do_not_make_whole_groups_are_refused(self):
        self.refuse(["--dp 2", "a multiple of it in ranks", "found 3"], "--dp", 2, np=3)
        self.refuse(["--dp 2", "expected 4 ranks (--tp x --dp)", "found 2"], "--dp", 2, "--tp", 2, np=2)
        self.refuse(["--dp", "1 or more", "found 0"], "--dp", 0)
        self.refuse(["--dp 4"], "--dp", 4)


class Resumed(EvalCase):
    POLICIES, BUDGETS = "h2o,snapkv", ("--kv-budget", "32,40,48,56")

    def out(self, name):
        return self.path(name)

    def kill_after_units(self, out, units):
        self.kill_when_journal_has(units, out, "eval", "loss", "--model", self.model, "--text", self.texts, "--policies",
                                   self.POLICIES, *self.BUDGETS, "--kv-interval", 8, "--kv-recent-tokens", 8,
                                   "--threads", 1)

    def rows_of(self, path):
        with open(path, encoding="utf-8") as file:
            text = file.read()
        return text[text.index('"rows": ['):text.index('"timing"')], json.loads(text)

    def test_a_killed_run_goes_on_and_ends_with_the_same_bytes(self):
        whole, part = self.out("whole.json"), self.out("part.json")
        ask = {"policies": self.POLICIES, "budget": self.BUDGETS}
        run = self.eval("--out", whole, **ask)
        self.assertEqual(run.code, 0, run.errors)
        self.kill_after_units(part, 3)
        self.assertFalse(os.path.exists(part))
        with open(part + ".journal", "a", encoding="utf-8") as journal:
            journal.write('{"unit":"budget 32, te')  # as a kill in the middle of a write leaves it
        self.refuse(["give --resume"], "--out", part, **ask)
        self.refuse(["settings/seed: the journal has 0, this run 1"], "--out", part, "--resume", "--seed", 1, **ask)
        self.refuse(["settings/max_texts: the journal has null, this run 3"], "--out", part, "--resume",
                    "--max-texts", 3, **ask)
        self.refuse(["tensor_parallel: the journal has 1, this run 2"], "--out", part, "--resume", np=2, **ask)
        run = self.eval("--out", part, "--resume", "--dp", 2, np=2, **ask)
        self.assertEqual(run.code, 0, run.errors)
        self.assertIn("going on after", run.errors)
        want, got = self.rows_of(whole), self.rows_of(part)
        self.assertEqual(got[0], want[0])
        self.assertGreaterEqual(got[1]["timing"]["resumed_units"], 3)
        self.assertEqual(want[1]["timing"]["resumed_units"], 0)
        self.assertFalse(os.path.exists(part + ".journal"))

    def test_resume_needs_a_file_and_begins_one_where_there_is_none(self):
        self.refuse(["--resume: expected --out"], "--resume")
        out = self.out("new.json")
        run = self.eval("--out", out, "--resume", "--max-texts", 1)
        self.assertEqual(run.code, 0, run.errors)
        self.assertEqual(run.output.split()[0], "policy")
        self.assertEqual(self.rows_of(out)[1]["format"]["name"], "winnow-result")

    def test_where_nothing_can_be_written_is_found_before_any_work(self):
        for out in (self.path("no/folder.json"), self.folder):
            run = self.refuse([str(out), "cannot write"], "--out", out, code=3)
            self.assertNotIn("reading texts", run.errors)

    def test_a_unit_that_makes_no_sense_is_named_before_any_work(self):
        out, ask = self.out("odd.json"), {"policies": self.POLICIES, "budget": self.BUDGETS}
        self.kill_after_units(out, 1)
        with open(out + ".journal", encoding="utf-8") as journal:
            header, unit, *_ = journal.read().splitlines()
        unit = {**json.loads(unit), "value": None}
        with open(out + ".journal", "w", encoding="utf-8") as journal:
            journal.write(f"{header}\n{json.dumps(unit)}\n")
        run = self.refuse([unit["unit"], "expected an array of 2 policies"], "--out", out, "--resume", code=3, **ask)
        self.assertNotIn("reading texts", run.errors)


if __name__ == "__main__":
    main()
