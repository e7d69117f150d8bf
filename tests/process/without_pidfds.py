# SPDX-License-Identifier: Apache-2.0
"""Makes a process, and all that it starts, live as on a kernel without pidfds."""

from __future__ import annotations

import ctypes
import errno
import os

PIDFD_SEND_SIGNAL, PIDFD_OPEN = 424, 434  # the same on every architecture

_LOAD_NUMBER = (0x20, 0, 0, 0)
_ALLOW = (0x06, 0, 0, 0x7FFF0000)
_ERRNO = 0x00050000


class _Instruction(ctypes.Structure):
    _fields_ = [
        ("code", ctypes.c_uint16),
        ("jump_true", ctypes.c_uint8),
        ("jump_false", ctypes.c_uint8),
        ("k", ctypes.c_uint32),
    ]


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_uint16), ("first", ctypes.POINTER(_Instruction))]


def forbid_pidfds(error: int = errno.ENOSYS) -> None:
    """The calls of pidfds fail with `error` from now on: ENOSYS as in an old kernel, EPERM as under
    an old seccomp profile of a container."""
    fail = (0x06, 0, 0, _ERRNO | error)
    steps = (
        _LOAD_NUMBER,
        (0x15, 1, 0, PIDFD_OPEN),
        (0x15, 0, 1, PIDFD_SEND_SIGNAL),
        fail,
        _ALLOW,
    )
    code = (_Instruction * len(steps))(*steps)
    program = _Program(len(steps), code)
    libc = ctypes.CDLL(None, use_errno=True)
    no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    for arguments in (
        (no_new_privileges, 1, 0, 0, 0),
        (
            set_seccomp,
            filter_mode,
            ctypes.byref(program),
            0,
            0,
        ),
    ):
        if libc.prctl(*arguments) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def are_forbidden_here(error: int = errno.ENOSYS) -> bool:
    """Whether the filter does in a child what it says."""
    child = os.fork()
    if child == 0:
        try:
            forbid_pidfds(error)
            os.pidfd_open(os.getpid())
        except OSError as failure:
            os._exit(0 if failure.errno == error else 1)
        os._exit(1)
    return os.waitpid(child, 0)[1] == 0
