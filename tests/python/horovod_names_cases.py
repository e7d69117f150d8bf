# SPDX-License-Identifier: Apache-2.0
"""Every name of Horovod's is there with its parameters, and the migration page lists it.

It looks at the modules of those frameworks that its Python has; tests/tensorflow/horovod_api_cases.py
runs it where that is TensorFlow. The page is written from the table alone:

horovod_names_cases.py --update     writes the table of the page anew
"""

from __future__ import annotations

import ast
import doctest
import importlib
import importlib.util
import inspect
import pkgutil
import sys
import unittest
from pathlib import Path
from typing import NamedTuple

import horovod_names
import horovod_names_tensorflow

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "migrate-from-horovod.md"
BEGIN = "<!-- names: written by tests/python/horovod_names_cases.py --update -->\n"
END = "<!-- end of names -->\n"
ORDER = ("same", "better", "different")
NAMES = {**horovod_names.NAMES, **horovod_names_tensorflow.NAMES}
ABSENT = {**horovod_names_tensorflow.ABSENT, **horovod_names.ABSENT}
HERE = {one for one in ("torch", "tensorflow") if importlib.util.find_spec(one)}


def framework_of(module: str) -> str | None:
    """What a module of horovod needs."""
    part = [*module.split("."), ""][1]
    return {
        "torch": "torch",
        "tensorflow": "tensorflow",
        "keras": "tensorflow",
        "_keras": "tensorflow",
    }.get(part)


def is_here(module: str) -> bool:
    """Whether this Python can import it."""
    return framework_of(module) in (None, *HERE)


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


def is_default(mine: object, node: ast.expr, module: str) -> bool:
    """Whether a default means the same as that in the table."""
    binding = importlib.import_module(f"horovod.{framework_of(module) or min(HERE)}")
    theirs = eval(ast.unparse(node), dict(vars(binding)))  # noqa: S307 (our own table)
    # Packages of Keras find out late what it computes with.
    return mine == theirs or (mine is None and theirs is binding.Compression.none)


def wrong_parameters(name: Name, callee: object, module: str) -> str:
    """What of Horovod's call would not work here, or nothing."""
    assert name.arguments is not None
    ours = list(inspect.signature(callee).parameters.values())  # type: ignore[arg-type]
    wanted = [argument.arg for argument in name.arguments.args]
    if wanted[:1] == ["self"] and (not ours or ours[0].name != "self"):
        wanted = wanted[1:]
    gaps = len(wanted) - len(name.arguments.defaults)
    given = [None] * gaps + list(name.arguments.defaults)
    for place, (parameter, value) in enumerate(zip(wanted, given)):
        if place >= len(ours):
            return f"no parameter {parameter}"
        mine = ours[place]
        if mine.kind == mine.VAR_POSITIONAL:
            return ""
        if mine.kind == mine.KEYWORD_ONLY or mine.name != parameter:
            return f"parameter {place} is {mine.name}, not {parameter}"
        if value is not None and not is_default(mine.default, value, module):
            return f"{parameter} is {mine.default!r} by default, not {ast.unparse(value)}"
    more = ours[len(wanted) :]
    needed = [
        one.name for one in more if one.default is one.empty and one.kind < one.VAR_POSITIONAL
    ]
    return f"more parameters are needed: {needed}" if needed else ""


