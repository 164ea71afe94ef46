# SPDX-License-Identifier: Apache-2.0
"""HTML and text tables of statistics and results."""

import html.parser
import json

import pytest

import ashlar
from conftest import TRACES

LEAKY = TRACES / "leaky.pickle.xz"
OOM = TRACES / "oom.1.pickle.xz"


class Table(html.parser.HTMLParser):
    """Collects the cells of a table and checks that tags are balanced."""

    def __init__(self, shown):
        super().__init__()
        self.open, self.rows, self.caption = [], [], ""
        self.feed(shown)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1] == "caption":
            self.caption += data
        else:
            self.rows[-1][-1] += data


def answers():
    recording = ashlar.load(LEAKY)
    return {
        ashlar.Causes: recording.causes(), ashlar.Peaks: recording.peaks(),
        ashlar.Leaks: recording.leaks(), ashlar.Tuning: recording.tune(),
        ashlar.Diff: recording.diff(ashlar.load(OOM)),
    }


def test_each_result_is_a_dict_with_html():
    for kind, answer in answers().items():
        assert isinstance(answer, kind) and isinstance(answer, dict)
        assert json.loads(json.dumps(answer)) == answer
        table = Table(answer._repr_html_())
        assert table.caption and len(table.rows) > 1, kind
        assert len({len(row) for row in table.rows}) == 1, kind


def test_tables_contain_the_results():
    shown = {kind: Table(answer._repr_html_()) for kind, answer in answers().items()}
    causes, tuning = answers()[ashlar.Causes], answers()[ashlar.Tuning]
    shares = [float(row[2].split()[0]) for row in shown[ashlar.Causes].rows[1:]]
    assert causes["gap_bytes"] > 0 and sum(shares) == pytest.approx(100, abs=1)
    assert tuning["paste"] in shown[ashlar.Tuning].caption
    assert any("as recorded" in row[0] for row in shown[ashlar.Tuning].rows)
    assert any(row[1].startswith("+") for row in shown[ashlar.Leaks].rows[1:])


def test_long_tables_count_omitted_rows():
    use = {"bytes": 1, "count": 1, "stack": [{"name": "f", "filename": "f.py", "line": 1}]}
    peaks = ashlar.Peaks(peak_requested_bytes=1, peak_reserved_bytes=1, packed_bytes=1,
                         stacks=[use] * 50)
    rows = Table(peaks._repr_html_()).rows
    assert len(rows) == 22 and rows[-1] == ["and 30 more", "", ""]


def test_tables_escape_html():
    frame = {"name": "<script>alert(1)</script>", "filename": "<b>", "line": 1}
    peaks = ashlar.Peaks(peak_requested_bytes=1, peak_reserved_bytes=1, packed_bytes=1,
                         stacks=[{"bytes": 1, "count": 1, "stack": [frame, frame]},
                                 {"bytes": 1, "count": 1, "stack": []}])
    shown = peaks._repr_html_()
    assert "<script" not in shown and "<b>" not in shown
    assert "(no stack)" in shown


def test_causes_table_without_unused_memory():
    causes = ashlar.Causes(reserved_bytes=5, requested_bytes=5, gap_bytes=0,
                           causes={"rounding": 0})
    assert len(Table(causes._repr_html_()).rows) == 1


def test_stats_have_text_form(allocator):
    allocator.allocate("64MiB").free()
    lines = allocator.stats().text().split("\n")
    assert lines[0].split() == ["current", "peak", "allocated", "freed"]
    assert any(line.startswith("reserved") and "64.00 MiB" in line for line in lines)
