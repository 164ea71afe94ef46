#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Builds the documentation site into build/docs/site.

Pages keep their paths in the repository, so relative links work in both places. Files that pages
link to are copied beside them. Two parts are generated: a page for each command from its help text,
and the API reference from the public headers (Doxygen).

  tools/docs/build_site.py [TOOL]    TOOL: the ashlar program; default: build/release/bin/ashlar

Fails if a command or a public header has no page.
Needs mkdocs, its theme material, and doxygen; scripts/docs installs them."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
BUILD = ROOT / "build" / "docs"
PAGES = BUILD / "pages"
SITE = BUILD / "site"
TOOL = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "build/release/bin/ashlar")

LINK = re.compile(r"\]\(([^)\s#]+)(?:#[^)]*)?\)|\bsrc=\"([^\"]+)\"")
SECTIONS = (
    ("Tutorials", "docs/tutorials"), ("How-to guides", "docs/how-to"),
    ("Reference", "docs/reference"), ("Commands", "docs/reference/commands"),
    ("Formats", "docs/reference/formats"), ("Internals", "docs/internals"),
    ("Experiments", "docs/internals/experiments"),
)


def stage_pages():
    """Copies every document, and every file of the repository that a document links to."""
    shutil.rmtree(BUILD, ignore_errors=True)
    pages = [ROOT / name
             for name in ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
    pages += [ROOT / "src" / "README.md", ROOT / "viewer" / "README.md"]
    pages += sorted((ROOT / "benchmarks").rglob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
    for page in pages:
        stage(page)
        for match in LINK.finditer(page.read_text(encoding="utf-8")):
            target = match.group(1) or match.group(2)
            if re.match(r"[a-z]+:", target):
                continue
            linked = (page.parent / target).resolve()
            if linked.is_file() and linked.is_relative_to(ROOT) and linked.suffix != ".md":
                stage(linked)


def stage(path):
    copy = PAGES / path.relative_to(ROOT)
    copy.parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(path, copy)


def write_commands(names):
    """Writes a page for each command of the tool, from the command's help text."""
    folder = PAGES / "docs" / "reference" / "commands"
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        text = run([TOOL, name, "--help"])
        summary = text.strip().split("\n", 1)[0]
        (folder / f"{name}.md").write_text(
            f"# ashlar {name}\n\n{summary}\n\n```text\n{text.strip()}\n```\n", encoding="utf-8")


def command_names(help_text):
    """Returns the names in the tool's list of commands."""
    return re.findall(r"^  ([a-z][a-z-]*)\s", help_text, re.MULTILINE)


def missing_pages(site, names):
    """Returns the commands and public headers that have no page in a built site."""
    pages = {f"command {name}": site / "docs" / "reference" / "commands" / f"{name}.html"
             for name in names}
    for header in public_headers():
        pages[header.relative_to(ROOT).as_posix()] = site / "api" / page_name(header)
    return [name for name, page in pages.items() if not page.exists()]


def public_headers():
    return sorted((ROOT / "include" / "ashlar").rglob("*.h"))


def write_header_list():
    """Writes the entry page of the API reference: one line for each public header."""
    lines = ["# API reference", "", "One page for each public header, generated from its comments.",
             "", "| header | provides |", "|---|---|"]
    for header in public_headers():
        name = header.relative_to(ROOT / "include").as_posix()
        lines.append(f"| [`{name}`](../../api/{page_name(header)}) | {first_sentence(header)} |")
    (PAGES / "docs" / "reference").mkdir(parents=True, exist_ok=True)
    (PAGES / "docs" / "reference" / "api.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def page_name(header):
    """Returns Doxygen's name for the page of a header. Headers with the same name get their paths
    below the folder that contains all of them."""
    folders = [same.parent for same in (ROOT / "include" / "ashlar").rglob(header.name)]
    path = header.relative_to(os.path.commonpath(folders)).as_posix()
    return path.replace("_", "__").replace("/", "_2").replace(".", "_8") + ".html"


def first_sentence(header):
    text = []
    for line in header.read_text(encoding="utf-8").split("\n"):
        if not line.startswith("//"):
            break
        if "SPDX" not in line:
            text.append(line.lstrip("/ "))
    sentence = re.split(r"(?<=\.)\s", " ".join(text).strip(), maxsplit=1)[0]
    return sentence.replace("|", "\\|")


def write_configuration():
    """Writes mkdocs.yml with the navigation of the staged pages."""
    lines = [(ROOT / "tools" / "docs" / "mkdocs.yml").read_text(encoding="utf-8"),
             f"docs_dir: {PAGES}", f"site_dir: {SITE}", "nav:", "  - Home: README.md"]
    for title, folder in SECTIONS:
        pages = sorted((PAGES / folder).glob("*.md"))
        if pages:
            lines.append(f"  - {title}:")
            lines += [f"    - {page.relative_to(PAGES).as_posix()}" for page in pages]
    others = [page for page in ("src/README.md", "benchmarks/README.md", "CONTRIBUTING.md",
                                "CHANGELOG.md", "SECURITY.md") if (PAGES / page).exists()]
    lines.append("  - Project:")
    lines += [f"    - {page}" for page in others]
    configuration = BUILD / "mkdocs.yml"
    configuration.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return configuration


def run(command):
    done = subprocess.run([str(part) for part in command], cwd=ROOT, check=False,
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"docs: {command[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main():
    names = command_names(run([TOOL, "help"]))
    completed = re.search(r'compgen -W "([^"]*) --help', run([TOOL, "completion", "bash"]))
    if not names or sorted(names) != sorted(completed.group(1).split()):
        sys.exit("docs: `ashlar help` and `ashlar completion` list different commands")
    stage_pages()
    write_commands(names)
    write_header_list()
    configuration = write_configuration()
    run(["mkdocs", "build", "--quiet", "--config-file", configuration])
    run(["doxygen", "tools/docs/Doxyfile"])
    missing = missing_pages(SITE, names)
    if missing:
        sys.exit(f"docs: no page for {', '.join(missing)}")
    print(f"docs: built {SITE.relative_to(ROOT)}/index.html: {len(names)} commands, "
          f"{len(public_headers())} headers")


if __name__ == "__main__":
    main()
