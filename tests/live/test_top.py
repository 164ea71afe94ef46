#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests of `ashlar top` in a real terminal, provided by tmux.

  test_top.py ASHLAR LIVE_PROGRAM"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

from live_program import LiveProgram

if shutil.which("tmux") is None:
    print("SKIPPED: tmux is not installed; `ashlar top` was not tested in a terminal")
    sys.exit(77)

PROGRAM = os.path.abspath(sys.argv.pop())
ASHLAR = os.path.abspath(sys.argv.pop())
ENVIRONMENT = {name: value for name, value in os.environ.items()
               if not name.startswith(("ASHLAR_", "PYTORCH_", "TMUX"))}
LONG_ENOUGH = 30  # timeout in seconds, long enough for a busy machine


class Terminal:
    """A shell in a terminal of 120 columns and 40 lines."""

    count = 0

    def __init__(self):
        Terminal.count += 1
        self.server = f"ashlar-top-{os.getpid()}-{Terminal.count}"
        self.tmux("-f", "/dev/null", "new-session", "-d", "-x", "120", "-y", "40",
                  "env PS1='$ ' LC_ALL=C.UTF-8 bash --norc --noprofile")
        self.wait_for(lambda: "$" in self.text(), "a prompt")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tmux("kill-server")

    def tmux(self, *arguments):
        return subprocess.run(["tmux", "-L", self.server, *arguments], check=True, text=True,
                              env=ENVIRONMENT, stdout=subprocess.PIPE).stdout

    def text(self):
        return self.tmux("capture-pane", "-p")

    def type(self, *keys):
        self.tmux("send-keys", *keys)

    def run(self, line):
        self.type(line, "Enter")

    def state(self):
        """Returns the flags for the alternate screen, the cursor and line wrap."""
        return self.tmux("display-message", "-p",
                         "#{alternate_on} #{cursor_flag} #{wrap_flag}").split()

    def wait_for(self, happens, what):
        end = time.monotonic() + LONG_ENOUGH
        while not happens():
            if time.monotonic() > end:
                raise AssertionError(f"{what} was waited for in vain; the terminal shows:\n"
                                     + self.text())
            time.sleep(0.02)

    def wait_for_text(self, text):
        self.wait_for(lambda: text in self.text(), repr(text))


class TopTest(unittest.TestCase):
    def setUp(self):
        self.program = LiveProgram(PROGRAM)
        self.terminal = Terminal()

    def tearDown(self):
        self.terminal.__exit__()
        self.program.end()

    def start(self):
        self.terminal.run(f"{ASHLAR} top {self.program.pid} --interval 0.1")
        self.terminal.wait_for_text("q quits")

    def expect_restored(self, code):
        """Expects that the tool ended with this exit status and restored the terminal."""
        # Waits for the shell: until then, typed keys go to `ashlar top`.
        self.terminal.wait_for(lambda: self.terminal.state() == ["0", "1", "1"], "the shell")
        self.terminal.run('echo "ended with $?"; stty -a | tr ";" "\\n" | grep -w icanon')
        self.terminal.wait_for_text(f"ended with {code}\n")
        self.terminal.wait_for(lambda: " icanon" in self.terminal.text(), "a usual terminal")
        self.assertNotIn("-icanon", self.terminal.text())
        self.assertIn(" echo ", self.terminal.text())

    def test_updates_numbers_and_quits_with_q(self):
        self.start()
        self.assertEqual(self.terminal.state(), ["1", "0", "0"])
        screen = self.terminal.text()
        self.assertIn(f"live_program, process {self.program.pid}: Ashlar ", screen)
        self.assertIn("1 sim:1    classic   20.00 MiB", screen)
        self.assertNotIn("64.00 MiB", screen)
        self.program.send("allocate")
        self.terminal.wait_for_text("0 sim:0    paged     64.00 MiB")
        self.terminal.wait_for_text("█")
        self.program.send("oom")
        self.terminal.wait_for(lambda: any(
            line.split()[:3] == ["0", "sim:0", "paged"] and line.split()[11] == "1"
            for line in self.terminal.text().splitlines()), "an out of memory")
        self.terminal.type("q")
        self.expect_restored(0)

    def test_follows_the_size_of_the_terminal(self):
        self.start()
        self.terminal.tmux("resize-window", "-x", "70", "-y", "9")
        # The terminal is too small for the chart and for the columns on the right.
        self.terminal.wait_for(lambda: self.terminal.text().splitlines()[6] == "q quits",
                               "the last line follows the table")
        self.assertIn("reserved", self.terminal.text())
        self.assertNotIn("driver/s", self.terminal.text())
        self.terminal.tmux("resize-window", "-x", "130", "-y", "30")
        self.terminal.wait_for_text("driver/s")
        self.terminal.wait_for_text(" now\n")
        self.terminal.type("q")
        self.expect_restored(0)

    def test_restores_the_terminal_on_signals(self):
        for name, act in (("Ctrl-C", lambda: self.terminal.type("C-c")),
                          ("SIGTERM", lambda: self.signal_top(signal.SIGTERM))):
            with self.subTest(name):
                self.terminal.run("clear")
                self.start()
                act()
                self.expect_restored(0)

    def signal_top(self, number):
        pane = self.terminal.tmux("display-message", "-p", "#{pane_pid}").strip()
        children = subprocess.run(["ps", "-o", "pid=", "--ppid", pane], check=True, text=True,
                                  stdout=subprocess.PIPE).stdout.split()
        os.kill(int(children[0]), number)

    def test_suspends_and_resumes(self):
        self.start()
        self.terminal.type("C-z")
        self.terminal.wait_for(lambda: self.terminal.state() == ["0", "1", "1"], "the shell")
        self.terminal.wait_for_text("Stopped")
        self.terminal.run("fg")
        self.terminal.wait_for(lambda: self.terminal.state() == ["1", "0", "0"], "the screen")
        self.terminal.wait_for_text("q quits")
        self.terminal.type("q")
        self.expect_restored(0)

    def test_reports_the_end_of_the_process(self):
        self.start()
        self.program.end()
        self.terminal.wait_for_text(f"process {self.program.pid} has ended")
        self.expect_restored(0)

    def test_reports_a_stopped_process(self):
        self.start()
        os.kill(self.program.pid, signal.SIGSTOP)
        try:
            self.terminal.wait_for_text("no response")
        finally:
            os.kill(self.program.pid, signal.SIGCONT)
        self.terminal.wait_for(lambda: "no response" not in self.terminal.text(), "a response")
        self.terminal.type("q")
        self.expect_restored(0)


