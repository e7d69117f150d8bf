# SPDX-License-Identifier: Apache-2.0
"""A sentence for a Python that lacks the framework of a package."""

from __future__ import annotations

import importlib
import importlib.util
import os
import sys

REMEDIES = {
    "keras": "pip install keras tensorflow",
    "numpy": "pip install numpy",
    "tensorflow": "pip install tensorflow",
    "tf_keras": "pip install tf_keras",
    "torch": "pip install torch",
}


def wants_keras2() -> bool:
    """Whether ``tf.keras`` is Keras 2, as TensorFlow reads TF_USE_LEGACY_KERAS.

    >>> isinstance(wants_keras2(), bool)
    True
    """
    return os.environ.get("TF_USE_LEGACY_KERAS") in ("true", "True", "1")


def keras_package() -> str:
    """The Keras from which classes of ours are derived: Keras 2 where it is wanted and installed.

    >>> keras_package() in ("keras", "tf_keras")
    True
    """
    has_it = wants_keras2() and importlib.util.find_spec("tf_keras") is not None
    return "tf_keras" if has_it else "keras"


def check_framework(package: str, framework: str) -> None:
    """Raises ModuleNotFoundError where this Python has no such framework.

    >>> check_framework("hvd.example", "ctypes")
    """
    if framework == "keras":
        framework = keras_package()
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
