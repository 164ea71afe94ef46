#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks every relative link of a built site: the target file and the anchor exist.

  check_links.py FOLDER      exit: 0 no dead links, 1 dead links

Needs Python 3.11 and its standard library."""

import html.parser
import pathlib
import sys
import urllib.parse

# Doxygen 1.9.4 links to the list of nested classes even if all nested classes are private and not
# listed.
IGNORED_ANCHORS = {"nested-classes"}


class Page(html.parser.HTMLParser):
    """The links and anchors of one page."""

    def __init__(self, text):
        super().__init__()
        self.links, self.anchors = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        values = dict(attrs)
        for name in ("id", "name"):
            if values.get(name):
                self.anchors.add(values[name])
        for name in ("href", "src"):
            if values.get(name):
                self.links.append(values[name])


def dead_links(folder):
    """Yields (page, link) for each dead link."""
    pages = {path: Page(path.read_text(encoding="utf-8", errors="replace"))
             for path in sorted(folder.rglob("*.html"))}
    for path, page in pages.items():
        for link in page.links:
            parts = urllib.parse.urlsplit(link)
            if parts.scheme or parts.netloc or link.startswith("/"):
                continue
            target = (path.parent / urllib.parse.unquote(parts.path)).resolve() if parts.path \
                else path
            if target.is_dir():
                target = target / "index.html"
            anchor = urllib.parse.unquote(parts.fragment)
            if anchor in IGNORED_ANCHORS:
                anchor = ""
            if not target.exists() or (anchor and target in pages
                                       and anchor not in pages[target].anchors):
                yield path.relative_to(folder), link


def main():
    folder = pathlib.Path(sys.argv[1]).resolve()
    dead = list(dead_links(folder))
    for page, link in dead:
        print(f"check_links: {page}: dead link {link}")
    print(f"check_links: {len(list(folder.rglob('*.html')))} pages, {len(dead)} dead links")
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main())
