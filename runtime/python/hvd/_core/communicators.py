# SPDX-License-Identifier: Apache-2.0
"""MPI communicators of mpi4py, which is looked at only where the program has imported it."""

from __future__ import annotations

import sys
from typing import Any

from hvd.errors import UnsupportedError


def is_communicator(value: object) -> bool:
    """True for a communicator of mpi4py, ``MPI.COMM_NULL`` included.

    >>> is_communicator([0, 1])
    False
    """
    mpi = sys.modules.get("mpi4py.MPI")
    return mpi is not None and isinstance(value, mpi.Comm)


def handle_of(communicator: Any) -> tuple[int, int]:
    """Address and size of its MPI_Comm; good for as long as the object is alive."""
    mpi = sys.modules["mpi4py.MPI"]
    return mpi._addressof(communicator), mpi._sizeof(communicator)


def check_world(communicator: Any) -> None:
    """Raises where it is not a communicator of all ranks in the order of MPI_COMM_WORLD."""
    mpi = sys.modules["mpi4py.MPI"]
    if communicator != mpi.COMM_NULL and mpi.Comm.Compare(communicator, mpi.COMM_WORLD) in (
        mpi.IDENT,
        mpi.CONGRUENT,
    ):
        return
    raise UnsupportedError(
        "hvd.init(comm=...): the job is all ranks that the launcher has started, in its order; "
        "leave comm out, and make the communicator a process set: "
        "hvd.init(process_sets=[hvd.ProcessSet(comm)])"
    )
