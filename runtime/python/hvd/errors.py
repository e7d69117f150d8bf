# SPDX-License-Identifier: Apache-2.0
"""What can go wrong: one exception class per status of ``hvd.h``."""

from __future__ import annotations


class HvdError(RuntimeError):
    """A failure of an operation; the text names rank, host and cause."""

    status = -1
    # Where a tf.function is traced TensorFlow makes an error anew, with the user's lines in front: of
    # a class that has this very constructor. Others become a StagingError, which no except expects.
    __init__ = Exception.__init__  # type: ignore[assignment]

    def _render_traceback_(self) -> list[str]:
        # IPython asks for it.
        from hvd._core import tracebacks

        return tracebacks.rendered(self)


class InvalidArgumentError(HvdError, ValueError):
    """The call is wrong: correct it."""

    status = 1


class MismatchError(HvdError):
    """The ranks disagree about a tensor: correct the program."""

    status = 2


class ReplicasDifferError(MismatchError):
    """The ranks have trained apart: their models, or the states of their optimizers, differ."""


class UnsupportedError(HvdError):
    """Choose another operation, type or backend."""

    status = 3


class DeadlineError(HvdError, TimeoutError):
    """A deadline passed."""

    status = 4


class PeerLostError(HvdError):
    """A rank, node or link died: restart the job."""

    status = 5


class OperatingSystemError(HvdError, OSError):
    """The operating system refused."""

    status = 6


class AbortedError(HvdError):
    """Shut down, or never initialised."""

    status = 7


class BackwardPassError(InvalidArgumentError, AssertionError):
    """A gradient came where none was expected; Horovod has an AssertionError there."""


class SparseReductionError(UnsupportedError, NotImplementedError):
    """A reduction that sparse rows do not have; Horovod has a NotImplementedError there."""


class NotInitializedError(AbortedError, ValueError):
    """A question about the job before ``init()`` or after ``shutdown()``."""


class InternalError(HvdError):
    """A defect of the library: please report it."""

    status = 8


class RankFailedError(HvdError):
    """``hvd.run()``: a rank raised an exception, was killed, or ended without a result.

    Parameters
    ----------
    text
        What failed, where, and what to do.

    Attributes
    ----------
    rank : int
        The rank that failed first; -1 when no rank had started.
    host : str
        Where it ran; empty when unknown.
    type_name : str
        Class of its exception, as "ZeroDivisionError"; empty when it raised none.
    traceback_text : str
        The traceback as the rank had it; empty when it raised none.
    others : list of int
        Further ranks that failed.

    The exception itself is ``__cause__``, where it can be unpickled here.
    """

    def __init__(
        self,
        text: str,
        rank: int = -1,
        host: str = "",
        type_name: str = "",
        traceback_text: str = "",
        others: tuple[int, ...] = (),
    ) -> None:
        super().__init__(text)  # type: ignore[has-type]
        self.rank = rank
        self.host = host
        self.type_name = type_name
        self.traceback_text = traceback_text
        self.others = list(others)


class CheckpointError(HvdError):
    """A checkpoint could not be written, or none of those that are there be read: on every rank."""


class HostsUpdatedInterrupt(RuntimeError):
    """Hosts have come or gone: an elastic job starts again with the state that it has.

    Parameters
    ----------
    skip_sync
        True when hosts have only gone: the ranks that stay are equal already.
    """

    def __init__(self, skip_sync: bool = False) -> None:
        super().__init__(skip_sync)
        self.skip_sync = skip_sync

    def __str__(self) -> str:
        return f"the hosts of the job have changed (skip_sync={self.skip_sync})"


BY_STATUS: dict[int, type[HvdError]] = {
    error.status: error
    for error in (
        InvalidArgumentError,
        MismatchError,
        UnsupportedError,
        DeadlineError,
        PeerLostError,
        OperatingSystemError,
        AbortedError,
        InternalError,
    )
}
