# SPDX-License-Identifier: Apache-2.0
"""Recordings, with the analyses of `ashlar report`, `leaks`, `annotate`, `diff`, `replay`, `tune`
and `oom`; and allocators, which can record themselves."""

import contextlib
import copy
import functools
import os
import pickle
import re
from typing import Any, Dict, Iterator, List, Mapping, Optional, Pattern, Sequence, Union

import ashlar._ashlar as _ashlar
from ashlar._display import format_bytes
from ashlar._results import (Causes, Diff, Leaks, OomReport, Peaks, Replay, Report, SourceLines,
                             Summary, Training, Tuning)
from ashlar.errors import InvalidArgument

Size = Union[int, str]
Folder = Union[str, bytes, "os.PathLike[str]"]


class Recording:
    """A recorded run, created by `load` or `Allocator.recording`. Thread safe; long calls release
    the GIL."""

    def __init__(self, run: "_ashlar.RecordedRun") -> None:
        self._run = run

    def summary(self) -> Summary:
        """Returns the entry count, duration and peaks of the recording. Does not replay it."""
        return Summary(self._run.summary())

    @functools.cached_property
    def _report(self) -> Report:
        return Report(self._run.report())

    def report(self, *, by: str = "stack",
               groups: Optional[Mapping[str, Union[str, Pattern[str]]]] = None) -> Report:
        """Returns the result of `ashlar report --json`: peaks, causes, stacks, categories,
        iterations, alternatives and advice. Replays the run on the first call and caches the
        result. Without a trace, explains the final state.

        by: "category", "phase", "iteration", "annotation" or "context" adds groups of the
        allocations live at the peak, as report["at_peak"]["groups"]. groups: instead of `by`, maps
        names of groups to regular expressions; an allocation belongs to the first group whose
        expression is found in a frame of its stack, written "function file:line", or else to
        "other"."""
        if by != "stack" and groups is not None:
            raise InvalidArgument("by and groups exclude each other")
        found: Optional[List[Dict[str, Any]]] = None
        if groups is not None:
            found = _matched(groups, self._run.full_stacks())
        elif by != "stack":
            found = self._run.groups(by)
        report = copy.deepcopy(self._report)
        if found is not None:
            report["at_peak"]["groups"] = found
        return report

    def training(self) -> Training:
        """Returns the categories of memory, the iterations with their peaks, and the phases."""
        return Training(self._run.training())

    def causes(self) -> Causes:
        """Returns the causes of reserved but unused memory at the peak: {"reserved_bytes",
        "requested_bytes", "gap_bytes", "causes": {"rounding": ..., ...}}. The causes add up to
        the gap."""
        return self._report.causes

    def peaks(self) -> Peaks:
        """Returns the peaks, the lower bound, and the stacks with the most bytes at the peak."""
        report = self.report()
        names = ("peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes",
                 "peak_reserved_bytes", "peak_entry", "lower_bound_bytes", "packed_bytes")
        return Peaks({name: report[name] for name in names}, stacks=report["at_peak"]["stacks"])

    def leaks(self) -> Leaks:
        """Returns the groups of allocations, by stack or by size and stream, whose live bytes keep
        growing: `ashlar leaks --json`."""
        return Leaks(self._run.leaks())

    def annotate(self, *, source: Union[Folder, Sequence[Folder]] = ()) -> SourceLines:
        """Returns the bytes of each line of the user's code, live at the peak and allocated over
        the recording: `ashlar annotate --json`. source: folders in which source files may be read,
        to show the text of lines."""
        folders: List[Folder] = ([source] if isinstance(source, (str, bytes, os.PathLike))
                                 else list(source))
        return SourceLines(self._run.annotate(source=folders))

    def diff(self, other: "Recording", *, at: str = "end") -> Diff:
        """Compares the live allocations of another run with this one, at the "end" or at the "peak"
        of each: `ashlar diff --json`."""
        _require_recording(other)
        return Diff(self._run.diff(other._run, at=at))

    def replay(self, *, engine: Optional[str] = None, conf: Optional[str] = None,
               capacity: Optional[Size] = None, cap: Optional[Size] = None) -> Replay:
        """Replays the run, optionally with other settings: `ashlar replay --json`. capacity: memory
        of the device; cap: memory limit of the process."""
        return Replay(self._run.replay(engine=engine, conf=conf, capacity=capacity, cap=cap))

    def tune(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None, jobs: int = 0,
             min_capacity: bool = False) -> Tuning:
        """Replays the run under many settings and finds the best: `ashlar tune --json`. jobs:
        parallel replays; 0: one per core."""
        return Tuning(self._run.tune(capacity=capacity, cap=cap, jobs=jobs,
                                     min_capacity=min_capacity))

    def oom(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None,
            jobs: int = 0) -> OomReport:
        """Explains why the run ran out of memory, or would under a limit: `ashlar oom --json`."""
        return OomReport(self._run.oom(capacity=capacity, cap=cap, jobs=jobs))

    def to_html(self, *others: "Recording") -> str:
        """Returns the page of `ashlar view` with this run and the runs to compare it with, as one
        HTML file that needs no network and no server; usually at most 8 MB. To save it:
        pathlib.Path("run.html").write_text(run.to_html()). Raises InvalidArgument if the package
        was built without the page."""
        for other in others:
            _require_recording(other)
        return _ashlar._viewer_page([each._run for each in (self, *others)])

    def __repr__(self) -> str:
        summary = self.summary()
        return (f"<ashlar.Recording {summary['file']}, device {summary['device']}: "
                f"{summary['entries']:,} entries, "
                f"peak {format_bytes(summary['peak_requested_bytes'])} requested, "
                f"{format_bytes(summary['peak_reserved_bytes'])} reserved>")

    def _repr_html_(self) -> str:
        return self.summary()._repr_html_()


