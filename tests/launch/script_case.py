"""A temporary copy of launch/ with stand-ins for programs on PATH. Standard library only."""

import os
import shutil
import subprocess
import tempfile
import unittest

LAUNCH = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "launch")


class ScriptCase(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        self.launch = os.path.join(self.root, "launch")
        self.bin = os.path.join(self.root, "bin")
        self.calls = os.path.join(self.root, "calls")  # one line per call of a stand-in
        shutil.copytree(LAUNCH, self.launch)
        os.mkdir(self.bin)
        self.environment = {"PATH": self.bin + ":/usr/bin:/bin", "HOME": self.root, "CALLS": self.calls}

    def stand_in(self, name, body):
        path = os.path.join(self.bin, name)
        with open(path, "w", encoding="utf-8") as file:
            file.write("#!/bin/bash\n" + body + "\n")
        os.chmod(path, 0o755)

    def start(self, script, *arguments):
        return subprocess.Popen([os.path.join(self.launch, script), *arguments], env=self.environment, text=True,
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def run_script(self, script, *arguments):
        process = self.start(script, *arguments)
        output, errors = process.communicate(timeout=60)
        return process.returncode, output, errors

    def read_calls(self):
        if not os.path.exists(self.calls):
            return []
        with open(self.calls, encoding="utf-8") as file:
            return file.read().splitlines()
