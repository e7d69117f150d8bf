# SPDX-License-Identifier: Apache-2.0
"""Models from files, ready to go on training."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from hvd._core.refusals import refused
from hvd.errors import UnsupportedError
from hvd.keras import files, generations
from hvd.keras.distributed import inner_of
from hvd.keras.optimizer import DistributedOptimizer
from hvd.process_sets import ProcessSet, process_set_ids, process_set_ranks


def load_model(
    filepath: Any,
    custom_optimizers: Sequence[type] | None = None,
    custom_objects: Mapping[str, Any] | None = None,
    compression: Any = None,
    legacy_opts: bool = False,
    **arguments: Any,
) -> Any:
    """The model of a file, whose optimizer has its saved state and is distributed.

    A ``.keras`` file keeps what its distributed optimizer was told: it reduces again as it did, except for
    `compression` and `groups`. An ``.h5`` file keeps nothing of it: give the arguments again.

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
        Horovod's, for the legacy optimizers of Keras 2, whose files say so: with Keras 3 it must be False.
    **arguments
        Others of ``DistributedOptimizer``, by name: in the place of those that the file keeps.

    Returns
    -------
    keras.Model
        Not compiled where the file has a model that was not.

    Raises
    ------
    InvalidArgumentError
        An argument is wrong, or the optimizer trained in a process set that is not there now.

    Warns
    -----
    UserWarning
        The file does not say whether the optimizer adds steps up or averages them, or which variables
        stay on their rank.

    >>> import os, tempfile, keras
    >>> model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    >>> model.compile("sgd", "mse")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     model.save(os.path.join(folder, "model.keras"))
    ...     model = load_model(os.path.join(folder, "model.keras"))
    >>> type(model.optimizer).__name__
    'SGD'
    """
    generation = generations.of_file(filepath)
    if legacy_opts and generation.module.__name__ == "keras":
        raise UnsupportedError(
            "load_model: Keras 3 has no legacy optimizers: leave legacy_opts out, and load the file "
            "of such a model with compile=False"
        )
    objects = {kind.__name__: kind for kind in custom_optimizers or ()}
    objects.update(custom_objects or {})
    model = generation.load_model(filepath, objects)
    if getattr(model, "optimizer", None) is not None:
        _distribute(model, filepath, {"compression": compression, **arguments})
        model.jit_compile = False  # it was compiled before the optimizer was ours
    return model


def _distribute(model: Any, filepath: Any, given: dict[str, Any]) -> None:
    """Makes the optimizer what it was, except for what is given."""
    optimizer = model.optimizer
    generation = generations.of(optimizer)
    kept = files.read(filepath)
    arguments = dict(kept or {})
    ranks, local = arguments.pop("ranks", None), arguments.pop("local", [])
    if ranks is not None and "process_set" not in given:
        arguments["process_set"] = _process_set_of(ranks, filepath)
    steps = generation.accumulated_steps(inner_of(optimizer) or optimizer)
    if "average_aggregated_gradients" in given:
        given.setdefault("backward_passes_per_step", steps)
    DistributedOptimizer(optimizer, **{**arguments, **given})
    for place in local:
        if place >= 0:
            trained = generation.trained(optimizer) or model.trainable_variables
            optimizer.register_local_var(trained[place])
    if -1 in local:
        warnings.warn(
            f"load_model: {filepath} was written before the first step, and does not say which variables "
            "stay on their rank: call optimizer.register_local_var() again",
            stacklevel=3,
        )
    if kept is None and steps > 1 and "backward_passes_per_step" not in given:
        warnings.warn(
            f"load_model: the optimizer adds up the gradients of {steps} steps, and {filepath} does not "
            f"say how; now it averages them. Give load_model backward_passes_per_step={steps} if "
            "DistributedOptimizer was given it, else 1",
            stacklevel=3,
        )


def _process_set_of(ranks: list[int], filepath: Any) -> ProcessSet:
    """The process set of now that has these ranks."""
    for number in process_set_ids():
        if process_set_ranks(number) == ranks:
            found = ProcessSet(ranks)
            found.process_set_id = number
            return found
    raise refused(
        f"load_model: the optimizer in {filepath} trained in a process set of ranks {ranks}, which is "
        f"not there: call hvd.add_process_set({ranks}) first, or give another process_set"
    )
