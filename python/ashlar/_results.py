# SPDX-License-Identifier: Apache-2.0
"""Results of analyses: dicts with the keys of the command line's --json, which print as text tables
and which notebooks show as HTML tables."""

import copy
from typing import (Any, Dict, Generic, Iterable, Iterator, List, Optional, Sequence, Tuple,
                    TypeVar, Union, overload)

from ashlar._display import (Section, format_bytes, format_difference, html_of, limited, one_line,
                             stack_text, text_of)
from ashlar._sections import (STACK_HEADINGS, Entry, category_section, count_text,
                              iteration_section, segment_rows, setting_rows, source_line_row,
                              stack_rows)

Value = TypeVar("Value")


class _Key(Generic[Value]):
    """A key of a result, as a read-only attribute."""

    def __init__(self, meaning: str) -> None:
        self.__doc__ = meaning
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, result: None, owner: type) -> "_Key[Value]": ...

    @overload
    def __get__(self, result: "Result", owner: type) -> Value: ...

    def __get__(self, result: Optional["Result"], owner: type) -> Union["_Key[Value]", Value]:
        if result is None:
            return self
        if self._name not in result:
            raise AttributeError(f"this {type(result).__name__} has no {self._name}")
        return result[self._name]  # type: ignore[no-any-return]

    def __set__(self, result: "Result", value: Any) -> None:
        raise AttributeError(f"{self._name} is read-only")


class Result(Dict[str, Any]):
    """A result as a dict with the keys of the command's --json. The keys that every result of its
    kind has are also attributes. str() formats it as text tables; notebooks show HTML tables."""

    file = _Key[str]("the name of the recording")
    device = _Key[int]("the index of the device")

    def to_dict(self) -> Dict[str, Any]:
        """Returns a deep copy as a plain dict."""
        return {name: copy.deepcopy(value) for name, value in self.items()}

    def _sections(self) -> Iterable[Section]:
        raise NotImplementedError

    def _sections_or_problem(self) -> Iterable[Section]:
        """Returns the sections, or one section that says why the analysis was not possible."""
        if "cannot_tell" in self:
            return [Section(self._name(), [(self["cannot_tell"],)])]
        return self._sections()

    def __str__(self) -> str:
        return text_of(self._sections_or_problem())

    def __repr__(self) -> str:
        title = next(iter(self._sections_or_problem())).title
        return f"<ashlar.{type(self).__name__}: {one_line(title)}>"

    def _repr_html_(self) -> str:
        return html_of(self._sections_or_problem())

    def _name(self) -> str:
        return f"{self['file']}, device {self['device']}"


class Summary(Result):
    """Entry count, duration and peaks of a recording."""

    engine = _Key[str]("the engine that made the recording")
    conf = _Key[str]("the settings that are not defaults")
    entries = _Key[int]("the number of trace entries")
    seconds = _Key[Optional[float]]("the duration; None without times in the trace")
    allocations = _Key[int]("the number of allocations, including those before the trace")
    peak_requested_bytes = _Key[int]("the recorded peak of requested bytes")
    peak_reserved_bytes = _Key[int]("the recorded peak of reserved bytes")
    live_bytes_at_begin = _Key[int]("the requested bytes of allocations live before the trace")
    live_bytes_at_end = _Key[int]("the requested bytes of allocations live at the end")
    ooms = _Key[int]("the number of out-of-memory errors")

    def _sections(self) -> Iterator[Section]:
        seconds = "" if self["seconds"] is None else f" over {self['seconds']:.2f} s"
        entries = count_text(self["entries"], "entry", "entries")
        yield Section(f"{self._name()}: {entries}{seconds}", [
            ("settings", f"{self['engine']} {self['conf'] or '(defaults)'}"),
            ("peak requested", format_bytes(self["peak_requested_bytes"])),
            ("peak reserved", format_bytes(self["peak_reserved_bytes"])),
            ("live at end", format_bytes(self["live_bytes_at_end"])),
            ("out of memory", count_text(self["ooms"], "time")),
        ])


