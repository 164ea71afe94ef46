"""How answers show themselves in notebooks. All text is escaped: files of strangers have it."""

import html


def in_bytes(count):
    """1536 as "1.50 KiB"."""
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(count) < 1024:
            return f"{count} B" if unit == "B" else f"{count:.2f} {unit}"
        count /= 1024
    return f"{count:.2f} TiB"


def table(title, rows, headings=()):
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


class Stats(dict):
    """The statistics of an allocator under their public names, with a table for notebooks."""

    _ROWS = (("live", "allocated_bytes"), ("asked for", "requested_bytes"),
             ("live or pending", "active_bytes"), ("held", "reserved_bytes"))
    _COLUMNS = ("current", "peak", "allocated", "freed")

    def _rows(self):
        for title, name in self._ROWS:
            yield (title, *(in_bytes(self.get(f"{name}.all.{column}", 0))
                            for column in self._COLUMNS))
        yield ("blocks", *(f"{self.get(f'allocation.all.{column}', 0):,}"
                           for column in self._COLUMNS))

    def _repr_html_(self):
        title = (f"{self.get('num_device_alloc', 0):,} calls for more, "
                 f"{self.get('num_device_free', 0):,} to give back; out of memory: "
                 f"{self.get('num_ooms', 0):,}")
        return table(title, self._rows(), ("", "now", "peak", "in all", "freed"))
