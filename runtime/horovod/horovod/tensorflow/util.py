# SPDX-License-Identifier: Apache-2.0
"""Variables as keys of dictionaries, where Horovod has it."""

from __future__ import annotations

from typing import Any


def vars_to_refs(vars: Any) -> Any:  # noqa: A002 (Horovod's name)
    """A variable's reference, which can be hashed; of a list a tuple of such.

    >>> import tensorflow as tf
    >>> weights = tf.Variable(1.0)
    >>> vars_to_refs([weights]) == (weights.ref(),)
    True
    """
    if isinstance(vars, (list, tuple)):
        return tuple(vars_to_refs(one) for one in vars)
    return vars.ref()


def refs_to_vars(refs: Any) -> Any:
    """The variables again.

    >>> import tensorflow as tf
    >>> weights = tf.Variable(1.0)
    >>> refs_to_vars(vars_to_refs([weights]))[0] is weights
    True
    """
    if isinstance(refs, (list, tuple)):
        return [refs_to_vars(one) for one in refs]
    return refs.deref()


__all__ = ["refs_to_vars", "vars_to_refs"]
