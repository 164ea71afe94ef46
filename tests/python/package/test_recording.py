# SPDX-License-Identifier: Apache-2.0
"""Recordings: results match the command line's --json."""

import errno
import json
import lzma
import pickle
import re

import pytest

import ashlar
from conftest import TRACES, run_cli

OOM = TRACES / "oom.1.pickle.xz"
LEAKY = TRACES / "leaky.pickle.xz"


def tool_json(*arguments):
    ended = run_cli(*arguments, "--json")
    assert ended.returncode in (0, 1), ended.stderr
    return json.loads(ended.stdout)


def without(result, *names):
    return {name: value for name, value in result.items() if name not in names}


@pytest.mark.parametrize("command", ["report", "leaks", "annotate", "tune", "oom"])
def test_results_match_command_line(command):
    for path in (OOM, LEAKY):
        assert getattr(ashlar.load(path), command)() == tool_json(command, path)


def test_replay_matches_command_line():
    recording = ashlar.load(OOM)
    expected = tool_json("replay", OOM, "--engine", "paged", "--conf", "policy:lean",
                         "--capacity", "80GiB")
    found = recording.replay(engine="paged", conf="policy:lean", capacity=80 << 30)
    assert without(found, "seconds") == without(expected, "seconds")
    assert recording.replay()["engine"] == "classic"
    assert recording.replay(capacity="80GiB", cap="100MiB")["ooms"] > 0


def test_diff_matches_command_line():
    base, now = ashlar.load(OOM), ashlar.load(LEAKY)
    assert base.diff(now) == tool_json("diff", OOM, LEAKY)
    assert base.diff(now, at="peak") == tool_json("diff", OOM, LEAKY, "--at", "peak")
    with pytest.raises(ashlar.InvalidArgument, match="expected .end. or .peak."):
        base.diff(now, at="middle")


def test_parts_match_report():
    recording = ashlar.load(LEAKY)
    report = recording.report()
    causes = recording.causes()
    assert sum(causes["causes"].values()) == causes["gap_bytes"]
    assert causes["reserved_bytes"] - causes["requested_bytes"] == causes["gap_bytes"]
    peaks = recording.peaks()
    assert peaks["peak_reserved_bytes"] == report["peak_reserved_bytes"]
    assert sum(use["bytes"] for use in peaks["stacks"]) == causes["requested_bytes"]


PROGRAM = TRACES.parents[2] / "benchmarks" / "gpu" / "recordings" / "programs.py"
TRANSFORMER = TRACES.parent / "recordings" / "transformer.pickle.xz"


def test_report_groups_allocations_at_the_peak():
    recording = ashlar.load(TRANSFORMER)
    for by in ("category", "phase"):
        assert recording.report(by=by) == tool_json("report", TRANSFORMER, "--by", by)
    groups = {"attention": r"train\.py:3[6-8]$", "optimizer": re.compile("/optim/")}
    assert recording.report(groups=groups) == tool_json(
        "report", TRANSFORMER, "--group", r"attention=train\.py:3[6-8]$",
        "--group", "optimizer=/optim/")
    assert "groups" not in recording.report()["at_peak"]
    with pytest.raises(ashlar.InvalidArgument, match="expected .stack., .category."):
        recording.report(by="colour")
    with pytest.raises(ashlar.InvalidArgument, match="groups: .* .expected regular expressions"):
        recording.report(groups={"broken": "("})
    with pytest.raises(ashlar.InvalidArgument, match="exclude each other"):
        recording.report(by="phase", groups=groups)


def test_training_has_categories_iterations_and_phases():
    recording = ashlar.load(TRANSFORMER)
    training, report = recording.training(), recording.report()
    assert training.categories == report.categories
    assert training.iterations == report.iterations
    assert training.iteration_count == 6 == training.iterations["complete"]
    assert training.phases[0]["first_entry"] == 0
    assert training.phases[-1]["end_entry"] == report.entries
    assert {"forward", "backward", "optimizer"} <= {each["phase"] for each in training.phases}


def test_annotate_reads_source_in_given_folders(tmp_path):
    recording = ashlar.load(TRANSFORMER)
    assert recording.annotate().files[0]["source"] is None
    path = tmp_path / "train.py"
    path.write_bytes(PROGRAM.read_bytes())
    for source in (tmp_path, str(tmp_path), [tmp_path]):
        lines = recording.annotate(source=source)
        assert lines.files[0]["source"] == str(path)
        assert "self.qkv(x)" in lines.files[0]["lines"][0]["text"]
    assert lines == tool_json("annotate", TRANSFORMER, "--source", tmp_path)
    assert "q, k, v = self.qkv(x)" in str(lines) and "self.qkv(x)" in lines._repr_html_()
    with pytest.raises(ashlar.InvalidArgument, match="expected a folder"):
        recording.annotate(source=path)


def test_results_are_copies():
    recording = ashlar.load(LEAKY)
    recording.report()["at_peak"]["causes"].clear()
    assert recording.report()["at_peak"]["causes"]


def test_summary_needs_no_trace(allocator, tmp_path):
    path = tmp_path / "still.pickle"
    kept = allocator.allocate("1MiB")
    allocator.save_snapshot(path)
    recording = ashlar.load(path)
    summary = recording.summary()
    assert summary["entries"] == 0 and summary["seconds"] is None
    assert summary["live_bytes_at_end"] == 1 << 20
    assert recording.report()["at_peak"]["requested_bytes"] == 1 << 20
    assert "history" in recording.replay()["cannot_tell"]
    kept.free()


