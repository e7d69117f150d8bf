# SPDX-License-Identifier: Apache-2.0
"""The plugin libhvd_tf.so: kernels over TensorFlow's C interface, for any TensorFlow from 2.16."""

from __future__ import annotations

import re
import weakref
from pathlib import Path
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import ops as _graphs

from hvd import settings
from hvd._core import _lib
from hvd.tensorflow import interrupts


def plugin_path() -> str:
    """Where libhvd_tf.so is: ``HVD_TF_LIBRARY``, else beside libhvd.so or in its build tree."""
    given = settings.given("HVD_TF_LIBRARY")
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


# What TensorFlow appends to the names of branches and loops: how many the process has made.
_COUNTED = re.compile(r"(_\d+)+$")

# The names of collectives in each graph.
_names: weakref.WeakKeyDictionary[Any, set[str]] = weakref.WeakKeyDictionary()


def place_in_graph(name: str, *, with_scope: bool = True, is_taken: bool = False) -> str:
    """A name for what comes next in the graph that is being built: equal on all ranks that build it.

    It begins with the functions that the graph is within: a function's names begin anew, and what
    it does may overlap with what the function that calls it does.

    Parameters
    ----------
    with_scope
        The scope of names counts.
    is_taken
        Nothing else in the graph gets this name.
    """
    graph = _graphs.get_default_graph()
    place = graph.unique_name(name, mark_as_used=is_taken) if with_scope else name
    functions = []
    while graph is not None:
        functions.append(_COUNTED.sub("", getattr(graph, "name", None) or ""))
        graph = getattr(graph, "outer_graph", None)
    return "/".join([one for one in reversed(functions) if one] + [place])


def unique_in_graph(name: str) -> str:
    """The same, or with a number appended: two in flight would be taken for each other."""
    names = _names.setdefault(_graphs.get_default_graph(), set())
    unique, number = name, 0
    while unique in names:
        number += 1
        unique = f"{name}_{number}"
    names.add(unique)
    return unique
