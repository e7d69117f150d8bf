# SPDX-License-Identifier: Apache-2.0
"""Starts the program hvdrun that lies in the package ``hvd``: ``python3 -m hvdrun`` is ``hvdrun``."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def program_path() -> str:
    """Where hvdrun is: in the wheel, where Meson installed it, or in a build tree.

    Raises
    ------
    FileNotFoundError
        It is in none of these places, which the message names.
    """
    here = Path(__file__).resolve().parent
    # In a wheel; where Meson installs it: <prefix>/<libdir>/hvd/python; in a source tree.
    places = [here / "hvd" / "bin" / "hvdrun"]
    places += [parent / "bin" / "hvdrun" for parent in here.parents]
    places += [parent / "build" / "launcher" / "hvdrun" for parent in here.parents]
    for place in places:
        if os.access(place, os.X_OK):
            return str(place)
    editable = _in_resources()
    if editable:
        return editable
    raise FileNotFoundError(
        f"the program hvdrun is neither at {places[0]} nor in a bin/ or build/launcher/ above it: "
        "install this package anew, or build with 'ninja -C build'"
    )


def _in_resources() -> str | None:
    """In an editable installation the program is in a build folder that only its loader knows."""
    from importlib.resources import files

    place = str(files("hvd") / "bin" / "hvdrun")
    return place if os.access(place, os.X_OK) else None


def main() -> NoReturn:
    """Becomes hvdrun, with the arguments of this process."""
    try:
        program = program_path()
    except FileNotFoundError as missing:
        sys.exit(f"error: {missing}")
    os.execv(program, [program, *sys.argv[1:]])


if __name__ == "__main__":
    main()
