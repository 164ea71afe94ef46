#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests the tools that build the documentation site."""

import pathlib
import tempfile
import unittest

import build_site
import check_links
import comment_filter


class CommentFilterTest(unittest.TestCase):
    def test_head_documents_the_file(self):
        text = "// SPDX-License-Identifier: Apache-2.0\n//\n// Typed ids.\n#pragma once\n"
        self.assertEqual(comment_filter.filtered(text), "/// @file\n/// Typed ids.\n#pragma once\n")

    def test_comments_document_declarations(self):
        text = "// Head.\n#pragma once\n\n// Frees it.\nvoid free();\nint a = 0;  // in bytes\n"
        self.assertIn("/// Frees it.\nvoid free();\nint a = 0;  ///< in bytes",
                      comment_filter.filtered(text))

    def test_escapes_commands_and_tags(self):
        text = comment_filter.filtered("// Head.\nint a;\n// a <b> @c")
        self.assertIn("/// a \\<b\\> \\@c", text)

    def test_leaves_literals_alone(self):
        text = '// Head.\nint a;\nauto b = "http://x";'
        self.assertIn('auto b = "http://x";', comment_filter.filtered(text))


class BuildSiteTest(unittest.TestCase):
    def test_reads_the_commands_of_every_group(self):
        text = ("Usage: ashlar COMMAND\n\nOptions:\n  -h, --help  Print this help\n\n"
                "Recordings:\n  report  Summarize\n\nHelp:\n  symm-run    Run\n")
        self.assertEqual(build_site.command_names(text), ["report", "symm-run"])

    def test_names_commands_and_headers_without_a_page(self):
        with tempfile.TemporaryDirectory() as name:
            missing = build_site.missing_pages(pathlib.Path(name), ["report"])
        self.assertIn("command report", missing)
        self.assertIn("include/ashlar/allocator.h", missing)


class CheckLinksTest(unittest.TestCase):
    def dead_links(self, pages):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name).resolve()
            for path, text in pages.items():
                (folder / path).parent.mkdir(parents=True, exist_ok=True)
                (folder / path).write_text(text, encoding="utf-8")
            return [(page.as_posix(), link) for page, link in check_links.dead_links(folder)]

    def test_finds_missing_files_and_anchors(self):
        pages = {"a.html": '<a href="b.html">b</a><a href="sub/c.html#no">c</a>',
                 "sub/c.html": '<h1 id="yes">c</h1>'}
        self.assertEqual(self.dead_links(pages),
                         [("a.html", "b.html"), ("a.html", "sub/c.html#no")])

    def test_accepts_good_and_external_links(self):
        pages = {"a.html": '<a href="sub/c.html#yes">c</a><a href="https://x.org/y">y</a>'
                           '<a href="#top">t</a><p id="top"></p><a href="sub">s</a>',
                 "sub/c.html": '<h1 id="yes">c</h1>', "sub/index.html": ""}
        self.assertEqual(self.dead_links(pages), [])


if __name__ == "__main__":
    unittest.main()
