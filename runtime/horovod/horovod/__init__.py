# SPDX-License-Identifier: Apache-2.0
"""Horovod's names for hvd: ``import horovod.torch as hvd`` in a script for Horovod just works."""

from horovod._environment import translate
from horovod._shadow import refuse_to_shadow

refuse_to_shadow()
translate()

from horovod.runner import run  # noqa: E402 (what it imports must read the environment after that)

# Scripts compare it with the version of Horovod whose interface they need.
__version__ = "0.28.1"

__all__ = ["__version__", "run"]
