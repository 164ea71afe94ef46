# SPDX-License-Identifier: Apache-2.0
"""Tests how scripts/gpu interprets GoogleTest's counts, PyTorch's losses and failed programs. Runs
without a GPU and without PyTorch.

  test_gpu_steps.py"""

import contextlib
import io
import os
import pathlib
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "gpu"))
sys.dont_write_bytecode = True

import isolated_tests  # noqa: E402: its folder comes first
import side_by_side  # noqa: E402
import steps  # noqa: E402
import torch_tests  # noqa: E402

SUITE = """[ RUN      ] Gpu/SharingContract.ExportsImportedExtent/Cuda
[  FAILED  ] Gpu/SharingContract.ExportsImportedExtent/Cuda, where GetParam() = Cuda (3 ms)
[==========] 4 tests from 2 test suites ran. (20 ms total)
[  PASSED  ] 2 tests.
[  SKIPPED ] 1 test, listed below:
[  SKIPPED ] Gpu/PeersContract.PeersReach/Cuda
[  FAILED  ] 1 test, listed below:
[  FAILED  ] Gpu/SharingContract.ExportsImportedExtent/Cuda, where GetParam() = Cuda

 1 FAILED TEST
"""


def trained(losses, reserved=105, speed=2.0):
    """Returns the result of one training round."""
    return steps.merge_runs(None, {
        "steps": len(losses), "steps_per_second": speed, "losses": losses,
        "peak_reserved_bytes": reserved, "peak_requested_bytes": 100})


def quietly(function, *arguments):
    with contextlib.redirect_stdout(io.StringIO()):
        return function(*arguments)


class SuitesTest(unittest.TestCase):
    def test_reads_counts_of_google_test(self):
        self.assertEqual(steps.counts(SUITE), "2 passed, 1 skipped, 1 failed")

    def test_names_failed_test_once(self):
        self.assertEqual(steps.failed_tests(SUITE),
                         ["Gpu/SharingContract.ExportsImportedExtent/Cuda"])


class TrainingTest(unittest.TestCase):
    def row(self, **runs):
        outcome = steps.Outcome()
        quietly(steps.add_training, outcome, "transformer", runs)
        return outcome.rows[0]

    def test_equal_losses_pass(self):
        native = trained([3.0, 2.0], reserved=170)
        row = self.row(native=native, expandable=trained([3.0, 2.0]), ashlar=trained([3.0, 2.0]))
        self.assertEqual(row[1], "passed")
        self.assertIn("losses equal; 1.000 × native speed, 1.000 × that of", row[2])
        self.assertIn("1.050 (native 1.700)", row[2])

    def test_different_losses_fail(self):
        native = trained([3.0, 2.0])
        row = self.row(native=native, expandable=trained([3.0, 2.0]), ashlar=trained([3.0, 2.5]))
        self.assertEqual(row[1], "FAILED (losses)")
        self.assertIn("differ by 2.5e-01 at most, from step 1 on", row[2])

    def test_nan_losses_are_not_equal(self):
        nothing = float("nan")
        row = self.row(native=trained([nothing]), expandable=trained([3.0]),
                       ashlar=trained([nothing]))
        self.assertNotIn("equal;", row[2])

    def test_uses_median_round_and_highest_peak(self):
        native = trained([3.0], speed=2.5)
        ours = trained([3.0], speed=3.0, reserved=103)
        for speed, reserved in ((5.0, 101), (2.0, 104)):
            ours = steps.merge_runs(ours, {**ours, "steps_per_second": speed,
                                       "peak_reserved_bytes": reserved})
        ours = steps.merge_runs(ours, {})  # a failed round, which has its own row, is ignored
        outcome = steps.Outcome()
        quietly(steps.add_training, outcome, "transformer", {"native": native, "ashlar": ours})
        self.assertEqual(outcome.rows[0][1], "passed")
        self.assertIn("1.200 × native speed, 1.200 × that", outcome.rows[0][2])
        self.assertIn("reserved ÷ requested 1.040", outcome.rows[0][2])
        self.assertIn("| 3.00 | 3.00, 5.00, 2.00 | 1.200 |", outcome.lines[-1])

    def test_goal_is_the_faster_configuration_of_pytorch(self):
        row = self.row(native=trained([3.0], speed=2.0), expandable=trained([3.0], speed=3.0),
                       ashlar=trained([3.0], speed=2.7))
        self.assertEqual(row[1], "MISSED (speed 0.900 < 1.0)")

    def test_missed_goal_fails(self):
        row = self.row(native=trained([3.0]), ashlar=trained([3.0], speed=1.9, reserved=106))
        self.assertEqual(row[1], "MISSED (speed 0.950 < 1.0, reserved 1.060 > 1.05)")


class RunTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.addCleanup(setattr, steps, "LOGS", steps.LOGS)
        steps.LOGS = pathlib.Path(folder.name)

    def test_missing_tests_message_matches_cmake(self):
        message = (steps.ROOT / "cmake" / "AshlarOptional.cmake").read_text()
        self.assertIn(steps.TESTS_LEFT_OUT, message)

    def test_failed_program_keeps_output(self):
        sad = [sys.executable, "-c", "import sys; sys.exit('no memory')"]
        done = quietly(steps.run, "sad", sad, 60)
        self.assertEqual((done.state, done.output_tail()), ("FAILED (exit code 1)", "no memory"))
        self.assertIn("no memory", (steps.LOGS / "sad.log").read_text(encoding="utf-8"))

    def test_missing_program_fails(self):
        done = quietly(steps.run, "none", ["./no_such_program"], 60)
        self.assertTrue(done.state.startswith("FAILED"))

    def test_hanging_program_is_terminated(self):
        endless = [sys.executable, "-c", "while True: pass"]
        done = quietly(steps.run, "endless", endless, 1)
        self.assertEqual(done.state, "FAILED (no end after 1 s)")

    def test_result_is_the_last_json_object(self):
        done = steps.Run("passed", 'warning: {\n{"steps": 1}\n{"steps": 2}\nbye\n', "")
        self.assertEqual(steps.read_json(done), {"steps": 2})


