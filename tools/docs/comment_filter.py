#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Doxygen input filter: turns the plain comments of a public header into documentation comments.

The comment at the start of the file documents the file; a comment line documents the declaration
below the line; a comment after a declaration, on its line, documents that declaration.

  comment_filter.py FILE"""

import re
import sys

LICENSE = re.compile(r"^// SPDX-License-Identifier:")
LINE = re.compile(r"^(\s*)//(?!/)( ?)(.*)$")
TRAILING = re.compile(r"^(\s*[^/\s][^\"]*?[;,{}])(\s+)// (.*)$")


def filtered(text):
    """Returns the header with documentation comments."""
    lines = text.split("\n")
    output = []
    is_head = True
    for line in lines:
        comment = LINE.match(line)
        if is_head:
            if LICENSE.match(line) or line.strip() == "//" and not output:
                continue
            if comment and not output:
                output.append("/// @file")
            if not comment:
                is_head = False
        if comment:
            output.append(f"{comment.group(1)}///{comment.group(2)}{escaped(comment.group(3))}")
            continue
        trailing = TRAILING.match(line)
        output.append(f"{trailing.group(1)}{trailing.group(2)}///< {escaped(trailing.group(3))}"
                      if trailing else line)
    return "\n".join(output)


def escaped(text):
    """Escapes the characters that Doxygen would take for commands or tags."""
    return re.sub(r"([@\\<>])", r"\\\1", text)


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as source:
        sys.stdout.write(filtered(source.read()))
