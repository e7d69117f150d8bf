# SPDX-License-Identifier: Apache-2.0
"""check_tool.py NAME: one outside tool over the files it is for. A missing tool skips."""

import pathlib
import sys

import sources

_NO_SPELLING = {"LICENSE"}


def _shell_files() -> list[pathlib.Path]:
    scripts = sources.tracked("*.sh", ".ci/run", "*.sbatch")
    return sorted(scripts)


def clang_format() -> None:
    program = sources.tool("clang-format-14", "clang-format")
    files = sources.tracked("*.cc", "*.h", "*.hpp", "*.c")
    sources.run_tool([program, "--dry-run", "--Werror"], files)


def codespell() -> None:
    program = sources.tool("codespell")
    names = [p for p in sources.tracked() if p.name not in _NO_SPELLING and "data" not in p.parts]
    sources.run_tool([program, "--ignore-words", ".codespellignore"], names)


def ruff() -> None:
    sources.run_tool(
        [sources.tool("ruff"), "check", "--quiet", "--no-cache"], sources.tracked("*.py")
    )


def ruff_format() -> None:
    sources.run_tool(
        [sources.tool("ruff"), "format", "--check", "--no-cache"], sources.tracked("*.py")
    )


def shellcheck() -> None:
    sources.run_tool([sources.tool("shellcheck")], _shell_files())


def shfmt() -> None:
    sources.run_tool([sources.tool("shfmt"), "-i", "2", "-ci", "-d"], _shell_files())


def mypy() -> None:
    files = sources.tracked("runtime/**/*.py", "examples/*.py", "docs/api/*.py", "scripts/*.py")
    sources.run_tool([sources.tool("mypy"), "--cache-dir=/dev/null"], files)


_CHECKS = [clang_format, codespell, ruff, ruff_format, shellcheck, shfmt, mypy]

if __name__ == "__main__":
    {check.__name__: check for check in _CHECKS}[sys.argv[1]]()
