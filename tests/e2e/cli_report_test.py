"""winnow eval report and bench/plot as users run them."""

import json
import os
import shutil
import subprocess
import tempfile
import unittest

from cli_case import main
from cli_eval_test import EvalCase

PLOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "bench", "plot")
LINES = {"kind": "lines", "title": "t", "x": {"label": "kept"}, "y": {"label": "ratio"},
         "series": [{"name": "a", "x": [1, 2], "y": [1, 3]}]}
HEAT = {"kind": "heat", "title": "t", "x": {"label": "length"}, "y": {"label": "depth"},
        "value": {"label": "score, %", "low": 0, "high": 100}, "columns": ["1", "2"], "rows": ["0"],
        "values": [[3, None]]}


class Report(EvalCase):
    results = []

    def setUp(self):
        super().setUp()
        for policy in ("h2o", "random") if not self.results else ():
            out = self.path(policy + ".json")
            run = self.eval("--out", out, policies=policy, budget=("--kv-budget", "32,48"))
            self.assertEqual(run.code, 0, run.errors)
            self.results.append(out)

    def report(self, *arguments, environment=None):
        return self.run_winnow("eval", "report", *arguments, environment={"WINNOW_PLOT": PLOT, **(environment or {})})

    def test_tables_of_several_files_on_standard_output(self):
        run = self.report(*self.results)
        self.assertEqual(run.code, 0, run.errors)
        rows = [line for line in run.output.splitlines() if line.startswith(("| h2o", "| random"))]
        self.assertEqual(len(rows), 2 * 2 * 3)
        self.assertEqual(run.output.count("## loss"), 1)

    def test_a_folder_with_plots_or_one_line_that_says_why_there_are_none(self):
        folder = self.path("with")
        run = self.report(*self.results, "--out", folder)
        self.assertEqual((run.code, run.output), (0, ""), run.errors)
        files = set(os.listdir(folder))
        if shutil.which("gnuplot"):
            for name in ("loss1-all-kept", "loss1-code-bytes"):
                self.assertLessEqual({name + ".svg", name + ".png"}, files)
            self.assertFalse(any(name.endswith((".json", ".part")) for name in files), files)
        folder = self.path("without")
        run = self.report(*self.results, "--out", folder, environment={"WINNOW_PLOT": self.path("nowhere")})
        self.assertEqual(run.code, 0, run.errors)
        self.assertEqual(len([line for line in run.messages if "gnuplot" in line]), 1)
        self.assertEqual(os.listdir(folder), ["report.md"])

    def test_files_of_other_formats_and_rows_that_differ_are_refused(self):
        with open(self.results[0], encoding="utf-8") as file:
            result = json.load(file)
        result["format"]["version"] = 9
        run = self.report(self.results[0], self.write("other.json", json.dumps(result)))
        self.assertEqual((run.code, run.output), (3, ""))
        for part in ("other.json", "version 1", '"version":9'):
            self.assertIn(part, run.errors)
        result["format"]["version"] = 1
        result["rows"][0]["loss"] += 1
        run = self.report(self.results[0], self.write("forged.json", json.dumps(result)))
        self.assertEqual(run.code, 2)
        self.assertIn("other numbers for the same row", run.errors)
        self.assertEqual(self.report(self.path("nowhere.json")).code, 3)
        self.assertEqual(self.report().code, 2)


class Plot(unittest.TestCase):
    def plot(self, figure, *outs, environment=None):
        path = os.path.join(self.folder, "figure.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(figure, file)
        return subprocess.run([PLOT, path, *outs], stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8",
                              check=False, env={**os.environ, **(environment or {})})

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name

    def test_figures_that_are_none_are_refused_with_what_was_expected(self):
        out = os.path.join(self.folder, "out.svg")
        for figure, part in (({**LINES, "kind": "pie"}, "lines or heat"), ({**LINES, "series": []}, "series"),
                             ({**LINES, "title": 3}, "title"), ({**LINES, "x": {}}, "x.label"),
                             ({**LINES, "series": [{"name": "a", "x": [1, 2], "y": [1]}]}, "2 numbers"),
                             ({**LINES, "x": {"label": "k", "log": True},
                               "series": [{"name": "a", "x": [0], "y": [1]}]}, "above 0"),
                             ({**HEAT, "values": [[1]]}, "2 columns"), ([], "object")):
            run = self.plot(figure, out)
            self.assertEqual(run.returncode, 3, (figure, run.stderr))
            self.assertIn(part, run.stderr)
        self.assertEqual(self.plot(LINES, "out.pdf").returncode, 2)
        self.assertEqual(self.plot(LINES).returncode, 2)

    def test_without_gnuplot_it_says_so(self):
        bare = os.path.join(self.folder, "bin")
        os.makedirs(bare, exist_ok=True)
        if not os.path.exists(os.path.join(bare, "python3")):
            os.symlink(shutil.which("python3"), os.path.join(bare, "python3"))
        run = self.plot(LINES, os.path.join(self.folder, "out.svg"), environment={"PATH": bare})
        self.assertEqual(run.returncode, 4, run.stderr)
        self.assertIn("gnuplot-nox", run.stderr)

    def test_it_draws_and_quotes_what_gnuplot_would_run(self):
        if not shutil.which("gnuplot"):
            return  # the line above is then all there is
        for figure in (LINES, HEAT, {**LINES, "title": "a\"; system('false') `false` \\ 'b_c'"}):
            svg, png = (os.path.join(self.folder, "out" + end) for end in (".svg", ".png"))
            run = self.plot(figure, svg, png)
            self.assertEqual((run.returncode, run.stderr), (0, ""))
            with open(svg, encoding="utf-8") as file:
                self.assertIn("</svg>", file.read())
            with open(png, "rb") as file:
                self.assertEqual(file.read(4), b"\x89PNG")


if __name__ == "__main__":
    main()