class Causes(Result):
    """The causes of reserved but unused memory."""

    reserved_bytes = _Key[int]("reserved bytes at the peak")
    requested_bytes = _Key[int]("requested bytes at the peak")
    gap_bytes = _Key[int]("reserved bytes that are not requested; the sum of the causes")
    causes = _Key[Dict[str, int]]("bytes by cause")

    def _sections(self) -> Iterator[Section]:
        gap = self["gap_bytes"]
        rows = [(name.replace("_", " "), format_bytes(count), f"{100 * count / gap:.1f} %")
                for name, count in self["causes"].items() if count]
        yield Section(f"{format_bytes(self['reserved_bytes'])} reserved and "
                      f"{format_bytes(self['requested_bytes'])} requested at the peak: "
                      f"{format_bytes(gap)} unused", rows, ("cause", "bytes", "share"))


class Peaks(Result):
    """Peaks of a run, and the stacks with the most bytes at the peak."""

    peak_requested_bytes = _Key[int]("peak of requested bytes")
    peak_allocated_bytes = _Key[Optional[int]]("replayed, after rounding; None: no history")
    peak_active_bytes = _Key[Optional[int]]("replayed: allocated, or freed but still in use")
    peak_reserved_bytes = _Key[int]("peak of bytes reserved from the device")
    packed_bytes = _Key[int]("the best layout found")
    stacks = _Key[List[Entry]]("stacks at the peak, with bytes and block count")

    def _sections(self) -> Iterator[Section]:
        yield Section(f"peak {format_bytes(self['peak_requested_bytes'])} requested, "
                      f"{format_bytes(self['peak_reserved_bytes'])} reserved; the best layout "
                      f"found needs {format_bytes(self['packed_bytes'])}",
                      stack_rows(self["stacks"]), STACK_HEADINGS)


class Report(Result):
    """The result of `ashlar report`."""

    entries = _Key[int]("the number of trace entries")
    peak_requested_bytes = _Key[int]("peak of requested bytes")
    peak_allocated_bytes = _Key[Optional[int]]("replayed, after rounding; None: no history")
    peak_active_bytes = _Key[Optional[int]]("replayed: allocated, or freed but still in use")
    peak_reserved_bytes = _Key[int]("peak of bytes reserved from the device")
    lower_bound_bytes = _Key[int]("no layout needs less")
    packed_bytes = _Key[int]("the best layout found")
    ooms = _Key[int]("the number of out-of-memory errors")
    at_peak = _Key[Entry]("reserved and requested bytes, causes and stacks at the peak")
    alternatives = _Key[List[Entry]]("peaks with other settings")
    categories = _Key[List[Entry]]("parameters, activations and so on, with bytes and rules")
    iterations = _Key[Entry]("the iterations, their peaks by phase, and the highest")
    advice = _Key[List[str]]("recommendations of one or two sentences each")

    @property
    def causes(self) -> Causes:
        """The causes of reserved but unused memory at the peak."""
        return Causes({name: copy.deepcopy(value) for name, value in self["at_peak"].items()
                       if name != "stacks"})

    def _sections(self) -> Iterator[Section]:
        yield Section(f"{self._name()}: {count_text(self['entries'], 'entry', 'entries')}", [
            ("peak requested", format_bytes(self["peak_requested_bytes"]), "by the program"),
            *self._allocated(),
            ("peak reserved", format_bytes(self["peak_reserved_bytes"]), "from the device"),
            ("lower bound", format_bytes(self["lower_bound_bytes"]),
             f"{self._failure_note()}the best layout found needs "
             f"{format_bytes(self['packed_bytes'])}"),
        ])
        yield from self.causes._sections()
        if "groups" in self["at_peak"]:
            yield Section("groups at the peak", list(limited(
                [(group["name"], format_bytes(group["bytes"]), f"{group['count']:,}")
                 for group in self["at_peak"]["groups"]])), ("group", "bytes", "blocks"))
        else:
            yield Section("largest stacks at the peak", stack_rows(self["at_peak"]["stacks"]),
                          STACK_HEADINGS)
        yield category_section(self["categories"])
        yield iteration_section(self["iterations"])
        yield Section("advice", [(line,) for line in self["advice"]])

    def _failure_note(self) -> str:
        has_failed = self["lower_bound_bytes"] > self["peak_requested_bytes"]
        return "with the request that failed; " if has_failed else ""

    def _allocated(self) -> Iterator[Tuple[str, str, str]]:
        if self["peak_allocated_bytes"] is not None:
            yield ("peak allocated", format_bytes(self["peak_allocated_bytes"]),
                   "in blocks, after rounding (replayed)")


