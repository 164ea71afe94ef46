#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records the programs of programs.py on a GPU.

    record.py OUT [NAME...]

Writes NAME.pickle.xz for each program to OUT, and truth.tsv with PyTorch's peaks and the model's
computed sizes. Paths of the Python installation are replaced, so that recordings made on different
machines are alike. Needs PyTorch and a GPU; programs that use other packages are skipped without
them.
"""
import getpass
import json
import lzma
import re
import shutil
import subprocess
import sys
import sysconfig
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
PROJECT = Path("/srv/jobs/train")  # the recorded path of the program
PYTHON = "/opt/venv/lib/python3.12"  # the recorded path of the Python installation
PROGRAMS_AT_A_TIME = 6  # starting Python takes longer than the programs
COLUMNS = ["name", "peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes",
           "peak_reserved_bytes", "parameter_bytes", "buffer_bytes", "gradient_bytes",
           "optimizer_state_bytes", "iterations", "leaked_bytes"]


def all_names():
    text = (HERE / "programs.py").read_text()
    functions = re.findall(r"^def (\w+)\(\):", text, re.MULTILINE)
    return [name for name in functions if name != "main"]


def main():
    out = Path(sys.argv[1])
    names = sys.argv[2:] or all_names()
    out.mkdir(parents=True, exist_ok=True)
    PROJECT.mkdir(parents=True, exist_ok=True)
    program = PROJECT / "train.py"
    shutil.copy(HERE / "programs.py", program)
    purelib, stdlib = sysconfig.get_path("purelib"), sysconfig.get_path("stdlib")
    replacements = [[purelib, PYTHON + "/site-packages"], [stdlib, PYTHON],
                    [f"/tmp/torchinductor_{getpass.getuser()}", "/tmp/torchinductor_user"]]

    def record(name):
        """Returns the program's row of truth.tsv; None: the program failed."""
        dump = out / f"{name}.pickle"
        run = subprocess.run([sys.executable, program, name, dump, json.dumps(replacements)],
                             capture_output=True, text=True, timeout=300, check=False)
        lines = [line for line in run.stdout.splitlines() if line.startswith('{"name"')]
        if run.returncode != 0 or not lines:
            print(f"{name}: failed\n{run.stderr[-1500:]}", flush=True)
            return None
        with lzma.open(f"{dump}.xz", "wb", preset=9) as file:
            file.write(dump.read_bytes())
        dump.unlink()
        print(f"{name}: {Path(f'{dump}.xz').stat().st_size} bytes", flush=True)
        return json.loads(lines[-1])

    with ThreadPoolExecutor(PROGRAMS_AT_A_TIME) as pool:
        rows = list(pool.map(record, names))
    table = ["\t".join(COLUMNS)]
    table += ["\t".join(str(row.get(column, "")) for column in COLUMNS) for row in rows if row]
    (out / "truth.tsv").write_text("\n".join(table) + "\n")
    sys.exit(1 if None in rows else 0)


if __name__ == "__main__":
    main()
