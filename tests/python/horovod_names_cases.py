# SPDX-License-Identifier: Apache-2.0
"""Every name of Horovod's is there with its parameters, and the migration page lists it.

horovod_names_cases.py --update     writes the table of the page anew
"""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import pkgutil
import sys
import unittest
from pathlib import Path
from typing import NamedTuple

import horovod
import horovod.torch as hvd
import horovod_names as table
import torch

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "migrate-from-horovod.md"
BEGIN = "<!-- names: written by tests/python/horovod_names_cases.py --update -->\n"
END = "<!-- end of names -->\n"
ORDER = ("same", "better", "different")


class Name(NamedTuple):
    """One line of the table."""

    owner: str  # the class of a method, else nothing
    name: str
    kind: str
    arguments: ast.arguments | None


def names_of(text: str) -> list[Name]:
    """The lines of one module."""
    found: list[Name] = []
    owner = ""
    for line in text.splitlines():
        if not line.strip():
            continue
        indented, words = line.startswith("  "), line.strip()
        kind = "class" if words.startswith("class ") else "function" if "(" in words else "value"
        words = words.removeprefix("class ")
        name = words.partition("(")[0]
        arguments = None
        if kind != "value":
            definition = ast.parse(f"def {words}: pass").body[0]
            assert isinstance(definition, ast.FunctionDef)
            arguments = definition.args
        owner = owner if indented else name if kind == "class" else ""
        found.append(Name(owner if indented else "", name, kind, arguments))
    return found


def default(node: ast.expr) -> object:
    """The value of a default in the table."""
    return eval(ast.unparse(node), vars(hvd))  # noqa: S307 (our own table)


def wrong_parameters(name: Name, callee: object) -> str:
    """What of Horovod's call would not work here, or nothing."""
    assert name.arguments is not None
    ours = list(inspect.signature(callee).parameters.values())  # type: ignore[arg-type]
    wanted = [argument.arg for argument in name.arguments.args]
    if wanted[:1] == ["self"] and (not ours or ours[0].name != "self"):
        wanted = wanted[1:]
    gaps = len(wanted) - len(name.arguments.defaults)
    given = [inspect.Parameter.empty] * gaps + [default(one) for one in name.arguments.defaults]
    for place, (parameter, value) in enumerate(zip(wanted, given)):
        if place >= len(ours):
            return f"no parameter {parameter}"
        mine = ours[place]
        if mine.kind == mine.VAR_POSITIONAL:
            return ""
        if mine.kind == mine.KEYWORD_ONLY or mine.name != parameter:
            return f"parameter {place} is {mine.name}, not {parameter}"
        if value is not inspect.Parameter.empty and mine.default != value:
            return f"{parameter} is {mine.default!r} by default, not {value!r}"
    more = ours[len(wanted) :]
    needed = [
        one.name for one in more if one.default is one.empty and one.kind < one.VAR_POSITIONAL
    ]
    return f"more parameters are needed: {needed}" if needed else ""


