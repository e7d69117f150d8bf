# SPDX-License-Identifier: Apache-2.0
"""The plugin libhvd_tf.so: kernels over TensorFlow's C interface, for any TensorFlow from 2.16."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as _graphs

from hvd import _lib
from hvd.tensorflow import interrupts


def plugin_path() -> str:
    """Where libhvd_tf.so is: ``HVD_TF_LIBRARY``, else beside libhvd.so or in its build tree."""
    given = os.environ.get("HVD_TF_LIBRARY")
    if given:
        return given
    core = Path(_lib.library_path()).resolve().parent
    places = [core / "libhvd_tf.so", core.parent / "plugins" / "tensorflow" / "libhvd_tf.so"]
    for place in places:
        if place.exists():
            return str(place)
    raise ImportError(
        f"libhvd_tf.so is not in {core}: install hvdrun whole, or set HVD_TF_LIBRARY to its path"
    )


def _load() -> Any:
    path = plugin_path()
    # Only load_op_library() finds the ops: a plugin that ctypes opened before would seem empty.
    loaded = tf.load_op_library(path)
    if not hasattr(loaded, "hvd_allreduce"):
        problem = _lib.plugin_problem(path, "hvd_tf_problem")
        raise ImportError(f"{path}: {problem or 'it was loaded by something else before'}")
    interrupts.watch(_lib.PluginCalls(path))
    return loaded


ops = _load()


def run_independently(result: Any) -> None:
    """In a tf.function: lets `result`'s op run beside its neighbours.

    It is stateful, so that nothing folds or drops it; those run one after the other in the order
    of the program, which deadlocks where ranks have different orders.
    """
    manager = getattr(_graphs.get_default_graph(), "experimental_acd_manager", None)
    if manager is not None:
        manager.run_independently(result.op)


def graph_name(op: str) -> str:
    """The name that the next op of this kind gets in the graph that is being built."""
    return _graphs.get_default_graph().unique_name(op, mark_as_used=False)
