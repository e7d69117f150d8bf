# SPDX-License-Identifier: Apache-2.0
"""Two packages named horovod do not live together: the other one is named, and nothing is imported."""

from __future__ import annotations

import importlib.metadata
import os
import sys
from pathlib import Path

_REMEDY = (
    "Keep one: `pip uninstall horovod`, then `pip install --force-reinstall hvdrun-horovod`; or "
    "`pip uninstall hvdrun-horovod` to go back to Horovod."
)


def other_distribution() -> str | None:
    """Where Horovod itself is installed, by its metadata."""
    try:
        found = importlib.metadata.distribution("horovod")
    except importlib.metadata.PackageNotFoundError:
        return None
    return f"Horovod {found.version} is installed in {found.locate_file('')}"


def other_package() -> str | None:
    """The folder of another package of this name further on the path; a copy of this one is none."""
    here = Path(__file__).resolve().parent
    for folder in sys.path:
        package = os.path.join(folder or os.curdir, "horovod")
        if not os.path.isfile(os.path.join(package, "__init__.py")):
            continue
        if Path(package).resolve() == here or os.path.isfile(os.path.join(package, "_shadow.py")):
            continue
        return f"another package horovod lies in {os.path.abspath(package)}"
    return None


def refuse_to_shadow() -> None:
    """Raises an ImportError when this package would hide Horovod itself."""
    other = other_distribution() or other_package()
    if other:
        raise ImportError(
            f"hvdrun-horovod has the package horovod in {Path(__file__).parent}, but {other}: it "
            f"does not hide Horovod. {_REMEDY}"
        )
