#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs small real programs with PyTorch's own allocator and with ashlar.torch.enable(), and
compares their results.

  run.py [--jobs N] [--json] [PROGRAM...]     both allocators, several processes at a time
  run.py --way native|ashlar PROGRAM          one program; prints its result as JSON
  run.py --list

Each program runs in its own process, because an allocator is chosen before the first tensor. A
program passes if its results with both allocators are equal, or close where the program says so. A
program that does not run natively on this machine is not counted. Needs PyTorch, a GPU and
libashlar_torch.so (ASHLAR_TORCH_LIBRARY). Exit status: 0 all programs passed, 1 some failed."""

import argparse
import concurrent.futures
import json
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time
import traceback

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent.parent
WAYS = ("native", "ashlar")
LIMIT_S = 240  # of one process
# The options of programs that need other options than the defaults.
CONF = {"multiprocessing_tensors": "engine:paged,expandable_segments_ipc:True",
        # PyTorch's own allocator can open memory from cudaMalloc only.
        "multiprocessing_with_native": "engine:classic"}
FILES = ("basics", "pools", "graphs", "frameworks", "process_groups", "interop")


def programs():
    """Returns all programs by name, in order: the public functions of FILES."""
    sys.path.insert(0, str(HERE))
    found = {}
    for name in FILES:
        module = __import__(name)
        for function_name, function in vars(module).items():
            is_own = getattr(function, "__module__", "") == name
            if callable(function) and is_own and not function_name.startswith("_"):
                found[function_name] = function
    return found


# --- one program ----------------------------------------------------------------------------------


def run_one(name, way):
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"  # makes matrix products deterministic
    os.environ["PROGRAM_WAY"] = way  # for child processes
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    if way == "ashlar":
        if name in CONF:
            os.environ["ASHLAR_ALLOC_CONF"] = CONF[name]  # also for child processes
        sys.path.insert(0, str(ROOT / "python"))
        import ashlar.torch
        ashlar.torch.enable(native=True)
    import torch
    torch.manual_seed(0)
    torch.backends.cudnn.benchmark = False
    torch.backends.cudnn.deterministic = True
    with tempfile.TemporaryDirectory() as scratch:
        os.chdir(scratch)
        result = programs()[name](torch)
        torch.cuda.synchronize()
        os.chdir("/")
    return result


def main_one(name, way):
    try:
        print("RESULT " + json.dumps(run_one(name, way)), flush=True)
    except Exception:  # reported to the parent
        traceback.print_exc()
        return 1
    return 0


# --- all programs ---------------------------------------------------------------------------------


def run_process(name, way):
    """Returns (result or None, error text, seconds)."""
    started = time.monotonic()
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": f"/tmp/inductor-{name}-{way}"}
    command = [sys.executable, str(HERE / "run.py"), "--way", way, name]
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace",
                              timeout=LIMIT_S, env=environment, check=False)
    except subprocess.TimeoutExpired:
        return None, f"no end after {LIMIT_S} s", time.monotonic() - started
    seconds = time.monotonic() - started
    for line in done.stdout.splitlines():
        if line.startswith("RESULT ") and done.returncode == 0:
            return json.loads(line[7:]), "", seconds
    lines = [line for line in (done.stderr or done.stdout).splitlines() if line.strip()]
    kept = "\n".join(lines[-14:]) if lines else f"exit status {done.returncode}"
    return None, kept, seconds


def difference(native, ashlar):
    """Returns what differs, or "". Keys that begin with "~" are compared with a tolerance of 1 %;
    keys that begin with "_" are not compared."""
    for key, value in native.items():
        if key.startswith("_"):
            continue
        other = ashlar.get(key)
        is_same = value == other
        if not is_same and key.startswith("~"):
            is_same = _is_close(value, other)
        if not is_same:
            return f"{key}: {value} natively, {other} with Ashlar"[:300]
    return ""


def _is_close(one, other):
    if isinstance(one, list):
        return isinstance(other, list) and len(one) == len(other) and all(
            _is_close(a, b) for a, b in zip(one, other))
    return math.isclose(one, other, rel_tol=0.01, abs_tol=1e-3)


def build_native():
    """Builds the native allocator once, before many processes need it. Returns the error text."""
    started = time.monotonic()
    code = "import ashlar.torch; ashlar.torch.enable(native=True)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False,
                          env={**os.environ, "PYTHONPATH": str(ROOT / "python")})
    print(f"native allocator: {time.monotonic() - started:.0f} s", flush=True)
    return "" if done.returncode == 0 else done.stderr


def run_all(names, jobs):
    """Yields (name, state, text) in the order of completion."""
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        runs = {pool.submit(run_process, name, way): (name, way) for name in names for way in WAYS}
        results = {}
        for done in concurrent.futures.as_completed(runs):
            name, way = runs[done]
            results[name, way] = done.result()
            if all((name, each) in results for each in WAYS):
                yield name, *verdict_of(results[name, "native"], results[name, "ashlar"])


def verdict_of(native, ashlar):
    seconds = f"{native[2]:.0f} s natively, {ashlar[2]:.0f} s with Ashlar"
    if native[0] is None:
        return "not run", "native: " + native[1]
    if ashlar[0] is None:
        return "FAILED", ashlar[1]
    differs = difference(native[0], ashlar[0])
    return ("FAILED", differs) if differs else ("passed", seconds)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--way", choices=WAYS)
    parser.add_argument("--jobs", type=int, default=6)
    parser.add_argument("--json", action="store_true", help="print the results as JSON at the end")
    parser.add_argument("--list", action="store_true")
    parser.add_argument("programs", nargs="*")
    args = parser.parse_args(arguments)
    known = list(programs())
    for name in args.programs:
        if name not in known:
            parser.error(f"unknown program {name!r} (see --list)")
    if args.list:
        print("\n".join(known))
        return 0
    if args.way:
        return main_one(args.programs[0], args.way)
    if failure := build_native():
        print(failure)
        return 1
    results = []
    for name, state, text in run_all(args.programs or known, args.jobs):
        last = text.splitlines()[-1] if text else ""
        print(f"{state:8} {name:28} {last}"[:200], flush=True)
        if state != "passed":
            print("\n".join(f"    | {line[:300]}" for line in text.splitlines()), flush=True)
        results.append((name, state, text))
    counts = {state: sum(each[1] == state for each in results)
              for state in ("passed", "FAILED", "not run")}
    print(f"\nprograms: {counts['passed']} passed, {counts['FAILED']} failed,"
          f" {counts['not run']} not run")
    if args.json:
        print(json.dumps({"programs": [each[:2] for each in results], **counts}))
    return 1 if counts["FAILED"] else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
