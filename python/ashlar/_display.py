# SPDX-License-Identifier: Apache-2.0
"""How answers show themselves: as tables in notebooks, and in texts. In HTML all text is escaped:
files of strangers have it."""

import html
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

Row = Tuple[str, ...]

_MOST_ROWS = 20  # of one table; the rest is counted


def in_bytes(count: float) -> str:
    """1536 as "1.50 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:,.2f} TiB"


def more_in_bytes(count: float) -> str:
    """A difference: 1536 as "+1.50 KiB"."""
    return f"+{in_bytes(count)}" if count > 0 else in_bytes(count)


def table(title: str, rows: Iterable[Sequence[Any]], headings: Sequence[str] = ()) -> str:
    """A table of texts, the first of each row to the left, the others to the right."""
    parts = ['<table style="text-align: right">',
             f'<caption style="text-align: left">{html.escape(title)}</caption>']
    if headings:
        parts.append("<tr>" + "".join(f"<th>{html.escape(each)}</th>" for each in headings)
                     + "</tr>")
    for first, *others in rows:
        parts.append(f'<tr><td style="text-align: left">{html.escape(str(first))}</td>'
                     + "".join(f"<td>{html.escape(str(each))}</td>" for each in others) + "</tr>")
    return "".join(parts) + "</table>"


def text_table(rows: Sequence[Row]) -> List[str]:
    """The same as lines of text."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0])]
                      + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]).rstrip()
            for row in rows]


def _first(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """The first rows, and how many there are more."""
    yield from rows[:_MOST_ROWS]
    if len(rows) > _MOST_ROWS:
        yield (f"and {len(rows) - _MOST_ROWS:,} more", *[""] * (len(rows[0]) - 1))


def _of_stack(stack: Sequence[Dict[str, Any]]) -> str:
    """Where a stack is, in few words: its two innermost frames."""
    if not stack:
        return "(no stack)"
    return " < ".join(f"{frame['name']} ({frame['filename']}:{frame['line']})"
                      for frame in stack[:2])


class Stats(Dict[str, int]):
    """The statistics of an allocator under their public names, with a table for notebooks."""

    _ROWS = (("live", "allocated_bytes"), ("asked for", "requested_bytes"),
             ("live or pending", "active_bytes"), ("held", "reserved_bytes"))
    _COLUMNS = ("current", "peak", "allocated", "freed")
    _HEADINGS = ("", "now", "peak", "in all", "freed")

    def _rows(self) -> Iterator[Row]:
        for title, name in self._ROWS:
            yield (title, *(in_bytes(self.get(f"{name}.all.{column}", 0))
                            for column in self._COLUMNS))
        yield ("blocks", *(f"{self.get(f'allocation.all.{column}', 0):,}"
                           for column in self._COLUMNS))

    def _calls(self) -> str:
        return (f"{self.get('num_device_alloc', 0):,} calls for more, "
                f"{self.get('num_device_free', 0):,} to give back; out of memory: "
                f"{self.get('num_ooms', 0):,}, after trying again: "
                f"{self.get('num_alloc_retries', 0):,}")

    def text(self) -> str:
        """The table as text."""
        return "\n".join([*text_table([self._HEADINGS, *self._rows()]), self._calls()])

    def _repr_html_(self) -> str:
        return table(self._calls(), self._rows(), self._HEADINGS)


class HostStats(Dict[str, int]):
    """The same of an allocator of pinned host memory."""

    _ROWS = (("asked for", "requested_bytes"), ("in use or pending", "active_bytes"),
             ("held", "allocated_bytes"))

    def _repr_html_(self) -> str:
        rows = [(title, *(in_bytes(self.get(f"{name}.{column}", 0)) for column in Stats._COLUMNS))
                for title, name in self._ROWS]
        return table("pinned host memory", rows, Stats._HEADINGS)


class Causes(Dict[str, Any]):
    """Why more was reserved than requested."""

    def _repr_html_(self) -> str:
        gap = self["gap_bytes"]
        rows = [(name.replace("_", " "), in_bytes(count), f"{100 * count / gap:.1f} %")
                for name, count in self["causes"].items() if count]
        return table(f"{in_bytes(self['reserved_bytes'])} reserved and "
                     f"{in_bytes(self['requested_bytes'])} requested at the peak: "
                     f"{in_bytes(gap)} between them", rows, ("cause", "bytes", "share"))


class Peaks(Dict[str, Any]):
    """The most that there was of everything, and whose it was."""

    def _repr_html_(self) -> str:
        rows = [(_of_stack(use["stack"]), in_bytes(use["bytes"]), f"{use['count']:,}")
                for use in self["stacks"]]
        return table(f"at most {in_bytes(self['peak_requested_bytes'])} requested and "
                     f"{in_bytes(self['peak_reserved_bytes'])} reserved, where "
                     f"{in_bytes(self['packed_bytes'])} would have done",
                     _first(rows), ("at the peak", "bytes", "blocks"))


class Leaks(Dict[str, Any]):
    """Whose live bytes keep growing."""

    def _repr_html_(self) -> str:
        rows = [(self._whose(leak), more_in_bytes(leak["growth_bytes"]),
                 in_bytes(leak["live_bytes"]), f"{leak['live_count']:,}")
                for leak in self["leaks"]]
        return table(f"{len(rows):,} of {self['groups']:,} groups grow", _first(rows),
                     ("whose", "growth", "live at the end", "blocks"))

    @staticmethod
    def _whose(leak: Dict[str, Any]) -> str:
        if "stack" in leak:
            return _of_stack(leak["stack"])
        return f"blocks of {in_bytes(leak['size_class_bytes'])} in stream {leak['stream']}"


class Diff(Dict[str, Any]):
    """What one run holds more or less than another."""

    def _repr_html_(self) -> str:
        rows = [(_of_stack(row["stack"]), more_in_bytes(row["difference_bytes"]),
                 in_bytes(row["base_bytes"]), in_bytes(row["new_bytes"]))
                for row in self["by_stack"]]
        return table(f"{more_in_bytes(self['difference_bytes'])} at the {self['at']}: "
                     f"{self['base']['file']}, then {self['new']['file']}", _first(rows),
                     ("whose", "difference", "before", "now"))


class Tuning(Dict[str, Any]):
    """What the run would have needed under other settings."""

    def _repr_html_(self) -> str:
        rows = [(f"{each['engine']} {each['conf'] or '(defaults)'}"
                 + (", as recorded" if each["is_recorded"] else ""),
                 in_bytes(each["peak_reserved_bytes"]), f"{each['ooms']:,}",
                 "" if each["min_capacity_bytes"] is None
                 else in_bytes(each["min_capacity_bytes"]))
                for each in self["results"]]
        return table(f"best: {self['paste'] or 'none completes'}", _first(rows),
                     ("setting", "most reserved", "out of memory", "least capacity"))
