# SPDX-License-Identifier: Apache-2.0
"""Asks a real shell what it completes to: every command, option and value of the table is offered.

Usage: completion_test.py HVDRUN SHELL [unittest arguments]; a missing shell skips.
"""

from __future__ import annotations

import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

LIMIT_S = 60
HVDRUN = Path(sys.argv[1]).resolve()
SHELL = sys.argv[2]

BASH = r"""
source "$1"
while IFS= read -r line; do
  read -ra COMP_WORDS <<<"$line"
  [[ $line != *' ' ]] || COMP_WORDS+=('')
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  COMPREPLY=()
  _hvdrun hvdrun "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}" 2>/dev/null
  printf '%s\n' "${COMPREPLY[@]}" "= $line"
done
"""

FISH = r"""
source $argv[1]
while read -l line
    complete -C $line | string replace -r '\t.*' ''
    echo "= $line"
end
"""

# Whatever a completion function adds is written to a file as well.
ZSH = r"""
PS1='' RPS1=''
autoload -Uz compinit && compinit -u -D
source "$HVD_SCRIPT"
compadd() {
  local -a options
  options=("${@[1,(i)--]}")
  if [[ " $options " != *" -"[OAD]" "* ]]; then
    local -a hits
    builtin compadd -A hits "$@"
    print -rl -- $hits >>"$HVD_ANSWERS"
  fi
  builtin compadd "$@"
}
answer() {
  _main_complete
  print -r -- "= $BUFFER" >>"$HVD_ANSWERS"
  compstate[insert]='' compstate[list]=''
}
zle -C answer complete-word answer
bindkey '^I' answer
print -r -- "= ready" >>"$HVD_ANSWERS"
"""


def run_hvdrun(*arguments: str) -> str:
    """What hvdrun prints."""
    return subprocess.run(
        [HVDRUN, *arguments], capture_output=True, text=True, timeout=LIMIT_S, check=True
    ).stdout


def environment() -> dict[str, str]:
    """Finds hvdrun, and holds nothing of the user's."""
    kept = {"PATH": f"{HVDRUN.parent}:{os.environ['PATH']}", "TERM": "dumb", "LC_ALL": "C.UTF-8"}
    home = tempfile.mkdtemp(prefix="hvdrun-completion-")
    return {**kept, "HOME": home, "XDG_CONFIG_HOME": home, "XDG_DATA_HOME": home}


def ask_script(command: list[str], lines: list[str]) -> str:
    """The answers of a shell that reads lines from its standard input."""
    variables = environment()
    try:
        return subprocess.run(
            command,
            input="\n".join(lines) + "\n",
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=variables,
            check=True,
        ).stdout
    finally:
        shutil.rmtree(variables["HOME"], ignore_errors=True)


def ask_zsh(script: str, lines: list[str]) -> str:
    """The answers of zsh, which completes at a terminal only: lines are typed into one."""
    variables = environment()
    answers = Path(variables["HOME"]) / "answers"
    start = Path(variables["HOME"]) / "start.zsh"
    start.write_text(ZSH, encoding="utf-8")
    variables.update(HVD_SCRIPT=script, HVD_ANSWERS=str(answers))
    child, terminal = pty.fork()
    if child == 0:
        os.execve(shutil.which("zsh") or "zsh", ["zsh", "-f", "-i"], variables)
    try:
        deadline = time.monotonic() + LIMIT_S
        type_and_wait(terminal, f"source {shlex.quote(str(start))}\n", answers, "= ready", deadline)
        for line in lines:
            # ^U clears what the line before left.
            type_and_wait(terminal, f"\x15{line}\t", answers, f"= {line}", deadline)
        return answers.read_text(encoding="utf-8")
    finally:
        os.close(terminal)
        os.waitpid(child, 0)
        shutil.rmtree(variables["HOME"], ignore_errors=True)


def type_and_wait(terminal: int, text: str, file: Path, mark: str, deadline: float) -> None:
    """Types `text`; returns once `mark` is a line of the file."""
    os.write(terminal, text.encode())
    while not file.exists() or mark not in file.read_text(encoding="utf-8").split("\n"):
        if time.monotonic() > deadline:
            raise AssertionError(f"zsh did not answer {text!r}")
        # What it prints must be read, or it blocks.
        if select.select([terminal], [], [], 0.02)[0]:
            os.read(terminal, 65536)


def ask(lines: list[str]) -> dict[str, set[str]]:
    """What the shell offers at the end of each line."""
    with tempfile.NamedTemporaryFile("w", suffix=f".{SHELL}", encoding="utf-8") as script:
        script.write(run_hvdrun("completion", SHELL))
        script.flush()
        if SHELL == "bash":
            text = ask_script(["bash", "--norc", "-c", BASH, "bash", script.name], lines)
        elif SHELL == "fish":
            text = ask_script(["fish", "--no-config", "-c", FISH, script.name], lines)
        else:
            text = ask_zsh(script.name, lines)
    answers: dict[str, set[str]] = {}
    offered: set[str] = set()
    for answer in text.splitlines():
        if answer.startswith("= "):
            answers[answer[2:]] = offered
            offered = set()
        else:
            offered.add(answer.rstrip("="))
    return answers


def wanted() -> dict[str, set[str]]:
    """A line, and what must be offered at its end."""
    lines: dict[str, set[str]] = {
        "hvdrun head": {"header"},
        "hvdrun help ": set(run_hvdrun("describe", "commands").split()),
        "hvdrun -": {"-np", "--nodes"},
        "hvdrun -np 2 envs": {"envsubst"} if shutil.which("envsubst") else set(),
        "hvdrun completion ": {"bash", "zsh", "fish"},
        "hvdrun header --site ": {"jean-zay", "generic"},
        "hvdrun sites ": {"jean-zay", "new"},
        "hvdrun header --site jean-zay --partition ": {"gpu_p5"},
        "hvdrun run --nodes 2 --output-dir /us": {"/usr/" if SHELL == "fish" else "usr"},
    }
    if SHELL == "bash":  # readline itself completes folders there
        del lines["hvdrun run --nodes 2 --output-dir /us"]
    for command in run_hvdrun("describe", "commands").split():
        options = [
            line.split("\t") for line in run_hvdrun("describe", "options", command).splitlines()
        ]
        lines[f"hvdrun {command} --"] = {name for name, _ in options if name.startswith("--")}
        for name, value in options:
            if "|" not in value:
                continue
            words = {word for word in value.split("|") if word.islower()}
            lines[f"hvdrun {command} {name} "] = words
    return lines


class Completion(unittest.TestCase):
    """Of one shell."""

    def test_offers_what_the_table_says(self) -> None:
        lines = wanted()
        answers = ask(list(lines))
        for line, words in lines.items():
            with self.subTest(line=line):
                self.assertLessEqual(words, answers[line])

    def test_leaves_a_program_its_own_options(self) -> None:
        for line, offered in ask(["hvdrun -np 2 true --", "hvdrun header -- true --"]).items():
            with self.subTest(line=line):
                self.assertNotIn("--output-dir", offered)
                self.assertNotIn("--partition", offered)


if __name__ == "__main__":
    if shutil.which(SHELL) is None:
        print(f"{SHELL} is not installed")
        sys.exit(77)
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]])
