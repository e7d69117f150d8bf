# SPDX-License-Identifier: Apache-2.0
"""Two packages named horovod do not live together: the other one is named, and nothing is imported."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path

_METADATA = re.compile(r"horovod-([^-]+)(?:-.+)?\.(?:dist|egg)-info")
_REMEDY = (
    "Keep one: `pip uninstall horovod`, then `pip install --force-reinstall hvdrun-horovod`; or "
    "`pip uninstall hvdrun-horovod` to go back to Horovod."
)


def other_distribution() -> str | None:
    """Where Horovod itself is installed, by its metadata; importlib.metadata costs too much here."""
    for folder in sys.path:
        try:
            names = os.listdir(folder or os.curdir)
        except OSError:
            continue
        for name in names:
            found = _METADATA.fullmatch(name)
            if found:
                return f"Horovod {found.group(1)} is installed in {os.path.abspath(folder)}"
    return None


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
