#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares the exported symbols of a shared library with a list: the C functions must match
exactly, and all others must be Ashlar's own C++ or templates of the standard library.

  exported_symbols.py LIBRARY LIST [LIST...] [--c-only]    --c-only: allow no C++"""

import argparse
import pathlib
import re
import subprocess
import sys

# These match mangled names in namespace ashlar, and those of instantiated templates of std,
# including special names, such as those of vtables (_ZT…).
OURS = re.compile(r"_Z(T[ISV]|GV|TT|TS|Th|Tv)?\w*6ashlar")
STANDARD = re.compile(r"_Z(T[ISV]|GV)?Z?(N|NK|S|St|I)*(S[tabsiod]|9__gnu_cxx|10__cxxabiv1)")


def main():
    parser = argparse.ArgumentParser(description="Compares exported symbols with a list.")
    parser.add_argument("library", type=pathlib.Path)
    parser.add_argument("lists", nargs="+", type=pathlib.Path)
    parser.add_argument("--c-only", action="store_true")
    arguments = parser.parse_args()

    output = subprocess.run(["nm", "-D", "--defined-only", str(arguments.library)],
                            check=True, capture_output=True, text=True).stdout
    exported = {line.split()[-1].split("@")[0] for line in output.splitlines()}
    c_symbols = {name for name in exported if not name.startswith("_Z")}
    wanted = {name for each in arguments.lists for name in each.read_text().split()}
    wrong = [f"{name}: missing" for name in sorted(wanted - c_symbols)]
    wrong += [f"{name}: exported, but in no list" for name in sorted(c_symbols - wanted)]
    for name in sorted(exported - c_symbols):
        is_fine = OURS.match(name) or STANDARD.match(name)
        if arguments.c_only or not is_fine:
            wrong.append(f"{name}: exported, but not a C function")
    print("\n".join(wrong))
    print(f"{len(c_symbols)} C functions, {len(exported - c_symbols)} others, "
          f"{len(wrong)} findings")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
