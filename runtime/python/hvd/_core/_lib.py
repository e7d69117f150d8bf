# SPDX-License-Identifier: Apache-2.0
"""``hvd.h`` for Python: the only file that imports ctypes. Declarations, no logic."""

from __future__ import annotations

import ctypes
import json
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Array,
    Structure,
    byref,
    c_char,
    c_char_p,
    c_double,
    c_int,
    c_int32,
    c_int64,
    c_size_t,
    c_uint32,
    c_uint64,
    c_void_p,
    create_string_buffer,
    sizeof,
)
from pathlib import Path
from typing import NamedTuple

from hvd import settings
from hvd.version import __version__

# What callers of the functions below need of ctypes.
__all__ = ["Array", "byref", "create_string_buffer", "sizeof"]

UINT64_MAX = 0xFFFFFFFFFFFFFFFF

OK, INVALID_ARGUMENT, TIMEOUT = 0, 1, 4

ALLREDUCE, ALLGATHER, BROADCAST, BARRIER, REDUCESCATTER = range(5)
ALLTOALL, REDUCE, GATHER, SCATTER, JOIN = range(5, 10)
AVERAGE, SUM, ADASUM, MIN, MAX, PRODUCT, BIT_AND, BIT_OR, BIT_XOR = range(9)
WIRE_SAME, WIRE_FLOAT16, WIRE_BFLOAT16 = range(3)
COMPRESS_NONE, COMPRESS_FLOAT16, COMPRESS_BFLOAT16 = range(3)
COMPRESS_FLOAT8_E4M3, COMPRESS_FLOAT8_E5M2, COMPRESS_TOP_K, COMPRESS_POWER_SGD = range(3, 7)
REDUCED, LOCAL, LOCAL_SCALED = range(3)
SUBMIT_MORE = 1
CPU, CUDA, ROCM = range(3)


class Kind(NamedTuple):
    """What holds for every operation of a kind."""

    name: str  # as users have it
    back: int | None  # the kind of its derivative; None: it has no tensors
    takes_splits: bool = False
    gives_rows: bool = False  # how many came from each rank, which is known at the end


KINDS = {
    ALLREDUCE: Kind("allreduce", ALLREDUCE),
    ALLGATHER: Kind("allgather", ALLREDUCE, gives_rows=True),
    BROADCAST: Kind("broadcast", ALLREDUCE),
    BARRIER: Kind("barrier", None),
    REDUCESCATTER: Kind("reducescatter", ALLGATHER),
    ALLTOALL: Kind("alltoall", ALLTOALL, takes_splits=True, gives_rows=True),
    REDUCE: Kind("reduce", BROADCAST),
    GATHER: Kind("gather", SCATTER, gives_rows=True),
    SCATTER: Kind("scatter", GATHER, takes_splits=True, gives_rows=True),
    JOIN: Kind("join", None),
}

DTYPES = {
    "uint8": 0,
    "int8": 1,
    "uint16": 2,
    "int16": 3,
    "int32": 4,
    "int64": 5,
    "float16": 6,
    "float32": 7,
    "float64": 8,
    "bool": 9,
    "bfloat16": 10,
    "uint32": 11,
    "uint64": 12,
    "complex64": 13,
    "complex128": 14,
    "float8_e4m3fn": 15,
    "float8_e5m2": 16,
}

OnComplete = CFUNCTYPE(None, c_void_p, c_int, c_char_p)


class Ranks(Structure):
    """``hvd_ranks``"""

    _fields_ = [("ranks", POINTER(c_int32)), ("count", c_uint32)]


class InitOptions(Structure):
    """``hvd_init_options``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("start_timeout_seconds", c_double),
        ("fusion_bytes", c_uint64),
        ("stall_check_seconds", c_double),
        ("process_sets", POINTER(Ranks)),
        ("process_set_count", c_uint32),
    ]


class Tensor(Structure):
    """``hvd_tensor``"""

    _fields_ = [
        ("input", c_void_p),
        ("output", c_void_p),
        ("dtype", c_int32),
        ("dimensions", c_int32),
        ("shape", POINTER(c_int64)),
        ("layout", c_uint64),
        ("splits", POINTER(c_int64)),
        ("split_count", c_size_t),
        ("output_bytes", c_size_t),
    ]


class Request(Structure):
    """``hvd_request``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("name", c_char_p),
        ("kind", c_int32),
        ("process_set", c_int32),
        ("reduce_op", c_int32),
        ("root", c_int32),
        ("prescale", c_double),
        ("postscale", c_double),
        ("device_kind", c_int32),
        ("device_index", c_int32),
        ("flags", c_uint32),
        ("tensor_count", c_uint32),
        ("tensors", POINTER(Tensor)),
        ("on_complete", c_void_p),
        ("context", c_void_p),
        ("wire", c_int32),
        ("priority", c_int32),
        ("stream", c_void_p),
    ]


