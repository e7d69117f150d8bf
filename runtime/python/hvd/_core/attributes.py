# SPDX-License-Identifier: Apache-2.0
"""Attributes of a package that are imported when they are first asked for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Collection, Mapping
from typing import Any


def late_attributes(
    package: str, names: Mapping[str, str], modules: Collection[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions ``__getattr__`` and ``__dir__`` of a package.

    A type checker is told of the same names by imports under ``if TYPE_CHECKING:``.

    Parameters
    ----------
    package
        Its ``__name__``.
    names
        The module in which each name is defined.
    modules
        Modules of the package that are attributes of it without an import of theirs.

    >>> find, names = late_attributes("hvd", {"derived_seed": "hvd.seeds"}, ["metrics"])
    >>> find("derived_seed").__name__, find("metrics").__name__
    ('derived_seed', 'hvd.metrics')
    """
    found = vars(sys.modules[package])

    def find(name: str) -> Any:
        if name in modules:
            return importlib.import_module(f"{package}.{name}")
        if name not in names:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = found[name] = getattr(importlib.import_module(names[name]), name)
        return value

    def listed() -> list[str]:
        return sorted({*found, *found["__all__"], *names})

    return find, listed