class TorchTestsTest(unittest.TestCase):
    def run_class(self, name, library):
        """Runs a class of torch_tests.py with a stand-in for PyTorch."""
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        (pathlib.Path(folder.name) / "torch.py").write_text(library, encoding="utf-8")
        tests, = isolated_tests.select(torch_tests, [name]).values()
        with unittest.mock.patch.dict(os.environ, PYTHONPATH=folder.name):
            return isolated_tests.run_class(torch_tests, "native", name, tests)

    def test_reads_states_of_tests(self):
        output = ("TEST A.one began\nTEST A.one passed\nTEST A.two began\nTraceback\n"
                  "TEST A.two FAILED\nTEST A.three began\nabort")
        self.assertEqual(isolated_tests.parse_states(output),
                         {"A.one": "passed", "A.two": "FAILED", "A.three": "FAILED"})

    def test_failures_have_tracebacks(self):
        states, output = self.run_class("Tracing", "def zeros(*_, **__): pass\n")
        self.assertEqual(states, {"Tracing.test_gpu_trace_callbacks": "FAILED"})
        self.assertIn("has no attribute 'cuda'", output)

    def test_abort_loses_only_the_class(self):
        states, output = self.run_class(
            "Settings", "import os\ndef zeros(*_, **__): pass\n"
            "def __getattr__(name): os.abort() if name == 'cuda' else None\n")
        self.assertEqual(states, {
            "Settings.test_settings_are_accepted_and_reported": "FAILED",
            "Settings.test_unknown_settings_are_rejected": "lost"})
        self.assertIn("Settings: exit status -6", output)

    def test_selects_classes_and_tests(self):
        name = "Settings.test_unknown_settings_are_rejected"
        self.assertEqual(isolated_tests.select(torch_tests, [name]), {name: [name]})
        self.assertIn("Checkpoints", isolated_tests.select(torch_tests, []))
        with self.assertRaises(SystemExit):
            isolated_tests.select(torch_tests, ["Settings.test_no_such"])

    def test_tests_that_do_not_pass_natively_are_not_counted(self):
        native = isolated_tests.summary({"A.one": "passed", "A.two": "FAILED", "A.three": "passed"})
        ashlar = isolated_tests.summary({"A.one": "passed", "A.two": "FAILED", "A.three": "lost"})
        self.assertEqual(steps.compare_torch_tests(native, ashlar),
                         ("FAILED (A.three)", "1 passed; do not pass natively: A.two"))
        self.assertEqual(steps.compare_torch_tests(native, native)[0], "passed")


class SideBySideTest(unittest.TestCase):
    def results(self):
        common = {"bytes": 512, "live": 0, "threads": 1}
        churn = {**common, "bytes": 0, "live": 100, "pattern": "churn"}
        # The host is twice as fast for both allocators in the second round, and only for Ashlar in
        # the third round.
        return [{**common, "pattern": "pair", "allocator": "ashlar", "ns": [40.0, 20.0, 20.0]},
                {**common, "pattern": "pair", "allocator": "PyTorch", "ns": [800.0, 400.0, 800.0]},
                {**churn, "allocator": "ashlar", "ns": [100.0], "reserved_by_most_live": 1.1},
                {**churn, "allocator": "PyTorch", "ns": [900.0], "reserved_by_most_live": 1.8},
                {**common, "pattern": "threads", "allocator": "ashlar", "pairs_per_second": [5e7]},
                {**common, "pattern": "threads", "allocator": "PyTorch",
                 "failure": "out of memory"}]

    def test_ratios_compare_speed(self):
        lines = side_by_side.markdown(self.results())
        self.assertIn("| pair, 512 B | 20.0 ns | 800.0 ns (20.0×) |", lines)
        self.assertIn("| 1 thread, pairs of 512 B | 50.00 M/s | failed |", lines)
        self.assertIn("PyTorch, 1 thread, pairs of 512 B: out of memory", lines)
        self.assertTrue(steps.headline(self.results()).endswith("pair 20.0×, churn 9.0×"))

    def test_churn_memory_has_own_table(self):
        lines = side_by_side.reserved_markdown(self.results())
        self.assertEqual(lines[0], "| pattern | ashlar | PyTorch |")
        self.assertEqual(lines[2:], ["| churn, 100 live, recurring sizes | 1.100 | 1.800 |"])

    def test_goals_match_pattern(self):
        self.assertEqual(steps.goal_state(steps.missed_speed_goals(self.results())), "passed")
        slow = self.results()
        slow[2]["ns"] = [200.0]  # churn
        slow[5] = {**slow[4], "allocator": "PyTorch", "pairs_per_second": [4.9e6]}
        self.assertEqual(steps.goal_state(steps.missed_speed_goals(slow)),
                         "MISSED (churn, 100 live, recurring sizes: 4.5 < 5)")
        for row in slow[4:]:
            row["threads"] = 16
        self.assertIn("16 threads, pairs of 512 B: 10.2 < 100", steps.missed_speed_goals(slow))


if __name__ == "__main__":
    unittest.main()
