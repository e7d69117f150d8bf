# SPDX-License-Identifier: Apache-2.0
"""The job under Horovod's names: who and where, and what this build can do."""

from __future__ import annotations

from typing import Any

import hvd
from horovod import _environment
from hvd._core import api
from hvd._core._lib import quick


def _tell_identity() -> None:
    _environment.tell_identity(
        rank=hvd.rank(),
        size=hvd.size(),
        local_rank=hvd.local_rank(),
        local_size=hvd.local_size(),
        cross_rank=hvd.cross_rank(),
        cross_size=hvd.cross_size(),
    )


# An elastic job that starts again may have other ranks.
api.at_start(_tell_identity)


def is_built(part: str, name: str) -> bool:
    """Whether libhvd has a part; `part` is "backends", "bootstraps" or "libraries"."""
    return any(one["name"] == name and one["available"] for one in hvd.build_info()[part])


def has_driver_part(platform: str) -> bool:
    """Whether libhvd was built for the GPUs of a platform."""
    return any(one["name"] == f"{platform} driver" for one in hvd.build_info()["libraries"])


class HorovodBasics:
    """Horovod's questions about the job.

    Parameters
    ----------
    pkg_path, args
        For Horovod's scripts; there is no library of a framework to be found.

    >>> HorovodBasics(__file__).gloo_built()
    True
    """

    def __init__(self, pkg_path: str, *args: str) -> None:
        self.pkg_path = pkg_path

    def init(self, comm: Any = None, process_sets: Any = None) -> None:
        """Joins the job; every rank calls it once. See ``hvd.init``."""
        if hvd.is_initialized():
            return
        hvd.init(comm, process_sets)
        _environment.say_once(hvd.rank())

    def shutdown(self) -> None:
        """Leaves the job."""
        hvd.shutdown()

    def is_initialized(self) -> bool:
        """True between ``init()`` and ``shutdown()``."""
        return hvd.is_initialized()

    def start_timeline(self, file_path: str, mark_cycles: bool = False) -> None:
        """Begins a timeline, with or without HOROVOD_TIMELINE=DYNAMIC; see ``hvd``'s."""
        hvd.start_timeline(file_path, mark_cycles)

    def stop_timeline(self) -> None:
        """Ends the timeline."""
        hvd.stop_timeline()

    def size(self) -> int:
        """The number of ranks."""
        return hvd.size()

    def local_size(self) -> int:
        """The number of ranks of this node."""
        return hvd.local_size()

    def cross_size(self) -> int:
        """The number of nodes that have a rank with this local rank."""
        return hvd.cross_size()

    def rank(self) -> int:
        """This rank, 0..size-1."""
        return hvd.rank()

    def local_rank(self) -> int:
        """The place of this rank among the ranks of its node."""
        return hvd.local_rank()

    def cross_rank(self) -> int:
        """The place of this rank among those with the same local rank on their nodes."""
        return hvd.cross_rank()

    def is_homogeneous(self) -> bool:
        """True when every node has equally many ranks."""
        return api.number(quick.hvd_is_homogeneous()) == 1

    def mpi_threads_supported(self) -> bool:
        """True: mpi4py may be used beside hvd from any thread that MPI lets."""
        hvd.rank()
        return True

    def mpi_enabled(self) -> bool:
        """True when MPI moves the bytes."""
        return "moves by mpi:" in hvd.describe()

    def mpi_built(self) -> bool:
        """True when libhvd has a plugin for MPI."""
        return is_built("backends", "mpi")

    def gloo_enabled(self) -> bool:
        """True when bytes move without MPI: over shared memory and sockets."""
        return not self.mpi_enabled()

    def gloo_built(self) -> bool:
        """True: what Horovod needs Gloo for, jobs without MPI, is part of libhvd."""
        return True

    def nccl_built(self) -> int:
        """22809 for NCCL 2.28.9; 0 where libhvd was built without its part for GPUs.

        Of the NCCL (or RCCL) that the process has loaded, else of the headers of the build.
        """
        return int(hvd.build_info().get("nccl_version", 0))

    def ddl_built(self) -> bool:
        """False: there is no DDL."""
        return False

    def ccl_built(self) -> bool:
        """False: there is no oneCCL."""
        return False

    def cuda_built(self) -> bool:
        """True when libhvd was built for NVIDIA's GPUs, whether there is one or not."""
        return has_driver_part("CUDA")

    def rocm_built(self) -> bool:
        """True when libhvd was built for AMD's GPUs, whether there is one or not."""
        return has_driver_part("ROCm")
