#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests how snippets.py finds and compares code blocks."""

import textwrap
import unittest

import snippets


def blocks(text):
    return list(snippets.blocks_of("page.md", textwrap.dedent(text)))


class BlocksTest(unittest.TestCase):
    def test_finds_language_code_and_line(self):
        (block,) = blocks("""\
            text

            ```cpp
            int a;
            ```
            """)
        self.assertEqual((block.language, block.code, block.place),
                         ("cpp", "int a;\n", "page.md:4"))

    def test_finds_indented_blocks(self):
        (block,) = blocks("* item\n\n  ```python\n  if a:\n    b\n  ```\n")
        self.assertEqual(block.code, "if a:\n  b\n")

    def test_reads_the_comments_above(self):
        first, second = blocks("""\
            <!-- not run: needs a GPU -->
            ```sh
            a
            ```

            <!-- not run: needs two processes -->
            <!-- setup:
            int b;
            int c;
            -->
            ```cpp
            b;
            ```
            """)
        self.assertEqual(first.notes, {"not run": "needs a GPU"})
        self.assertEqual(second.notes,
                         {"not run": "needs two processes", "setup": "int b;\nint c;"})

    def test_comments_elsewhere_do_not_count(self):
        (block,) = blocks("<!-- not run: a -->\ntext\n```sh\na\n```\n")
        self.assertEqual(block.notes, {})


class MatchesTest(unittest.TestCase):
    def test_equal_output_matches(self):
        self.assertTrue(snippets.matches(["a", "", "b"], "a\n\nb\n"))
        self.assertFalse(snippets.matches(["a", "b"], "a\nc\n"))
        self.assertFalse(snippets.matches(["a"], "a\nb\n"))

    def test_ellipsis_stands_for_any_lines(self):
        self.assertTrue(snippets.matches(["a", "…", "d"], "a\nb\nc\nd\n"))
        self.assertTrue(snippets.matches(["a", "…"], "a\n"))
        self.assertFalse(snippets.matches(["a", "…", "d"], "a\nb\n"))


class CommandsTest(unittest.TestCase):
    def test_finds_unknown_commands(self):
        (block,) = blocks("```sh\nashlar report a\nx | build/release/bin/ashlar lost b\n```\n")
        self.assertEqual(list(snippets.unknown_commands(block, {"report"})),
                         ["page.md:3: ashlar has no command lost"])


if __name__ == "__main__":
    unittest.main()
