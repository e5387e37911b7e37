#!/usr/bin/env python3
"""compare.py --fast-math PROGRAM PROGRAM...: several builds of one program must print the same lines.

Also: within each output, every set of kernels has the same digests. Controls, so that the comparison is known to be
able to fail: the first program with float sums, and a build whose plain kernels are compiled with -ffast-math,
must both differ from the others.
"""

import argparse
import subprocess
import sys


def lines_of(*command):
    result = subprocess.run(command, check=True, stdout=subprocess.PIPE, universal_newlines=True)
    return result.stdout.splitlines()


def by_kernels(lines):
    sets = {}
    for line in lines:
        kernels, rest = line.split(" ", 1)
        sets.setdefault(kernels, []).append(rest)
    return sets


def first_difference(one, other):
    if len(one) != len(other):
        return f"{len(one)} and {len(other)} lines"
    return next((f"{a}\n{b}" for a, b in zip(one, other) if a != b), None)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fast-math", required=True, help="a build whose kernels may be rearranged")
    parser.add_argument("programs", nargs="+")
    options = parser.parse_args()
    failures = []
    first, expected = options.programs[0], lines_of(options.programs[0])
    print("\n".join(expected))
    sets = by_kernels(expected)
    if len(expected) < 40 or len(sets) < 2 or "plain" not in sets:
        failures.append(f"{first}: expected 40 lines or more of plain and other kernels, found {len(expected)} of {list(sets)}")
    for kernels, digests in sets.items():
        difference = first_difference(digests, sets.get("plain", []))
        print(f"{kernels}: {len(digests)} digests, " + ("differ from plain" if difference else "equal to plain"))
        if difference:
            failures.append(f"{first}: {kernels} and plain kernels differ:\n{difference}")
    for program in options.programs[1:]:
        difference = first_difference(expected, lines_of(program))
        print(f"{program}: " + ("differs" if difference else "the same"))
        if difference:
            failures.append(f"{first} and {program} differ:\n{difference}")
    for name, control in (("float sums", (first, "--float-sums")), ("-ffast-math", (options.fast_math,))):
        differing = sum(a != b for a, b in zip(expected, lines_of(*control)))
        print(f"control, {name}: {differing} of {len(expected)} digests differ")
        if differing == 0:
            failures.append(f"the control with {name} does not differ: this comparison cannot fail")
    for failure in failures:
        print(f"FAIL: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
