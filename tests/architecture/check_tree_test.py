#!/usr/bin/env python3
"""Plants one wrong thing at a time in a small tree and expects check_tree.py to find it, and nothing else."""

import contextlib
import io
import os
import shutil
import sys
import tempfile
import unittest

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import check_tree  # noqa: E402

GOOD = {
    "base/hash.h": "#include <mutex>\n",
    "compute/tensor.h": '#include "base/hash.h"\n',
    "compute/cpu/lanes_avx2.cpp": "#include <immintrin.h>\n",
    "dist/mpi_communicator.cpp": '#include <mpi.h>\n\n#include "compute/tensor.h"\n',
    "kv/page_pool.h": '#include "base/hash.h"\n#include "kv/page.h"\n',
    "kv/page.h": "",
    "engine/leader.cpp": '#include "kv/page_pool.h"\n',
    "README.md": "Run launch/quickstart; models live in ~/.cache/winnow, builds in build/tmp/x.\n",
}


class CheckTree(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        for path, text in GOOD.items():
            self.write(path, text)
        os.makedirs(os.path.join(self.root, "tests/architecture"))
        shutil.copy(os.path.join(HERE, "arrows.txt"), os.path.join(self.root, "tests/architecture"))

    def write(self, path, text):
        full = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w", encoding="utf-8") as file:
            file.write(text)

    def run_check(self, *checks):
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            code = check_tree.main(["--root", self.root, *checks])
        return code, output.getvalue()

    def expect_found(self, check, place):
        code, output = self.run_check(check)
        self.assertEqual(code, 1, output)
        self.assertIn(place, output)
        self.assertIn(", 1 problems", output)

    def test_accepts_a_tree_that_keeps_the_rules(self):
        code, output = self.run_check(*check_tree.CHECKS)
        self.assertEqual(code, 0, output)

    def test_finds_an_arrow_against_the_direction(self):
        self.write("kv/budget.cpp", '\n#include "engine/leader.h"\n')
        self.write("engine/leader.h", "")
        self.expect_found("arrows", "kv/budget.cpp:2")

    def test_finds_an_arrow_to_a_neighbour(self):
        self.write("kv/budget.cpp", '#include "dist/mesh.h"\n')
        self.write("dist/mesh.h", "")
        self.expect_found("arrows", "kv/budget.cpp:1")

    def test_finds_a_wrong_arrow_written_with_spaces(self):
        self.write("base/clock.cpp", '  #  include "kv/page.h"\n')
        self.expect_found("arrows", "base/clock.cpp:1")

    def test_finds_an_include_of_a_folder_that_has_no_row(self):
        self.write("extras/new.cpp", '#include "base/hash.h"\n')
        self.expect_found("arrows", "extras/new.cpp:1")

    def test_finds_an_include_without_its_folder(self):
        self.write("kv/budget.cpp", '#include "page.h"\n')
        self.expect_found("arrows", "kv/budget.cpp:1")

    def test_finds_an_include_that_climbs_out_of_its_folder(self):
        self.write("kv/budget.cpp", '#include "../engine/leader.cpp"\n')
        self.expect_found("arrows", "kv/budget.cpp:1")

    def test_finds_mpi_outside_dist(self):
        self.write("engine/worker.cpp", "#include <mpi.h>\n")
        self.expect_found("headers", "engine/worker.cpp:1")

    def test_finds_mpi_in_another_file_of_dist(self):
        self.write("dist/mesh.cpp", '#include "mpi.h"\n')
        self.expect_found("headers", "dist/mesh.cpp:1")

    def test_finds_intrinsics_outside_the_lanes(self):
        self.write("compute/cpu/matmul.cpp", "#include <immintrin.h>\n")
        self.expect_found("headers", "compute/cpu/matmul.cpp:1")

    def test_counts_code_but_not_comments(self):
        self.write("kv/long.cpp", "int a;\n\n// why\n/* more\nwhy */\n" * check_tree.MAX_LINES_OF_CODE)
        self.assertEqual(self.run_check("size")[0], 0)
        self.write("kv/long.cpp", "int a;\n" * (check_tree.MAX_LINES_OF_CODE + 1))
        self.expect_found("size", "kv/long.cpp:1: 501 lines")

    def test_finds_left_over_work(self):
        self.write("kv/page.h", "// TO" + "DO: later\n")
        self.expect_found("markers", "kv/page.h:1")

    def test_finds_code_that_is_switched_off(self):
        self.write("kv/page.h", "int a;\n#if 0\n#endif\n")
        self.expect_found("markers", "kv/page.h:2")

    def test_finds_a_path_of_one_machine(self):
        self.write("docs/page.md", "see /wo" + "rk/main\n")
        self.expect_found("words", "docs/page.md:1")

    def test_finds_a_path_beside_the_checkout(self):
        self.write("tests/run", "data=$root/../sha" + "red/data\n")
        self.expect_found("words", "tests/run:1")

    def test_finds_a_registry_host(self):
        self.write("launch/fetch", "https://pyp" + "i.org/simple\n")
        self.expect_found("words", "launch/fetch:1")

    def test_lets_only_the_ci_script_name_the_data_folder(self):
        self.write(".ci/run", "data=$root/../sha" + "red/data\n")
        self.assertEqual(self.run_check("words")[0], 0)


if __name__ == "__main__":
    unittest.main()
