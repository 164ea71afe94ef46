#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures the processor time of each test of a preset, one test at a time.

  measure_tests.py PRESET [REGEX]    only tests whose names match

Prints processor seconds, wall seconds, the exit status and the name, highest processor time first.
A test whose wall time is much higher waits, or the machine is busy: unlike wall time, processor
time hardly depends on the machine's load. Processes that a test does not wait for are not counted.
"""

import json
import os
import re
import resource
import subprocess
import sys
import time

TIMEOUT_S = 600


def tests_of(preset):
    listed = subprocess.run(["ctest", "--preset", preset, "--show-only=json-v1"],
                            capture_output=True, text=True, check=True)
    return json.loads(listed.stdout)["tests"]


def preset_environment(preset):
    with open("CMakePresets.json", encoding="utf-8") as file:
        presets = {each["name"]: each for each in json.load(file)["testPresets"]}
    return presets[preset].get("environment", {})


def children_seconds():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def measure(test, environment):
    """Runs the test. Returns (processor seconds, wall seconds, exit status, name)."""
    properties = {each["name"]: each["value"] for each in test.get("properties", [])}
    own = dict(each.split("=", 1) for each in properties.get("ENVIRONMENT", []))
    before, started = children_seconds(), time.monotonic()
    try:
        status = subprocess.run(
            test["command"], cwd=properties.get("WORKING_DIRECTORY"), check=False,
            env={**os.environ, **environment, **own}, stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=TIMEOUT_S).returncode
    except (OSError, subprocess.TimeoutExpired) as failure:
        status = type(failure).__name__
    return children_seconds() - before, time.monotonic() - started, status, test["name"]


def main(preset, pattern=""):
    environment = preset_environment(preset)
    chosen = [test for test in tests_of(preset) if re.search(pattern, test["name"])]
    rows = sorted((measure(test, environment) for test in chosen), key=lambda row: -row[0])
    for cost, wall, status, name in rows:
        print(f"{cost:8.2f} {wall:8.2f} {status!s:>4} {name}")
    print(f"{sum(row[0] for row in rows):8.2f} {sum(row[1] for row in rows):8.2f}      all")


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    main(*sys.argv[1:])
