# SPDX-License-Identifier: Apache-2.0
"""The errors of calls that are wrong."""

from __future__ import annotations

from hvd._core import api
from hvd.errors import InvalidArgumentError


def refused(text: str) -> InvalidArgumentError:
    """The error to raise for a wrong argument: `text`, after the rank where there is a job.

    Parameters
    ----------
    text
        What was given, what is wrong with it, and what to write instead.

    >>> str(refused("average is 'some'; say 'all' or 'active'")).startswith("rank ")
    True
    """
    where = f"rank {api.rank()}: " if api.is_initialized() else ""
    return InvalidArgumentError(where + text)
