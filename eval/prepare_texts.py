#!/usr/bin/env python3
"""Prepares texts on which eviction policies differ: prose, source code, exams and scratchpads.

Writes KIND-SPLIT.jsonl into --out, one document a line: {"id", "kind", "split", "text"}, and for exam and scratchpad
"answers": [{"text", "start"}], the facts asked for and the character of "text" at which each begins.

  prose       tinyshakespeare.txt of --data, cut between speeches (neighbours may be of one scene)
  code        modules of this machine's Python standard library, cut between functions and classes
  exam        12 to 20 problems of gsm8k-train.jsonl and gsm8k-test.jsonl of --data with their solutions, then questions
              about facts of earlier problems
  scratchpad  generated: variables that are set, copied and changed step by step, and asked for much later

Splits (train, valid, test) go by document for prose, by module or package for code, by problem for exams (the test
file's problems are in test alone) and by document for scratchpads: a seeded hash decides, never the position in a file.
The same seed, data and Python version give the same bytes.

A policy is compared fairly on texts of at least 4 x (budget + interval) tokens. Lengths are estimated from words,
digits and signs, with figures measured with SmolLM2's tokenizer and rounded to the safe side; --tokenizer counts.

Exit codes: 0, 1 the data cannot be read, is not what was expected or gives no document, 2 usage.
"""

import argparse
import ast
import hashlib
import json
import os
import random
import re
import sys
import sysconfig

SPLITS = (("test", 0.2), ("valid", 0.1), ("train", 0.7))
PIECE = re.compile(r"\d|[^\W\d_]+|[^\w\s]+|_|\n+[ \t]*|[ \t]{2,}")
# Tokens a piece, the fewest and the most: 300 documents of each kind, SmolLM2's tokenizer.
TOKENS_A_PIECE = {"prose": (1.02, 1.22), "code": (0.86, 1.22), "exam": (1.04, 1.14), "scratchpad": (1.13, 1.33)}
MAX_FILE_BYTES = 200_000_000


class BadData(Exception):
    pass


