#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks that every function of the C API is in the list of symbols and is called by a test
program, and that the list has no other symbols.

  check_calls.py HEADER... --symbols FILE --programs FILE..."""

import argparse
import pathlib
import re
import sys


def main():
    parser = argparse.ArgumentParser(description="Compares header, list and program.")
    parser.add_argument("headers", nargs="+", type=pathlib.Path)
    parser.add_argument("--symbols", type=pathlib.Path, required=True)
    parser.add_argument("--programs", nargs="+", type=pathlib.Path, required=True)
    arguments = parser.parse_args()

    text = "".join(re.sub(r"//.*", "", header.read_text()) for header in arguments.headers)
    declared = set(re.findall(r"ASHLAR_C_API[^;()]*?\b(ashlar_\w+)\s*\(", text))
    listed = set(arguments.symbols.read_text().split())
    programs = "".join(program.read_text() for program in arguments.programs)
    called = set(re.findall(r"\b(ashlar_\w+)\s*\(", programs))
    wrong = [f"{name}: declared, but not in {arguments.symbols.name}"
             for name in sorted(declared - listed)]
    wrong += [f"{name}: in {arguments.symbols.name}, but not declared"
              for name in sorted(listed - declared)]
    wrong += [f"{name}: never called by a test program"
              for name in sorted(declared - called)]
    print("\n".join(wrong))
    print(f"{len(declared)} functions, {len(wrong)} findings")
    return 1 if wrong or not declared else 0


if __name__ == "__main__":
    sys.exit(main())