class Training(Result):
    """The categories, iterations and phases of a training or inference program. Entries are
    indexes into the trace."""

    categories = _Key[List[Entry]]("parameters, activations and so on, with bytes and rules")
    iterations = _Key[Entry]("the iterations, their peaks by phase, and the highest")
    iteration_count = _Key[int]("the number of iterations; a list has at most 20,000")
    phases = _Key[List[Entry]]("forward, backward and so on, with their entries")
    phase_count = _Key[int]("the number of phases")

    def _sections(self) -> Iterator[Section]:
        complete = count_text(self["iterations"]["complete"], "complete iteration")
        yield Section(f"{self._name()}: {complete}, {count_text(self['phase_count'], 'phase')}", [])
        yield category_section(self["categories"])
        yield iteration_section(self["iterations"])


class SourceLines(Result):
    """The result of `ashlar annotate`: the bytes of each line of the user's code."""

    peak_entry = _Key[Optional[int]]("the entry of the peak; None: before the first entry")
    bytes_at_peak = _Key[int]("requested bytes at the peak, of all code")
    count_at_peak = _Key[int]("allocations at the peak")
    allocated_bytes = _Key[int]("requested bytes of all allocations during the recording")
    allocation_count = _Key[int]("the number of allocations during the recording")
    files = _Key[List[Entry]]("the files with their lines; most bytes at the peak first")
    elsewhere = _Key[List[Entry]]("bytes of allocations without a line of the user's code")

    def _sections(self) -> Iterator[Section]:
        own = sum(file["bytes_at_peak"] for file in self["files"])
        lines = [(line, file) for file in self["files"] for line in file["lines"]
                 if line["count_at_peak"] or line["allocation_count"]]
        lines.sort(key=lambda each: (-each[0]["bytes_at_peak"], -each[0]["allocated_bytes"]))
        has_history = self["allocated_bytes"] > 0
        moment = "at the peak" if has_history else "in the snapshot"
        numbers = ("at peak", "with calls", "allocated") if has_history else ("live", "with calls")
        columns = 1 + len(numbers)
        yield Section(f"{self._name()}: {format_bytes(self['bytes_at_peak'])} requested {moment}; "
                      f"lines of your code hold {format_bytes(own)} of it",
                      list(limited([source_line_row(*each)[:columns] for each in lines])),
                      ("line", *numbers))
        yield Section("not in your code",
                      [(each["name"], format_bytes(each["bytes_at_peak"]), "",
                        format_bytes(each["allocated_bytes"]))[:columns]
                       for each in self["elsewhere"]],
                      ("made by", numbers[0], "", "allocated")[:columns])