class PlainTest(unittest.TestCase):
    """Tests without a terminal."""

    def top(self, *arguments):
        return subprocess.run([ASHLAR, "top", *map(str, arguments)], text=True, env=ENVIRONMENT,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              stdin=subprocess.DEVNULL, check=False)

    def test_lists_processes_and_shows_one(self):
        with LiveProgram(PROGRAM) as program:
            program.send("allocate")
            listed = self.top()
            self.assertEqual((listed.returncode, listed.stderr), (0, ""))
            line = next(each.split() for each in listed.stdout.splitlines()
                        if each.split()[0] == str(program.pid))
            self.assertEqual(line[1:5], ["live_program", "2", "84.00", "MiB"])
            processes = json.loads(self.top("--json").stdout)["processes"]
            self.assertIn(program.pid, [each["pid"] for each in processes])
            once = self.top(program.pid, "--once")
            self.assertEqual(once.returncode, 0)
            self.assertEqual(len(once.stdout.splitlines()), 3)
            report = json.loads(self.top(program.pid, "--json").stdout)
            self.assertEqual([each["requested_bytes"] for each in report["allocators"]],
                             [64 << 20, 5 << 20])

    def test_shows_pinned_memory_if_used(self):
        with LiveProgram(PROGRAM) as program:
            self.assertNotIn("pinned", self.top(program.pid, "--once").stdout)
            program.send("pin")
            line = self.top(program.pid, "--once").stdout.splitlines()[-1].split()
            self.assertEqual(line[:5], ["h0", "sim:0", "pinned", "8.00", "MiB"])
            report = json.loads(self.top(program.pid, "--json").stdout)["host_allocators"]
            self.assertEqual([(each["device"], each["requested_bytes"]) for each in report],
                             [(0, 8 << 20)])

    def test_prints_lines_until_the_process_ends(self):
        program = LiveProgram(PROGRAM)
        top = subprocess.Popen([ASHLAR, "top", str(program.pid), "--interval", "0.1"], text=True,
                               env=ENVIRONMENT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                               stderr=subprocess.PIPE)
        self.assertIn("reserved", top.stdout.readline())
        for _ in range(4):
            self.assertIn(" sim:", top.stdout.readline())
        program.end()
        _, complaint = top.communicate()
        self.assertEqual(top.returncode, 0)
        self.assertIn(f"process {program.pid} has ended", complaint)

    def test_environment_enables_monitoring(self):
        with LiveProgram(PROGRAM, "--silent", environment=ENVIRONMENT) as hidden:
            refused = self.top(hidden.pid)
            self.assertEqual(refused.returncode, 2)
            self.assertIn("start it with ASHLAR_LIVE=on", refused.stderr)
        with LiveProgram(PROGRAM, "--silent",
                         environment={**ENVIRONMENT, "ASHLAR_LIVE": "on"}) as shown:
            self.assertEqual(self.top(shown.pid, "--once").returncode, 0)

    def test_port_in_use_does_not_end_the_program(self):
        with LiveProgram(PROGRAM, "--port") as first:
            port = first.address.split(":")[2].split("/")[0]
            environment = {**ENVIRONMENT, "ASHLAR_LIVE": port,
                           "ASHLAR_LIVE_TOKEN": "0123456789abcdef"}
            with LiveProgram(PROGRAM, "--silent", environment=environment) as second:
                report = json.loads(self.top(second.pid, "--json").stdout)
                self.assertIn(f"cannot bind port {port} of 127.0.0.1", report["setup_error"])

    def test_malformed_variable_only_warns(self):
        environment = {**ENVIRONMENT, "ASHLAR_LIVE": "onn"}
        ended = subprocess.run([PROGRAM, "--silent"], env=environment, input="", text=True,
                               capture_output=True, timeout=LONG_ENOUGH, check=False)
        self.assertEqual(ended.returncode, 0)
        self.assertEqual(ended.stderr.count('live monitoring is off: ASHLAR_LIVE: "onn"'), 1)

    def test_reports_unmonitored_processes(self):
        self.assertIn("there is no process 1073741824", self.top(1 << 30).stderr)
        self.assertEqual(self.top(1 << 30).returncode, 2)
        self.assertEqual(self.top("0").returncode, 2)
        self.assertEqual(self.top("1", "--interval", "0").returncode, 2)


if __name__ == "__main__":
    unittest.main()
