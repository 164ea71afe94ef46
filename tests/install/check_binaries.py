#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks installed programs and shared libraries: symbols are bound at startup, relocations are
read-only, symbol tables are stripped, and no binary contains the path of the sources.

    check_binaries.py <prefix> <source folder>"""

import pathlib
import subprocess
import sys


def readelf(*arguments):
    return subprocess.run(["readelf", "--wide", *arguments], capture_output=True, text=True,
                          check=True).stdout


def problems(path, source_folder):
    """Returns what is wrong with a binary."""
    found = []
    if "NOW" not in readelf("--dynamic", path):
        found.append("does not bind its symbols at startup")
    if "GNU_RELRO" not in readelf("--program-headers", path):
        found.append("has writable relocations")
    if " .symtab " in readelf("--section-headers", path):
        found.append("is not stripped")
    if str(source_folder).encode() in path.read_bytes():
        found.append(f"contains the path {source_folder}")
    return [f"{path}: {problem}" for problem in found]


def main():
    prefix, source_folder = map(pathlib.Path, sys.argv[1:])
    binaries = [path for path in sorted(prefix.rglob("*"))
                if path.is_file() and not path.is_symlink() and path.suffix != ".a"
                and path.read_bytes()[:4] == b"\x7fELF"]
    if not binaries:
        sys.exit(f"{prefix} contains no program or shared library (expected at least bin/ashlar)")
    found = [problem for path in binaries for problem in problems(path, source_folder)]
    print("\n".join(found) or f"{len(binaries)} binaries are hardened")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