class Leaks(Result):
    """Groups of allocations whose memory grows with every iteration."""

    leaks = _Key[List[Entry]]("the growing groups, the fastest first")
    iterations = _Key[int]("the number of iterations that were compared")
    can_tell = _Key[bool]("whether there were enough iterations to compare")
    groups = _Key[int]("the number of groups that were examined")
    live_bytes_at_end = _Key[int]("the requested bytes of allocations live at the end")

    def _sections(self) -> Iterator[Section]:
        if not self["can_tell"]:
            yield Section(f"cannot tell whether memory leaks: {self['problem']}", [])
            return
        rows = [(self._group_text(leak), format_bytes(round(leak["bytes_per_iteration"])),
                 format_difference(leak["growth_bytes"]), format_bytes(leak["live_bytes"]),
                 f"{leak['live_count']:,}")
                for leak in self["leaks"]]
        yield Section(f"growing groups: {len(rows):,} of {self['groups']:,}, over "
                      f"{self['iterations']:,} iterations", limited(rows),
                      ("stack", "per iteration", "growth", "live at end", "blocks"))

    @staticmethod
    def _group_text(leak: Entry) -> str:
        if "stack" in leak:
            return stack_text(leak["stack"])
        return f"blocks of {format_bytes(leak['size_class_bytes'])} in stream {leak['stream']}"


class Diff(Result):
    """The difference between the live allocations of two runs. Its files are base["file"] and
    new["file"]."""

    at = _Key[str]('"end" or "peak"')
    base = _Key[Entry]("file, device, entries, bytes and count of the base")
    new = _Key[Entry]("file, device, entries, bytes and count of the new run")
    difference_bytes = _Key[int]("new bytes minus base bytes")
    by_stack = _Key[List[Entry]]("differences by stack, the largest first")
    by_size_class = _Key[List[Entry]]("differences by size class")
    by_stream = _Key[List[Entry]]("differences by stream")

    def _sections(self) -> Iterator[Section]:
        rows = [(stack_text(row["stack"]), format_difference(row["difference_bytes"]),
                 format_bytes(row["base_bytes"]), format_bytes(row["new_bytes"]))
                for row in self["by_stack"]]
        yield Section(f"{format_difference(self['difference_bytes'])} at the {self['at']}: "
                      f"{self['base']['file']} to {self['new']['file']}", limited(rows),
                      ("stack", "difference", "base", "new"))


class Replay(Result):
    """The result of `ashlar replay`: the run under its own or other settings. Its peaks are those
    of the replay."""

    engine = _Key[str]("the engine")
    conf = _Key[str]("the settings that are not defaults")
    capacity_bytes = _Key[int]("memory of the replayed device")
    allocs = _Key[int]("the number of allocations")
    frees = _Key[int]("the number of frees")
    peak_requested_bytes = _Key[int]("peak of requested bytes")
    peak_allocated_bytes = _Key[int]("peak of allocated bytes: after rounding")
    peak_active_bytes = _Key[int]("peak of active bytes: allocated, or freed but still in use")
    peak_reserved_bytes = _Key[int]("peak of bytes reserved from the device")
    retries = _Key[int]("the number of cache flushes")
    ooms = _Key[int]("the number of out-of-memory errors")
    driver = _Key[Entry]("driver calls and their modelled time")
    fidelity = _Key[Optional[Entry]]("how many recorded segment operations the replay repeats")
    seconds = _Key[float]("how long the replay took")

    def _sections(self) -> Iterator[Section]:
        yield Section(f"{self._name()}: replayed", [
            ("settings", f"{self['engine']} {self['conf'] or '(defaults)'}"),
            ("entries", f"{self['events']:,}: {count_text(self['allocs'], 'allocation')}, "
                        f"{count_text(self['frees'], 'free')}"),
            ("peak requested", format_bytes(self["peak_requested_bytes"])),
            ("peak allocated", format_bytes(self["peak_allocated_bytes"])),
            ("peak reserved", format_bytes(self["peak_reserved_bytes"])),
            ("out of memory", f"{count_text(self['ooms'], 'time')}; "
                              f"{count_text(self['retries'], 'cache flush', 'cache flushes')}"),
            ("driver", f"{self['driver']['modelled_us'] / 1000:.1f} ms (modelled)"),
        ])


