# SPDX-License-Identifier: Apache-2.0
"""Tables that several kinds of results share, and their rows."""

from typing import Any, Dict, List, Optional, Sequence, Tuple

from ashlar._display import Section, format_bytes, limited, shortened, stack_text

Entry = Dict[str, Any]

STACK_HEADINGS = ("stack", "bytes", "blocks")


def category_section(categories: Sequence[Entry]) -> Section:
    """Lists the categories, those with the most bytes at the peak first."""
    largest_first = sorted(categories, key=lambda each: int(each["bytes_at_peak"]), reverse=True)
    return Section("categories", [(each["name"], format_bytes(each["bytes_at_peak"]),
                                   format_bytes(each["max_bytes"])) for each in largest_first],
                   ("category", "at the peak", "at most"))


def iteration_section(found: Entry) -> Section:
    """Names the iteration with the highest peak, and lists the highest peak of each phase."""
    if not found["all"]:
        return Section(f"iterations: none found: {found['problem']}", [])
    phases: Dict[str, int] = {}
    for each in found["all"]:
        for phase, count in each["peak_by_phase"].items():
            phases[phase] = max(phases.get(phase, 0), count)
    highest = found["highest"]
    title = (f"iterations: {found['complete']:,} complete, found from {found['found_from']}; "
             f"iteration {highest['index'] + 1:,} peaks highest, in its {highest['phase']} phase")
    return Section(title, [(phase, format_bytes(count)) for phase, count in phases.items()],
                   ("phase", "highest peak"))


def stack_rows(uses: Sequence[Entry]) -> List[Sequence[Any]]:
    """Returns rows for STACK_HEADINGS."""
    return list(limited([(stack_text(use["stack"]), format_bytes(use["bytes"]),
                          f"{use['count']:,}") for use in uses]))


def source_line_row(line: Entry, file: Entry) -> Sequence[str]:
    """Returns the cells of a source line: its place and text, its bytes at the peak, those bytes
    including functions that the line calls, and its allocated bytes."""
    place = stack_text([{"name": line["function"], "filename": file["path"],
                         "line": line["line"]}])
    if line["text"] is not None:
        place += "\n" + shortened(line["text"].strip())
    return (place, format_bytes(line["bytes_at_peak"]),
            format_bytes(line["bytes_at_peak_with_calls"]), format_bytes(line["allocated_bytes"]))


def segment_rows(segments: Sequence[Entry]) -> List[Sequence[str]]:
    """Returns a row for each of the largest blocks of each segment. The first row of a segment also
    has the sizes of the segment."""
    sizes = ("total_bytes", "free_bytes", "largest_hole_bytes")
    return [(stack_text(block["frames"]), format_bytes(block["bytes"]),
             *(format_bytes(segment[name]) if number == 0 else "" for name in sizes))
            for segment in segments
            for number, block in enumerate(segment["largest_blocks"])]


def setting_rows(settings: Sequence[Entry]) -> Tuple[List[Sequence[Any]], Sequence[str]]:
    """Returns the rows and the headings of a table of settings."""
    rows = [(f"{each['engine']} {each['conf'] or '(defaults)'}"
             + (", as recorded" if each["is_recorded"] else ""),
             format_bytes(each["peak_reserved_bytes"]), f"{each['ooms']:,}",
             "-" if each["min_capacity_bytes"] is None
             else ("≤ " if each["is_min_capacity_bound"] else "")
             + format_bytes(each["min_capacity_bytes"]))
            for each in settings if each["is_comparable"]]
    columns = 4 if any(each["min_capacity_bytes"] is not None for each in settings) else 3
    headings = ("setting", "peak reserved", "OOMs", "min capacity")
    return list(limited([row[:columns] for row in rows])), headings[:columns]


def count_text(number: int, noun: str, plural: Optional[str] = None) -> str:
    """Formats a number with its noun, such as "1 time" and "2 times"."""
    return f"{number:,} {noun if number == 1 else plural or noun + 's'}"
