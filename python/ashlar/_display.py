# SPDX-License-Identifier: Apache-2.0
"""Statistics and analysis results as tables, in HTML for notebooks and as text. All text is escaped
in HTML, since it may come from untrusted files."""

import html
from typing import Any, Dict, Iterable, Iterator, List, Sequence, Tuple

Row = Tuple[str, ...]

_MAX_ROWS = 20  # rows per table; one more row has the number of omitted rows


def format_bytes(count: float) -> str:
    """Formats 1536 as "1.50 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:,.2f} TiB"


def format_difference(count: float) -> str:
    """Formats a difference, such as 1536 as "+1.50 KiB"."""
    return f"+{format_bytes(count)}" if count > 0 else format_bytes(count)


def table(title: str, rows: Iterable[Sequence[Any]], headings: Sequence[str] = ()) -> str:
    """Formats an HTML table. The first column is left-aligned, all others are right-aligned."""
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
    """Formats a text table, one string per line, with the alignment of `table`."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return ["  ".join([row[0].ljust(widths[0])]
                      + [cell.rjust(width) for cell, width in zip(row[1:], widths[1:])]).rstrip()
            for row in rows]


def _limited(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yields the first rows, and a row with the number of omitted rows if there are any."""
    yield from rows[:_MAX_ROWS]
    if len(rows) > _MAX_ROWS:
        yield (f"and {len(rows) - _MAX_ROWS:,} more", *[""] * (len(rows[0]) - 1))


def _stack_text(stack: Sequence[Dict[str, Any]]) -> str:
    """Formats the two innermost frames of a stack."""
    if not stack:
        return "(no stack)"
    return " < ".join(f"{frame['name']} ({frame['filename']}:{frame['line']})"
                      for frame in stack[:2])


class Stats(Dict[str, int]):
    """Statistics of an allocator by name, as a dict that notebooks show as a table."""

    _ROWS = (("allocated", "allocated_bytes"), ("requested", "requested_bytes"),
             ("active", "active_bytes"), ("reserved", "reserved_bytes"))
    _COLUMNS = ("current", "peak", "allocated", "freed")
    _HEADINGS = ("", "current", "peak", "allocated", "freed")

    def _rows(self) -> Iterator[Row]:
        for title, name in self._ROWS:
            yield (title, *(format_bytes(self.get(f"{name}.all.{column}", 0))
                            for column in self._COLUMNS))
        yield ("blocks", *(f"{self.get(f'allocation.all.{column}', 0):,}"
                           for column in self._COLUMNS))

    def _call_counts(self) -> str:
        return (f"{self.get('num_device_alloc', 0):,} device allocations, "
                f"{self.get('num_device_free', 0):,} device frees, "
                f"{self.get('num_alloc_retries', 0):,} retries, "
                f"{self.get('num_ooms', 0):,} out-of-memory errors")

    def text(self) -> str:
        """Formats the table as text."""
        return "\n".join([*text_table([self._HEADINGS, *self._rows()]), self._call_counts()])

    def _repr_html_(self) -> str:
        return table(self._call_counts(), self._rows(), self._HEADINGS)


class HostStats(Dict[str, int]):
    """Statistics of a pinned host memory allocator, as a dict that notebooks show as a table."""

    _ROWS = (("requested", "requested_bytes"), ("active", "active_bytes"),
             ("reserved", "allocated_bytes"))

    def _repr_html_(self) -> str:
        rows = [(title, *(format_bytes(self.get(f"{name}.{column}", 0))
                          for column in Stats._COLUMNS))
                for title, name in self._ROWS]
        return table("pinned host memory", rows, Stats._HEADINGS)


class Causes(Dict[str, Any]):
    """The causes of reserved but unused memory."""

    def _repr_html_(self) -> str:
        gap = self["gap_bytes"]
        rows = [(name.replace("_", " "), format_bytes(count), f"{100 * count / gap:.1f} %")
                for name, count in self["causes"].items() if count]
        return table(f"{format_bytes(self['reserved_bytes'])} reserved and "
                     f"{format_bytes(self['requested_bytes'])} requested at the peak: "
                     f"{format_bytes(gap)} unused", rows, ("cause", "bytes", "share"))


class Peaks(Dict[str, Any]):
    """Peaks of a run, and the stacks with the most bytes at the peak."""

    def _repr_html_(self) -> str:
        rows = [(_stack_text(use["stack"]), format_bytes(use["bytes"]), f"{use['count']:,}")
                for use in self["stacks"]]
        return table(f"peak {format_bytes(self['peak_requested_bytes'])} requested, "
                     f"{format_bytes(self['peak_reserved_bytes'])} reserved; the best layout "
                     f"found needs {format_bytes(self['packed_bytes'])}",
                     _limited(rows), ("stack", "bytes", "blocks"))


class Leaks(Dict[str, Any]):
    """Groups of allocations whose live bytes keep growing."""

    def _repr_html_(self) -> str:
        rows = [(self._group_text(leak), format_difference(leak["growth_bytes"]),
                 format_bytes(leak["live_bytes"]), f"{leak['live_count']:,}")
                for leak in self["leaks"]]
        return table(f"{len(rows):,} of {self['groups']:,} groups keep growing", _limited(rows),
                     ("stack", "growth", "live at end", "blocks"))

    @staticmethod
    def _group_text(leak: Dict[str, Any]) -> str:
        if "stack" in leak:
            return _stack_text(leak["stack"])
        return f"blocks of {format_bytes(leak['size_class_bytes'])} in stream {leak['stream']}"


class Diff(Dict[str, Any]):
    """The difference between the live allocations of two runs."""

    def _repr_html_(self) -> str:
        rows = [(_stack_text(row["stack"]), format_difference(row["difference_bytes"]),
                 format_bytes(row["base_bytes"]), format_bytes(row["new_bytes"]))
                for row in self["by_stack"]]
        return table(f"{format_difference(self['difference_bytes'])} at the {self['at']}: "
                     f"{self['base']['file']} to {self['new']['file']}", _limited(rows),
                     ("stack", "difference", "base", "new"))


class Tuning(Dict[str, Any]):
    """Peak memory of a run under other settings."""

    def _repr_html_(self) -> str:
        rows = [(f"{each['engine']} {each['conf'] or '(defaults)'}"
                 + (", as recorded" if each["is_recorded"] else ""),
                 format_bytes(each["peak_reserved_bytes"]), f"{each['ooms']:,}",
                 "" if each["min_capacity_bytes"] is None
                 else format_bytes(each["min_capacity_bytes"]))
                for each in self["results"]]
        return table(f"best: {self['paste'] or 'none completes'}", _limited(rows),
                     ("setting", "peak reserved", "OOMs", "min capacity"))
