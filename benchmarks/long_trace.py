#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the time and peak memory of the analysis commands on a long recording, and of
decompression alone.

  benchmarks/long_trace.py FILE.pickle.xz    such as llm_generate_long.1, 3,000,000 entries
  --cli PATH                                 the tool; default: build/release/bin/ashlar

Exit: 0 done, 1 a command failed, 2 the file does not exist. Needs Python 3.11 and xz."""

import argparse
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent


def measure(command):
    """Runs a command and returns (seconds, peak resident MiB). Discards its output."""
    started = time.monotonic()
    nowhere = os.open(os.devnull, os.O_WRONLY)
    child = os.posix_spawnp(command[0], command, os.environ,
                            file_actions=[(os.POSIX_SPAWN_DUP2, nowhere, 1)])
    _, status, usage = os.wait4(child, 0)
    os.close(nowhere)
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"long_trace: failed: {' '.join(command)}")
    return time.monotonic() - started, usage.ru_maxrss / 1024


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("--cli", default=str(ROOT / "build" / "release" / "bin" / "ashlar"))
    args = parser.parse_args()
    if not args.file.exists():
        print(f"long_trace: {args.file} does not exist (it is not part of the project)",
              file=sys.stderr)
        return 2
    with tempfile.TemporaryDirectory() as folder:
        plain = os.path.join(folder, "plain.pickle")
        rows = [("xz alone", ["sh", "-c", f"xz -dc '{args.file}' > '{plain}'"])]
        for name, arguments in [
                ("read, plain", ["leaks", plain]), ("read, compressed", ["leaks", str(args.file)]),
                ("replay", ["replay", str(args.file)]), ("report", ["report", str(args.file)])]:
            rows.append((name, [args.cli, *arguments]))
        print(f"{'':18}{'s':>8}{'MiB':>8}")
        for name, command in rows:
            seconds, resident = measure(command)
            print(f"{name:18}{seconds:8.1f}{resident:8.0f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
