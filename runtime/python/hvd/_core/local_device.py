# SPDX-License-Identifier: Apache-2.0
"""Which GPU is this rank's."""

from __future__ import annotations

import os

from hvd._core import api
from hvd._core.refusals import refused


def local_device(visible: int, caller: str = "use_own_gpu") -> int:
    """The place of this rank's GPU among those that the process sees.

    hvdrun has chosen it (``HVD_LOCAL_DEVICE``). Elsewhere it is the one that the process sees alone,
    or else the one of the local rank.

    Parameters
    ----------
    visible
        GPUs that the process sees, 1 or more.
    caller
        The function that an error names.

    Raises
    ------
    InvalidArgumentError
        There are fewer.

    >>> local_device(1)
    0
    """
    given = os.environ.get("HVD_LOCAL_DEVICE")
    if given is None and visible == 1:
        return 0
    place = api.local_rank() if given is None else int(given)
    if place < visible:
        return place
    source = "its local rank" if given is None else "HVD_LOCAL_DEVICE"
    raise refused(
        f"{caller}: {source} is {place}, and the process sees {visible} GPUs: start at most one "
        "rank for each GPU of a node, or let hvdrun share them out"
    )