class Gather(Structure):
    """``hvd_gather``"""

    _fields_ = [
        ("data", c_void_p),
        ("shape", POINTER(c_int64)),
        ("rows", POINTER(c_int64)),
        ("dimensions", c_int32),
        ("ranks", c_int32),
    ]


class Counters(Structure):
    """``hvd_counters``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("batches", c_uint64),
        ("requests", c_uint64),
        ("bytes", c_uint64),
        ("waited_seconds", c_double),
    ]


class GradientsOptions(Structure):
    """``hvd_gradients_options``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("reduce_op", c_int32),
        ("passes_per_step", c_int32),
        ("prescale", c_double),
        ("postscale", c_double),
        ("flush_bytes", c_uint64),
        ("predivide", c_double),
        ("clip_norm", c_double),
        ("mean_over_passes", c_int32),
        ("compression", c_int32),
        ("process_set", c_int32),
        ("device_kind", c_int32),
        ("device_index", c_int32),
        ("tracks_use", c_int32),
    ]


class Compression(Structure):
    """``hvd_compression``"""

    _fields_ = [
        ("struct_size", c_size_t),
        ("method", c_int32),
        ("rank", c_int32),
        ("ratio", c_double),
        ("smallest", c_uint64),
        ("momentum", c_double),
    ]


