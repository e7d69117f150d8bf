# SPDX-License-Identifier: Apache-2.0
"""Write the man pages: what hvdrun says of its commands, with the sections written by hand.

Usage: make_pages.py HVDRUN SCDOC FIELDS VARIABLES MAN1 MAN5

`MAN1` gets a page for each command; docs/man/PAGE.scd holds what is put in before its examples.
That of hvdrun has the users' variables of `VARIABLES`, docs/reference/environment.md.
`MAN5` gets hvdrun-site(5): site.scd, then the fields in `FIELDS`, docs/reference/site-schema.md.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def scdoc(program: str, text: str, page: Path) -> None:
    """Translate `text` into the page."""
    done = subprocess.run(
        [program], input=text, capture_output=True, text=True, encoding="utf-8", check=False
    )
    if done.returncode != 0:
        sys.exit(f"{page.name}: {done.stderr.strip()}")
    page.write_text(done.stdout, encoding="utf-8")


def plain(text: str) -> str:
    """Return the text of a Markdown cell, its marks taken away and scdoc's taken literally."""
    text = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", text).replace("\\|", "|").replace("**", "")
    return re.sub(r"([\\_*#\[\]|<>~])", r"\\\1", text.replace("`", ""))


def fields(markdown: str) -> str:
    """Return the tables of the page of the site files, as lists of terms."""
    lines = []
    for line in markdown[markdown.index("\n## ") :].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if line.startswith("## "):
            lines.append(f"## {plain(line[3:])}\n")
        elif len(cells) == 3 and cells[0] != "field" and not cells[0].startswith("---"):
            required = " Required." if cells[0].startswith("**") else ""
            meaning = f" {plain(cells[2])}" if cells[2] else ""
            lines.append(f"*{plain(cells[0])}*\n\t{plain(cells[1])}.{meaning}{required}\n")
    return "\n".join(lines)


def variables(markdown: str) -> str:
    """Return the users' variables of the page of environment variables, as a list of terms."""
    begin = markdown.index("\n## For users")
    lines = []
    for line in markdown[begin : markdown.index("\n## ", begin + 1)].splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if len(cells) == 5 and cells[0].startswith("`"):
            meaning = plain(cells[4])
            default = "" if cells[2] == "none" else f" ({plain(cells[2])})"
            lines.append(f"*{plain(cells[0])}*{default}\n\t{meaning[:1].upper()}{meaning[1:]}.\n")
    return "\n".join(lines)


def main() -> None:
    """Write every page."""
    hvdrun, program, field_page, variable_page, *folders = sys.argv[1:]
    man1, man5 = map(Path, folders)
    for folder in man1, man5:
        folder.mkdir(exist_ok=True)
        for old in folder.iterdir():
            old.unlink()

    def ask(*words: str) -> str:
        return subprocess.run(
            [hvdrun, "describe", *words], capture_output=True, text=True, check=True
        ).stdout

    for command in ask("commands").split():
        page = "hvdrun" if command == "run" else f"hvdrun-{command}"
        by_hand = HERE / f"{page}.scd"
        prose = by_hand.read_text(encoding="utf-8") if by_hand.exists() else ""
        if "@VARIABLES@" in prose:
            table = Path(variable_page).read_text(encoding="utf-8")
            prose = prose.replace("@VARIABLES@\n", variables(table))
        text = ask("scdoc", command).replace("\n@PROSE@\n", f"\n{prose}\n")
        scdoc(program, re.sub(r"\n{3,}", "\n\n", text), man1 / f"{page}.1")
    site = (HERE / "site.scd").read_text(encoding="utf-8")
    found = fields(Path(field_page).read_text(encoding="utf-8"))
    text = re.sub(r"\n{3,}", "\n\n", site.replace("@FIELDS@", found))
    scdoc(program, text, man5 / "hvdrun-site.5")


main()
