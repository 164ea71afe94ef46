#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the programs of edited_programs.py on a GPU, and measures their peaks after each edit.

    record_edits.py OUT [PROGRAM...]

Writes to OUT, which benchmarks/whatif.py reads:

  PROGRAM.1.pickle.xz  the recording of the unchanged program, for each program
  truth.tsv            the peaks that PyTorch reports, of the unchanged program and after each edit
  train.py             the recorded source, a copy of edited_programs.py

Each run is a process of its own. A failed run is reported and left out; the exit status is then 1.
Needs PyTorch and a GPU.
"""
import getpass
import json
import lzma
import os
import shutil
import subprocess
import sys
import sysconfig
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import edits

HERE = Path(__file__).resolve().parent
PROJECT = Path("/srv/jobs/train")  # the recorded path of the program
PYTHON = "/opt/venv/lib/python3.12"  # the recorded path of the Python installation
RUNS_AT_A_TIME = max(2, min(14, (os.cpu_count() or 4) - 2))
TIMEOUT_SECONDS = 150
COLUMNS = ["program", "seed", "edit", "requested_peak", "allocated_peak", "active_peak",
           "reserved_peak"]
SEED = 1


def settings_environment(settings):
    environment = dict(os.environ, TORCHINDUCTOR_COMPILE_THREADS="2")
    for name in ("PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF"):
        environment.pop(name, None)
    if settings:
        environment["PYTORCH_CUDA_ALLOC_CONF"] = settings
    return environment


class Recorder:
    def __init__(self, out):
        self.out = out
        self.lock = threading.Lock()
        self.rows = []  # guarded by lock
        PROJECT.mkdir(parents=True, exist_ok=True)
        self.program_file = PROJECT / edits.PROGRAM_FILE
        shutil.copy(HERE / "edited_programs.py", self.program_file)
        shutil.copy(HERE / "edited_programs.py", out / edits.PROGRAM_FILE)
        purelib, stdlib = sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")
        self.replacements = [[purelib, PYTHON + "/site-packages"], [stdlib, PYTHON],
                             [f"/tmp/torchinductor_{getpass.getuser()}",
                              "/tmp/torchinductor_user"]]

    def run(self, task):
        """Runs a program with an edit and adds a row to truth.tsv. Returns whether it succeeded."""
        program, edit = task
        start = time.monotonic()
        try:
            row = self.measure(program, edit)
        except (OSError, ValueError, subprocess.SubprocessError) as error:
            print(f"{program} {edit}: failed: {str(error)[-1500:]}", flush=True)
            return False
        self.add(row)
        print(f"{program} {edit}: {row['requested_peak']:,} requested, "
              f"{row['reserved_peak']:,} reserved, {time.monotonic() - start:.0f} s", flush=True)
        return True

    def add(self, row):
        """Writes the whole table, so that it is complete if the recorder is stopped."""
        with self.lock:
            self.rows.append(row)
            self.rows.sort(key=lambda each: (each["program"], each["edit"] != "base"))
            lines = ["\t".join(COLUMNS)]
            lines += ["\t".join(str(each[column]) for column in COLUMNS) for each in self.rows]
            (self.out / "truth.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")

    def measure(self, program, edit):
        command = [sys.executable, self.program_file, program, edit]
        dump = self.out / f"{program}.{SEED}.pickle"
        if edit == "base":
            command += [dump, json.dumps(self.replacements)]
        settings = edits.settings_of(edits.EDITS[program].get(edit, []))
        done = subprocess.run(command, capture_output=True, text=True, check=False,
                              timeout=TIMEOUT_SECONDS, env=settings_environment(settings))
        answers = [line for line in done.stdout.splitlines() if line.startswith('{"program"')]
        if done.returncode != 0 or not answers:
            raise ValueError(f"exit status {done.returncode}\n{done.stderr[-1200:]}")
        if edit == "base":
            with lzma.open(f"{dump}.xz", "wb", preset=9) as file:
                file.write(dump.read_bytes())
            dump.unlink()
        return {**json.loads(answers[-1]), "seed": SEED}


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    out = Path(sys.argv[1])
    programs = sys.argv[2:] or list(edits.EDITS)
    out.mkdir(parents=True, exist_ok=True)
    recorder = Recorder(out)
    tasks = [(program, edit) for program in programs for edit in ["base", *edits.EDITS[program]]]
    # Compilation takes longest, so it starts first.
    tasks.sort(key=lambda task: task[0] != "compiled")
    with ThreadPoolExecutor(RUNS_AT_A_TIME) as pool:
        succeeded = list(pool.map(recorder.run, tasks))
    print(f"{sum(succeeded)} of {len(tasks)} runs succeeded", flush=True)
    sys.exit(0 if all(succeeded) else 1)


if __name__ == "__main__":
    main()