def _matched(groups: Mapping[str, Union[str, Pattern[str]]],
             stacks: List[Dict[str, Any]]) -> List[Dict[str, Any]]:
    """Sums bytes and counts of the stacks by the first group that matches; largest sums first."""
    try:
        compiled = [(name, re.compile(expression)) for name, expression in groups.items()]
    except re.error as failure:
        raise InvalidArgument(f"groups: {failure} (expected regular expressions)") from failure
    sums: Dict[str, Dict[str, Any]] = {}
    for use in stacks:
        frames = [f"{each['name']} {each['filename']}:{each['line']}" for each in use["stack"]]
        name = next((name for name, expression in compiled
                     if any(map(expression.search, frames))), "other")
        group = sums.setdefault(name, {"name": name, "bytes": 0, "count": 0})
        group["bytes"] += use["bytes"]
        group["count"] += use["count"]
    return sorted(sums.values(), key=lambda group: int(group["bytes"]), reverse=True)


def _require_recording(other: Any) -> None:
    if not isinstance(other, Recording):
        raise TypeError(f"other: {other!r} is not an ashlar.Recording (expected one, as "
                        "returned by ashlar.load)")


SnapshotSource = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Mapping[str, Any]]


def load(source: SnapshotSource, *, device: Optional[int] = None) -> Recording:
    """Reads a snapshot of PyTorch or Ashlar: a file, optionally compressed (.xz, .zst, .gz); its
    bytes; or the dict returned by torch.cuda.memory._snapshot() or Allocator.snapshot(). device:
    the device index; default: the device that ran out of memory, or the one with the most memory.
    Raises FileError if the file cannot be opened, and FormatError if it is not a snapshot."""
    if isinstance(source, Mapping):
        source = pickle.dumps(dict(source), protocol=4)
        return Recording(_ashlar._load_bytes(source, name="snapshot", device=device))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Recording(_ashlar._load_bytes(bytes(source), device=device))
    return Recording(_ashlar.load(source, device=device))


class Allocator(_ashlar.Allocator):
    """A caching, stream-ordered allocator of device memory. Exists until the last reference to it,
    its buffers and its pools is dropped."""

    def recording(self) -> Recording:
        """Returns a recording of the operations since `start_history`, up to its max_entries."""
        return Recording(self._recorded_run())

    @contextlib.contextmanager
    def region(self, name: str) -> Iterator[None]:
        """Marks the beginning and end of a named region in the trace."""
        self.annotate(name=name, stage="START")
        try:
            yield
        finally:
            self.annotate(name=name, stage="END")

    def _repr_html_(self) -> str:
        return self.stats()._repr_html_()
