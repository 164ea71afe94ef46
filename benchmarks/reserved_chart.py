#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/images/reserved_memory.svg, the chart of the README, from
benchmarks/results/reserved_memory.tsv: peak reserved / peak requested memory for each allocator,
geometric mean over eight recorded PyTorch workloads. The Ashlar rows come from
benchmarks/policies.py, the others from PyTorch's own statistics for the same workloads
(tests/golden/traces/pytorch_truth.tsv).

  benchmarks/reserved_chart.py

Needs Python 3.11 and its standard library."""

import csv
import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
DATA = ROOT / "benchmarks" / "results" / "reserved_memory.tsv"
CHART = ROOT / "docs" / "images" / "reserved_memory.svg"

WIDTH, ROW, LEFT, TOP = 760, 34, 250, 54
SCALE = (WIDTH - LEFT - 70) / 0.7  # pixels per unit; the axis goes from 1.0 to 1.7


def bar(index, row):
    y = TOP + index * ROW
    length = max(3, (float(row["ratio"]) - 1) * SCALE)
    color = "#2563a8" if row["allocator"].startswith("Ashlar") else "#9aa3ad"
    return (
        f'<text x="{LEFT - 10}" y="{y + 16}" text-anchor="end">{row["allocator"]}</text>'
        f'<rect x="{LEFT}" y="{y + 2}" width="{length:.1f}" height="20" fill="{color}"/>'
        f'<text x="{LEFT + length + 8:.1f}" y="{y + 16}">{row["ratio"]}</text>')


def main():
    with open(DATA, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    height = TOP + len(rows) * ROW + 12
    bars = "\n".join(bar(index, row) for index, row in enumerate(rows))
    CHART.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{height}" '
        f'viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" font-size="14" fill="#24292f">\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>\n'
        '<text x="16" y="24" font-size="16" font-weight="bold">Peak reserved / peak requested'
        " memory</text>\n"
        '<text x="16" y="42" font-size="12" fill="#57606a">geometric mean of eight recorded PyTorch'
        " workloads; 1.00 means no overhead</text>\n"
        f'{bars}\n<line x1="{LEFT}" y1="{TOP - 2}" x2="{LEFT}" y2="{height - 10}" '
        'stroke="#57606a"/>\n</svg>\n', encoding="utf-8")
    print(f"reserved_chart: wrote {CHART.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
