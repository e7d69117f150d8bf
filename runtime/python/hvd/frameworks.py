# SPDX-License-Identifier: Apache-2.0
"""A sentence for a Python that lacks the framework of a package."""

from __future__ import annotations

import importlib
import importlib.util
import sys

REMEDIES = {
    "keras": "pip install keras tensorflow",
    "numpy": "pip install numpy",
    "tensorflow": "pip install tensorflow",
    "torch": "pip install torch",
}


def check_framework(package: str, framework: str) -> None:
    """Raises ModuleNotFoundError where this Python has no such framework.

    >>> check_framework("hvd.example", "ctypes")
    """
    if sys.modules.get(framework) is None and importlib.util.find_spec(framework) is None:
        raise ModuleNotFoundError(
            f"{package}: this Python ({sys.executable}) has no {framework}: "
            f"{REMEDIES[framework]}, or start the script with a Python that has it",
            name=framework,
        )
    if framework == "keras":
        _check_keras(package)


def _check_keras(package: str) -> None:
    """Keras is imported with what it computes with."""
    try:
        importlib.import_module("keras")
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{package}: this Python ({sys.executable}) has no {error.name}: {REMEDIES['keras']}, "
            "or set KERAS_BACKEND=torch where it has that",
            name=error.name,
        ) from error
