#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Checks the project's own style rules: layers, sizes, restricted constructs, and references in
documents. Formatting is left to clang-format, bugs to clang-tidy.

  tools/tidy.py            checks everything; prints file:line: found (expected)
  tools/tidy.py --rules    lists the rules

Exit: 0 clean, 1 findings. Needs Python 3.11 and its standard library."""

import argparse
import pathlib
import sys
import tomllib

import tidy_classes
import tidy_cpp
import tidy_text
import tidy_tree

ROOT = pathlib.Path(__file__).resolve().parent.parent
RULES = tidy_cpp.RULES + tidy_classes.RULES + tidy_tree.RULES


def check(tree):
    """Returns the findings of all rules, sorted by position, each with its rule's name."""
    findings = [(finding, rule.__name__) for rule in RULES for finding in rule(tree)]
    return sorted(findings)


def read_table():
    with open(ROOT / "tools" / "layers.toml", "rb") as file:
        return tomllib.load(file)


def main():
    parser = argparse.ArgumentParser(description="Checks the project's style rules.")
    parser.add_argument("--rules", action="store_true", help="list the rules and stop")
    if parser.parse_args().rules:
        for rule in RULES:
            print(f"{rule.__name__}: {' '.join(rule.__doc__.split())}")
        return 0

    tree = tidy_text.Tree.read(ROOT, read_table())
    findings = check(tree)
    for finding, rule_name in findings:
        print(f"{finding} [{rule_name}]")
    print(f"tidy: {len(tree.files)} files, {len(RULES)} rules, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
