#!/usr/bin/env python3
"""launch/install_packages with stand-ins: what is installed, by whom, and what is only printed."""

import os
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from script_case import ScriptCase  # noqa: E402

INSTALL = "apt-get install -y -q --no-install-recommends "


class InstallPackages(ScriptCase):
    def setUp(self):
        super().setUp()
        with open(os.path.join(self.launch, "packages.txt"), "w", encoding="utf-8") as file:
            file.write("# a table\nhere  build  is there\nabsent  build,test  is not there\nhalf  run  was removed\n"
                       "checker  test  only for tests\nextra  optional  never asked for\n")
        self.stand_in("dpkg-query", 'printf "installed here\\nconfig-files half\\n"')
        self.stand_in("apt-get", 'echo "apt-get $*" >>"$CALLS"; [[ -z "${APT_FAILS:-}" ]]')
        self.stand_in("sudo", 'echo "sudo $*" >>"$CALLS"')
        self.be(0)

    def be(self, user):
        self.stand_in("id", f"echo {user}")

    def test_root_installs_what_is_missing_after_listing_it(self):
        code, output, errors = self.run_script("install_packages")
        self.assertEqual((code, output), (0, ""), errors)
        self.assertEqual(self.read_calls(), ["apt-get update -q", INSTALL + "absent half"])
        self.assertRegex(errors, r"absent +is not there\n +half +was removed")
        self.assertNotIn("extra", errors)

    def test_a_normal_user_installs_only_with_the_flag(self):
        self.be(1000)
        code, _, errors = self.run_script("install_packages")
        self.assertEqual((code, self.read_calls()), (2, []))
        self.assertIn("sudo apt-get install -y --no-install-recommends absent half", errors)
        self.assertEqual(self.run_script("install_packages", "--install")[0], 0)
        self.assertEqual(self.read_calls(), ["sudo apt-get update -q", "sudo " + INSTALL + "absent half"])

    def test_no_install_prints_the_line_to_type_even_for_root(self):
        code, _, errors = self.run_script("install_packages", "--no-install")
        self.assertEqual((code, self.read_calls()), (2, []))
        self.assertIn("  apt-get install -y --no-install-recommends absent half\n", errors)

    def test_looks_only_at_the_rows_that_are_asked_for(self):
        self.assertEqual(self.run_script("install_packages", "--for", "test")[0], 0)
        self.assertEqual(self.read_calls()[-1], INSTALL + "absent checker")

    def test_is_silent_about_packages_that_are_there(self):
        self.stand_in("dpkg-query", 'printf "installed %s\\n" here absent half')
        self.assertEqual(self.run_script("install_packages", "--no-install")[0], 0)
        self.assertEqual(self.read_calls(), [])

    def test_reports_that_apt_failed(self):
        self.environment["APT_FAILS"] = "1"
        self.assertEqual(self.run_script("install_packages")[0], 1)

    def test_refuses_unknown_words(self):
        for arguments in (["--for", "fun"], ["--for"], ["--yes"]):
            self.assertEqual(self.run_script("install_packages", *arguments)[0], 2)
        self.assertEqual(self.read_calls(), [])


if __name__ == "__main__":
    unittest.main()