class Names(unittest.TestCase):
    def test_each_is_there_with_its_parameters(self) -> None:
        complaints = []
        count = 0
        for module_name, text in table.NAMES.items():
            module = importlib.import_module(module_name)
            for name in names_of(text):
                count += 1
                holder = getattr(module, name.owner) if name.owner else module
                where = f"{module_name}.{name.owner + '.' if name.owner else ''}{name.name}"
                if not hasattr(holder, name.name):
                    complaints.append(f"{where}: not there")
                elif name.arguments is not None:
                    wrong = wrong_parameters(name, getattr(holder, name.name))
                    complaints += [f"{where}: {wrong}"] if wrong else []
        self.assertEqual(complaints, [])
        print(f"{count} names in {len(table.NAMES)} modules")

    def test_what_is_absent_says_so(self) -> None:
        for module_name in table.ABSENT:
            with self.assertRaisesRegex(ImportError, "hvd"):
                importlib.import_module(module_name)

    def test_methods_of_the_optimizer(self) -> None:
        hvd.init()
        parameter = torch.nn.Parameter(torch.zeros(2))
        sgd = torch.optim.SGD([parameter], lr=0.1)
        optimizer = hvd.DistributedOptimizer(sgd, named_parameters=[("p", parameter)])
        self.assertIsInstance(optimizer, torch.optim.SGD)
        for line in (
            "set_backward_passes_per_step(passes)",
            "synchronize()",
            "skip_synchronize()",
            "step(closure=None)",
            "zero_grad()",
            "load_state_dict(state_dict)",
        ):
            (name,) = names_of(line)
            self.assertEqual(wrong_parameters(name, getattr(optimizer, name.name)), "", line)

    def test_examples_in_docstrings(self) -> None:
        ran = 0
        for found in pkgutil.walk_packages(horovod.__path__, "horovod.", onerror=lambda _: None):
            if found.name not in table.ABSENT:
                outcome = doctest.testmod(importlib.import_module(found.name))
                self.assertEqual(outcome.failed, 0, found.name)
                ran += outcome.attempted
        self.assertGreater(ran, 10)

    def test_constants(self) -> None:
        ops = (hvd.Average, hvd.Sum, hvd.Adasum, hvd.Min, hvd.Max, hvd.Product)
        self.assertEqual(ops, (0, 1, 2, 3, 4, 5))
        self.assertTrue(issubclass(hvd.HorovodInternalError, RuntimeError))

    def test_states_are_of_names_that_exist(self) -> None:
        known = {name.name for text in table.NAMES.values() for name in names_of(text)}
        self.assertEqual(set(table.STATES) - known, set())

    def test_the_page_has_the_table(self) -> None:
        self.assertIn(
            BEGIN + markdown() + END,
            PAGE.read_text(),
            "run tests/python/horovod_names_cases.py --update",
        )


def state_of(module: str, name: str) -> tuple[str, str]:
    """The state of a name, and what there is to say about it."""
    return table.STATES_IN.get((module, name)) or table.STATES.get(name, ("same", ""))


def rows(module: str, text: str) -> list[str]:
    """The rows of the table for one module: names of one state and note share one."""
    together: dict[tuple[str, str], list[str]] = {}
    for name in names_of(text):
        if not name.owner:
            together.setdefault(state_of(module, name.name), []).append(f"`{name.name}`")
    ordered = sorted(together.items(), key=lambda row: ORDER.index(row[0][0]))
    return [
        f"| `{module}` | {', '.join(names)} | {state} | {note} |"
        for (state, note), names in ordered
    ]


# Names that another module exports, too, are listed there.
FOLDED = {
    "horovod.torch.functions": "horovod.torch",
    "horovod.torch.optimizer": "horovod.torch",
    "horovod.torch.sync_batch_norm": "horovod.torch",
    "horovod.torch.elastic.sampler": "horovod.torch.elastic",
    "horovod.data.data_loader_base": "horovod.data",
    "horovod.runner": "horovod",
    "horovod.common.elastic": "horovod.torch.elastic",
    "horovod.common.process_sets": "horovod.torch",
}


def markdown() -> str:
    """The table of the page."""
    lines = ["| module | names | state | |", "|---|---|---|---|"]
    for module, text in table.NAMES.items():
        if module in FOLDED:
            continue
        if module == "horovod.torch.mpi_ops":
            known = {name.name for name in names_of(table.NAMES["horovod.torch"])}
            mine = [line for line in text.splitlines() if line and not line.startswith(" ")]
            text = "\n".join(line for line in mine if names_of(line)[0].name not in known)
            lines.append(f"| `{module}` | those operations of `horovod.torch` | as there | |")
        lines += rows(module, text)
    for module, other in FOLDED.items():
        lines.append(f"| `{module}` | its names of Horovod's | as there | see `{other}` |")
    for module, why in table.ABSENT.items():
        lines.append(f"| `{module}` | all | not there | {why}; importing it says so |")
    return "\n".join(lines) + "\n"


def update() -> None:
    """Writes the table of the page."""
    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(before + BEGIN + markdown() + END + rest.partition(END)[2])


if __name__ == "__main__":
    if sys.argv[1:] == ["--update"]:
        update()
    else:
        unittest.main(verbosity=2)