# name: (result, arguments), in the order of hvd.h and gradients.h; a test compares them.
PROTOTYPES: dict[str, tuple] = {
    "hvd_init": (c_int, [POINTER(InitOptions)]),
    "hvd_shutdown": (c_int, [c_double]),
    "hvd_abort": (c_int, [c_char_p]),
    "hvd_set_farewell": (c_int, [c_char_p]),
    "hvd_is_initialized": (c_int, []),
    "hvd_came_late": (c_int, []),
    "hvd_has_newcomers": (c_int, []),
    "hvd_rank": (c_int, []),
    "hvd_size": (c_int, []),
    "hvd_local_rank": (c_int, []),
    "hvd_local_size": (c_int, []),
    "hvd_cross_rank": (c_int, []),
    "hvd_cross_size": (c_int, []),
    "hvd_is_homogeneous": (c_int, []),
    "hvd_process_set_add": (c_int, [POINTER(c_int32), c_uint32, c_double, POINTER(c_int32)]),
    "hvd_process_set_add_mpi": (c_int, [c_void_p, c_size_t, c_double, POINTER(c_int32)]),
    "hvd_process_set_remove": (c_int, [c_int32, c_double]),
    "hvd_process_set_count": (c_int, []),
    "hvd_process_set_ids": (c_int, [POINTER(c_int32), c_uint32, POINTER(c_uint32)]),
    "hvd_process_set_ranks": (c_int, [c_int32, POINTER(c_int32), c_uint32, POINTER(c_uint32)]),
    "hvd_process_set_rank": (c_int, [c_int32]),
    "hvd_process_set_size": (c_int, [c_int32]),
    "hvd_join": (c_int, [c_int32, c_int32, c_double, POINTER(c_int32)]),
    "hvd_submit": (c_int, [POINTER(Request), POINTER(c_uint64)]),
    "hvd_flush": (c_int, []),
    "hvd_poll": (c_int, [c_uint64, POINTER(c_int)]),
    "hvd_wait": (c_int, [c_uint64, c_double]),
    "hvd_run": (c_int, [POINTER(Request), c_double, POINTER(c_uint64)]),
    "hvd_wait_stream": (c_int, [c_uint64, c_void_p, c_double]),
    "hvd_gathered": (c_int, [c_uint64, c_uint32, POINTER(Gather)]),
    "hvd_release": (c_int, [c_uint64]),
    "hvd_alloc": (c_int, [c_size_t, POINTER(c_void_p)]),
    "hvd_free": (c_int, [c_void_p]),
    "hvd_last_error": (c_char_p, []),
    "hvd_status_name": (c_char_p, [c_int]),
    "hvd_describe": (c_char_p, []),
    "hvd_version": (c_char_p, []),
    "hvd_build_info": (c_char_p, []),
    "hvd_statistics": (c_int, [POINTER(Counters)]),
    "hvd_timeline_start": (c_int, [c_char_p, c_int]),
    "hvd_timeline_stop": (c_int, []),
    "hvd_allreduce": (c_int, [c_char_p, c_void_p, c_void_p, c_size_t, c_int, c_int]),
    "hvd_broadcast": (c_int, [c_char_p, c_void_p, c_size_t, c_int, c_int]),
    "hvd_allgather": (c_int, [c_char_p, c_void_p, c_size_t, c_size_t, c_int, POINTER(c_uint64)]),
    "hvd_reduce": (c_int, [c_char_p, c_void_p, c_void_p, c_size_t, c_int, c_int, c_int]),
    "hvd_reducescatter": (
        c_int,
        [c_char_p, c_void_p, c_size_t, c_size_t, c_int, c_int, POINTER(c_uint64)],
    ),
    "hvd_alltoall": (
        c_int,
        [c_char_p, c_void_p, POINTER(c_int64), c_size_t, c_int, POINTER(c_uint64)],
    ),
    "hvd_gather_rows": (
        c_int,
        [c_char_p, c_void_p, c_size_t, c_size_t, c_int, c_int, POINTER(c_uint64)],
    ),
    "hvd_scatter_rows": (
        c_int,
        [c_char_p, c_void_p, POINTER(c_int64), c_size_t, c_int, c_int, POINTER(c_uint64)],
    ),
    "hvd_barrier": (c_int, []),
    "hvd_gradients_create": (
        c_int,
        [
            POINTER(GradientsOptions),
            POINTER(c_char_p),
            POINTER(Tensor),
            c_uint32,
            POINTER(c_void_p),
        ],
    ),
    "hvd_gradient_ready": (c_int, [c_void_p, c_uint32, c_void_p, c_int]),
    "hvd_gradient_ready_on": (c_int, [c_void_p, c_uint32, c_void_p, c_int, c_void_p]),
    "hvd_gradient_elsewhere": (c_int, [c_void_p, c_uint32]),
    "hvd_gradients_exchange": (
        c_int,
        [c_void_p, c_int, c_double, POINTER(c_uint32), c_uint32, POINTER(c_uint32), POINTER(c_int)],
    ),
    "hvd_gradients_wait_part": (c_int, [c_void_p, c_double]),
    "hvd_gradients_wait_part_stream": (c_int, [c_void_p, c_void_p, c_double]),
    "hvd_gradient_describe": (c_int, [c_void_p, c_uint32, POINTER(Tensor)]),
    "hvd_gradient_compress": (c_int, [c_void_p, c_uint32, POINTER(Compression)]),
    "hvd_gradient_share": (c_int, [c_void_p, c_uint32, c_int]),
    "hvd_gradient_start": (c_int, [c_void_p, c_uint32, c_void_p]),
    "hvd_gradients_missing": (c_int, [c_void_p, POINTER(c_uint32), c_uint32, POINTER(c_uint32)]),
    "hvd_gradients_wait": (c_int, [c_void_p, c_double]),
    "hvd_gradients_wait_stream": (c_int, [c_void_p, c_void_p, c_double]),
    "hvd_gradients_set_passes": (c_int, [c_void_p, c_int]),
    "hvd_gradients_set_clip_norm": (c_int, [c_void_p, c_double]),
    "hvd_gradients_set_loss_scale": (c_int, [c_void_p, c_double]),
    "hvd_gradients_norm": (c_int, [c_void_p, POINTER(c_double)]),
    "hvd_gradients_save": (c_int, [c_void_p, c_void_p, c_size_t, POINTER(c_size_t)]),
    "hvd_gradients_load": (c_int, [c_void_p, c_void_p, c_size_t]),
    "hvd_gradients_abandon": (c_int, [c_void_p, c_char_p, c_double]),
    "hvd_gradients_destroy": (None, [c_void_p]),
    "hvd_rate_factor": (c_double, [c_int, c_double]),
    "hvd_learning_rate": (c_double, [c_double, c_double, c_int64, c_int64]),
    "hvd_lars_ratio": (c_double, [c_double, c_double, c_double, c_double]),
    "hvd_lamb_ratio": (c_double, [c_double, c_double]),
    "hvd_digest": (c_uint64, [c_void_p, c_size_t, c_uint64]),
}


