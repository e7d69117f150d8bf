# SPDX-License-Identifier: Apache-2.0
"""The hvd that this package goes with: it uses parts of hvd that are not an interface of its own."""

from __future__ import annotations

import os
import sys

VERSION = "0.2.0"


def check_hvd() -> None:
    """Raises an ImportError where there is no hvd, or one of another version."""
    try:
        import hvd
    except ModuleNotFoundError as error:
        if error.name != "hvd":
            raise
        raise ModuleNotFoundError(
            f"horovod here is hvdrun-horovod {VERSION}, and this Python ({sys.executable}) has no "
            f"hvd, which does the work: pip install hvdrun=={VERSION}, or put its folder on "
            "PYTHONPATH",
            name="hvd",
        ) from None
    found = getattr(hvd, "__version__", "older than 0.2")
    if found != VERSION:
        raise ImportError(
            f"horovod here is hvdrun-horovod {VERSION} and needs hvd {VERSION}, but hvd in "
            f"{os.path.dirname(str(hvd.__file__))} is {found}: pip install hvdrun=={VERSION} "
            f"hvdrun-horovod=={VERSION}"
        )
