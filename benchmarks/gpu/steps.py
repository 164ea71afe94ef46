# SPDX-License-Identifier: Apache-2.0
"""The steps of scripts/gpu: build, test suites, benchmarks. Each returns rows for the table and
optional Markdown. A step that fails says so in its row and does not stop the other steps.
run_all.py calls them.

The file is long because it contains all steps in order; each is short."""

import dataclasses
import functools
import json
import os
import pathlib
import re
import shutil
import signal
import statistics
import subprocess
import sys

import side_by_side
import train

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build" / "gpu"
LIBRARY = BUILD / "lib" / "libashlar_torch.so"
STRESS = BUILD / "bin" / "gpu_stress"
LOGS = BUILD / "logs"
TESTS_LEFT_OUT = "the tests are left out"  # printed by cmake/AshlarOptional.cmake

# The goals, relative to PyTorch's speed and to the requested memory (benchmarks/README.md).
MIN_SPEEDUP = {"pair": 10, "churn": 5, "fresh churn": 5}
MIN_SPEEDUP_16_THREADS = 100
MIN_TRAINING_SPEED = 1.0  # of the faster of PyTorch's two configurations
MAX_RESERVED_RATIO = 1.05

SUITES = {  # the filters of tests that run on a real device
    "contract_tests": "Gpu/*",
    "engine_contract_tests": "Gpu/*",
    "mp_tests": "*GpuSharing*",
    "symm_mp_tests": "*SymmetricGpu*",
}


@dataclasses.dataclass
class Outcome:
    """The result of a step: rows of (what, state, figures), and Markdown below the table."""

    rows: list = dataclasses.field(default_factory=list)
    lines: list = dataclasses.field(default_factory=list)

    def add(self, what, state, figures=""):
        self.rows.append((what, state, figures))
        print(f"gpu: {what}: {state}{': ' if figures else ''}{figures}", flush=True)


@dataclasses.dataclass
class Run:
    """One finished command."""

    state: str  # "passed", "FAILED (exit code 1)" or "FAILED (no end after 60 s)"
    output: str
    errors: str

    @property
    def passed(self):
        return self.state == "passed"

    def output_tail(self):
        """Returns the last line of the output, or of the errors if the output is empty."""
        lines = [line.strip() for line in (self.errors + self.output).splitlines() if line.strip()]
        return lines[-1].replace("|", "/")[:200] if lines else ""


def run(name, command, timeout_s, environment=None):
    """Runs a command with a time limit. Its output goes to build/gpu/logs."""
    LOGS.mkdir(parents=True, exist_ok=True)
    command = [str(part) for part in command]
    print(f"gpu: {' '.join(command)}", flush=True)
    try:
        process = subprocess.Popen(
            command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
            errors="replace", env={**os.environ, **(environment or {})}, start_new_session=True)
    except OSError as failure:
        return Run(f"FAILED ({failure.strerror})", "", str(failure))
    try:
        output, errors = process.communicate(timeout=timeout_s)
        code = process.returncode
        state = "passed" if code == 0 else f"FAILED (exit code {code})"
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # kills only the process and its children
        output, errors = process.communicate()
        state = f"FAILED (no end after {timeout_s} s)"
    (LOGS / f"{name}.log").write_text(
        f"$ {' '.join(command)}\n{output}\n--- errors\n{errors}\n--- {state}\n", encoding="utf-8")
    return Run(state, output, errors)



# --- build ----------------------------------------------------------------------------------------


def build(args):
    """Builds the library and the programs. Builds the test suites, too, if GoogleTest is installed
    and the suites of this build are to run on a GPU."""
    outcome = Outcome()
    configured = run("configure", ["cmake", "--preset", "gpu"], 60)
    if not configured.passed:
        outcome.add("build", configured.state, configured.output_tail())
        return outcome
    made = run("build", ["cmake", "--build", "build/gpu", "--target", "ashlar_torch"], 400)
    outcome.add("build: libashlar_torch.so", made.state, "" if made.passed else made.output_tail())
    if made.passed:
        made = build_stress(args)
        outcome.add("build: gpu_stress", made.state, "" if made.passed else made.output_tail())
    if TESTS_LEFT_OUT in configured.output or args.tests or args.without_gpu:
        return outcome
    made = run("build_tests", ["cmake", "--build", "build/gpu", "--target", *SUITES], 400)
    outcome.add("build: suites", made.state, "" if made.passed else made.output_tail())
    return outcome


