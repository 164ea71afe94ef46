#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Measures allocation and free on a GPU: the paged engine through its C API, PyTorch's caching
allocator and cudaMallocAsync, alternating in one process. Prints medians over the rounds. A
speedup is the median of the speedups of the rounds, because the load of the host changes within
seconds and a round takes about one second.

  benchmarks/gpu/side_by_side.py            builds side_by_side.cc next to the library and runs it
  --library PATH                            default: build/gpu/lib/libashlar_torch.so
  --rounds N                                default: 9
  --json                                    prints JSON
  --ashlar-only [--backend sim]             without PyTorch and CUDA, to try it without a GPU

Exit status: 0 done, 1 the benchmark cannot be built or run."""

import argparse
import ctypes
import importlib
import json
import os
import pathlib
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
COLUMNS = ("ashlar", "ashlar, by handle", "PyTorch", "cudaMallocAsync")


def cuda_includes(torch):
    """Finds the CUDA runtime's headers in the toolkit or in PyTorch's packages."""
    homes = [os.environ.get("CUDA_HOME", ""), os.environ.get("CUDA_PATH", ""), "/usr/local/cuda"]
    folders = [pathlib.Path(home) / "include" for home in homes if home]
    packages = pathlib.Path(torch.__file__).resolve().parent.parent / "nvidia"
    folders += sorted(packages.glob("*/include"))
    return [folder for folder in folders if (folder / "cuda_runtime_api.h").is_file()]


def compile_command(library, target, torch):
    """Returns the compiler's command. `torch` is the module, or None to build without PyTorch and
    CUDA."""
    folder = library.parent
    command = [os.environ.get("CXX", "g++"), "-std=c++20", "-O2", "-shared", "-fPIC", "-pthread",
               str(HERE / "side_by_side.cc"), "-o", str(target), f"-I{ROOT / 'include'}",
               str(library), f"-Wl,-rpath,{folder}"]
    if torch is None:
        return command
    home = pathlib.Path(torch.__file__).resolve().parent
    abi = int(getattr(torch._C, "_GLIBCXX_USE_CXX11_ABI", True))
    command += ["-DASHLAR_WITH_TORCH=1", "-DASHLAR_WITH_CUDART=1",
                f"-D_GLIBCXX_USE_CXX11_ABI={abi}"]
    command += [f"-isystem{home / 'include'}"]
    command += [f"-isystem{folder}" for folder in cuda_includes(torch)]
    # -lcudart is not needed, because libc10_cuda is linked to PyTorch's CUDA runtime.
    command += [f"-L{home / 'lib'}", f"-Wl,-rpath,{home / 'lib'}", "-Wl,--no-as-needed", "-lc10",
                "-lc10_cuda"]
    return command


def build(library, torch):
    """Builds the shared object next to the library and returns its path."""
    target = library.parent / ("side_by_side.so" if torch else "side_by_side_alone.so")
    command = compile_command(library, target, torch)
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"side_by_side: failed: {' '.join(command)}\n{done.stderr[-4000:]}")
    return target


def measure(args):
    """Returns the JSON of side_by_side.cc."""
    torch = None
    if not args.ashlar_only:
        torch = importlib.import_module("torch")
        torch.zeros(1, device="cuda")  # initializes PyTorch's allocator and the CUDA runtime
    library = pathlib.Path(args.library).resolve()
    if not library.is_file():
        sys.exit(f"side_by_side: {library} does not exist (build libashlar_torch.so with"
                 " scripts/gpu --only build)")
    run = ctypes.CDLL(str(build(library, torch))).ashlar_side_by_side
    run.restype = ctypes.c_char_p
    run.argtypes = [ctypes.c_char_p, ctypes.c_int]
    return json.loads(run(args.backend.encode(), args.rounds).decode())


def in_bytes(count):
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count} {unit}"
        count //= 1024
    return f"{count} GiB"


def title(row):
    """Returns the label of a row of the table."""
    if row["pattern"] == "pair":
        return f"pair, {in_bytes(row['bytes'])}"
    if row["pattern"] == "threads":
        threads = "1 thread" if row["threads"] == 1 else f"{row['threads']} threads"
        return f"{threads}, pairs of {in_bytes(row['bytes'])}"
    kind = row["pattern"].removeprefix("fresh ")
    sizes = "recurring sizes" if kind == row["pattern"] else "fresh sizes"
    return f"{kind}, {row['live']:,} live, {sizes}"


def by_pattern(results):
    """Groups the rows by pattern, then by allocator."""
    rows = {}
    for row in results:
        key = (row["pattern"], row["bytes"], row["live"], row["threads"])
        rows.setdefault(key, {})[row["allocator"]] = row
    return rows.values()


def speedup(ours, theirs):
    """Returns the median speedup over the rounds that both results have, or None."""
    rates = zip(ours.get("pairs_per_second", []), theirs.get("pairs_per_second", []))
    times = zip(theirs.get("ns", []), ours.get("ns", []))
    ratios = [more / less for more, less in (*rates, *times)]
    return statistics.median(ratios) if ratios else None


def cell(row, ours):
    """Returns the figure and, for other allocators, Ashlar's speedup."""
    if row is None:
        return ""
    if "failure" in row:
        return "failed"
    if row["pattern"] == "threads":
        text = f"{statistics.median(row['pairs_per_second']) / 1e6:,.2f} M/s"
    else:
        text = f"{statistics.median(row['ns']):,.1f} ns"
    ratio = speedup(ours, row)
    is_other = not row["allocator"].startswith("ashlar")
    return f"{text} ({ratio:.1f}×)" if is_other and ratio else text


def reserved_cell(row, _):
    return f"{row['reserved_by_most_live']:.3f}" if row else ""


def markdown(results):
    """Formats the table as lines. In brackets: the speedup of Ashlar's address-based API."""
    lines = table(results, cell)
    for row in results:
        if "failure" in row:
            lines += ["", f"{row['allocator']}, {title(row)}: {row['failure'][:300]}"]
    return lines


def reserved_markdown(results):
    """Formats the reserved memory after churn, relative to the peak of live memory, as lines."""
    return table([row for row in results if "reserved_by_most_live" in row], reserved_cell)


def table(results, write):
    """Returns one line per pattern; `write` formats a cell from a row and Ashlar's row."""
    columns = [name for name in COLUMNS if any(row["allocator"] == name for row in results)]
    lines = ["| pattern | " + " | ".join(columns) + " |", "|---|" + "--:|" * len(columns)]
    for rows in by_pattern(results):
        ours = rows.get("ashlar", {})
        cells = [write(rows.get(column), ours) for column in columns]
        lines.append(f"| {title(next(iter(rows.values())))} | " + " | ".join(cells) + " |")
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--library", default=str(ROOT / "build/gpu/lib/libashlar_torch.so"))
    parser.add_argument("--backend", default="cuda")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--ashlar-only", action="store_true")
    args = parser.parse_args()
    if args.rounds < 1:
        parser.error(f"--rounds {args.rounds} (expected at least 1)")
    measured = measure(args)
    if "failure" in measured:
        sys.exit(f"side_by_side: {measured['failure']}")
    results = measured["results"]
    lines = [*markdown(results), "", "Reserved memory at the end ÷ peak of live memory:", "",
             *reserved_markdown(results)]
    print(json.dumps(measured) if args.json else "\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
