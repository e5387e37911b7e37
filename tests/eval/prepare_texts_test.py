#!/usr/bin/env python3
"""eval/prepare_texts.py on made-up speeches, problems and modules."""

import ast
import filecmp
import json
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
EVAL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "eval")
sys.path.insert(0, EVAL)
import prepare_texts  # noqa: E402

WORDS = "sea hill rope lamp fish tree bell coin door wind salt iron leaf road bird song".split()
LIMITS = ["--min-tokens", "500", "--max-tokens", "900"]


def sentence(generator):
    return " ".join(generator.choices(WORDS, k=9)).capitalize() + "."


def problem(generator, i):
    n = i % 90 + 2
    return {"question": f"Case {i} has {n} {generator.choice(WORDS)}s. How many is twice that?",
            "answer": f"It is 2*{n} = <<2*{n}={2 * n}>>{2 * n}.\n#### {2 * n}"}


class PrepareTexts(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.data, self.out, self.library = (os.path.join(self.root, name) for name in ("data", "out", "library"))
        os.makedirs(self.data)
        os.makedirs(os.path.join(self.library, "tests"))
        generator = random.Random(1)
        self.speeches = [f"{name}:\n{sentence(generator)}\n{sentence(generator)}\n\n"
                         for name in generator.choices(("FIRST", "SECOND", "THIRD"), k=900)]
        self.write("tinyshakespeare.txt", "".join(self.speeches))
        self.problems = [problem(generator, i) for i in range(900)]
        self.write_problems("train", self.problems[:700])
        self.write_problems("test", self.problems[650:])
        for i in range(60):
            functions = [f"def f{i}_{j}(x):\n    # {sentence(generator)}\n    return x + {j}\n\n\n" for j in range(30)]
            self.write_module(f"module{i}.py", "import os\n\n\n" + "".join(functions))
        self.write_module("broken.py", "def (:\n")
        self.write_module("tests/unwanted.py", "x = 1\n" * 2000)

    def write(self, name, text, mode="w"):
        with open(os.path.join(self.data, name), mode) as file:
            file.write(text)

    def write_problems(self, name, problems):
        self.write(f"gsm8k-{name}.jsonl", "".join(json.dumps(p) + "\n" for p in problems))

    def write_module(self, name, text):
        with open(os.path.join(self.library, name), "w", encoding="utf-8") as file:
            file.write(text)

    def run_script(self, *arguments):
        script = os.path.join(EVAL, "prepare_texts.py")
        done = subprocess.run([sys.executable, script, *arguments], text=True, timeout=120,
                              stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        return done.returncode, done.stdout, done.stderr

    def prepare(self, *arguments, out=None):
        return self.run_script("--data", self.data, "--out", out or self.out, "--python-library", self.library,
                               *LIMITS, *arguments)

    def documents(self, kind, *arguments):
        code, _, errors = self.prepare("--kinds", kind, *arguments)
        self.assertEqual(code, 0, errors)
        found = []
        for split in ("train", "valid", "test"):
            with open(os.path.join(self.out, f"{kind}-{split}.jsonl"), encoding="utf-8") as file:
                found += [json.loads(line) for line in file]
                self.assertEqual({d["split"] for d in found if d["split"] == split}, {split})
        return found

    def fails(self, code, *messages, arguments=()):
        result = self.prepare(*arguments)
        self.assertEqual(result[0], code, result)
        for message in messages:
            self.assertIn(message, result[2])
        self.assertEqual(os.listdir(self.out) if os.path.isdir(self.out) else [], [], "nothing is written")
        self.assertNotIn("Traceback", result[2])

    def test_every_document_is_named_and_within_the_limits(self):
        code, output, errors = self.prepare()
        self.assertEqual((code, errors), (0, ""))
        self.assertEqual(len(os.listdir(self.out)), 12)
        options = prepare_texts.parse_options(["--data", self.data, "--out", self.out, *LIMITS])
        ids = []
        for name in os.listdir(self.out):
            self.assertIn(name, output)
            kind, split = name.removesuffix(".jsonl").split("-")
            with open(os.path.join(self.out, name), encoding="utf-8") as file:
                for document in map(json.loads, file):
                    self.assertEqual((document["kind"], document["split"]), (kind, split))
                    self.assertTrue(prepare_texts.Lengths(kind, None).fits(document["text"], options), document["id"])
                    ids.append(document["id"])
        self.assertEqual(len(ids), len(set(ids)))

    def test_the_same_seed_gives_the_same_bytes_and_another_seed_others(self):
        again, other = os.path.join(self.root, "again"), os.path.join(self.root, "other")
        for out, seed in ((self.out, "7"), (again, "7"), (other, "8")):
            self.assertEqual(self.prepare("--seed", seed, out=out)[0], 0)
        names = sorted(os.listdir(self.out))
        self.assertEqual(filecmp.cmpfiles(self.out, again, names, shallow=False)[0], names)
        self.assertEqual(filecmp.cmpfiles(self.out, other, names, shallow=False)[0], [])

    def test_documents_of_a_kind_are_at_most_as_many_as_asked_for(self):
        self.assertEqual(len(self.documents("scratchpad", "--documents", "10")), 10)
        self.assertLessEqual(len(self.documents("code", "--documents", "10")), 10)

    def test_prose_is_whole_speeches_and_none_is_in_two_documents(self):
        texts = [document["text"] for document in self.documents("prose")]
        seen = [speech for text in texts for speech in re.findall(r".+?\n\n", text, flags=re.DOTALL)]
        self.assertLessEqual(set(seen), set(self.speeches))
        self.assertEqual(len(seen), len(set(seen)))

    def test_prose_splits_do_not_go_by_position(self):
        order = [d["split"] for d in sorted(self.documents("prose"), key=lambda d: d["id"])]
        self.assertNotEqual(order, sorted(order, key=order.index))

    def test_code_is_cut_between_functions_and_modules_stay_in_one_split(self):
        documents = self.documents("code")
        splits = {}
        for document in documents:
            ast.parse(document["text"])
            module = re.fullmatch(r"code-(module\d+\.py)-\d+", document["id"]).group(1)
            self.assertEqual(splits.setdefault(module, document["split"]), document["split"])

    def test_a_large_class_is_cut_between_its_methods(self):
        source = ("class A:\n    x = 1\n\n    @property\n    def f(self):\n        pass\n\n"
                  "    def g(self):\n        pass\n\n\ny = 2\n")
        pieces = prepare_texts.definitions(source, 10)
        self.assertEqual("".join(pieces), source)
        self.assertIn("    @property\n    def f(self):\n        pass\n\n", pieces)
        self.assertEqual(len(prepare_texts.definitions(source, 1000)), 2)

    def test_exams_hold_twelve_to_twenty_problems_of_one_split_each(self):
        test_questions = {p["question"] for p in self.problems[650:]}
        seen = []
        for document in self.documents("exam"):
            questions = re.findall(r"^Problem \d+\. (.*)$", document["text"], flags=re.MULTILINE)
            self.assertTrue(12 <= len(questions) <= 20)
            for question in questions:
                self.assertEqual(question in test_questions, document["split"] == "test")
            self.assertNotIn("<<", document["text"])
            seen += questions
        self.assertEqual(len(seen), len(set(seen)), "no problem is in two exams")

    def test_exam_answers_are_those_of_the_earlier_problems(self):
        by_question = {p["question"]: p["answer"].split("#### ")[1] for p in self.problems}
        for document in self.documents("exam"):
            text = document["text"]
            questions = dict(re.findall(r"^Problem (\d+)\. (.*)$", text, flags=re.MULTILINE))
            asked = re.findall(r"(?m)^Question \d+\. What was the answer to problem (\d+)\? (.*)$", text)
            begun = re.findall(r"(?m)^Question \d+\. How did problem (\d+) begin\? (.*)$", text)
            self.assertEqual(len(asked) + len(begun), len(document["answers"]))
            for number, answer in asked:
                self.assertEqual(answer, by_question[questions[number]])
            for number, answer in begun:
                self.assertTrue(questions[number].startswith(answer))
            for answer in document["answers"]:
                self.assertEqual(text[answer["start"]:answer["start"] + len(answer["text"])], answer["text"])

    def test_scratchpad_answers_follow_from_the_steps(self):
        for document in self.documents("scratchpad"):
            values, answers = {}, []
            for line in document["text"].splitlines():
                step = re.sub(r"^Step \d+\. ", "", line)
                before = dict(values)
                if match := re.match(r"Set (\w+) to (\d+)\.$", step):
                    values[match[1]] = int(match[2])
                elif match := re.match(r"(Add|Take) (\d+) (?:to|from) (\w+)\. Now \3 is (\d+)\.$", step):
                    values[match[3]] += int(match[2]) if match[1] == "Add" else -int(match[2])
                    self.assertEqual(values[match[3]], int(match[4]))
                elif match := re.match(r"Copy (\w+) to (\w+)\. Now \2 is (\d+)\.$", step):
                    values[match[2]] = before[match[1]]
                    self.assertEqual(values[match[2]], int(match[3]))
                elif match := re.match(r"Swap (\w+) and (\w+)\. Now \1 is (\d+) and \2 is (\d+)\.$", step):
                    values[match[1]], values[match[2]] = before[match[2]], before[match[1]]
                    self.assertEqual((values[match[1]], values[match[2]]), (int(match[3]), int(match[4])))
                elif match := re.match(r"Compare (\w+) with (\w+): \1 is (not larger|larger)\.$", step):
                    self.assertEqual(values[match[1]] > values[match[2]], match[3] == "larger")
                elif match := re.match(r"Question: what is (\w+) now\? Answer: (\d+)\.$", step):
                    self.assertEqual(values[match[1]], int(match[2]))
                    answers.append(match[2])
                else:
                    self.assertEqual(line, "Keep track of these variables.")
            self.assertEqual(answers, [answer["text"] for answer in document["answers"]])
            for answer in document["answers"]:
                self.assertTrue(document["text"][answer["start"]:].startswith(answer["text"] + "."))

    def test_an_unknown_kind_is_named(self):
        self.fails(2, "expected some of prose, code, exam, scratchpad, found 'poems'",
                   arguments=["--kinds", "prose,poems"])

    def test_limits_that_make_no_sense_are_refused(self):
        self.fails(2, "expected at least --min-tokens, 500, found 499", arguments=["--max-tokens", "499"])
        for wrong in ("0", "-1", "many", "1e3", "99999999", "٣"):
            self.fails(2, "expected a whole number from 1 to 10000000", arguments=["--min-tokens=" + wrong])

    def test_limits_that_no_document_fits_are_reported(self):
        self.fails(1, "exam: no document for test has 5000 to 8000 tokens (estimated)",
                   arguments=["--kinds", "exam", "--min-tokens", "5000", "--max-tokens", "8000"])

    def test_a_missing_folder_or_file_is_named(self):
        code, _, errors = self.run_script("--data", os.path.join(self.root, "nowhere"), "--out", self.out)
        self.assertEqual(code, 2)
        self.assertIn("--data: expected a folder, found none at", errors)
        os.remove(os.path.join(self.data, "gsm8k-test.jsonl"))
        self.fails(1, "gsm8k-test.jsonl: no such file or directory")

    def test_a_missing_python_library_is_named(self):
        self.fails(1, "expected the folder of a Python standard library",
                   arguments=["--python-library", self.root + "/none"])

    def test_problems_that_are_none_are_named_by_line(self):
        for wrong in ("{", "[]", "7", '{"question": "Why?"}', '{"question": 7, "answer": "1 #### 1"}',
                      '{"question": "Why?", "answer": "no number"}'):
            self.write_problems("train", self.problems[:3])
            self.write("gsm8k-train.jsonl", wrong + "\n", "a")
            self.fails(1, "gsm8k-train.jsonl:4: expected", wrong[:20], arguments=["--kinds", "exam"])
        self.write("gsm8k-train.jsonl", "")
        self.fails(1, "gsm8k-train.jsonl: expected problems, found none", arguments=["--kinds", "exam"])

    def test_prose_that_is_no_text_is_named(self):
        self.write("tinyshakespeare.txt", b"To be\xff", "wb")
        self.fails(1, "expected UTF-8, found byte 0xff at 5")
        self.write("tinyshakespeare.txt", "one line")
        self.fails(1, "expected speeches with empty lines between them, found 1")

    def test_an_output_that_is_a_file_is_refused(self):
        with open(self.out, "w", encoding="utf-8"):
            pass
        code, _, errors = self.prepare()
        self.assertEqual(code, 1)
        self.assertIn("out: file exists", errors)

    def test_a_tokenizer_that_is_none_is_refused(self):
        code, _, errors = self.prepare("--tokenizer", os.path.join(self.data, "tinyshakespeare.txt"))
        self.assertEqual(code, 1)
        self.assertRegex(errors, "expected a tokenizer.json|the Python package tokenizers is not installed")


if __name__ == "__main__":
    unittest.main()
