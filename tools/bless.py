#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Rewrites the golden files of the command line tool, tests/golden/cli/*.txt, with its present
output. Read the difference before you commit it: users will see it.

  tools/bless.py            all of them
  tools/bless.py NAME...    only these: leaks, or leaks.txt
  --cli PATH                the tool; default: build/release/bin/ashlar

The first line of a golden file is the command that produces it: `$ ashlar leaks FILE`, run in
tests/golden/traces with LC_ALL=C.UTF-8 and without variables of Ashlar or PyTorch. Variables may
precede the command. The last line is the exit code. To add a golden file, write its first line and
run this script.

Exit: 0 done, 1 a command could not be run. Needs Python 3.11 and its standard library."""

import argparse
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FILES = ROOT / "tests" / "golden" / "cli"
FOLDER = ROOT / "tests" / "golden" / "traces"


def command_in(path):
    """Returns the variables and the arguments on the first line of a golden file."""
    first = path.read_text(encoding="utf-8").split("\n", 1)[0]
    words = first.split(" ")
    if words[0] != "$" or "ashlar" not in words:
        sys.exit(f"bless: {path.name}: the first line is {first!r} (expected: $ ashlar ...)")
    at = words.index("ashlar")
    variables = dict(word.split("=", 1) for word in words[1:at])
    return first, variables, words[at + 1:]


def expected_output(cli, path):
    """Returns the expected content of the file."""
    first, variables, arguments = command_in(path)
    environment = {name: value for name, value in os.environ.items()
                   if not name.startswith(("ASHLAR_", "PYTORCH_"))}
    environment |= {"LC_ALL": "C.UTF-8"} | variables
    done = subprocess.run([cli, *arguments], cwd=FOLDER, env=environment, check=False,
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    return f"{first}\n{done.stdout}{done.stderr}exit {done.returncode}\n"


def main():
    parser = argparse.ArgumentParser(description="Rewrites golden files.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all of them")
    parser.add_argument("--cli", default=ROOT / "build" / "release" / "bin" / "ashlar")
    arguments = parser.parse_args()
    cli = pathlib.Path(arguments.cli).resolve()
    if not cli.exists():
        print(f"bless: {cli} does not exist; build it first (scripts/build)", file=sys.stderr)
        return 1
    paths = [FILES / f"{name.removesuffix('.txt')}.txt" for name in arguments.names]
    for path in paths or sorted(FILES.glob("*.txt")):
        expected = expected_output(cli, path)
        if expected == path.read_text(encoding="utf-8"):
            continue
        path.write_text(expected, encoding="utf-8")
        print(f"bless: {path.relative_to(ROOT)} changed; read it before you commit")
    return 0


if __name__ == "__main__":
    sys.exit(main())