def build_stress(args):
    STRESS.parent.mkdir(parents=True, exist_ok=True)
    common = ["-std=c++20", "-O2", "-Iinclude", "-o", STRESS]
    source = "benchmarks/gpu/stress.cu"
    if args.without_gpu:
        return run("build_stress", [
            "g++", *common, "-pthread", "-x", "c++", source, "-x", "none", LIBRARY,
            f"-Wl,-rpath,{LIBRARY.parent}"], 120)
    return run("build_stress", [
        tool("nvcc") or "nvcc", *common, f"-arch={args.machine.architecture}", source, LIBRARY,
        "-Xlinker", f"-rpath={LIBRARY.parent}"], 120)


def tool(name):
    """Finds a program of the CUDA toolkit, in the PATH or in its default folder."""
    found = shutil.which(name)
    homes = [os.environ.get("CUDA_HOME", ""), "/usr/local/cuda"]
    places = [pathlib.Path(home) / "bin" / name for home in homes if home]
    return found or next((str(place) for place in places if place.is_file()), None)


# --- tests ----------------------------------------------------------------------------------------


def tests(args):
    """Runs the test suites on the real device."""
    outcome = Outcome()
    folder = pathlib.Path(args.tests).resolve() if args.tests else BUILD / "tests"
    for name, filter_text in SUITES.items():
        program = folder / name
        if args.without_gpu or not args.machine.gpu:
            outcome.add(name, "not run", "no GPU")
        elif not program.is_file():
            outcome.add(name, "not run", missing_suites_reason(args))
        elif b"ASHLAR_TEST_DEVICE" not in program.read_bytes():
            outcome.add(name, "not run", "it knows stand-in drivers only")
        else:
            libraries = f"{folder}:{os.environ.get('LD_LIBRARY_PATH', '')}".rstrip(":")
            done = run(name, [program, f"--gtest_filter={filter_text}", "--gtest_color=no"], 200,
                       {"ASHLAR_TEST_DEVICE": "cuda", "LD_LIBRARY_PATH": libraries})
            outcome.add(name, done.state, counts(done.output) or done.output_tail())
            outcome.lines += [f"* {name}: {failed} failed" for failed in failed_tests(done.output)]
    return outcome


def missing_suites_reason(args):
    if args.tests:
        return "not in the folder of --tests"
    cache = BUILD / "CMakeCache.txt"
    text = cache.read_text(encoding="utf-8") if cache.is_file() else ""
    has_google_test = re.search(r"^GTest_DIR:PATH=(?!.*NOTFOUND)", text, re.MULTILINE)
    return "not built" if has_google_test else "no GoogleTest"


def counts(output):
    """Summarizes GoogleTest's output: "189 passed, 3 failed"."""
    found = []
    for word in ("PASSED", "SKIPPED", "FAILED"):
        match = re.search(rf"^\[  {word} *\] (\d+) tests?", output, re.MULTILINE)
        if match:
            found.append(f"{match.group(1)} {word.lower()}")
    return ", ".join(found)


def failed_tests(output):
    """Extracts the failed tests from the list at the end of the output."""
    names = re.findall(r"^\[  FAILED  \] (\S+?),?(?: where .*)?$", output, re.MULTILINE)
    return sorted({name for name in names if "." in name})


# --- bench ----------------------------------------------------------------------------------------


def bench(args):
    """Runs side_by_side.py, which measures all allocators in one process."""
    outcome = Outcome()
    command = [sys.executable, HERE / "side_by_side.py", "--json", "--library", LIBRARY]
    if args.without_gpu:
        command += ["--ashlar-only", "--backend", "sim", "--rounds", "1"]
    done = run("bench", command, 240, {"ASHLAR_SIM_BACKING": "bookkeeping"})
    results = read_json(done).get("results")
    if not done.passed or not results:
        outcome.add("side by side", done.state if not done.passed else "FAILED", done.output_tail())
        return outcome
    failed = sum("failure" in row for row in results)
    outcome.add("side by side", f"FAILED ({failed} figures)" if failed else
                goal_state(missed_speed_goals(results)), headline(results))
    outcome.lines = ["## Allocation and free", "",
                     "Medians; the allocators alternate in one process. In brackets: how many times"
                     " as fast Ashlar is by address, as the median over the rounds. Rates of"
                     " several threads are totals; each thread has its own stream.", "",
                     *side_by_side.markdown(results), "",
                     "Reserved memory at the end of churn, divided by the peak of live memory:",
                     "",
                     *side_by_side.reserved_markdown(results)]
    return outcome


