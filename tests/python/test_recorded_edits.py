#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the table of edits for benchmarks/whatif.py, and the recorder with a program that fakes
PyTorch's peaks. Needs neither PyTorch nor a GPU."""
import contextlib
import csv
import io
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

RECORDINGS = Path(__file__).resolve().parents[2] / "benchmarks" / "gpu" / "recordings"
sys.path.insert(0, str(RECORDINGS))
sys.dont_write_bytecode = True
import edits  # noqa: E402
import record_edits  # noqa: E402

# Fails for one edit, as a program does that runs out of memory.
FAKE_PROGRAM = """
import json, sys
if sys.argv[2] == "half_batch":
    sys.exit("out of memory")
print(json.dumps({"program": sys.argv[1], "edit": sys.argv[2], "requested_peak": 1,
                  "allocated_peak": 2, "active_peak": 3, "reserved_peak": 4}))
if len(sys.argv) > 3:
    open(sys.argv[3], "wb").write(b"snapshot")
"""


class TableTest(unittest.TestCase):
    def setUp(self):
        self.source = (RECORDINGS / "edited_programs.py").read_text()

    def test_programs_implement_all_edits(self):
        self.assertEqual(edits.edits_without_code(self.source), [])
        self.assertEqual(edits.edits_without_code(self.source.replace('saved("cell"', "cell(")),
                         ["recurrent.recompute_cell", "recurrent.offload_cell"])

    def test_at_least_twelve_programs_have_five_edits(self):
        self.assertGreaterEqual(len(edits.EDITS), 12)
        self.assertGreaterEqual(min(map(len, edits.EDITS.values())), 5)

    def test_marks_become_line_numbers(self):
        compile(self.source, "edited_programs.py", "exec")
        lines = self.source.splitlines()
        arguments = edits.with_line_numbers(["train.py:<logits>"], self.source)
        number = int(arguments[0].removeprefix("train.py:"))
        self.assertIn("return self.head(x)", lines[number - 1])
        for each in edits.EDITS.values():
            for arguments in each.values():
                edits.with_line_numbers(arguments, self.source)  # raises KeyError without a mark


class RecorderTest(unittest.TestCase):
    def test_a_failed_run_is_left_out(self):
        with tempfile.TemporaryDirectory() as folder:
            here, out = Path(folder) / "here", Path(folder) / "out"
            here.mkdir()
            (here / "edited_programs.py").write_text(FAKE_PROGRAM)
            output = io.StringIO()
            with mock.patch.object(record_edits, "HERE", here), \
                    mock.patch.object(record_edits, "PROJECT", Path(folder) / "project"), \
                    mock.patch.object(sys, "argv", ["record_edits.py", str(out), "recurrent"]), \
                    contextlib.redirect_stdout(output), self.assertRaises(SystemExit) as exited:
                record_edits.main()
            self.assertEqual(exited.exception.code, 1)
            self.assertIn("recurrent half_batch: failed: exit status 1\nout of memory",
                          output.getvalue())
            with (out / "truth.tsv").open(encoding="utf-8") as file:
                rows = list(csv.DictReader(file, delimiter="\t"))
            self.assertEqual({row["edit"] for row in rows},
                             {"base", *edits.EDITS["recurrent"]} - {"half_batch"})
            self.assertEqual(rows[0]["edit"], "base")
            self.assertEqual(rows[0]["reserved_peak"], "4")
            self.assertTrue((out / "recurrent.1.pickle.xz").exists())
            self.assertTrue((out / "train.py").exists())


if __name__ == "__main__":
    unittest.main()
