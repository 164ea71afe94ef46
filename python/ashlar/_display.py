# SPDX-License-Identifier: Apache-2.0
"""Tables in HTML for notebooks and as text, and statistics as tables. All text may come from
untrusted files: it is escaped in HTML, and characters that do not print are replaced."""

import html
import itertools
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Sequence, Tuple

Row = Tuple[str, ...]

_MAX_ROWS = 20    # rows per table; one more row has the number of omitted rows
_MAX_FRAMES = 3   # frames per stack
_MAX_LENGTH = 60  # characters per function or file name: C++ names can be arbitrarily long


class Section(NamedTuple):
    """A table with a title. With headings, all columns except the first are right-aligned. Cells
    may have several lines."""

    title: str
    rows: Iterable[Sequence[Any]]
    headings: Sequence[str] = ()


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


def printable(text: Any) -> str:
    """Replaces characters that do not print by "?", except line feeds: control characters could
    change the terminal, others the direction or the order of the text."""
    return "".join(each if each.isprintable() or each == "\n" else "?" for each in str(text))


def one_line(text: Any) -> str:
    """Like `printable`, but also replaces line feeds."""
    return printable(text).replace("\n", "?")


def table(title: str, rows: Iterable[Sequence[Any]], headings: Sequence[str] = ()) -> str:
    """Formats a section as an HTML table."""
    caption = html.escape(one_line(title))
    parts = ["<table>", f'<caption style="text-align: left">{caption}</caption>']
    if headings:
        parts.append("<tr>" + "".join(f"<th>{_escaped(each)}</th>" for each in headings) + "</tr>")
    for row in rows:
        parts.append("<tr>")
        for number, cell in enumerate(row):
            side = "right" if headings and number > 0 else "left"
            parts.append(f'<td style="text-align: {side}; white-space: pre-line">'
                         f"{_escaped(cell)}</td>")
        parts.append("</tr>")
    return "".join(parts) + "</table>"


def _escaped(text: Any) -> str:
    return html.escape(printable(text))


def text_table(rows: Iterable[Sequence[Any]], headings: Sequence[str] = ()) -> List[str]:
    """Formats a section without its title as text, one string per line."""
    all_rows = [headings, *rows] if headings else rows
    lines = [line for row in all_rows for line in _lines_of(row)]
    widths = [max(map(len, cells)) for cells in zip(*lines)]
    return ["  ".join(cell.rjust(width) if headings and number > 0 else cell.ljust(width)
                      for number, (cell, width) in enumerate(zip(line, widths))).rstrip()
            for line in lines]


def _lines_of(row: Sequence[Any]) -> Iterator[Sequence[str]]:
    """Splits a row, whose cells may have several lines, into rows with cells of one line."""
    return itertools.zip_longest(*(printable(cell).split("\n") for cell in row), fillvalue="")


def html_of(sections: Iterable[Section]) -> str:
    """Formats sections as HTML."""
    return "<div>" + "".join(table(*section) for section in sections) + "</div>"


def text_of(sections: Iterable[Section]) -> str:
    """Formats sections as text, separated by empty lines."""
    return "\n\n".join(
        "\n".join([one_line(title), *(f"  {line}" for line in text_table(rows, headings))])
        for title, rows, headings in sections)


def limited(rows: Sequence[Sequence[Any]]) -> Iterator[Sequence[Any]]:
    """Yields the first rows, and a row with the number of omitted rows if there are any."""
    yield from rows[:_MAX_ROWS]
    if len(rows) > _MAX_ROWS:
        yield (f"and {len(rows) - _MAX_ROWS:,} more", *[""] * (len(rows[0]) - 1))


def stack_text(stack: Sequence[Dict[str, Any]]) -> str:
    """Formats the innermost frames of a stack, one per line."""
    if not stack:
        return "(no stack was recorded)"
    return "\n".join(_frame_text(frame) for frame in stack[:_MAX_FRAMES])


def _frame_text(frame: Dict[str, Any]) -> str:
    """Formats a frame. Omits the file and the line if they are unknown, as in labels that replace
    a stack."""
    text = shortened(frame["name"])
    if frame["filename"] in ("", "??"):
        return text
    line = f":{frame['line']}" if frame["line"] > 0 else ""
    return f"{text}  {shortened(_short_path(frame['filename']))}{line}"


def shortened(name: str) -> str:
    """Returns the name on one line, cut after _MAX_LENGTH characters."""
    name = one_line(name)
    return name if len(name) <= _MAX_LENGTH else name[:_MAX_LENGTH] + "..."


def _short_path(path: str) -> str:
    """Returns the part after site-packages, or else the last folder and the file name."""
    for folder in ("/site-packages/", "/dist-packages/", "\\site-packages\\"):
        if folder in path:
            return path.rsplit(folder, 1)[1]
    separator = "\\" if "\\" in path and "/" not in path else "/"
    return separator.join(path.split(separator)[-2:])


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
        """Formats the table as text; str() does the same."""
        return "\n".join([*text_table(self._rows(), self._HEADINGS), self._call_counts()])

    def __str__(self) -> str:
        return self.text()

    def _repr_html_(self) -> str:
        return table(self._call_counts(), self._rows(), self._HEADINGS)


class HostStats(Dict[str, int]):
    """Statistics of a pinned host memory allocator, as a dict that notebooks show as a table."""

    _ROWS = (("requested", "requested_bytes"), ("active", "active_bytes"),
             ("reserved", "allocated_bytes"))

    def _section(self) -> Section:
        rows = [(title, *(format_bytes(self.get(f"{name}.{column}", 0))
                          for column in Stats._COLUMNS))
                for title, name in self._ROWS]
        return Section("pinned host memory", rows, Stats._HEADINGS)

    def __str__(self) -> str:
        return text_of([self._section()])

    def _repr_html_(self) -> str:
        return table(*self._section())