def test_allocator_provides_recording(allocator):
    allocator.start_history()
    for _ in range(3):
        kept = [allocator.allocate("1MiB") for _ in range(3)]
    recording = allocator.recording()
    assert recording.peaks()["peak_requested_bytes"] == 6 << 20
    names = [frame["name"] for use in recording.peaks()["stacks"] for frame in use["stack"]]
    assert any("test_allocator_provides_recording" in name for name in names)
    assert recording.replay()["allocs"] >= 9
    assert len(kept) == 3


def test_bad_files_raise_format_error(tmp_path):
    for name, content in (("empty", b""), ("text", b"no snapshot"), ("half", None)):
        path = tmp_path / name
        path.write_bytes(lzma.open(LEAKY).read()[:1000] if content is None else content)
        with pytest.raises(ashlar.FormatError, match=name):
            ashlar.load(path)
    with pytest.raises(OSError, match="no_such_file: .*No such file") as caught:
        ashlar.load(tmp_path / "no_such_file")
    assert isinstance(caught.value, ashlar.FileError) and caught.value.errno == errno.ENOENT
    assert caught.value.filename == str(tmp_path / "no_such_file")
    with pytest.raises(ashlar.FormatError):
        ashlar.load(tmp_path)  # a folder, which can be opened but not read
    with pytest.raises(ashlar.InvalidArgument, match="device 7 .expected one of 0"):
        ashlar.load(LEAKY, device=7)
    for wrong in (-1, "0", 1.5, 1 << 70):
        with pytest.raises(ashlar.InvalidArgument, match="device: "):
            ashlar.load(LEAKY, device=wrong)
    with pytest.raises(TypeError):
        ashlar.load(None)


def test_rejects_invalid_file_names(tmp_path):
    (tmp_path / "a").write_bytes(LEAKY.read_bytes())
    for wrong in (f"{tmp_path}/a\0b", "\ud800"):
        with pytest.raises(ashlar.InvalidArgument, match="path: .* is not a file name"):
            ashlar.load(wrong)
    with pytest.raises(ashlar.FileError):
        ashlar.load("/no/\udcff.pickle")


def test_messages_support_invalid_utf8(tmp_path):
    path = tmp_path / "bad.json"
    path.write_bytes(b'{"segments": "\xff\xfe"}')
    with pytest.raises(ashlar.FormatError, match="bad.json"):
        ashlar.load(path)
    with pytest.raises(ashlar.FormatError):
        ashlar.load(b'{"\xff": ')


def test_loads_snapshot_from_memory(allocator):
    from_file = ashlar.load(LEAKY).summary()
    content = LEAKY.read_bytes()
    for given in (content, bytearray(content), memoryview(content), lzma.decompress(content),
                  pickle.loads(lzma.decompress(content))):
        found = ashlar.load(given).summary()
        assert without(found, "file") == without(from_file, "file")
    assert ashlar.load(content).summary()["file"] == "bytes"
    with pytest.raises(ashlar.FormatError, match="snapshot: "):
        ashlar.load({"no": "snapshot"})
    with pytest.raises(ashlar.FormatError, match="bytes: "):
        ashlar.load(b"")
    allocator.start_history()
    kept = allocator.allocate(1000)
    assert ashlar.load(allocator.snapshot()).summary()["peak_requested_bytes"] == 1000
    kept.free()


def test_diff_rejects_other_types():
    with pytest.raises(TypeError, match="expected one, as returned by ashlar.load"):
        ashlar.load(LEAKY).diff(str(LEAKY))


def index_in(page):
    """Returns the index of the responses that are embedded in a page."""
    found = re.search(r'id="ashlar-index">(.*?)</script>', page, re.DOTALL)
    return json.loads(found.group(1))


def test_html_page_contains_all_runs(tmp_path):
    file = tmp_path / "page.html"
    tool = run_cli("view", OOM, "-o", file)
    recording = ashlar.load(OOM)
    if tool.returncode != 0:  # the tool was built without the page
        with pytest.raises(ashlar.InvalidArgument) as caught:
            recording.to_html()
        assert str(caught.value) in tool.stderr
        return
    page = recording.to_html()
    assert index_in(page).keys() == index_in(file.read_text()).keys()
    both = recording.to_html(ashlar.load(LEAKY))
    assert len(index_in(both)) > len(index_in(page))
    with pytest.raises(TypeError, match="is not an ashlar.Recording"):
        recording.to_html(OOM)


def test_rejects_invalid_limits():
    recording = ashlar.load(LEAKY)
    for analysis in (recording.replay, recording.tune, recording.oom):
        for wrong in ("12x", -5, 0, 1.5):
            with pytest.raises(ashlar.InvalidArgument, match="cap: "):
                analysis(cap=wrong)
    for analysis in (recording.tune, recording.oom):
        for wrong in (-1, "all", 1.5):
            with pytest.raises(ashlar.InvalidArgument, match="jobs: "):
                analysis(jobs=wrong)
    with pytest.raises(ValueError, match="nonsense"):
        recording.replay(conf="nonsense:1")


def test_notebook_html_is_escaped(tmp_path, allocator):
    evil = tmp_path / "<script>alert(1)<"
    evil.write_bytes(LEAKY.read_bytes())
    recording = ashlar.load(evil)
    assert "484 entries" in repr(recording)
    shown = recording._repr_html_()
    assert "<table" in shown and "848.00 MiB" in shown
    assert "<script" not in shown and "&lt;script&gt;" in shown
    allocator.allocate("64MiB").free()
    assert "64.00 MiB" in allocator.stats()._repr_html_()
    assert "64.00 MiB" in allocator._repr_html_()
    assert "<script" not in ashlar.Stats({"num_ooms": 1})._repr_html_()
