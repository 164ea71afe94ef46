# SPDX-License-Identifier: Apache-2.0
"""HTML and text tables of statistics and results."""

import html.parser
import json
import pickle

import pytest

import ashlar
from ashlar._display import format_bytes, stack_text
from conftest import TRACES

LEAKY = TRACES / "leaky.pickle.xz"
OOM = TRACES / "oom.1.pickle.xz"
RECORDINGS = TRACES.parent / "recordings"


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


@pytest.fixture(name="results", scope="module")
def analyse():
    recording = ashlar.load(LEAKY)
    failed = ashlar.load(OOM)
    return {
        ashlar.Summary: recording.summary(), ashlar.Report: recording.report(),
        ashlar.Causes: recording.causes(), ashlar.Peaks: recording.peaks(),
        ashlar.Leaks: recording.leaks(), ashlar.Replay: recording.replay(),
        ashlar.SourceLines: recording.annotate(), ashlar.Training: recording.training(),
        ashlar.Tuning: recording.tune(), ashlar.OomReport: failed.oom(),
        ashlar.Diff: recording.diff(failed),
    }


def test_each_result_is_a_dict_with_html(results):
    for kind, result in results.items():
        assert type(result) is kind and isinstance(result, dict)
        assert json.loads(json.dumps(result)) == result
        table = Table(result._repr_html_())
        assert table.caption and len(table.rows) > 1, kind


def test_each_result_has_text(results):
    for kind, result in results.items():
        text = str(result)
        assert not text.endswith("\n") and all(map(str.rstrip, text.split("\n\n"))), kind
        assert all(line == line.rstrip() for line in text.split("\n")), kind
        assert repr(result).startswith(f"<ashlar.{kind.__name__}: ") and "\n" not in repr(result)


def test_keys_are_attributes(results):
    for kind, result in results.items():
        named = [name for name in dir(kind) if type(getattr(kind, name)).__name__ == "_Key"]
        for name in named:
            if name in result or name not in ("file", "device"):
                assert getattr(result, name) == result[name], (kind, name)
            with pytest.raises(AttributeError, match="read-only"):
                setattr(result, name, 0)
    assert results[ashlar.Report].peak_reserved_bytes > 0
    assert results[ashlar.Report].causes == results[ashlar.Causes]
    with pytest.raises(AttributeError, match="this Causes has no file"):
        print(results[ashlar.Causes].file)


def test_results_convert_to_plain_dicts(results):
    for result in results.values():
        plain = result.to_dict()
        assert type(plain) is dict and plain == result
    plain = results[ashlar.Report].to_dict()
    plain["at_peak"]["causes"].clear()
    assert results[ashlar.Report].causes.causes
    copied = pickle.loads(pickle.dumps(results[ashlar.Report]))
    assert type(copied) is ashlar.Report and str(copied) == str(results[ashlar.Report])


def test_tables_contain_the_results(results):
    shown = {kind: Table(result._repr_html_()) for kind, result in results.items()}
    causes, tuning = results[ashlar.Causes], results[ashlar.Tuning]
    shares = [float(row[2].split()[0]) for row in shown[ashlar.Causes].rows[1:]]
    assert causes["gap_bytes"] > 0 and sum(shares) == pytest.approx(100, abs=1)
    assert tuning["paste"] is None and "best: as recorded" in shown[ashlar.Tuning].caption
    assert any("as recorded" in row[0] for row in shown[ashlar.Tuning].rows)
    assert any(row[2].startswith("+") for row in shown[ashlar.Leaks].rows[1:])
    assert ["peak reserved", format_bytes(results[ashlar.Replay].peak_reserved_bytes)] \
        in shown[ashlar.Replay].rows


def test_result_without_failure():
    result = ashlar.load(LEAKY).oom()
    assert not result.out_of_memory
    assert str(result).endswith("no out-of-memory failure")
    assert "no out-of-memory failure" in Table(result._repr_html_()).caption
    with pytest.raises(AttributeError, match="this OomReport has no verdict"):
        print(result.verdict)


