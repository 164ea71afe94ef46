# SPDX-License-Identifier: Apache-2.0
"""A running live_program (live_program.cc), for tests in Python."""

import subprocess


class LiveProgram:
    def __init__(self, path, *arguments, environment=None):
        self.process = subprocess.Popen([path, *arguments], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, env=environment)
        self.address = self.process.stdout.readline().strip()
        self.pid = self.process.pid

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.end()

    def send(self, command):
        """Sends a command and waits until it is done."""
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        while self.process.stdout.readline() not in ("done\n", ""):
            pass

    def end(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()
