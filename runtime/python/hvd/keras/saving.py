# SPDX-License-Identifier: Apache-2.0
"""Models from files, ready to go on training."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from typing import Any

import keras

from hvd.errors import UnsupportedError
from hvd.keras.optimizer import DistributedOptimizer


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = None,
    legacy_opts: bool = False,
) -> Any:
    """The model of a file, whose optimizer has its saved state and is distributed.

    Parameters
    ----------
    filepath
        What ``model.save()`` wrote, ``.keras`` or ``.h5``, with a distributed optimizer or without.
        Every rank reads it.
    custom_optimizers
        Classes of optimizers of your own.
    custom_objects
        Names and what they stand for, as ``keras.models.load_model()`` has it.
    compression
        As for ``DistributedOptimizer``.
    legacy_opts
        Horovod's, for optimizers that Keras 3 does not have any more: must be False.

    Returns
    -------
    keras.Model
        Not compiled where the file has a model that was not.

    >>> import os, tempfile
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.keras"))
    ...     model = load_model(os.path.join(folder, "model.keras"))
    >>> type(model.optimizer).__name__
    'SGD'
    """
    if legacy_opts:
        raise UnsupportedError(
            "load_model: Keras 3 has no legacy optimizers: leave legacy_opts out, and load the file "
            "of such a model with compile=False"
        )
    objects = {kind.__name__: kind for kind in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = keras.models.load_model(filepath, custom_objects=objects)
    if getattr(model, "optimizer", None) is not None:
        _restore_old_optimizer(model, filepath)
        DistributedOptimizer(model.optimizer, compression=compression)
        model.jit_compile = False  # it was compiled before the optimizer was ours
    return model


def _restore_old_optimizer(model: Any, filepath: Any) -> None:
    """Gives the optimizer of an ``.h5`` file its slots, for which Keras makes no room."""
    given = model.optimizer
    if not given.built or given._trainable_variables or not model.trainable_variables:
        return
    from keras.src.legacy.saving import legacy_h5_format

    optimizer = type(given).from_config(given.get_config())
    optimizer.build(model.trainable_variables)
    with contextlib.ExitStack() as stack:
        file = filepath
        if isinstance(filepath, (str, os.PathLike)):
            import h5py  # as Keras has it, for these files only

            file = stack.enter_context(h5py.File(filepath, "r"))
        saved = legacy_h5_format.load_optimizer_weights_from_hdf5_group(file)
        # A file of an optimizer that had not trained has no slots.
        if [tuple(one.shape) for one in saved] == [tuple(one.shape) for one in optimizer.variables]:
            for variable, value in zip(optimizer.variables, saved):
                variable.assign(value[()])
    model.optimizer = optimizer
