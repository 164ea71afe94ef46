#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of `ashlar whatif` with the peaks that PyTorch measured after the edits.

  benchmarks/whatif.py FOLDER    contains truth.tsv and PROGRAM.SEED.pickle.xz, the recordings of
                                 the unchanged programs
  --cli PATH                     the tool; default: build/release/bin/ashlar
  --source DIR                   the folder of whatif.py, the recorded programs; default: FOLDER
  --output FILE                  also write the table to FILE, as Markdown

truth.tsv has the columns program, seed, edit, requested_peak, allocated_peak, active_peak and
reserved_peak. A prediction passes if the error of the requested peak is at most 0.1 % (--free,
--drop, --keep-grads) or 1 % (other edits), the error of the reserved peak is at most 6 %, and the
predicted change has the right sign if the measured change exceeds 2 %. The median error of reserved
peaks may be at most 3 %.

Exit: 0 all predictions pass, 1 otherwise, 2 truth.tsv or the tool is missing.
Needs Python 3.11 and its standard library."""

import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
# Maximum errors of the acceptance criteria: of requested peaks, and of reserved peaks.
EXACT, INEXACT = 0.001, 0.01
RESERVED, RESERVED_MEDIAN = 0.06, 0.03

# The edits of the recorded programs, as arguments of `ashlar whatif`. The table lists other rows of
# truth.tsv as "no such edit": bf16, because a recording does not contain data types, and cnn's
# forget_features.
EDITS = {
    ("lm", "recompute_block"): (INEXACT, ["--recompute", "whatif.py:Block.forward"]),
    ("lm", "recompute_mlp"): (INEXACT, ["--recompute", "whatif.py:Mlp.forward"]),
    ("lm", "forget_logits"): (EXACT, ["--free", "whatif.py:79", "--at", "end:whatif.py:lm_step"]),
    ("lm", "plain_sgd"): (EXACT, ["--drop", "class:optimizer_state",
                                  "--drop", "class:optimizer_temporaries"]),
    ("lm", "half_batch"): (INEXACT, ["--batch", "0.5"]),
    ("lm", "foreach_off"): (EXACT, ["--drop", "class:optimizer_temporaries"]),
    ("lm", "keep_grads"): (EXACT, ["--keep-grads"]),
    ("lm", "offload_block"): (INEXACT, ["--offload", "whatif.py:Block.forward"]),
    ("cnn", "recompute_stage"): (INEXACT, ["--recompute", "whatif.py:Stage.forward"]),
    ("cnn", "half_batch"): (INEXACT, ["--batch", "0.5"]),
    ("cnn", "no_momentum"): (EXACT, ["--drop", "class:optimizer_state",
                                     "--drop", "class:optimizer_temporaries"]),
    ("cnn", "keep_grads"): (EXACT, ["--keep-grads"]),
    ("rl", "recompute_actor"): (INEXACT, ["--recompute", "whatif.py:Block.forward"]),
    ("rl", "forget_reference"): (EXACT, ["--free", "whatif.py:156",
                                         "--at", "leave:whatif.py:156"]),
    ("rl", "half_batch"): (INEXACT, ["--batch", "0.5"]),
    ("rl", "no_critic_state"): (EXACT, ["--drop", "class:optimizer_state,whatif.py:162",
                                        "--drop", "class:optimizer_temporaries,whatif.py:162"]),
}


def predict(cli, recording, source, edits):
    """Returns the tool's JSON, or {"refused": message}, and the seconds that the tool took."""
    start = time.monotonic()
    done = subprocess.run([cli, "whatif", recording, *edits, "--source", source, "--json"],
                          check=False, capture_output=True, text=True)
    seconds = time.monotonic() - start
    if done.returncode != 0:
        return {"refused": done.stderr.strip()}, seconds
    return json.loads(done.stdout), seconds


def compare(row, base, bound, answer):
    """Returns the relative errors of the two peaks, and whether the prediction passes: the errors
    are within the bounds, and large changes have the right sign."""
    errors = {}
    for kind in ("requested", "reserved"):
        measured = int(row[f"{kind}_peak"])
        predicted = answer["after"][f"{kind}_peak_bytes"]
        errors[kind] = predicted / measured - 1
        change = measured / int(base[f"{kind}_peak"]) - 1
        predicted_change = predicted / answer["before"][f"{kind}_peak_bytes"] - 1
        if abs(change) > 0.02 and change * predicted_change <= 0:
            return errors, False
    return errors, abs(errors["requested"]) <= bound and abs(errors["reserved"]) <= RESERVED


def main():
    parser = argparse.ArgumentParser(description="Checks predictions against measured peaks.")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--cli", default=ROOT / "build" / "release" / "bin" / "ashlar")
    parser.add_argument("--source", type=pathlib.Path)
    parser.add_argument("--output", type=pathlib.Path)
    arguments = parser.parse_args()
    truth = arguments.folder / "truth.tsv"
    if not truth.exists() or not pathlib.Path(arguments.cli).exists():
        missing = arguments.cli if truth.exists() else truth
        print(f"whatif: {missing} does not exist: nothing was checked", file=sys.stderr)
        return 2
    with truth.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    bases = {(row["program"], row["seed"]): row for row in rows if row["edit"] == "base"}
    lines = ["| program | edit | requested, predicted | measured | error | reserved, predicted "
             "| measured | error | seconds | |", "|---|---|--:|--:|--:|--:|--:|--:|--:|---|"]
    reserved_errors = []
    failure_count = 0
    for row in rows:
        program, edit = row["program"], row["edit"]
        recording = arguments.folder / f"{program}.{row['seed']}.pickle.xz"
        if edit == "base" or not recording.exists():
            continue
        name = f"| {program}.{row['seed']} | {edit} "
        if (program, edit) not in EDITS:
            lines.append(f"{name}| | {int(row['requested_peak']):,} | | | | | | no such edit |")
            continue
        bound, edits = EDITS[program, edit]
        source = arguments.source or arguments.folder
        answer, seconds = predict(arguments.cli, recording, source, edits)
        if "refused" in answer:
            lines.append(f"{name}| | | | | | | {seconds:.1f} | refused: {answer['refused']} |")
            failure_count += 1
            continue
        errors, passed = compare(row, bases[program, row["seed"]], bound, answer)
        reserved_errors.append(abs(errors["reserved"]))
        failure_count += not passed
        lines.append(f"{name}| {answer['after']['requested_peak_bytes']:,} "
                     f"| {int(row['requested_peak']):,} | {errors['requested']:+.3%} "
                     f"| {answer['after']['reserved_peak_bytes']:,} "
                     f"| {int(row['reserved_peak']):,} | {errors['reserved']:+.2%} "
                     f"| {seconds:.1f} | {'' if passed else 'outside the bounds'} |")
    median = statistics.median(reserved_errors) if reserved_errors else 1
    lines += ["", f"Median error of reserved peaks: {median:.2%}. "
                  f"Outside the bounds: {failure_count}."]
    print("\n".join(lines))
    if arguments.output:
        arguments.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return 0 if failure_count == 0 and median <= RESERVED_MEDIAN else 1


if __name__ == "__main__":
    sys.exit(main())