class Lengths:
    """(fewest, most) tokens of a text; equal where a tokenizer counts."""

    def __init__(self, kind, tokenizer):
        self.low, self.high = TOKENS_A_PIECE[kind]
        self.tokenizer = tokenizer

    def of(self, text):
        if self.tokenizer:
            count = len(self.tokenizer.encode(text).ids)
            return count, count
        pieces = 0
        for match in PIECE.finditer(text):
            length = match.end() - match.start()
            # Long words are several tokens.
            pieces += 1 + ((length - 2) // 6 if length > 7 and text[match.start()].isalpha() else 0)
        return int(pieces * self.low), -int(-pieces * self.high // 1)

    def fits(self, text, options):
        fewest, most = self.of(text)
        return options.min_tokens <= fewest and most <= options.max_tokens


def share(*key):
    """A number in [0, 1) that depends on the key alone."""
    digest = hashlib.sha256("/".join(str(part) for part in key).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def split_of(*key):
    x = share("split", *key)
    for name, part in SPLITS:
        if x < part:
            return name
        x -= part
    return SPLITS[-1][0]


def read_text(path):
    try:
        if os.path.getsize(path) > MAX_FILE_BYTES:
            raise BadData(f"{path}: expected at most {MAX_FILE_BYTES} bytes, found {os.path.getsize(path)}")
        with open(path, encoding="utf-8") as file:
            return file.read()
    except OSError as error:
        raise BadData(f"{path}: {error.strerror.lower() if error.strerror else error}") from error
    except UnicodeDecodeError as error:
        raise BadData(
            f"{path}: expected UTF-8, found byte {error.object[error.start]:#04x} at {error.start}"
        ) from error


def pack(units, lengths, options):
    """Runs of whole units that are just long enough. A unit that is too long alone is left out and ends a run."""
    run, fewest, most = "", 0, 0
    for unit in units:
        low, high = lengths.of(unit)
        if most + high > options.max_tokens:
            run, fewest, most = "", 0, 0
            if high > options.max_tokens:
                continue
        run, fewest, most = run + unit, fewest + low, most + high
        if fewest >= options.min_tokens:
            # The parts' lengths add up but for their seams.
            if lengths.fits(run, options):
                yield run
                run, fewest, most = "", 0, 0


# ------------------------------------------------------------------------------------------------------------ prose


def prose(options, lengths):
    path = os.path.join(options.data, "tinyshakespeare.txt")
    text = read_text(path)
    speeches = re.findall(r"[^\n].*?(?:\n\n+|\Z)", text, flags=re.DOTALL)
    if len(speeches) < 2:
        raise BadData(f"{path}: expected speeches with empty lines between them, found {len(speeches)}")
    for i, document in enumerate(pack(speeches, lengths, options)):
        yield {"id": f"prose-{i:04}", "split": split_of(options.seed, "prose", document), "text": document}


# ------------------------------------------------------------------------------------------------------------- code


def definitions(source, limit):
    """The source in pieces that begin where a top-level statement does, in a class of more than `limit` characters also
    where its members do."""
    tree = ast.parse(source)
    starts = {0}
    lines = source.splitlines(keepends=True)
    for node in tree.body:
        starts.add(first_line(node))
        if isinstance(node, ast.ClassDef) and sum(map(len, lines[node.lineno - 1 : node.end_lineno])) > limit:
            starts.update(first_line(member) for member in node.body)
    bounds = sorted(starts) + [len(lines)]
    return ["".join(lines[a:b]) for a, b in zip(bounds, bounds[1:]) if a < b]


def first_line(node):
    return min([node.lineno] + [decorator.lineno for decorator in getattr(node, "decorator_list", [])]) - 1


def list_modules(folder):
    """(package, path relative to folder): the library without its tests, tables and installed packages."""
    if not os.path.isdir(folder):
        raise BadData(f"{folder}: expected the folder of a Python standard library, found none")
    unwanted = {
        "test",
        "tests",
        "idle_test",
        "site-packages",
        "dist-packages",
        "encodings",
        "pydoc_data",
        "__pycache__",
    }
    found = []
    for where, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in unwanted and not name.startswith("config-"))
        for name in files:
            if name.endswith(".py") and not name.startswith("_sysconfigdata"):
                path = os.path.relpath(os.path.join(where, name), folder)
                found.append((path.split(os.sep)[0].removesuffix(".py"), path))
    return sorted(found)


def code(options, lengths):
    for package, path in list_modules(options.python_library):
        try:
            source = read_text(os.path.join(options.python_library, path))
            units = definitions(source, options.min_tokens)
        except (BadData, SyntaxError, ValueError):
            continue  # the library holds modules that are no UTF-8, and samples that do not parse
        split = split_of(options.seed, "code", package)
        for i, document in enumerate(pack(units, lengths, options)):
            yield {"id": f"code-{path}-{i}", "split": split, "text": document}


# ------------------------------------------------------------------------------------------------------------- exam


def read_problems(path):
    problems = []
    for number, line in enumerate(read_text(path).splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            question, (solution, answer) = record["question"].strip(), record["answer"].split("#### ")
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise BadData(
                f'{path}:{number}: expected {{"question": ..., "answer": "... #### NUMBER"}}, found {line[:60]!r}'
            ) from error
        sentences = re.split(r"(?<=[.?!])\s+", question)
        problems.append(
            {
                "question": question,
                "solution": re.sub(r"<<[^>]*>>", "", solution).strip(),
                "answer": answer.strip(),
                "first": sentences[0],
            }
        )
    if not problems:
        raise BadData(f"{path}: expected problems, found none")
    return problems


class Text:
    """A text under construction that remembers where its answers stand."""

    def __init__(self):
        self.parts, self.length, self.answers = [], 0, []

    def add(self, part):
        self.parts.append(part)
        self.length += len(part)

    def add_answer(self, answer):
        self.answers.append({"text": answer, "start": self.length})
        self.add(answer)

    def __str__(self):
        return "".join(self.parts)


def problem_text(number, problem):
    return (
        f"Problem {number}. {problem['question']}\nSolution: {problem['solution']}\n"
        f"The answer to problem {number} is {problem['answer']}.\n\n"
    )


def exam_text(problems, generator):
    text = Text()
    for i, problem in enumerate(problems, 1):
        text.add(problem_text(i, problem))
    text.add("Now answer from memory.\n\n")
    numbers = list(range(1, len(problems) + 1))
    generator.shuffle(numbers)
    for question, number in enumerate(numbers[:8], 1):
        problem = problems[number - 1]
        if question % 2:
            text.add(f"Question {question}. What was the answer to problem {number}? ")
            text.add_answer(problem["answer"])
        else:
            text.add(f"Question {question}. How did problem {number} begin? ")
            text.add_answer(problem["first"])
        text.add("\n")
    return text


def exam(options, lengths):
    files = {name: read_problems(os.path.join(options.data, f"gsm8k-{name}.jsonl")) for name in ("train", "test")}
    pools = {"test": files["test"]}
    for problem in files["train"]:
        split = "valid" if share("split", options.seed, "exam", problem["question"]) < 0.15 else "train"
        pools.setdefault(split, []).append(problem)
    for split, pool in sorted(pools.items()):
        # Problems that are in both files stay in test.
        asked = {problem["question"] for problem in files["test"]} if split != "test" else set()
        pool = sorted((p for p in pool if p["question"] not in asked), key=lambda p: share(options.seed, p["question"]))
        chosen, most, number = [], 0, 0
        for problem in pool:
            high = lengths.of(problem_text(len(chosen) + 1, problem))[1]
            # A long problem may not use up the room that a full exam still needs; a fifth is for questions.
            if most + high > 0.8 * options.max_tokens * min(len(chosen) + 1, 12) / 12:
                continue
            chosen.append(problem)
            most += high
            if len(chosen) < 12:
                continue
            text = exam_text(chosen, random.Random(f"{options.seed}/exam/{split}/{number}"))
            if lengths.fits(str(text), options):
                yield {"id": f"exam-{split}-{number:04}", "split": split, "text": str(text), "answers": text.answers}
            elif len(chosen) < 20:
                continue
            chosen, most, number = [], 0, number + 1


# ------------------------------------------------------------------------------------------------------- scratchpad

VARIABLES = (
    "amber basil cedar delta ember fjord grove heron ivory jewel kiosk lemon maple north ocean pearl quill raven "
    "sable tulip umbra velvet willow xenon yarrow zephyr"
).split()


QUESTION = "Question: what is {} now? Answer: "


def ask(text, name, value):
    text.add(QUESTION.format(name))
    text.add_answer(str(value))
    text.add(".\n")


def scratchpad_step(generator, values):
    """One line of work on the variables in use, with its result."""
    name = generator.choice(sorted(values))
    kind = generator.choice(("add", "subtract", "copy", "swap", "check"))
    other = generator.choice(sorted(set(values) - {name}))
    amount = generator.randrange(2, 30)
    if kind == "add":
        values[name] += amount
        return f"Add {amount} to {name}. Now {name} is {values[name]}."
    if kind == "subtract" and values[name] >= amount:
        values[name] -= amount
        return f"Take {amount} from {name}. Now {name} is {values[name]}."
    if kind == "copy":
        values[name] = values[other]
        return f"Copy {other} to {name}. Now {name} is {values[name]}."
    if kind == "swap":
        values[name], values[other] = values[other], values[name]
        return f"Swap {name} and {other}. Now {name} is {values[name]} and {other} is {values[other]}."
    return f"Compare {name} with {other}: {name} is {'larger' if values[name] > values[other] else 'not larger'}."


def scratchpad_text(options, lengths, generator):
    names = list(VARIABLES)
    generator.shuffle(names)
    resting = {name: generator.randrange(100, 1000) for name in names[:8]}  # set once, asked for at the end
    working = {name: generator.randrange(10, 100) for name in names[8:14]}
    text = Text()
    text.add("Keep track of these variables.\n")
    for name in sorted(resting | working, key=names.index):
        text.add(f"Set {name} to {(resting | working)[name]}.\n")
    asked = sorted(resting)
    generator.shuffle(asked)
    fewest = lengths.of(str(text) + "".join(QUESTION.format(name) + "000.\n" for name in asked))[0]
    step = 0
    while fewest < options.min_tokens:
        step += 1
        line = f"Step {step}. {scratchpad_step(generator, working)}\n"
        text.add(line)
        fewest += lengths.of(line)[0]
        if step % 12 == 0:
            name = generator.choice(asked + sorted(working))
            ask(text, name, (resting | working)[name])
            fewest += lengths.of(QUESTION.format(name))[0]
    for name in asked:
        ask(text, name, resting[name])
    return text


def scratchpad(options, lengths):
    for split, part in SPLITS:
        for i in range(max(1, round(options.documents * part))):
            text = scratchpad_text(options, lengths, random.Random(f"{options.seed}/scratchpad/{split}/{i}"))
            if lengths.fits(str(text), options):
                yield {"id": f"scratchpad-{split}-{i:04}", "split": split, "text": str(text), "answers": text.answers}


# ------------------------------------------------------------------------------------------------------------- main

KINDS = {"prose": prose, "code": code, "exam": exam, "scratchpad": scratchpad}


def positive(text):
    number = int(text) if text.isascii() and text.isdigit() else 0
    if not 0 < number <= 10**7:
        raise argparse.ArgumentTypeError(f"expected a whole number from 1 to 10000000, found {text!r}")
    return number


def parse_options(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--data", required=True, metavar="DIR", help="tinyshakespeare.txt, gsm8k-train.jsonl, gsm8k-test.jsonl"
    )
    parser.add_argument("--out", required=True, metavar="DIR", help="where the files go; made if it is not there")
    parser.add_argument("--kinds", default=",".join(KINDS), metavar="LIST", help="default: %(default)s")
    parser.add_argument(
        "--min-tokens",
        type=positive,
        default=2560,
        metavar="N",
        help="of a document; 4 x (512 + 128) by default, 1280 for (256, 64)",
    )
    parser.add_argument(
        "--max-tokens",
        type=positive,
        metavar="N",
        help="of a document, at most the model's context; default: 1.6 times --min-tokens",
    )
    parser.add_argument(
        "--documents", type=positive, default=100, metavar="N", help="of a kind, at most; default: %(default)s"
    )
    parser.add_argument("--seed", type=positive, default=1, metavar="N", help="default: %(default)s")
    parser.add_argument("--tokenizer", metavar="FILE", help="a tokenizer.json (needs the Python package tokenizers)")
    parser.add_argument(
        "--python-library", default=sysconfig.get_paths()["stdlib"], metavar="DIR", help="default: %(default)s"
    )
    options = parser.parse_args(arguments)
    options.kinds = options.kinds.split(",")
    for kind in options.kinds:
        if kind not in KINDS:
            parser.error(f"--kinds: expected some of {', '.join(KINDS)}, found {kind!r}")
    options.max_tokens = options.max_tokens or options.min_tokens * 8 // 5
    if options.max_tokens < options.min_tokens:
        parser.error(f"--max-tokens: expected at least --min-tokens, {options.min_tokens}, found {options.max_tokens}")
    if not os.path.isdir(options.data):
        parser.error(f"--data: expected a folder, found none at {options.data}")
    return options


def load_tokenizer(path):
    try:
        import tokenizers
    except ImportError as error:
        raise BadData(
            "--tokenizer: the Python package tokenizers is not installed; without --tokenizer lengths are estimated"
        ) from error
    try:
        return tokenizers.Tokenizer.from_file(path)
    except Exception as error:  # the package raises bare Exception
        raise BadData(f"{path}: expected a tokenizer.json: {error}") from error


def choose(documents, options):
    """At most --documents of a kind, each split with its share; which ones is decided by the seed."""
    chosen = []
    for split, part in SPLITS:
        own = sorted(
            (d for d in documents if d["split"] == split), key=lambda d: share("choose", options.seed, d["id"])
        )
        chosen += sorted(own[: max(1, round(options.documents * part))], key=lambda d: d["id"])
    return chosen


def write(path, lines):
    """A file that is either whole or not there."""
    with open(path + ".partial", "w", encoding="utf-8") as file:
        file.writelines(lines)
    os.replace(path + ".partial", path)


def prepare(options):
    tokenizer = load_tokenizer(options.tokenizer) if options.tokenizer else None
    counts, files = [], {}
    for kind in options.kinds:
        lengths = Lengths(kind, tokenizer)
        chosen = choose(list(KINDS[kind](options, lengths)), options)
        for split, _ in SPLITS:
            own = [document for document in chosen if document["split"] == split]
            if not own:
                raise BadData(
                    f"{kind}: no document for {split} has {options.min_tokens} to {options.max_tokens} tokens"
                    f"{'' if tokenizer else ' (estimated)'}; choose other limits or leave the kind out of --kinds"
                )
            lines = [
                json.dumps(
                    {"id": d["id"], "kind": kind, **{key: d[key] for key in d if key != "id"}}, ensure_ascii=False
                )
                + "\n"
                for d in own
            ]
            files[f"{kind}-{split}.jsonl"] = lines
            tokens = [lengths.of(d["text"]) for d in own]
            counts.append((kind, split, len(own), min(low for low, _ in tokens), max(high for _, high in tokens)))
    # Nothing is written before everything is known to be there.
    try:
        os.makedirs(options.out, exist_ok=True)
        for name, lines in files.items():
            write(os.path.join(options.out, name), lines)
    except OSError as error:
        raise BadData(f"{error.filename}: {error.strerror.lower()}") from error
    return counts


def main(arguments=None):
    options = parse_options(arguments)
    try:
        counts = prepare(options)
    except BadData as error:
        print(f"prepare_texts: {error}", file=sys.stderr)
        return 1
    print(f"{'file':<24} documents   tokens{'' if options.tokenizer else ' (estimated)'}")
    for kind, split, number, low, high in counts:
        print(f"{kind + '-' + split + '.jsonl':<24} {number:>9}   {low} to {high}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
