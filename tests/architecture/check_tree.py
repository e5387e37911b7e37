#!/usr/bin/env python3
"""Checks rules about the source tree that no compiler checks. Standard library only.

check_tree.py [--root DIR] arrows|headers|size|markers|words...   prints FILE:LINE: what is wrong; exit 1 if anything is.

arrows   #include "folder/file.h" follows tests/architecture/arrows.txt, and the file exists
headers  mpi.h only in dist/mpi* (and tests/dist/mpi*), intrinsics only in compute/cpu/lanes_*
size     no source file has more than 500 lines of code (blank and comment lines do not count)
markers  no left-over work: the two well-known marker words, #if 0
words    no path of a particular machine, no host name of a package registry
"""

import argparse
import os
import re
import subprocess
import sys

CODE = (".h", ".cpp", ".cuh", ".cu")
SCRIPT = (".py", ".sh", ".cmake", "CMakeLists.txt", ".in")
MAX_LINES_OF_CODE = 500
MAX_BYTES_READ = 1 << 20  # larger files are data

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
MPI_MAY = re.compile(r"^(tests/)?dist/mpi[^/]*$")
INTRINSICS_MAY = re.compile(r"^compute/cpu/lanes_[^/]*$")
INTRINSICS = re.compile(r"^(\w*intrin\.h|arm_neon\.h)$")
MARKERS = re.compile(r"\b(TO" + r"DO|FIX" + r"ME|X" + r"XX)\b|^\s*#\s*if\s+0\b")
# Written in pieces so that this file does not break its own rule.
MACHINE_PATHS = re.compile(r"(?<![\w.}])/(?:wo" + r"rk|t" + r"mp|ro" + r"ot|ho" + r"me)/|\.\./sha" + r"red\b")
REGISTRY_HOSTS = re.compile(
    r"\b(?:pyp" + r"i|pythonhost" + r"ed|debi" + r"an|npm" + r"js|gol" + r"ang|crat" + r"es|huggingfa" + r"ce)\.(?:org|com|io|co)\b")
WORDS_MAY = {".ci/run"}  # this file alone knows where the data lies on the machine that runs it


def list_files(root):
    """Files of the tree, relative: what git tracks or would add; without git everything outside build folders."""
    if os.path.exists(os.path.join(root, ".git")):
        listed = subprocess.run(["git", "-C", root, "ls-files", "-z", "-co", "--exclude-standard"],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False)
        if listed.returncode == 0:
            return sorted(f for f in listed.stdout.decode().split("\0") if f and os.path.isfile(os.path.join(root, f)))
    found = []
    for folder, folders, files in os.walk(root):
        folders[:] = [d for d in folders if d not in (".git", "build", "__pycache__") and not d.startswith("build-")]
        found += [os.path.relpath(os.path.join(folder, f), root) for f in files]
    return sorted(found)


def read_lines(root, path):
    """Lines of a text file; none for data (large or binary)."""
    full = os.path.join(root, path)
    if os.path.getsize(full) > MAX_BYTES_READ:
        return []
    with open(full, "rb") as file:
        content = file.read()
    return [] if b"\0" in content else content.decode("utf-8", "replace").splitlines()


def read_arrows(root):
    arrows = {}
    for line in read_lines(root, "tests/architecture/arrows.txt"):
        if line.strip() and not line.startswith("#"):
            folder, allowed = line.split(":")
            arrows[folder.strip()] = set(allowed.split())
    return arrows


def includes(root, files):
    for path in files:
        if path.endswith(CODE):
            for number, line in enumerate(read_lines(root, path), 1):
                match = INCLUDE.match(line)
                if match:
                    yield path, number, match.group(1), match.group(2)


def check_arrows(root, files):
    arrows = read_arrows(root)
    known = set(files)
    for path, number, quote, target in includes(root, files):
        if quote != '"':
            continue
        source, wanted = path.split("/")[0], target.split("/")[0]
        if "/" not in target or target not in known:
            yield f'{path}:{number}: #include "{target}": expected a file of this tree, written as "folder/file.h"'
        elif source != wanted and wanted not in arrows.get(source, ()):
            allowed = " ".join(sorted(arrows.get(source, ()))) or "nothing of ours"
            yield f'{path}:{number}: #include "{target}": {source} may include {allowed} (tests/architecture/arrows.txt)'


def check_headers(root, files):
    for path, number, _, target in includes(root, files):
        if target == "mpi.h" and not MPI_MAY.match(path):
            yield f"{path}:{number}: mpi.h outside dist/mpi*"
        if INTRINSICS.match(target) and not INTRINSICS_MAY.match(path):
            yield f"{path}:{number}: {target} outside compute/cpu/lanes_*"


def lines_of_code(path, lines):
    count, in_comment = 0, False
    for line in (text.strip() for text in lines):
        if path.endswith(CODE):
            if in_comment or line.startswith("/*"):
                in_comment = "*/" not in line
                continue
            count += bool(line) and not line.startswith("//")
        else:
            count += bool(line) and not line.startswith("#")
    return count


def check_size(root, files):
    for path in files:
        lines = read_lines(root, path)
        if path.endswith(CODE + SCRIPT) or (lines and lines[0].startswith("#!")):
            count = lines_of_code(path, lines)
            if count > MAX_LINES_OF_CODE:
                yield f"{path}:1: {count} lines of code, expected at most {MAX_LINES_OF_CODE}: split it"


def check_markers(root, files):
    for path in files:
        if path.endswith(CODE + SCRIPT + (".md", ".txt")) or "." not in os.path.basename(path):
            for number, line in enumerate(read_lines(root, path), 1):
                if MARKERS.search(line):
                    yield f"{path}:{number}: left-over work: {line.strip()[:80]}"


def check_words(root, files):
    for path in files:
        if path in WORDS_MAY or path == "LICENSE":
            continue
        for number, line in enumerate(read_lines(root, path), 1):
            for pattern, what in ((MACHINE_PATHS, "a path of one particular machine"),
                                  (REGISTRY_HOSTS, "a host name of a package registry")):
                match = pattern.search(line)
                if match:
                    yield f"{path}:{number}: {what}: {match.group(0)}"


CHECKS = {"arrows": check_arrows, "headers": check_headers, "size": check_size, "markers": check_markers,
          "words": check_words}


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
    parser.add_argument("checks", nargs="+", choices=sorted(CHECKS))
    options = parser.parse_args(arguments)
    files = list_files(options.root)
    problems = [problem for name in options.checks for problem in CHECKS[name](options.root, files)]
    for problem in problems:
        print(problem)
    print(f"{', '.join(options.checks)}: {len(files)} files, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
