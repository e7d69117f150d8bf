# SPDX-License-Identifier: Apache-2.0
"""meson-python, but for the tag of the wheel: one serves every Python.

The package reaches libhvd through ctypes and has no extension module, so nothing in it depends on
a Python's ABI. meson-python cannot know that of files beside a package and tags them cp311-cp311.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import mesonpy
from mesonpy import (  # noqa: F401 (the other hooks of PEP 517 and PEP 660)
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)


def build_wheel(folder: str, settings: dict | None = None, metadata: str | None = None) -> str:
    """Builds the wheel into `folder`; returns the name of its file."""
    built = Path(folder, mesonpy.build_wheel(folder, settings, metadata))
    tags = [sys.executable, "-m", "wheel", "tags", "--python-tag=py3", "--abi-tag=none", "--remove"]
    named = subprocess.run([*tags, str(built)], check=True, capture_output=True, text=True)
    return named.stdout.split()[-1]
