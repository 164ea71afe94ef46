# SPDX-License-Identifier: Apache-2.0
"""Shared fixtures of the Python package's tests: simulated machines and memory statistics.

Run by ctest; by hand: PYTHONPATH=build/release/python pytest tests/python/package"""

import faulthandler
import os
import pathlib
import subprocess
import sys

import pytest

import ashlar

ROOT = pathlib.Path(__file__).resolve().parents[3]
TRACES = ROOT / "tests" / "golden" / "traces"

# If the tests deadlock and so exceed 240 s, dumps the stacks of all threads and exits.
faulthandler.dump_traceback_later(240, exit=True)


@pytest.fixture
def machine():
    return ashlar.Machine(device_count=2, capacity="1GiB")


@pytest.fixture
def allocator(machine):
    return ashlar.Allocator(machine.device(0), "engine:paged")


def live_bytes(allocator):
    return allocator.stats()["requested_bytes.all.current"]


def run_python(code, **environment):
    """Runs a script in a new process with the same Python and package."""
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          timeout=120, env={**os.environ, **environment})


def run_cli(*arguments):
    """Runs the command line tool. Skips the test if TEST_CLI does not name it."""
    if "TEST_CLI" not in os.environ:
        pytest.skip("TEST_CLI does not name the tool")
    environment = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
    return subprocess.run([os.environ["TEST_CLI"], *map(str, arguments)], capture_output=True,
                          text=True, check=False, env=environment)
