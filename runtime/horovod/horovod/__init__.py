# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for hvd: ``import horovod.torch as hvd`` in a script for Horovod just works."""

import sys
from typing import Any

from horovod._environment import translate
from horovod._shadow import refuse_to_shadow
from horovod._version import check_hvd

refuse_to_shadow()
translate()
check_hvd()

from horovod.runner import run  # noqa: E402 (what it imports must read the environment after that)

_BINDINGS = ("keras", "tensorflow.keras", "tensorflow", "torch")


def __getattr__(name: str) -> Any:
    """Names of the binding that is imported: pages print `import horovod as hvd` after it."""
    if not name.startswith("_"):
        for binding in _BINDINGS:
            found = sys.modules.get(f"horovod.{binding}")
            if name in getattr(found, "__all__", ()):
                from horovod._dropped import tell_once

                tell_once(
                    f"the package horovod itself has no functions: they are horovod.{binding}'s"
                )
                return getattr(found, name)
    raise AttributeError(f"module 'horovod' has no attribute {name!r}")


# Scripts compare it with the version of Horovod whose interface they need.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]