class Names(unittest.TestCase):
    def test_each_is_there_with_its_parameters(self) -> None:
        complaints = []
        count = 0
        modules = [one for one in NAMES if is_here(one)]
        for module_name in modules:
            text, module = NAMES[module_name], importlib.import_module(module_name)
            for name in names_of(text):
                count += 1
                holder = getattr(module, name.owner) if name.owner else module
                where = f"{module_name}.{name.owner + '.' if name.owner else ''}{name.name}"
                if not hasattr(holder, name.name):
                    complaints.append(f"{where}: not there")
                elif name.arguments is not None:
                    wrong = wrong_parameters(name, getattr(holder, name.name), module_name)
                    complaints += [f"{where}: {wrong}"] if wrong else []
        self.assertEqual(complaints, [])
        print(f"{count} names in {len(modules)} modules")

    def test_what_is_absent_says_so(self) -> None:
        for module_name in filter(is_here, ABSENT):
            with self.assertRaisesRegex(ImportError, "hvd"):
                importlib.import_module(module_name)

    def test_a_framework_that_is_not_installed_is_named(self) -> None:
        missing = [one for one in NAMES if not is_here(one)]
        for module_name in missing:
            words = (
                "has no (torch|tensorflow|keras): pip install (torch|tensorflow|keras tensorflow)"
            )
            with self.assertRaisesRegex(ImportError, words, msg=module_name):
                importlib.import_module(module_name)
        self.assertEqual(bool(missing), len(HERE) < 2)

    @unittest.skipUnless("torch" in HERE, "this Python has no torch")
    def test_methods_of_the_optimizer(self) -> None:
        import horovod.torch as hvd
        import torch

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
            wrong = wrong_parameters(name, getattr(optimizer, name.name), "horovod.torch")
            self.assertEqual(wrong, "", line)

    def test_examples_in_docstrings(self) -> None:
        import horovod

        ran = 0
        for found in pkgutil.walk_packages(horovod.__path__, "horovod.", onerror=lambda _: None):
            if found.name not in ABSENT and is_here(found.name):
                outcome = doctest.testmod(importlib.import_module(found.name))
                self.assertEqual(outcome.failed, 0, found.name)
                ran += outcome.attempted
        self.assertGreater(ran, 10)

    def test_constants(self) -> None:
        for framework in HERE:
            ops = importlib.import_module(f"horovod.{framework}.mpi_ops")
            values = (ops.Average, ops.Sum, ops.Adasum, ops.Min, ops.Max, ops.Product)
            self.assertEqual(values, (0, 1, 2, 3, 4, 5))
            self.assertTrue(issubclass(ops.HorovodInternalError, RuntimeError))

    def test_states_are_of_names_that_exist(self) -> None:
        for table in (horovod_names, horovod_names_tensorflow):
            known = {
                (module, name.name) for module in table.NAMES for name in names_of(NAMES[module])
            }
            self.assertEqual(set(table.STATES) - {name for _, name in known}, set())
            self.assertEqual(set(table.STATES_IN) - known, set())

    def test_the_page_has_the_table(self) -> None:
        self.assertIn(
            BEGIN + markdown() + END,
            PAGE.read_text(),
            "run tests/python/horovod_names_cases.py --update",
        )


def state_of(module: str, name: str) -> tuple[str, str]:
    """The state of a name, and what there is to say about it."""
    tables = [horovod_names]
    if framework_of(module) == "tensorflow":
        tables.insert(0, horovod_names_tensorflow)
    for table in tables:
        found = table.STATES_IN.get((module, name)) or table.STATES.get(name)
        if found:
            return found
    return "same", ""


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
    "horovod.tensorflow.functions": "horovod.tensorflow",
    "horovod.tensorflow.gradient_aggregation": "horovod.tensorflow",
    "horovod.tensorflow.mpi_ops": "horovod.tensorflow",
    "horovod.tensorflow.sync_batch_norm": "horovod.tensorflow",
    "horovod.tensorflow.util": "horovod.tensorflow",
    "horovod.keras.callbacks": "horovod.tensorflow.keras.callbacks",
    "horovod.keras.elastic": "horovod.tensorflow.keras.elastic",
    "horovod.data.data_loader_base": "horovod.data",
    "horovod.runner": "horovod",
    "horovod.common.elastic": "horovod.torch.elastic",
    "horovod.common.process_sets": "horovod.torch",
}
# Those that have names of their own besides.
PARTLY_FOLDED = {
    "horovod.torch.mpi_ops": "horovod.torch",
    "horovod.tensorflow.keras": "horovod.tensorflow",
    "horovod.keras": "horovod.tensorflow",
}


def rest_of(module: str, text: str, other: str) -> str:
    """The lines of a module that are not the same in the other one."""
    known = {name.name: state_of(other, name.name) for name in names_of(NAMES[other])}
    mine = [line for line in text.splitlines() if line and not line.startswith(" ")]
    names = [names_of(line)[0].name for line in mine]
    return "\n".join(
        line for line, name in zip(mine, names) if known.get(name) != state_of(module, name)
    )


def markdown() -> str:
    """The table of the page."""
    lines = ["| module | names | state | |", "|---|---|---|---|"]
    for module, text in NAMES.items():
        if module in FOLDED:
            continue
        if module in PARTLY_FOLDED:
            other = PARTLY_FOLDED[module]
            text = rest_of(module, text, other)
            lines.append(f"| `{module}` | its other names of `{other}` | as there | |")
        lines += rows(module, text)
    for module, other in FOLDED.items():
        lines.append(f"| `{module}` | its names of Horovod's | as there | see `{other}` |")
    for module, why in ABSENT.items():
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