def goal_state(missed):
    """Returns "passed", or the missed goals."""
    return f"MISSED ({', '.join(missed)})" if missed else "passed"


def speedups_over_pytorch(results):
    """Yields (row, speedup) for the patterns that PyTorch ran."""
    for rows in side_by_side.by_pattern(results):
        ratio = side_by_side.speedup(rows.get("ashlar", {}), rows.get("PyTorch", {}))
        if ratio is not None:
            yield rows["ashlar"], ratio


def missed_speed_goals(results):
    missed = []
    for row, ratio in speedups_over_pytorch(results):
        least = MIN_SPEEDUP.get(row["pattern"], 0)
        if row["pattern"] == "threads" and row["threads"] == 16:
            least = MIN_SPEEDUP_16_THREADS
        if ratio < least:
            missed.append(f"{side_by_side.title(row)}: {ratio:.1f} < {least}")
    return missed


def headline(results):
    """Returns the smallest speedup over PyTorch's allocator, by pattern."""
    least = {}
    for row, ratio in speedups_over_pytorch(results):
        least[row["pattern"]] = min(ratio, least.get(row["pattern"], ratio))
    if not least:
        return "PyTorch was not measured"
    return "minimum speedup over PyTorch: " + ", ".join(
        f"{pattern} {ratio:.1f}×" for pattern, ratio in least.items())


def read_json(done):
    """Parses the last line of the output that is a JSON object; {} if there is none."""
    for line in reversed(done.output.strip().splitlines()):
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return {}


# --- train ----------------------------------------------------------------------------------------


