# SPDX-License-Identifier: Apache-2.0
"""Runs the test classes of a module, each in a process of its own, because a failure inside an
allocator can end the process. The module has a function choose(way), which runs in each process
before the tests, a base class TestCase, and CONF: Ashlar's options by class."""

import argparse
import concurrent.futures
import json
import os
import subprocess
import sys
import unittest

LIMIT_S = 120  # of one class


class PrintedResult(unittest.TestResult):
    """Prints each test when it begins and when it ends, so that the output of a process that aborts
    names the test. The lines "TEST name state" are for the parent process."""

    def report(self, test, state, detail=""):
        print(f"{detail}TEST {test.id().removeprefix('__main__.')} {state}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.report(test, "began")

    def addSuccess(self, test):
        self.report(test, "passed")

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report(test, "skipped", f"{reason}\n")

    def addFailure(self, test, err):
        self.report(test, "FAILED", self._exc_info_to_string(err, test))

    def addError(self, test, err):
        self.report(test, "FAILED", self._exc_info_to_string(err, test))


def main_class(module, way, name):
    module.choose(way)
    unittest.defaultTestLoader.loadTestsFromName(name, module).run(PrintedResult())
    return 0


def parse_states(output):
    """Returns the last state of each test in a class's output. A test that began and did not end
    has FAILED, because it ended the process."""
    states = {}
    for line in output.splitlines():
        if line.startswith("TEST "):
            _, name, state = line.split(" ", 2)
            if states.get(name) != "FAILED":  # a cleanup may fail after the test itself
                states[name] = state
    return {name: "FAILED" if state == "began" else state for name, state in states.items()}


def run_class(module, way, name, expected):
    """Runs one class. Returns (states of its tests, output). Tests that an earlier test's abort
    kept from running are "lost"."""
    command = [sys.executable, os.path.abspath(module.__file__), "--way", way, "--in-process",
               name]
    conf = module.CONF.get(name.partition(".")[0]) if way == "ashlar" else None
    environment = {**os.environ, "ASHLAR_ALLOC_CONF": conf} if conf else None
    try:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              errors="replace", timeout=LIMIT_S, env=environment, check=False)
        output, end = done.stdout, f"exit status {done.returncode}" if done.returncode else ""
    except subprocess.TimeoutExpired as expired:
        output, end = (expired.stdout or b"").decode(errors="replace"), f"no end after {LIMIT_S} s"
    states = {**dict.fromkeys(expected, "lost"), **parse_states(output)}
    return states, output + (f"{name}: {end}\n" if end else "")


def select(module, names):
    """Returns the tests by the name under which a process runs them: a class or one test."""
    loader = unittest.defaultTestLoader
    classes = {name: value for name, value in vars(module).items() if isinstance(value, type)
               and issubclass(value, module.TestCase) and value is not module.TestCase}
    selected = {}
    for name in names or sorted(classes):
        class_name, _, test = name.partition(".")
        tests = loader.getTestCaseNames(classes[class_name]) if class_name in classes else []
        if not tests or (test and test not in tests):
            raise SystemExit(f"unknown test {name!r}")
        selected[name] = [f"{class_name}.{each}" for each in tests if test in ("", each)]
    return selected


def summary(states):
    """Returns the object that --json prints, by the states of all tests."""
    def named(state):
        return sorted(name for name, each in states.items() if each == state)

    return {"ran": sum(each != "lost" for each in states.values()),
            "passed": named("passed"), "skipped": named("skipped"), "failed": named("FAILED"),
            "lost": named("lost")}


def main(module, arguments):
    parser = argparse.ArgumentParser(description=module.__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--way", choices=("native", "ashlar"), required=True)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--jobs", type=int, default=4, help="number of processes at a time")
    parser.add_argument("--in-process", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("tests", nargs="*")
    args = parser.parse_args(arguments)
    if args.in_process:
        return main_class(module, args.way, args.tests[0])
    states = {}
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        runs = [pool.submit(run_class, module, args.way, name, tests)
                for name, tests in select(module, args.tests).items()]
        for run in concurrent.futures.as_completed(runs):
            class_states, output = run.result()
            states.update(class_states)
            print("\n".join(line for line in output.splitlines()
                            if not line.endswith((" began", " passed"))), flush=True)
    result = summary(states)
    print(f"{len(result['passed'])} passed, {len(result['skipped'])} skipped,"
          f" {len(result['failed'])} failed, {len(result['lost'])} lost")
    if args.json:
        print(json.dumps(result))
    return 1 if result["failed"] or result["lost"] else 0
