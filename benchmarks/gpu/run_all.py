#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every claim about real GPUs: builds from the checkout, runs the test
suites, the benchmarks, PyTorch and the stress test on the device, prints one table, and writes
it to benchmarks/results/<gpu>.md with date and command. Call it through scripts/gpu.

  scripts/gpu                          all steps: build, tests, bench, transformer, convolution,
                                       experts, oom, hooks, torch_tests, programs, empty_cost,
                                       stress, sanitizer
  --only STEP[,STEP...]                only these steps; keeps the latest results of the others.
                                       train means transformer, convolution and experts
  --tests DIR                          folder of the test programs, for a machine without
                                       GoogleTest: build them elsewhere with ASHLAR_PORTABLE_TESTS
  --seconds S                          approximate duration of each training; default: 6
  --rounds N                           repetitions of each training; default: 2
  --results DIR                        default: benchmarks/results
  --without-gpu                        tests this script on the simulated device; writes no results

Needs an NVIDIA driver, nvcc, cmake, ninja, g++ and, for bench and training, PyTorch in python3.
The table says what is missing and which goals are missed (benchmarks/README.md). Exit status: 0
all steps passed, 1 a step failed or missed its goal, 2 usage."""

import argparse
import dataclasses
import datetime
import json
import os
import pathlib
import re
import subprocess
import sys

import steps

LATEST_RESULTS = steps.BUILD / "outcomes.json"  # the latest result of each step


@dataclasses.dataclass
class Machine:
    """The first GPU as nvidia-smi reports it, or defaults."""

    gpu: str = ""
    driver: str = ""
    architecture: str = "sm_90"

    @property
    def file_name(self):
        return re.sub(r"[^a-z0-9]+", "_", self.gpu.lower()).strip("_") + ".md"


def find_machine():
    """Finds the first GPU. Containers may have the driver without nvidia-smi."""
    without_name = Machine(gpu="unknown GPU" if pathlib.Path("/dev/nvidiactl").exists() else "")
    query = ["nvidia-smi", "--query-gpu=name,driver_version,compute_cap",
             "--format=csv,noheader", "--id=0"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, check=False, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return without_name
    fields = [field.strip() for field in done.stdout.strip().split(",")]
    if done.returncode != 0 or len(fields) != 3 or not fields[0]:
        return without_name
    name, driver, capability = fields
    is_known = re.fullmatch(r"\d+\.\d+", capability)
    return Machine(name, driver, f"sm_{capability.replace('.', '')}" if is_known else "sm_90")


def first_line_of(*command):
    """Returns the first line of a command's output, or an empty string."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=steps.ROOT,
                              timeout=60)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    lines = done.stdout.strip().splitlines()
    return lines[0] if done.returncode == 0 and lines else ""


# --- outcomes -------------------------------------------------------------------------------------


def run_steps(args, command):
    """Runs the selected steps. After each step, yields the results so far, so that an interrupted
    run keeps its measurements. If only some steps are selected, the yielded results include the
    latest results of the other steps in this build."""
    kept = {}
    if LATEST_RESULTS.is_file() and args.only != list(steps.STEPS) and not args.without_gpu:
        kept = json.loads(LATEST_RESULTS.read_text(encoding="utf-8"))
    for name in args.only:
        print(f"\n=== {name}", flush=True)
        started = datetime.datetime.now(datetime.timezone.utc)
        try:
            outcome = steps.STEPS[name](args)
        except Exception as failure:  # a bug in one step must not stop the others
            outcome = steps.Outcome()
            outcome.add(name, "FAILED", f"{type(failure).__name__}: {failure}"[:200])
        seconds = (datetime.datetime.now(datetime.timezone.utc) - started).total_seconds()
        kept[name] = {"rows": outcome.rows, "lines": outcome.lines, "seconds": round(seconds),
                      "command": command, "date": f"{started:%Y-%m-%d %H:%M} UTC"}
        if not args.without_gpu:  # a dry run has no results
            LATEST_RESULTS.parent.mkdir(parents=True, exist_ok=True)
            LATEST_RESULTS.write_text(json.dumps(kept), encoding="utf-8")
        yield {name: kept[name] for name in steps.STEPS if name in kept}


def table(outcomes):
    lines = ["| step | result | figures |", "|---|---|---|"]
    for outcome in outcomes.values():
        lines += [f"| {what} | {state} | {figures} |" for what, state, figures in outcome["rows"]]
    return lines