def train_one(workload, args):
    """Trains with three allocators in turn, each run in its own process; the first run determines
    the number of steps."""
    outcome = Outcome()
    if args.without_gpu:
        outcome.add(f"training: {workload}", "not run", "no GPU")
        return outcome
    outcome.lines = [
        f"## Training with PyTorch: {workload}", "",
        "Losses are compared step by step with those of PyTorch's allocator with its defaults. The"
        f" allocators alternate for {args.rounds} rounds. The table shows the median speed of the"
        " rounds, the speeds of all rounds, and the highest peak.", "",
        "| workload | allocator | steps | losses | steps/s | each round | of native | peak"
        " requested | peak reserved | reserved ÷ requested |",
        "|---|---|--:|---|--:|---|--:|--:|--:|--:|"]
    runs = {}
    for way in train.WAYS * args.rounds:
        length = ["--seconds", args.seconds]
        if runs.get("native"):
            length = ["--steps", runs["native"]["steps"]]
        done = run(f"train_{workload}_{way}", [
            sys.executable, HERE / "train.py", workload, "--way", way, *length],
            120 + 4 * args.seconds, {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
        result = read_json(done) if done.passed else {}
        if not result:
            outcome.add(f"training: {workload}, {way}", done.state, done.output_tail())
        runs[way] = merge_runs(runs.get(way), result)
    add_training(outcome, workload, runs)
    return outcome


def merge_runs(before, now):
    """Merges two runs: all speeds, and the higher peak."""
    if now:
        now = {**now, "each_round": [now["steps_per_second"]]}
    if not before or not now:
        return before or now
    peaks = {key: max(before[key], now[key])
             for key in ("peak_reserved_bytes", "peak_requested_bytes")}
    is_same = before.get("is_repeatable", True) and before["losses"] == now["losses"]
    return {**before, **peaks, "is_repeatable": is_same,
            "each_round": before["each_round"] + now["each_round"]}


def median_speed(result):
    return statistics.median(result["each_round"])


def add_training(outcome, workload, runs):
    """Adds one row to the table of steps, and one row per allocator to its own table."""
    native, ours = runs.get("native"), runs.get("ashlar")
    for way, result in runs.items():
        if result:
            outcome.lines.append(training_row(workload, way, result, native))
    if not native or not ours:
        return
    # If PyTorch's losses depend on addresses, Ashlar's may differ too.
    other = runs.get("expandable")
    is_right = difference(ours, native) == "equal" or (
        bool(other) and difference(other, native) != "equal")
    if native.get("is_repeatable", True):
        is_right = is_right and ours.get("is_repeatable", True)
    speed = median_speed(ours) / median_speed(native)
    speed_of_fastest = median_speed(ours) / max(median_speed(each) for each in (native, other)
                                                if each)
    missed = []
    if speed_of_fastest < MIN_TRAINING_SPEED:
        missed.append(f"speed {speed_of_fastest:.3f} < {MIN_TRAINING_SPEED}")
    if reserved_ratio(ours) > MAX_RESERVED_RATIO:
        missed.append(f"reserved {reserved_ratio(ours):.3f} > {MAX_RESERVED_RATIO}")
    outcome.add(
        f"training: {workload}", goal_state(missed) if is_right else "FAILED (losses)",
        f"losses {difference(ours, native)}; {speed:.3f} × native speed, {speed_of_fastest:.3f} ×"
        f" that of PyTorch's faster configuration; reserved ÷ requested {reserved_ratio(ours):.3f}"
        f" (native {reserved_ratio(native):.3f})")


def reserved_ratio(result):
    return result["peak_reserved_bytes"] / result["peak_requested_bytes"]


def training_row(workload, way, result, native):
    cells = [workload, way, f"{result['steps']:,}", difference(result, native) if native else "",
             f"{median_speed(result):.2f}",
             ", ".join(f"{speed:.2f}" for speed in result["each_round"]),
             f"{median_speed(result) / median_speed(native):.3f}" if native else "",
             f"{result['peak_requested_bytes'] / 2**30:.3f} GiB",
             f"{result['peak_reserved_bytes'] / 2**30:.3f} GiB",
             f"{reserved_ratio(result):.3f}"]
    return "| " + " | ".join(cells) + " |"


def difference(result, native):
    """Compares the losses of two runs. Returns "equal", or the largest relative difference and the
    first step at which they differ; their counts if these differ; a dash for the native run."""
    if result is native:
        return "—"
    if len(result["losses"]) != len(native["losses"]):
        return f"{len(result['losses'])} of {len(native['losses'])}"
    pairs = list(zip(result["losses"], native["losses"]))
    first = next((i for i, (a, b) in enumerate(pairs) if not a == b), None)
    if first is None:
        return "equal"
    most = max(abs(a - b) / max(abs(b), 1e-12) for a, b in pairs)
    return f"differ by {most:.1e} at most, from step {first} on"


def oom(args):
    """Checks that out of memory raises PyTorch's error."""
    outcome = Outcome()
    if args.without_gpu:
        outcome.add("out of memory under PyTorch", "not run", "no GPU")
        return outcome
    done = run("oom", [sys.executable, HERE / "out_of_memory.py"], 60,
               {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
    outcome.add("out of memory under PyTorch", done.state,
                "torch.OutOfMemoryError" if done.passed else done.output_tail())
    return outcome


def hooks(args):
    """Checks graphs, pools, streams and limits through PyTorch."""
    outcome = Outcome()
    for way in ("process", "pool"):
        what = f"PyTorch's hooks, for a {way}"
        if args.without_gpu:
            outcome.add(what, "not run", "no GPU")
            continue
        done = run(f"hooks_{way}", [sys.executable, HERE / "hooks.py", way], 60,
                   {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
        count = read_json(done).get("checks")
        outcome.add(what, done.state, f"{count} checks" if done.passed else done.output_tail())
    return outcome


# --- PyTorch --------------------------------------------------------------------------------------


def programs(args):
    """Runs real programs with both allocators, and compares their results."""
    outcome = Outcome()
    if args.without_gpu:
        outcome.add("programs", "not run", "no GPU")
        return outcome
    done = run("programs", [sys.executable, HERE / "programs" / "run.py", "--json"], 540,
               {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
    result = read_json(done)
    if "passed" not in result:
        outcome.add("programs", "FAILED", done.output_tail())
        return outcome
    bad = [name for name, state in result["programs"] if state == "FAILED"]
    left_out = [name for name, state in result["programs"] if state == "not run"]
    outcome.add("programs", f"FAILED ({', '.join(bad)})" if bad else "passed",
                f"{result['passed']} passed, {result['FAILED']} failed"
                + (f"; do not run natively: {', '.join(left_out)}" if left_out else ""))
    return outcome


def torch_tests(args):
    """Runs our tests of PyTorch's allocator behaviours with both allocators. A test that fails
    natively, too, is not counted."""
    outcome = Outcome()
    if args.without_gpu:
        outcome.add("tests through PyTorch", "not run", "no GPU")
        return outcome
    results = {}
    for way in ("native", "ashlar"):
        done = run(f"torch_tests_{way}", [
            sys.executable, HERE / "torch_tests.py", "--way", way, "--json"], 400,
            {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
        results[way] = read_json(done)
        if "ran" not in results[way]:
            outcome.add(f"tests through PyTorch, {way}", "FAILED", done.output_tail())
            return outcome
    outcome.add("tests through PyTorch", *compare_torch_tests(**results))
    return outcome


def compare_torch_tests(native, ashlar):
    """Returns the state and its explanation. Tests that do not pass natively are not counted."""
    bad = sorted(set(native["passed"]) - set(ashlar["passed"]))
    uncounted = sorted({*native["failed"], *native["lost"]})
    return (f"FAILED ({', '.join(bad)})" if bad else "passed",
            f"{len(ashlar['passed'])} passed"
            + (f"; do not pass natively: {', '.join(uncounted)}" if uncounted else ""))


def empty_cost(args):
    """Measures torch.empty and the release of its memory."""
    outcome = Outcome()
    if args.without_gpu:
        outcome.add("torch.empty", "not run", "no GPU")
        return outcome
    done = run("empty_cost", [sys.executable, HERE / "empty_cost.py"], 200,
               {"ASHLAR_TORCH_LIBRARY": str(LIBRARY)})
    result = read_json(done)
    if not done.passed or "ashlar" not in result:
        outcome.add("torch.empty", "FAILED", done.output_tail())
        return outcome
    missed = [f"{name}: {ours:.0f} ns > {result['native'][name]:.0f} ns"
              for name, ours in result["ashlar"].items() if ours > result["native"][name]]
    outcome.add("torch.empty and release", goal_state(missed), "; ".join(
        f"{name} {ours:.0f} ns (native {result['native'][name]:.0f} ns)"
        for name, ours in result["ashlar"].items()))
    return outcome


# --- stress ---------------------------------------------------------------------------------------


def stress(args):
    """Checks memory contents with kernels on eight streams, with the paged and the async engine."""
    outcome = Outcome()
    length = ["--short", "--backend", "sim"] if args.without_gpu else ["--seconds", 10]
    for engine, conf in (("paged", "engine:paged,policy:lean"), ("async", "engine:async")):
        done = run(f"stress_{engine}", [STRESS, *length, "--conf", conf], 90)
        stats = read_json(done)
        outcome.add(f"stress, 8 streams, {engine} engine", done.state,
                    stress_figures(stats) if stats else done.output_tail())
    return outcome


def stress_figures(stats):
    return (f"{stats['mismatches']} mismatches in {stats['blocks']:,} blocks,"
            f" {stats['checked_bytes'] / 2**30:.1f} GiB; {stats['device_allocs']:,} calls for"
            f" memory; {stats['stitches']:,} stitches; reserved ÷ requested"
            f" {reserved_ratio(stats):.3f}")


def sanitizer(args):
    """Runs the short stress test under compute-sanitizer. API errors are not reported, because
    capability probes cause some on purpose."""
    outcome = Outcome()
    program = tool("compute-sanitizer")
    if args.without_gpu or program is None:
        outcome.add("compute-sanitizer", "not run",
                    "no GPU" if args.without_gpu else "no compute-sanitizer")
        return outcome
    done = run("sanitizer", [program, "--tool", "memcheck", "--report-api-errors", "no",
                             "--error-exitcode", 9, STRESS, "--short", "--seconds", 60], 150)
    summary = re.search(r"ERROR SUMMARY: .*", done.output + done.errors)
    stats = read_json(done)
    mismatches = (f"; {stats['mismatches']} mismatches, {stats['stitches']:,} stitches"
                  if stats else "")
    outcome.add("compute-sanitizer, short stress", done.state,
                (summary.group() if summary else done.output_tail()) + mismatches)
    return outcome


TRAININGS = {name: functools.partial(train_one, name) for name in train.WORKLOADS}
STEPS = {"build": build, "tests": tests, "bench": bench, **TRAININGS, "oom": oom,
         "hooks": hooks, "torch_tests": torch_tests, "programs": programs,
         "empty_cost": empty_cost, "stress": stress, "sanitizer": sanitizer}
