# SPDX-License-Identifier: Apache-2.0
"""Errors of the library that PyTorch has made some of its own of."""

from __future__ import annotations

import re

from hvd import errors
from hvd.errors import HvdError

# Of a callback of DDP: "Got the following error when running the callback: PeerLostError: ...".
_CLASSES = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, HvdError)
}
_MARK = re.compile(rf"\b({'|'.join(_CLASSES)}): (.+)", re.DOTALL)


def of(error: BaseException) -> HvdError | None:
    """The ``HvdError`` behind an error of ``backward()`` or a future; None where it is not ours.

    >>> of(RuntimeError("Got the following error when running the callback: PeerLostError: lost"))
    PeerLostError('lost')
    """
    if isinstance(error, HvdError):
        return error
    found = _MARK.search(str(error)) if type(error) is RuntimeError else None
    return _CLASSES[found[1]](found[2]) if found else None
