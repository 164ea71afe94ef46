# SPDX-License-Identifier: Apache-2.0
"""Recorded runs: what `ashlar report`, `leaks`, `diff`, `replay`, `tune` and `oom` say with --json,
as dicts and lists; and allocators, which can be asked the same of themselves."""

import contextlib
import functools
import os
import pickle
from typing import Any, Dict, Iterator, Mapping, Optional, Union

import ashlar._ashlar as _ashlar
from ashlar._display import Causes, Diff, Leaks, Peaks, Tuning, in_bytes, table

Answer = Dict[str, Any]
Size = Union[int, str]


class Recording:
    """A recorded run. Made by `load`, or by `Allocator.recording`. Any thread may ask; what takes
    long does not keep the other threads of Python from running."""

    def __init__(self, run: "_ashlar.RecordedRun") -> None:
        self._run = run

    def summary(self) -> Answer:
        """What was recorded: entries, seconds, peaks. Nothing is replayed."""
        return self._run.summary()

    @functools.cached_property
    def _report(self) -> Answer:
        return self._run.report()

    def report(self) -> Answer:
        """The whole of `ashlar report --json`: peaks, causes, stacks, alternatives, advice. The run
        is replayed, once for all questions that need it. Raises FormatError without a history."""
        return _copy(self._report)

    def causes(self) -> Causes:
        """Why more was reserved than requested at the peak: {"reserved_bytes", "requested_bytes",
        "gap_bytes", "causes": {"rounding": ..., ...}}, which add up."""
        at_peak = self.report()["at_peak"]
        del at_peak["stacks"]
        return Causes(at_peak)

    def peaks(self) -> Peaks:
        """The most that there was of everything, the least that would have done, and whose stacks
        had it."""
        report = self.report()
        names = ("peak_requested_bytes", "peak_allocated_bytes", "peak_active_bytes",
                 "peak_reserved_bytes", "peak_entry", "lower_bound_bytes", "packed_bytes")
        return Peaks({name: report[name] for name in names}, stacks=report["at_peak"]["stacks"])

    def leaks(self) -> Leaks:
        """Whose live bytes keep growing: `ashlar leaks --json`."""
        return Leaks(self._run.leaks())

    def diff(self, other: "Recording", *, at: str = "end") -> Diff:
        """What the other run holds more or less than this one, at the "end" or at the "peak" of
        each: `ashlar diff --json`."""
        _require_recording(other)
        return Diff(self._run.diff(other._run, at=at))

    def replay(self, *, engine: Optional[str] = None, conf: Optional[str] = None,
               capacity: Optional[Size] = None, cap: Optional[Size] = None) -> Answer:
        """Lives through the run again, under other settings if given: `ashlar replay --json`.
        capacity: what the device has; cap: the most that the process may have."""
        return self._run.replay(engine=engine, conf=conf, capacity=capacity, cap=cap)

    def tune(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None, jobs: int = 0,
             min_capacity: bool = False) -> Tuning:
        """Replays under many settings, and names the best: `ashlar tune --json`. jobs: replays at
        once; 0 is one for each core."""
        return Tuning(self._run.tune(capacity=capacity, cap=cap, jobs=jobs,
                                     min_capacity=min_capacity))

    def oom(self, *, capacity: Optional[Size] = None, cap: Optional[Size] = None,
            jobs: int = 0) -> Answer:
        """Why it ran out of memory, or would under a limit: `ashlar oom --json`."""
        return self._run.oom(capacity=capacity, cap=cap, jobs=jobs)

    def to_html(self, *others: "Recording") -> str:
        """The page of `ashlar view` with this run in it, and others to compare it with: one file
        that needs no network and no server, of 8 MB at most for one run of ordinary length. To
        keep it: pathlib.Path("run.html").write_text(run.to_html()). Raises InvalidArgument
        where the package was built without the page."""
        for other in others:
            _require_recording(other)
        return _ashlar._page_of([each._run for each in (self, *others)])

    def __repr__(self) -> str:
        told = self.summary()
        return (f"<ashlar.Recording {told['file']}, device {told['device']}: {told['entries']:,} "
                f"entries, at most {in_bytes(told['peak_requested_bytes'])} requested and "
                f"{in_bytes(told['peak_reserved_bytes'])} reserved>")

    def _repr_html_(self) -> str:
        told = self.summary()
        seconds = "" if told["seconds"] is None else f" over {told['seconds']:.2f} s"
        rows = [("settings", f"{told['engine']} {told['conf'] or '(defaults)'}"),
                ("most requested", in_bytes(told["peak_requested_bytes"])),
                ("most reserved", in_bytes(told["peak_reserved_bytes"])),
                ("live at the end", in_bytes(told["live_bytes_at_end"])),
                ("out of memory", f"{told['ooms']:,} times")]
        return table(f"{told['file']}, device {told['device']}: {told['entries']:,} "
                     f"entries{seconds}", rows)


def _require_recording(other: Any) -> None:
    if not isinstance(other, Recording):
        raise TypeError(f"other: {other!r} is no ashlar.Recording (expected one, as ashlar.load "
                        "gives it)")


def _copy(answer: Any) -> Any:
    """Dicts and lists of one's own, all the way down."""
    if isinstance(answer, dict):
        return {name: _copy(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_copy(value) for value in answer]
    return answer


Source = Union[str, "os.PathLike[str]", bytes, bytearray, memoryview, Mapping[str, Any]]


def load(source: Source, *, device: Optional[int] = None) -> Recording:
    """Reads a snapshot of PyTorch's or of Ashlar's: a file, plain or compressed (.xz, .zst, .gz);
    the bytes of one; or the dict that torch.cuda.memory._snapshot() or Allocator.snapshot() gave.
    device: its index; without, the one with the longest history. Raises FileError for a file that
    cannot be opened, and FormatError for what is no snapshot."""
    if isinstance(source, Mapping):
        source = pickle.dumps(dict(source), protocol=4)
        return Recording(_ashlar._load_bytes(source, name="snapshot", device=device))
    if isinstance(source, (bytes, bytearray, memoryview)):
        return Recording(_ashlar._load_bytes(bytes(source), device=device))
    return Recording(_ashlar.load(source, device=device))


class Allocator(_ashlar.Allocator):
    """Device memory, ordered by streams and cached between uses. It lives as long as it, its
    buffers or its pools are referred to."""

    def recording(self) -> Recording:
        """What was done since `start_history`, to be asked what recorded runs are asked."""
        return Recording(self._recorded_run())

    @contextlib.contextmanager
    def region(self, name: str) -> Iterator[None]:
        """A stretch of the program with a name, in the history."""
        self.annotate(name=name, stage="START")
        try:
            yield
        finally:
            self.annotate(name=name, stage="END")

    def _repr_html_(self) -> str:
        return self.stats()._repr_html_()