def library_path() -> str:
    """Where libhvd.so is: ``HVD_LIBRARY``, else near this package, else in a build tree."""
    given = settings.given("HVD_LIBRARY")
    if given:
        return given
    package = Path(__file__).resolve().parents[1]
    # In a wheel, and where Meson installs it: <libdir>/hvd/python/hvd.
    places = [package / "lib" / "libhvd.so", package.parents[2] / "libhvd.so"]
    places += [parent / "build" / "runtime" / "c" / "libhvd.so" for parent in package.parents]
    for place in places:
        if place.exists():
            return str(place)
    raise ImportError(
        f"libhvd.so is neither in {places[0].parent} nor in a build tree above it: build it with "
        "'ninja -C build', or set HVD_LIBRARY to its path"
    )


def _unfit(path: str, what: str) -> ImportError:
    remedy = "build or install hvdrun anew, so that the two are of one build"
    if settings.given("HVD_LIBRARY"):
        remedy = "HVD_LIBRARY names it: unset that, or set it to the libhvd.so of this hvd"
    package = Path(__file__).resolve().parents[1]
    return ImportError(f"{path} {what}; hvd in {package} is {__version__}. {remedy}")


def _check(path: str) -> None:
    """Raises an ImportError where the library is none, or not the one of this package."""
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise _unfit(path, f"cannot be loaded ({error})") from error
    if not hasattr(library, "hvd_build_info"):
        raise _unfit(path, "is not libhvd")
    # Up to 0.1 there was no hvd_version, and the other takes its time.
    is_old = not hasattr(library, "hvd_version")
    ask = library.hvd_build_info if is_old else library.hvd_version
    ask.restype = c_char_p
    found = json.loads(ask())["version"] if is_old else ask().decode()
    lacking = [one for one in PROTOTYPES if not hasattr(library, one) and one != "hvd_version"]
    if found != __version__ or lacking:
        what = f", of another revision: it has no {lacking[0]}" if lacking else ""
        raise _unfit(path, f"is libhvd {found}{what}")


def _declared(loader: type[ctypes.CDLL], path: str) -> ctypes.CDLL:
    library = loader(path)
    for name, (result, arguments) in PROTOTYPES.items():
        if hasattr(library, name):  # of all but hvd_version _check() is sure
            getattr(library, name).restype = result
            getattr(library, name).argtypes = arguments
    return library


_path = library_path()
_check(_path)
# For calls that may wait: releases the interpreter lock meanwhile.
waiting = _declared(ctypes.CDLL, _path)
# For calls that never wait: keeps the lock, which makes them cheaper.
quick = _declared(ctypes.PyDLL, _path)


def plugin_problem(path: str, function: str) -> str:
    """Why a plugin that is loaded does not work, as its `function` says; "" when it does."""
    ask = getattr(ctypes.CDLL(path), function)
    ask.restype = c_char_p
    return (ask() or b"").decode(errors="replace")


class PluginCalls:
    """What the TensorFlow plugin counts; `path` is where it was loaded from."""

    def __init__(self, path: str) -> None:
        self._plugin = ctypes.CDLL(path)
        self._begun, self._ended = c_uint64(), c_uint64()

    def _counted(self) -> tuple[int, int]:
        return self._begun.value, self._ended.value

    def now(self) -> tuple[int, int]:
        """How many calls of collectives have begun, and how many of them have ended."""
        self._plugin.hvd_tf_calls(byref(self._begun), byref(self._ended))
        return self._counted()

    def at_next_signals(self, descriptor: int) -> tuple[bytes, int, int]:
        """Waits for what Python writes when signals come: their numbers, and ``now()``.

        Both counts are equal where no call waited when they came.
        """
        numbers = create_string_buffer(64)
        count = self._plugin.hvd_tf_await_signals(
            descriptor, numbers, len(numbers), byref(self._begun), byref(self._ended)
        )
        return numbers.raw[: max(count, 0)], *self._counted()


def immortal(value: object) -> None:
    """Keeps `value` and all it refers to in memory until the process has ended."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(value))


def memory_at(address: int, size: int) -> memoryview:
    """Memory that somebody else holds, for as long as that lasts."""
    return memoryview((c_char * size).from_address(address)).cast("B")


def bytes_at(address: int | None, size: int) -> bytes:
    """A copy of `size` bytes at `address`."""
    return ctypes.string_at(address, size) if size and address else b""


def copy_bytes(target: int, source: int | None, size: int) -> None:
    """Copies `size` bytes; no size, no copy."""
    if size and source:
        ctypes.memmove(target, source, size)


def shape_array(shape: tuple[int, ...]) -> Array:
    """A C array of int64."""
    return (c_int64 * len(shape))(*shape)
