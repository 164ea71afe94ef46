#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the compile time of public headers, relative to <vector>, <string> and <memory>.

    python3 benchmarks/header_cost.py [--limit 2] [HEADER ...]

Compiles a file with nothing but the include, with -fsyntax-only, and takes the lowest CPU time of
several runs. Exits with 1 if ashlar/allocator.h, or a header that is named, exceeds the limit.
"""

import argparse
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
BASE = "#include <vector>\n#include <string>\n#include <memory>\n"


def cost(compiler, source, runs):
    """Returns the lowest CPU seconds of several compilations."""
    with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
        file.write(source)
        file.flush()
        command = [compiler, "-std=c++20", "-fsyntax-only", f"-I{ROOT / 'include'}", file.name]
        times = []
        for _ in range(runs):
            before = os.times()
            subprocess.run(command, check=True)
            after = os.times()
            times.append(after.children_user - before.children_user
                         + after.children_system - before.children_system)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("headers", nargs="*", default=["ashlar/allocator.h"])
    parser.add_argument("--compilers", nargs="+", default=["g++", "clang++"])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--limit", type=float, default=2.0)
    options = parser.parse_args()
    is_within_limit = True
    for compiler in options.compilers:
        if shutil.which(compiler) is None:
            print(f"{compiler}: not found")
            continue
        base = cost(compiler, BASE, options.runs)
        print(f"{compiler}: {base:.2f} s for <vector>, <string> and <memory>")
        for header in options.headers:
            ratio = cost(compiler, f'#include "{header}"\n', options.runs) / base
            is_within_limit &= ratio <= options.limit
            print(f"  {header}: {ratio:.2f} times (limit {options.limit:g})")
    return 0 if is_within_limit else 1


if __name__ == "__main__":
    sys.exit(main())
