# SPDX-License-Identifier: Apache-2.0
"""Docstrings of public callables name every parameter, and say Raises where the code raises."""

from __future__ import annotations

import ast
import re
import sys
import typing

import public_names
import sources

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def parameters_of(function: typing.Any) -> list[str]:
    """As the docstring has them, with their stars; without self."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args)]
    if names and names[0] in ("self", "cls"):
        names = names[1:]
    names += [f"*{given.vararg.arg}"] if given.vararg else []
    names += [one.arg for one in given.kwonlyargs]
    names += [f"**{given.kwarg.arg}"] if given.kwarg else []
    return [name for name in names if not name.lstrip("*").startswith("_")]


def sections(docstring: str) -> dict[str, list[str]]:
    """The lines of each section, by its title."""
    found: dict[str, list[str]] = {}
    lines = docstring.splitlines()
    title = ""
    for line, below in zip(lines, [*lines[1:], ""]):
        if line.strip() and re.fullmatch(r"-{3,}", below.strip()):
            title = line.strip()
        found.setdefault(title, []).append(line)
    return found


def named_parameters(docstring: str) -> set[str]:
    """Those of the section Parameters, or Attributes of an error; one line may name several."""
    found = sections(docstring)
    lines = [*found.get("Parameters", [])[2:], *found.get("Attributes", [])[2:]]
    heads = [line for line in lines if line and not line.startswith(" ")]
    return {name.strip() for line in heads for name in line.split(" : ")[0].split(",")}


def raises_itself(function: typing.Any) -> bool:
    """True where its own body has a raise of something new, outside of functions in it."""
    waiting = list(function.body)
    while waiting:
        node = waiting.pop()
        if isinstance(node, (*_FUNCTIONS, ast.Lambda, ast.ClassDef)):
            continue
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
            return True
        waiting.extend(ast.iter_child_nodes(node))
    return False


def complaints(function: typing.Any, docstring: str | None, what: str) -> list[str]:
    """What the docstring of a function lacks; that of __init__ is its class's."""
    if docstring is None:
        return [f"{what}: no docstring"]
    known = named_parameters(docstring)
    missing = [name for name in parameters_of(function) if name not in known]
    found = [f"{what}: Parameters without {', '.join(missing)}"] if missing else []
    if raises_itself(function) and "Raises" not in sections(docstring):
        found.append(f"{what}: it raises, and says no Raises")
    return found


def of_definition(definition: public_names.Definition) -> list[str]:
    """The complaints about a function, or a class and its documented methods."""
    path, node = definition
    where = f"{path.relative_to(sources.ROOT)}:{node.lineno}: {node.name}"
    docstring = ast.get_docstring(node)
    if isinstance(node, _FUNCTIONS):
        return complaints(node, docstring, where)
    found = [] if docstring else [f"{where}: no docstring"]
    for method in node.body:
        if not isinstance(method, _FUNCTIONS):
            continue
        own = ast.get_docstring(method)
        line = f"{path.relative_to(sources.ROOT)}:{method.lineno}: {node.name}.{method.name}"
        if method.name == "__init__":
            found += complaints(method, own or docstring, line)
        elif own is not None and (method.name == "__call__" or method.name[0] != "_"):
            found += complaints(method, own, line)
    return found


def _self_test() -> None:
    head = 'def f(a, *b, c=1, **d):\n    """One.\n\n    Parameters\n    ----------\n    '
    planted = {
        head + 'a, *b\n        Two.\n    """': "Parameters without c, **d",
        head + 'a, *b, c, **d\n        Two.\n    """\n    raise ValueError("x")': "no Raises",
        "def f():\n    pass": "no docstring",
        'def f(a):\n    """Of `a`."""': "without a",
    }
    for text, expected in planted.items():
        node = ast.parse(text).body[0]
        found = complaints(node, ast.get_docstring(node), "f")
        if len(found) != 1 or expected not in found[0]:
            sys.exit(f"planted fault not found: {text}: {found}")


def main() -> None:
    _self_test()
    found: dict[str, None] = {}
    for module in public_names.listed_modules():
        for definition in public_names.public_callables(module):
            found.update(dict.fromkeys(of_definition(definition)))
    sources.finish(found)


if __name__ == "__main__":
    main()
