# SPDX-License-Identifier: Apache-2.0
"""Recordings: the results of `ashlar report`, `leaks`, `diff`, `replay`, `tune` and `oom` with
--json, as dicts and lists; and allocators, which can record themselves."""

import contextlib
import functools
import os
import pickle
from typing import Any, Dict, Iterator, Mapping, Optional, Union

import ashlar._ashlar as _ashlar
from ashlar._display import Causes, Diff, Leaks, Peaks, Tuning, format_bytes, table

Result = Dict[str, Any]
Size = Union[int, str]


class Recording:
    """A recorded run, created by `load` or `Allocator.recording`. Thread safe; long calls release
    the GIL."""

    def __init__(self, run: "_ashlar.RecordedRun") -> None:
        self._run = run

    def summary(self) -> Result:
        """Returns the entry count, duration and peaks of the recording. Does not replay it."""
        return self._run.summary()

    @functools.cached_property
    def _report(self) -> Result:
        return self._run.report()

    def report(self) -> Result:
        """Returns the result of `ashlar report --json`: peaks, causes, stacks, alternatives and
        advice. Replays the run on the first call and caches the result. Raises FormatError if the
        recording has no trace."""
        return _copy(self._report)

    def causes(self) -> Causes:
        """Returns the causes of reserved but unused memory at the peak: {"reserved_bytes",
        "requested_bytes", "gap_bytes", "causes": {"rounding": ..., ...}}. The causes add up to
        the gap."""
        at_peak = self.report()["at_peak"]
        del at_peak["stacks"]
        return Causes(at_peak)

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

    def diff(self, other: "Recording", *, at: str = "end") -> Diff:
        """Compares the live allocations of another run with this one, at the "end" or at the "peak"
        of each: `ashlar diff --json`."""
        _require_recording(other)
        return Diff(self._run.diff(other._run, at=at))

    def replay(self, *, engine: Optional[str] = None, conf: Optional[str] = None,
               capacity: Optional[Size] = None, cap: Optional[Size] = None) -> Result:
        """Replays the run, optionally with other settings: `ashlar replay --json`. capacity: memory
        of the device; cap: memory limit of the process."""
        return self._run.replay(engine=engine, conf=conf, capacity=capacity, cap=cap)

    def tune(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None, jobs: int = 0,
             min_capacity: bool = False) -> Tuning:
        """Replays the run under many settings and finds the best: `ashlar tune --json`. jobs:
        parallel replays; 0: one per core."""
        return Tuning(self._run.tune(capacity=capacity, cap=cap, jobs=jobs,
                                     min_capacity=min_capacity))

    def oom(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None,
            jobs: int = 0) -> Result:
        """Explains why the run ran out of memory, or would under a limit: `ashlar oom --json`."""
        return self._run.oom(capacity=capacity, cap=cap, jobs=jobs)

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
        summary = self.summary()
        seconds = "" if summary["seconds"] is None else f" over {summary['seconds']:.2f} s"
        rows = [("settings", f"{summary['engine']} {summary['conf'] or '(defaults)'}"),
                ("peak requested", format_bytes(summary["peak_requested_bytes"])),
                ("peak reserved", format_bytes(summary["peak_reserved_bytes"])),
                ("live at end", format_bytes(summary["live_bytes_at_end"])),
                ("out of memory", f"{summary['ooms']:,} times")]
        return table(f"{summary['file']}, device {summary['device']}: {summary['entries']:,} "
                     f"entries{seconds}", rows)


def _require_recording(other: Any) -> None:
    if not isinstance(other, Recording):
        raise TypeError(f"other: {other!r} is not an ashlar.Recording (expected one, as "
                        "returned by ashlar.load)")


def _copy(value: Any) -> Any:
    """Returns a deep copy of dicts and lists."""
    if isinstance(value, dict):
        return {name: _copy(each) for name, each in value.items()}
    if isinstance(value, list):
        return [_copy(each) for each in value]
    return value


Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Mapping[str, Any]]


def load(source: Source, *, device: Optional[int] = None) -> Recording:
    """Reads a snapshot of PyTorch or Ashlar: a file, optionally compressed (.xz, .zst, .gz); its
    bytes; or the dict returned by torch.cuda.memory._snapshot() or Allocator.snapshot(). device:
    the device index; default: the device with the longest trace. Raises FileError if the file
    cannot be opened, and FormatError if it is not a snapshot."""
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
