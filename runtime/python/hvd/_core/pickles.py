# SPDX-License-Identifier: Apache-2.0
"""Objects as bytes: pickle, and cloudpickle where it is installed."""

from __future__ import annotations

import pickle
from typing import Any


def cloudpickle() -> Any:
    """The package of this name, which takes lambdas, closures and ``__main__``; None without it.

    >>> cloudpickle() is None or len(cloudpickle().dumps(abs)) > 0
    True
    """
    try:
        import cloudpickle as package
    except ImportError:
        return None
    return package


def dumps(obj: Any) -> bytes:
    """The object as pickle has it, else, with what pickle refuses, as cloudpickle if it is there.

    In this order, for cloudpickle makes classes of the script anew where the object arrives.

    >>> pickle.loads(dumps({"epoch": 3}))
    {'epoch': 3}
    """
    try:
        return pickle.dumps(obj)
    except (pickle.PicklingError, AttributeError, TypeError):
        package = cloudpickle()
        if package is None:
            raise
        return package.dumps(obj)
