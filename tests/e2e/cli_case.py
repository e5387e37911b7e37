"""Runs the winnow command as a user does, alone or through mpirun. Standard library only.

A test file is called as: FILE_test.py WINNOW MAKE_TINY_MODEL MPIRUN [mpirun flags] [-- unittest arguments]
"""

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from dataclasses import dataclass

# Of tests/support/tiny_model.h.
TINY_LAYERS, TINY_HIDDEN, TINY_QUERY_HEADS, TINY_KV_HEADS, TINY_CONTEXT = 2, 288, 9, 3, 4096

_command = {}


@dataclass
class Run:
    code: int
    output: str
    errors: str
    seconds: float

    @property
    def messages(self):
        """What winnow itself says on standard error: mpirun's own lines and the progress of loading left out."""
        return [line for line in self.errors.splitlines() if line.startswith("winnow: ")]

    @property
    def bill(self):
        """Bytes of KV pages that each rank was about to take."""
        [line] = [line for line in self.errors.splitlines() if line.startswith("KV cache per rank: ")]
        [numbers] = re.findall(r": ([0-9,+ ]+) bytes of pages", line)
        return [int(number.replace(",", "")) for number in numbers.split(" + ")]

    @property
    def objects(self):
        return [json.loads(line) for line in self.output.splitlines()]


class CliCase(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = folder.name
        cls.model = cls.make_model("tiny.gguf")

    @classmethod
    def make_model(cls, name, *numbers):
        """numbers: query heads, KV heads and context, if not those of the tiny model."""
        subprocess.run([_command["make_tiny_model"], cls.path(name), *map(str, numbers)], check=True)
        return cls.path(name)

    @classmethod
    def path(cls, name):
        return os.path.join(cls.folder, name)

    def write(self, name, content):
        path = self.path(name)
        with open(path, "wb") as file:
            file.write(content if isinstance(content, bytes) else content.encode())
        return path

    def command_line(self, *arguments, np=None, program=None):
        """np None: without mpirun."""
        launcher = [] if np is None else [*_command["mpirun"], "-np", str(np)]
        return [*launcher, program or _command["winnow"], *map(str, arguments)]

    def kill_when_journal_has(self, units, out, *command):
        """A run that gets SIGKILL as soon as the journal beside `out` has so many units."""
        process = self.start(*command, "--out", out)
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline and process.poll() is None:
            if os.path.exists(out + ".journal"):
                with open(out + ".journal", "rb") as file:
                    if file.read().count(b"\n") > units:
                        break
            time.sleep(0.002)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        self.assertEqual(process.returncode, -signal.SIGKILL, "it was faster than its killer")

    def start(self, *arguments, environment=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, **options):
        # Whatever this test itself runs under must not look like a launcher to winnow.
        clean = {name: value for name, value in os.environ.items()
                 if not name.startswith(("OMPI_COMM", "PMIX_", "PMI_", "SLURM_"))}
        clean.update(OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", **(environment or {}))
        process = subprocess.Popen(self.command_line(*arguments, **options), env=clean, stdin=stdin, stdout=stdout,
                                   stderr=subprocess.PIPE)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()  # mpirun takes its ranks along
        for stream in filter(None, (process.stdout, process.stderr)):
            stream.close()
        process.wait()

    def run_winnow(self, *arguments, typed=None, **options):
        """typed: what the user types; None: standard input is empty."""
        started = time.monotonic()
        process = self.start(*arguments, stdin=subprocess.DEVNULL if typed is None else subprocess.PIPE, **options)
        output, errors = process.communicate(None if typed is None else typed.encode(), timeout=100)
        run = Run(process.returncode, output.decode(), errors.decode(), time.monotonic() - started)
        for trace in ("Signal:", "terminate called", "CHECK failed"):
            self.assertNotIn(trace, run.errors)
        return run

    def generate(self, *arguments, model=None, **options):
        """A run that must succeed. One thread a rank unless told, so that three ranks fit a small machine."""
        threads = () if "--threads" in arguments else ("--threads", 1)
        run = self.run_winnow("generate", "--model", model or self.model, *threads, *arguments, **options)
        self.assertEqual(run.code, 0, run.errors)
        return run

    def generate_json(self, *arguments, **options):
        """The only object of a run of one request."""
        [result] = self.generate("--json", *arguments, **options).objects
        return result


def main():
    arguments, rest = sys.argv[1:], []
    if "--" in arguments:
        separator = arguments.index("--")
        arguments, rest = arguments[:separator], arguments[separator + 1:]
    _command.update(winnow=arguments[0], make_tiny_model=arguments[1], mpirun=arguments[2:])
    unittest.main(module="__main__", argv=[sys.argv[0], *rest])
