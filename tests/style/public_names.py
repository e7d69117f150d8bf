# SPDX-License-Identifier: Apache-2.0
"""What the pages of docs/api list, found in the sources: no framework has to be there."""

from __future__ import annotations

import ast
import functools
import pathlib
import re
import typing

import sources

_PACKAGES = sources.ROOT / "runtime" / "python"
# Of a module that says what is public; else it is what the module defines without an underscore.
_ALL = "__all__"


class Definition(typing.NamedTuple):
    """A function or class, and the file that it is in."""

    path: pathlib.Path
    node: typing.Any


def listed_modules() -> list[str]:
    """The modules of hvd whose members the pages list."""
    found = []
    for page in sorted((sources.ROOT / "docs" / "api").glob("*.rst")):
        found += re.findall(r"^\.\. automodule:: (hvd\S*)$", page.read_text(), re.MULTILINE)
    return found


def public_callables(module: str) -> list[Definition]:
    """The functions and classes of hvd that a module offers."""
    names = _public_names(module)
    found = (_definition(module, name) for name in names)
    return [one for one in found if one is not None]


def path_of(module: str) -> pathlib.Path:
    """The file of a module, which may not exist."""
    place = _PACKAGES.joinpath(*module.split("."))
    return place / "__init__.py" if place.is_dir() else place.with_suffix(".py")


@functools.cache
def _tree(module: str) -> ast.Module:
    return ast.parse(path_of(module).read_text())


def _statements(module: str) -> list[ast.stmt]:
    """Those of the module, and those for type checkers, which name what is imported later."""
    found = []
    for statement in _tree(module).body:
        found += statement.body if isinstance(statement, ast.If) else [statement]
    return found


def _public_names(module: str) -> list[str]:
    for statement in _statements(module):
        if isinstance(statement, ast.Assign) and getattr(statement.targets[0], "id", "") == _ALL:
            elements = getattr(statement.value, "elts", [])
            named = [one.value for one in elements if isinstance(one, ast.Constant)]
            spread = [one for one in elements if isinstance(one, ast.Starred)]
            return named if not spread else [*named, *_defined(module)]
    return _defined(module)


def _defined(module: str) -> list[str]:
    kinds = (ast.FunctionDef, ast.ClassDef)
    return [one.name for one in _tree(module).body if isinstance(one, kinds) and one.name[0] != "_"]


def _definition(module: str, name: str) -> Definition | None:
    """Where the name comes from; None of modules, values and what others define."""
    if not module.startswith("hvd") or path_of(f"{module}.{name}").exists():
        return None
    for statement in _statements(module):
        if getattr(statement, "name", None) == name:
            return Definition(path_of(module), statement)
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                if (alias.asname or alias.name) == name and statement.module != module:
                    return _definition(statement.module or "", alias.name)
    return None
