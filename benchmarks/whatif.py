#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares predictions of `ashlar whatif` with the peaks that PyTorch measured after the edits.

  benchmarks/whatif.py [FOLDER]  contains truth.tsv and PROGRAM.SEED.pickle.xz, the recordings of
                                 the unchanged programs, as written by
                                 benchmarks/gpu/recordings/record_edits.py; default: those of
                                 the repository, benchmarks/gpu/recordings/edited
  --cli PATH                     the tool; default: build/release/bin/ashlar
  --source DIR                   the folder of the recorded source; default: FOLDER
  --output FILE                  also write a page with the table to FILE, as Markdown

truth.tsv has the columns program, seed, edit, requested_peak, allocated_peak, active_peak and
reserved_peak. A prediction passes if the error of the requested peak is at most 1 % (--recompute,
--offload, --scale, --batch) or 0.1 % (other edits), the error of the reserved peak is at most 6 %,
and the predicted change has the right sign if the measured change exceeds 2 %. The median error of
reserved peaks may be at most 3 %. An edit that a recording does not tell must be refused.

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

RECORDINGS = ROOT / "benchmarks" / "gpu" / "recordings"
sys.path.insert(0, str(RECORDINGS))
import edits as recorded_edits  # noqa: E402  (from the folder above)

# Edits of other recorded programs, whose source is whatif.py. The table lists rows of truth.tsv
# without arguments as "no such edit", such as bf16: a recording does not contain data types.
OTHER_EDITS = {
    "lm": {
        "recompute_block": ["--recompute", "whatif.py:Block.forward"],
        "recompute_mlp": ["--recompute", "whatif.py:Mlp.forward"],
        "forget_logits": ["--free", "whatif.py:79", "--at", "end:whatif.py:lm_step"],
        "plain_sgd": recorded_edits.PLAIN_SGD,
        "half_batch": recorded_edits.HALF_BATCH,
        "foreach_off": recorded_edits.FOREACH_OFF,
        "keep_grads": recorded_edits.KEEP_GRADS,
        "offload_block": ["--offload", "whatif.py:Block.forward"],
    },
    "cnn": {
        "recompute_stage": ["--recompute", "whatif.py:Stage.forward"],
        "half_batch": recorded_edits.HALF_BATCH,
        "no_momentum": recorded_edits.PLAIN_SGD,
        "keep_grads": recorded_edits.KEEP_GRADS,
    },
    "rl": {
        "recompute_actor": ["--recompute", "whatif.py:Block.forward"],
        "forget_reference": ["--free", "whatif.py:156", "--at", "leave:whatif.py:156"],
        "half_batch": recorded_edits.HALF_BATCH,
        "no_critic_state": ["--drop", "class:optimizer_state,whatif.py:162",
                            "--drop", "class:optimizer_temporaries,whatif.py:162"],
    },
}

PAGE_HEAD = """# Predictions of code changes

`benchmarks/whatif.py --output benchmarks/results/whatif.md` wrote this page: predictions of `ashlar
whatif` from recordings of unchanged programs, beside the peaks that PyTorch measured on a GPU after
each edit, in bytes. The programs are in `benchmarks/gpu/recordings/edited_programs.py`;
`record_edits.py` beside it recorded and measured them.
[Limits](../../docs/how-to/what_if.md#limits) explains the predictions outside the bounds.

"""


def arguments_of(program, edit, source):
    """Returns the arguments of `ashlar whatif` for an edit; None: there is no such edit."""
    if program in OTHER_EDITS:
        return OTHER_EDITS[program].get(edit)
    arguments = recorded_edits.EDITS.get(program, {}).get(edit)
    if arguments is None:
        return None
    text = (source / recorded_edits.PROGRAM_FILE).read_text(encoding="utf-8")
    return recorded_edits.with_line_numbers(arguments, text)


def requested_bound(arguments):
    """Returns the maximum error of the requested peak."""
    estimated = {"--recompute", "--offload", "--scale", "--batch"}
    return INEXACT if estimated.intersection(arguments) else EXACT


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
    parser.add_argument("folder", type=pathlib.Path, nargs="?", default=RECORDINGS / "edited")
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
    failure_count = prediction_count = 0
    for row in rows:
        program, edit = row["program"], row["edit"]
        recording = arguments.folder / f"{program}.{row['seed']}.pickle.xz"
        if edit == "base" or not recording.exists():
            continue
        name = f"| {program}.{row['seed']} | {edit} "
        source = arguments.source or arguments.folder
        edits = arguments_of(program, edit, source)
        if edits is None:
            lines.append(f"{name}| | {int(row['requested_peak']):,} | | | | | | no such edit |")
            continue
        answer, seconds = predict(arguments.cli, recording, source, edits)
        prediction_count += 1
        is_refused, expected = "refused" in answer, edit in recorded_edits.REFUSED.get(program, ())
        failure_count += is_refused != expected
        if is_refused:
            lines.append(f"{name}| | | | | | | {seconds:.1f} | refused"
                         f"{'' if expected else ': ' + answer['refused']} |")
            continue
        errors, passed = compare(row, bases[program, row["seed"]], requested_bound(edits),
                                 answer)
        reserved_errors.append(abs(errors["reserved"]))
        failure_count += not passed
        lines.append(f"{name}| {answer['after']['requested_peak_bytes']:,} "
                     f"| {int(row['requested_peak']):,} | {errors['requested']:+.3%} "
                     f"| {answer['after']['reserved_peak_bytes']:,} "
                     f"| {int(row['reserved_peak']):,} | {errors['reserved']:+.2%} "
                     f"| {seconds:.1f} | {'' if passed else 'outside the bounds'} |")
    median = statistics.median(reserved_errors) if reserved_errors else 1
    lines += ["", f"Median error of reserved peaks: {median:.2%}. "
                  f"Outside the bounds: {failure_count} of {prediction_count}."]
    print("\n".join(lines))
    if arguments.output:
        arguments.output.write_text(PAGE_HEAD + "\n".join(lines) + "\n", encoding="utf-8")
    return 0 if failure_count == 0 and median <= RESERVED_MEDIAN else 1


if __name__ == "__main__":
    sys.exit(main())
