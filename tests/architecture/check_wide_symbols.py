#!/usr/bin/env python3
"""check_wide_symbols.py NM OBJECT: the object of kernels_avx512.cpp must emit no function that other files may share.

The linker keeps one copy of an inline or template function. If it kept the one compiled with AVX-512, CPUs without it
would stop on an illegal instruction, far from any kernel. Functions over Avx512Lanes are this file's own.
"""

import subprocess
import sys

SHARED = "WVu"  # nm's letters for symbols of which the linker keeps one


def main(nm, path):
    lines = subprocess.run([nm, "--demangle", "--defined-only", path], check=True, stdout=subprocess.PIPE,
                           universal_newlines=True).stdout.splitlines()
    shared = [name for letter, name in (line.split(maxsplit=2)[1:] for line in lines) if letter in SHARED]
    wrong = [name for name in shared if "Avx512Lanes" not in name]
    for name in wrong:
        print(f"{path}: {name}: compiled with AVX-512 and shared with other files")
    if not shared:
        print(f"{path}: no template over Avx512Lanes found: is this the object of kernels_avx512.cpp?")
    return 1 if wrong or not shared else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