def test_oom_report_begins_with_its_verdict(results):
    result = results[ashlar.OomReport]
    assert result.verdict["reason"] == "fragmented" and result.is_reproduced
    title, *lines = str(result).split("\n\n")[0].split("\n")
    assert title.endswith("as recorded")
    assert [line.strip() for line in lines] == [
        result.verdict["text"], *(f"* {each}" for each in result.verdict["remedies"])]
    assert Table(result._repr_html_()).rows[0] == [result.verdict["text"]]
    assert sum(each["bytes"] for each in result.holders) == result.live_requested_bytes
    assert sum(each["bytes"] for each in result.categories) == result.live_requested_bytes
    assert "segments with the most free memory" in str(result)
    full = ashlar.OomReport({**result, "verdict": {**result.verdict, "reason": "in_use"}})
    assert "lines that held the most memory" in str(full)
    assert "segments with the most free memory" not in str(full)


def test_lines_of_a_snapshot_without_history():
    text = str(ashlar.load(RECORDINGS / "state_only.pickle.xz").annotate())
    assert "requested in the snapshot; lines of your code hold" in text
    assert "at peak" not in text and "allocated" not in text.split("\n")[1]
    assert "at the peak" in str(ashlar.load(LEAKY).annotate())


FRAME = {"name": "f", "filename": "f.py", "line": 1}


def peaks_of(*stacks):
    return ashlar.Peaks(peak_requested_bytes=1, peak_reserved_bytes=1, packed_bytes=1,
                        stacks=[{"bytes": 1, "count": 1, "stack": stack} for stack in stacks])


def test_long_tables_count_omitted_rows():
    rows = Table(peaks_of(*[[FRAME]] * 50)._repr_html_()).rows
    assert len(rows) == 22 and rows[-1] == ["and 30 more", "", ""]


def test_stacks_are_shortened():
    deep = [{**FRAME, "name": f"f{i}"} for i in range(9)]
    lines = str(peaks_of([{**FRAME, "filename": "/a/b/site-packages/torch/c.py"}],
                         [{**FRAME, "filename": "/a/b/c.py", "name": "x" * 99}], deep)).split("\n")
    assert [line.split()[:2] for line in lines[2:]] == [
        ["f", "torch/c.py:1"], ["x" * 60 + "...", "b/c.py:1"],
        ["f0", "f.py:1"], ["f1", "f.py:1"], ["f2", "f.py:1"]]


def test_hostile_names_are_escaped():
    frame = {"name": "<script>alert(1)</script>\x1b[2J\r\u202e\ud800\n&", "filename": "<b>'\"",
             "line": 1}
    peaks = peaks_of([frame, frame], [])
    shown = peaks._repr_html_()
    assert "<script" not in shown and "<b>" not in shown and "'" not in shown
    assert "&lt;script&gt;alert(1)&lt;/script&gt;?[2J????&amp;" in shown
    assert "(no stack was recorded)" in shown
    for text in (shown, str(peaks), repr(peaks)):
        text.encode()  # lone surrogates would raise
        assert not set("\x1b\r\u202e") & set(text)
    hostile = ashlar.OomReport(file="\x1b]0;a\x07\n\u202e", device=0, out_of_memory=False)
    assert str(hostile) == "?]0;a???, device 0: no out-of-memory failure"
    assert "\n" not in repr(hostile)


def test_causes_table_without_unused_memory():
    causes = ashlar.Causes(reserved_bytes=5, requested_bytes=5, gap_bytes=0,
                           causes={"rounding": 0})
    assert len(Table(causes._repr_html_()).rows) == 1


def test_stats_have_text_form(allocator):
    allocator.allocate("64MiB").free()
    lines = allocator.stats().text().split("\n")
    assert lines[0].split() == ["current", "peak", "allocated", "freed"]
    assert any(line.startswith("reserved") and "64.00 MiB" in line for line in lines)


def test_stacks_omit_unknown_files_and_lines():
    frames = [{"name": "load", "filename": "C:\\jobs\\llm\\data.py", "line": 3},
              {"name": "init", "filename": "/srv/llm/model.py", "line": 0},
              {"name": "allocated before the recording", "filename": "", "line": 0}]
    assert stack_text(frames).split("\n") == ["load  llm\\data.py:3", "init  llm/model.py",
                                              "allocated before the recording"]
