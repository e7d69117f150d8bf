# SPDX-License-Identifier: Apache-2.0
"""Horovod's variables: which become HVD_* ones, and which have no effect here, and why."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, MutableMapping

from horovod import _reasons

_ONE_ENGINE = "libhvd has one controller and chooses the plane; hvd.describe() says which"

# Variables of no effect, and why; a name that ends in `*` stands for all that begin so.
WITHOUT_EFFECT = {
    "HOROVOD_CYCLE_TIME": _reasons.NO_CYCLE,
    "HOROVOD_CACHE_CAPACITY": _reasons.NO_CACHE,
    "HOROVOD_AUTOTUNE*": _reasons.NO_TUNING,
    "HOROVOD_HIERARCHICAL_*": _reasons.TWO_LEVELS,
    "HOROVOD_TORUS_ALLREDUCE": _reasons.BY_NCCL,
    "HOROVOD_BATCH_D2D_MEMCOPIES": _reasons.ALWAYS_PACKED,
    "HOROVOD_NUM_NCCL_STREAMS": _reasons.ONE_STREAM,
    "HOROVOD_ENABLE_ASYNC_COMPLETION": _reasons.ALWAYS_IN_ORDER,
    "HOROVOD_DISABLE_NVTX_RANGES": _reasons.NO_NVTX,
    "HOROVOD_ENABLE_XLA_OPS": _reasons.NO_XLA,
    "HOROVOD_DISABLE_GROUP_FUSION": "groups complete as one, whatever else is in their batch",
    "HOROVOD_CPU_OPERATIONS": _ONE_ENGINE + "; HVD_BACKEND forces one",
    "HOROVOD_CONTROLLER": _ONE_ENGINE,
    "HOROVOD_MPI_THREADS_DISABLE": _reasons.ALL_THREADS,
    "HOROVOD_ADASUM_MPI_CHUNK_SIZE": "messages have no largest size",
    "HOROVOD_THREAD_AFFINITY": _reasons.BINDING,
    "HOROVOD_CCL_CACHE": "there is no oneCCL plane",
    "HOROVOD_LOG_HIDE_TIME": _reasons.NO_TIME,
    "HOROVOD_GLOO_TIMEOUT_SECONDS": _reasons.LOST_AT_ONCE,
    "HOROVOD_ELASTIC_TIMEOUT": "a job keeps its size",
}


def log_level(level: str) -> str | None:
    """The value of HVD_LOG for a level of Horovod's; None where there is none."""
    names = {"trace": "debug", "fatal": "error"}
    level = level.lower()
    level = names.get(level, level)
    return level if level in ("error", "warning", "info", "debug") else None


def _whole_seconds(text: str) -> str | None:
    return text if text.isdigit() and int(text) > 0 else None


def _disabled(text: str) -> str | None:
    return "0" if text.isdigit() and int(text) > 0 else None


TRANSLATED: dict[str, tuple[str, Callable[[str], str | None]]] = {
    "HOROVOD_GLOO_IFACE": ("HVD_INTERFACE", lambda text: text or None),
    "HOROVOD_LOG_LEVEL": ("HVD_LOG", log_level),
    "HOROVOD_STALL_CHECK_DISABLE": ("HVD_STALL_CHECK_TIME_SECONDS", _disabled),
    "HOROVOD_START_TIMEOUT": ("HVD_START_TIMEOUT_SECONDS", _whole_seconds),
}

# What Horovod's launcher tells a rank, and where hvdrun has it.
IDENTITY = {
    "HOROVOD_RANK": "HVD_RANK",
    "HOROVOD_SIZE": "HVD_SIZE",
    "HOROVOD_LOCAL_RANK": "HVD_LOCAL_RANK",
    "HOROVOD_LOCAL_SIZE": "HVD_LOCAL_SIZE",
}

# What rank 0 says once the job has started.
_said: list[str] = []


def translate(environment: MutableMapping[str, str] = os.environ) -> list[str]:
    """Sets HVD_* from HOROVOD_* where the former are unset; returns sentences about what it did.

    >>> variables = {"HOROVOD_START_TIMEOUT": "60"}
    >>> translate(variables)
    ['HOROVOD_START_TIMEOUT=60 is taken as HVD_START_TIMEOUT_SECONDS=60']
    >>> variables["HVD_START_TIMEOUT_SECONDS"]
    '60'
    """
    said = []
    for name, ours in IDENTITY.items():
        if ours in environment:
            environment[name] = environment[ours]
    for name, value in sorted(environment.items()):
        if name in TRANSLATED:
            ours, rule = TRANSLATED[name]
            meant = rule(value)
            if meant is not None and ours not in environment:
                environment[ours] = meant
                said.append(f"{name}={value} is taken as {ours}={meant}")
        elif name.startswith("HOROVOD_") and name not in IDENTITY:
            reason = why_without_effect(name)
            if reason:
                said.append(f"{name} has no effect: {reason}")
    if environment is os.environ:
        _said[:] = said
    return said


def why_without_effect(name: str) -> str | None:
    """Why a variable of Horovod's changes nothing here; None for one that does, or is unknown."""
    for pattern, reason in WITHOUT_EFFECT.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return reason
    return None


def tell_identity(**identity: int) -> None:
    """Sets HOROVOD_RANK and its like, from which some programs learn who a process is."""
    for name, value in identity.items():
        os.environ[f"HOROVOD_{name.upper()}"] = str(value)


def say_once(rank: int) -> None:
    """Prints on rank 0, and once, what ``translate()`` did."""
    if rank == 0:
        for sentence in _said:
            print(f"horovod: {sentence}", file=sys.stderr)
    _said.clear()
