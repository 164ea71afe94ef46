#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of examples/live_monitoring.cc: the addresses that it prints work.

  test_example.py [ASHLAR] LIVE_MONITORING"""

import os
import subprocess
import sys
import unittest
import urllib.request

import prometheus_text

PROGRAM = sys.argv.pop()
ASHLAR = sys.argv.pop() if len(sys.argv) > 1 else None
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith("ASHLAR_")}
TOKEN = "0123456789abcdef"


class Example:
    """The program, running until it is ended."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen([PROGRAM, "1000000", *arguments], text=True,
                                        stdout=subprocess.PIPE, env=ENVIRONMENT)
        lines = [self.process.stdout.readline().strip() for _ in range(3)]
        self.top, self.view, self.curl = lines
        self.address = self.curl.removeprefix("curl ")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class LiveMonitoringTest(unittest.TestCase):
    def test_prints_commands(self):
        with Example() as example:
            pid = example.process.pid
            self.assertEqual(example.top, f"ashlar top {pid}")
            self.assertEqual(example.view, f"ashlar view --live {pid}")
            self.assertRegex(example.curl,
                             r"^curl http://127\.0\.0\.1:[0-9]+/[0-9a-f]{32}/metrics$")

    def test_serves_metrics(self):
        with Example() as example:
            # The allocator is created after the addresses are printed.
            samples = []
            while not samples:
                with urllib.request.urlopen(example.address) as response:
                    found = prometheus_text.parse(response.read().decode())
                samples = found["ashlar_allocated_bytes"].samples
            self.assertEqual(samples[0][0]["backend"], "sim")

    def test_uses_the_given_token(self):
        with Example("0", TOKEN) as example:
            self.assertRegex(example.address, rf":[0-9]+/{TOKEN}/metrics$")

    def test_top_shows_the_process(self):
        if ASHLAR is None:
            self.skipTest("the ashlar tool is not built")
        with Example() as example:
            # The allocator is created after the addresses are printed.
            shown = ""
            while "sim" not in shown:
                shown = subprocess.run([ASHLAR, *example.top.split()[1:], "--once"], check=True,
                                       text=True, env=ENVIRONMENT, stdout=subprocess.PIPE).stdout
        self.assertIn("reserved", shown)

    def test_ends_after_its_steps(self):
        ended = subprocess.run([PROGRAM, "1"], check=True, text=True, env=ENVIRONMENT,
                               stdout=subprocess.PIPE).stdout
        self.assertIn("1 steps; peak: 569 MiB allocated", ended)


if __name__ == "__main__":
    unittest.main()
