# SPDX-License-Identifier: Apache-2.0
"""What ``hvd.keras`` asks of a Keras: one module for Keras 3 and one for Keras 2, with the same names.

module
    The package: ``keras``, or ``tf_keras``.
backend()
    The name of what it computes with.
Variable
    The class of its variables.
Callback, ModelCheckpoint
    Classes from which callbacks for ``fit`` of either Keras are derived.
Distributed
    The class that stands before the class of a distributed optimizer.
hook()
    Makes loss scales and XLA of this Keras know of optimizers of ours.
is_optimizer(given), is_loss_scale(given)
    Whether it is one.
to_reduce(optimizer)
    The optimizers that become distributed when this one does, the inner one of a loss scale first.
accumulate(optimizer, settings)
    Lets it add up steps; returns by what their gradients are multiplied at the end.
accumulated_steps(optimizer)
    How many steps it adds up before an update; 1 unless told.
sums(optimizer)
    Its steps and the variables that add up; None where it adds nothing up.
build(optimizer, variables), variables(optimizer), trained(optimizer)
    Makes its slots if there are none; all of its state; the variables that it trains.
owner(optimizer, slot, variables)
    Which of a model's variables this variable of the optimizer belongs to, or None.
rate(optimizer), velocities(optimizer)
    The variable of its learning rate, None of a schedule; what it has multiplied gradients by rates in.
scaling(variables)
    A function that multiplies them by a number.
assign(variable, value), run(operation)
    Gives a variable a value; runs an operation, where Keras has a graph of TensorFlow 1.
numpy(value), tensor(value)
    A value as an array, or as a tensor of float32.
floor(value), minimum(one, other)
    Of tensors.
checkpoint_endings(only_weights)
    How the name of a checkpoint may end.
store_as(kind, given)
    Objects of one class are stored in files as those of another.
load_model(filepath, objects)
    The model of a file, with the slots of its optimizer.
"""

from __future__ import annotations

import functools
import importlib
import json
import os
import sys
import zipfile
from types import ModuleType
from typing import Any

from hvd._core.frameworks import check_framework, keras_package, wants_keras2


def of(given: Any) -> ModuleType:
    """The module for the Keras that an object, a model or an optimizer say, is of."""
    packages = {kind.__module__.partition(".")[0] for kind in type(given).__mro__}
    return _module("keras2" if "tf_keras" in packages else "keras3")


@functools.cache
def default() -> ModuleType:
    """The module for the Keras whose classes those of ``hvd.keras`` are derived from.

    Keras 2 where ``tf.keras`` is: the environment variable TF_USE_LEGACY_KERAS is set, as TensorFlow
    reads it. Objects of either Keras work with them.
    """
    return _module("keras2" if keras_package() == "tf_keras" else "keras3")


def is_layer(given: Any) -> bool:
    """True for a layer of either Keras."""
    return isinstance(given, of(given).module.layers.Layer)


def everywhere(path: str) -> tuple[type, ...]:
    """The classes of this name of the Keras that is the default, and of Keras 2 where it is loaded."""
    modules = {default().__name__: default()}
    if "tf_keras" in sys.modules:
        modules.setdefault("hvd.keras.generations.keras2", _module("keras2"))
    return tuple(functools.reduce(getattr, path.split("."), one.module) for one in modules.values())


def of_file(filepath: Any) -> ModuleType:
    """The module for the Keras that has written a model, where it is loaded; else the default."""
    return _module("keras2") if "tf_keras" in sys.modules and _is_keras2(filepath) else default()


def _is_keras2(filepath: Any) -> bool:
    if not isinstance(filepath, (str, os.PathLike)):
        return False
    if os.path.exists(os.path.join(filepath, "saved_model.pb")):
        return True
    version = ""
    if zipfile.is_zipfile(filepath):
        with zipfile.ZipFile(filepath) as archive:
            version = json.loads(archive.read("metadata.json"))["keras_version"]
    elif str(filepath).endswith((".h5", ".hdf5")):
        import h5py  # as Keras has it, for these files only

        with h5py.File(filepath, "r") as file:
            version = file.attrs.get("keras_version", "")
    return str(version).startswith("2.")


def check_tensorflow_keras() -> None:
    """Raises ModuleNotFoundError where ``tf.keras`` shall be Keras 2, which is not installed."""
    if wants_keras2():
        check_framework("TF_USE_LEGACY_KERAS is set", "tf_keras")


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"hvd.keras.generations.{name}")
