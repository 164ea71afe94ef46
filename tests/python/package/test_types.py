# SPDX-License-Identifier: Apache-2.0
"""Tests the type annotations with mypy: of the package, and of a program that uses it."""

import subprocess
import sys

import pytest

from conftest import ROOT

PROGRAM = """
import ashlar
from ashlar.allocators import set_allocator

allocator = ashlar.Allocator("sim:0")
set_allocator(allocator)
with allocator.allocate("64MiB") as buffer:
    size: int = buffer.size
peak: int = ashlar.load("snapshot.pickle").report().peak_reserved_bytes
wrong: str = buffer.size  # error
"""


def test_package_and_program_are_typed(tmp_path):
    pytest.importorskip("mypy", reason="mypy is not installed (Debian package mypy)")
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    checked = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path / "cache"), "-p", "ashlar",
         "-m", "program"], capture_output=True, text=True, check=False, cwd=ROOT,
        env={"MYPYPATH": f"{ROOT / 'python'}:{tmp_path}", "PATH": ""})
    errors = [line for line in checked.stdout.splitlines() if "error" in line]
    assert len(errors) == 2, checked.stdout  # the second one is the summary
    assert "program.py:10" in errors[0] and "Incompatible types" in errors[0]