class Tuning(Result):
    """Peak memory of a run under other settings."""

    results = _Key[List[Entry]]("the settings with their peaks")
    best = _Key[Optional[Entry]]("the best setting that can be set; None if none completes")
    paste = _Key[Optional[str]]("the best setting as a shell assignment")
    lower_bound_bytes = _Key[int]("no setting reserves less")

    def _sections(self) -> Iterator[Section]:
        nothing = "as recorded" if self["best"] else "none completes"
        yield Section(f"best: {self['paste'] or nothing}",
                      *setting_rows(self["results"]))


class OomReport(Result):
    """The result of `ashlar oom`. If the run does not run out of memory, `out_of_memory` is False,
    and the keys about the failure are missing."""

    out_of_memory = _Key[Optional[bool]]("whether an allocation failed; None: no history")
    entry = _Key[Optional[int]]("the trace entry of the failure; None: before the first entry")
    was_recorded = _Key[bool]("whether the recording contains the failure")
    is_reproduced = _Key[bool]("whether a replay fails at the same request")
    verdict = _Key[Entry]("the reason, its explanation as text, and remedies as sentences")
    requested_bytes = _Key[Optional[int]]("the requested bytes; None if unknown")
    rounded_bytes = _Key[int]("the requested bytes after rounding")
    limit = _Key[Entry]("the memory limit")
    state = _Key[Entry]("reserved, allocated and free memory at the failure")
    live_requested_bytes = _Key[int]("the requested bytes in use at the failure")
    holders = _Key[List[Entry]]("the stacks of the memory in use, with bytes, count and category")
    categories = _Key[List[Entry]]("the memory in use by category: parameters and so on")
    fitting = _Key[List[Entry]]("the settings that complete")

    def _sections(self) -> Iterator[Section]:
        if not self["out_of_memory"]:
            yield Section(f"{self._name()}: no out-of-memory failure", [])
            return
        where = ("before the first entry" if self["entry"] is None
                 else f"at entry {self['entry']:,}")
        verdict = self["verdict"]
        yield Section(f"{self._name()}: out of memory {where}, "
                      f"{'as recorded' if self['was_recorded'] else 'in the replay'}",
                      [(verdict["text"],), *((f"* {each}",) for each in verdict["remedies"])])
        yield Section("the failed request", list(self._facts()))
        yield Section("lines that held the most memory: "
                      f"{format_bytes(self['live_requested_bytes'])} in use",
                      list(limited([(stack_text(each["stack"]), format_bytes(each["bytes"]),
                                     f"{each['count']:,}", each["category"])
                                    for each in self["holders"]])),
                      (*STACK_HEADINGS, "category"))
        yield Section("memory in use by category",
                      [(each["name"], format_bytes(each["bytes"])) for each in self["categories"]],
                      ("category", "bytes"))
        if verdict["reason"] == "fragmented":
            yield Section("segments with the most free memory, and the blocks that hold them",
                          limited(segment_rows(self["state"]["pinned_segments"])),
                          ("held by", "block", "segment", "free", "largest free block"))
        yield Section(f"{len(self['fitting']):,} of "
                      f"{count_text(self['settings_tried'], 'replayed setting')} complete under "
                      f"{format_bytes(self['limit']['replayed_bytes'])}",
                      *setting_rows(self["fitting"]))

    def _facts(self) -> Iterator[Tuple[str, str]]:
        requested = self["requested_bytes"]
        yield ("requested", ("" if requested is None else f"{format_bytes(requested)}; ")
               + f"{format_bytes(self['rounded_bytes'])} after rounding")
        if self["frames"]:
            yield "requested by", stack_text(self["frames"])
        about = "about " if self["limit"]["is_inferred"] else ""
        yield "memory limit", about + format_bytes(self["limit"]["at_least_bytes"])
        yield "free on the device", format_bytes(self["device_free_bytes"])
        state = self["state"]
        yield "reserved", format_bytes(state["reserved_bytes"])
        yield "allocated", format_bytes(state["allocated_bytes"])
        yield "free in the cache", format_bytes(state["free_bytes"])
        yield "largest free block", format_bytes(state["largest_hole_bytes"])
