# SPDX-License-Identifier: Apache-2.0
"""No module of the Python package imports itself by way of others."""

import ast
import pathlib
import unittest

import sources

_PACKAGES = [sources.ROOT / "runtime/python/hvd", sources.ROOT / "runtime/horovod/horovod"]


def _name_of(path: pathlib.Path, package: pathlib.Path) -> str:
    parts = list(path.relative_to(package.parent).with_suffix("").parts)
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _is_for_types_only(node: ast.stmt) -> bool:
    return isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)


def _imported(body: list[ast.stmt], known: set[str]) -> set[str]:
    """Modules of `known` that run as a module is imported: not those of functions, nor of types."""
    found = set()
    for node in body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            # `from package import module` runs the module; the package itself began to run before.
            modules = {f"{node.module}.{alias.name}" for alias in node.names} & known
            found |= modules or {node.module}
            if len(modules) < len(node.names):
                found.add(node.module)
        elif isinstance(node, ast.If) and not _is_for_types_only(node):
            found |= _imported(node.body + node.orelse, known)
        elif isinstance(node, ast.Try):
            found |= _imported(node.body + node.orelse, known)
    return found & known


def graph_of(texts: dict[str, str]) -> dict[str, set[str]]:
    """Which modules each module imports at its top, by name."""
    known = set(texts)
    return {name: _imported(ast.parse(text).body, known) - {name} for name, text in texts.items()}


def circle_in(graph: dict[str, set[str]]) -> list[str]:
    """The modules of one circle, in order; empty: there is none."""
    done: set[str] = set()
    way: list[str] = []

    def visit(name: str) -> list[str]:
        if name in way:
            return [*way[way.index(name) :], name]
        if name in done:
            return []
        way.append(name)
        for used in sorted(graph[name]):
            if found := visit(used):
                return found
        way.pop()
        done.add(name)
        return []

    for name in sorted(graph):
        if found := visit(name):
            return found
    return []


class TestImports(unittest.TestCase):
    def test_no_module_imports_itself_by_way_of_others(self):
        texts = {}
        for package in _PACKAGES:
            for path in sorted(package.rglob("*.py")):
                texts[_name_of(path, package)] = path.read_text()
        self.assertGreater(len(texts), 100)
        self.assertEqual(circle_in(graph_of(texts)), [])

    def test_a_planted_circle_is_found(self):
        texts = {
            "p": "",
            "p.a": "from p import b",
            "p.b": "import os\nfrom p.c import x",
            "p.c": "try:\n    import p.a\nexcept ImportError:\n    pass",
        }
        self.assertEqual(circle_in(graph_of(texts)), ["p.a", "p.b", "p.c", "p.a"])

    def test_imports_of_functions_and_types_are_no_circle(self):
        texts = {
            "p": "",
            "p.a": "from p import b",
            "p.b": "if TYPE_CHECKING:\n    import p.a\ndef f():\n    from p import a",
        }
        self.assertEqual(circle_in(graph_of(texts)), [])


if __name__ == "__main__":
    unittest.main()