def document(machine, outcomes):
    """Formats the results file: hardware, dates, commands and results."""
    lines = [f"# {machine.gpu}", "", "Written by `scripts/gpu`. The figures are explained in"
             " [the benchmarks' README](../README.md#on-a-gpu).", ""]
    torch = first_line_of(sys.executable, "-c", "import torch; print(torch.__version__)")
    toolkit = re.search(r"release ([\d.]+)", " ".join(all_lines_of("nvcc", "--version")))
    lines += [f"* {machine.gpu}, driver {machine.driver}, toolkit"
              f" {toolkit.group(1) if toolkit else 'not found'},"
              f" PyTorch {torch or 'not found'}, host with {os.cpu_count()} cores"]
    revision = first_line_of("git", "rev-parse", "--short", "HEAD")
    if revision:
        lines.append(f"* commit {revision}")
    for command in dict.fromkeys(outcome["command"] for outcome in outcomes.values()):
        ran = [name for name, outcome in outcomes.items() if outcome["command"] == command]
        dates = [outcomes[name]["date"] for name in ran]
        seconds = sum(outcomes[name]["seconds"] for name in ran)
        lines.append(f"* `{command}`, {dates[0]}, {seconds} s: {', '.join(ran)}")
    lines += ["", *table(outcomes), ""]
    for outcome in outcomes.values():
        if outcome["lines"]:
            lines += [*outcome["lines"], ""]
    return "\n".join(lines)


def all_lines_of(name, *arguments):
    program = steps.tool(name)
    if program is None:
        return []
    done = subprocess.run([program, *arguments], capture_output=True, text=True, check=False)
    return done.stdout.splitlines()


# --- arguments ------------------------------------------------------------------------------------


def parse(arguments):
    parser = argparse.ArgumentParser(
        prog="scripts/gpu", description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--only", default=",".join(steps.STEPS))
    parser.add_argument("--tests", default="")
    parser.add_argument("--seconds", type=float, default=6)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--results", default=str(steps.ROOT / "benchmarks" / "results"))
    parser.add_argument("--without-gpu", action="store_true")
    args = parser.parse_args(arguments)
    named = [step for name in args.only.split(",") if name
             for step in (steps.TRAININGS if name == "train" else [name])]
    args.only = list(dict.fromkeys(named))  # each step once
    for name in args.only:
        if name not in steps.STEPS:
            parser.error(f"unknown step {name!r} (expected one of {', '.join(steps.STEPS)})")
    if not 1 <= args.seconds <= 600:
        parser.error(f"--seconds {args.seconds} (expected 1 to 600)")
    if not 1 <= args.rounds <= 100:
        parser.error(f"--rounds {args.rounds} (expected 1 to 100)")
    if args.tests and not pathlib.Path(args.tests).is_dir():
        parser.error(f"--tests {args.tests}: no such folder")
    return args


def without_results(arguments):
    """Removes --results, whose path is specific to the machine and does not affect the results."""
    kept = list(arguments)
    for i, argument in enumerate(arguments):
        if argument == "--results":
            return kept[:i] + without_results(kept[i + 2:])
        if argument.startswith("--results="):
            return kept[:i] + without_results(kept[i + 1:])
    return kept


def main(arguments):
    args = parse(arguments)
    args.machine = find_machine()
    if not args.machine.gpu and not args.without_gpu:
        print("gpu: no GPU found: steps that need one will fail, and no results are written",
              file=sys.stderr)
    settings = os.environ.get("ASHLAR_ALLOC_CONF")  # train.py uses it
    command = [f"ASHLAR_ALLOC_CONF={settings}"] if settings else []
    command += ["scripts/gpu", *without_results(arguments)]
    path = None
    if args.machine.gpu and not args.without_gpu:
        path = pathlib.Path(args.results) / args.machine.file_name
        path.parent.mkdir(parents=True, exist_ok=True)
    outcomes = {}
    for outcomes in run_steps(args, " ".join(command)):
        if path:
            path.write_text(document(args.machine, outcomes), encoding="utf-8")
    print("\n" + "\n".join(table(outcomes)))
    if path:
        print(f"\ngpu: written to {path}")
    ran = [row for name in args.only for row in outcomes[name]["rows"]]
    return 1 if any(state.startswith(("FAILED", "MISSED")) for _, state, _ in ran) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
