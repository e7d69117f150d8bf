# SPDX-License-Identifier: Apache-2.0
"""meson-python, except for the tag of the wheel: one serves every Python.

The package reaches libhvd through ctypes and has no extension module, so nothing in it depends on
a Python's ABI. meson-python cannot know that of files beside a package and tags them cp311-cp311.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import mesonpy
import pyproject_metadata
from mesonpy import (  # noqa: F401 (the other hooks of PEP 517 and PEP 660)
    build_editable,
    build_sdist,
    get_requires_for_build_editable,
    get_requires_for_build_sdist,
    get_requires_for_build_wheel,
)

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def prepare_metadata_for_build_wheel(folder: str, settings: dict | None = None) -> str:
    """Writes name, version and needs into `folder`; returns the name of the folder in it.

    meson-python has no such hook, and without one pip compiles everything to ask for the version.
    """
    found = re.search(r"^  version: '([^']+)'", Path("meson.build").read_text(), re.MULTILINE)
    if found is None:
        raise RuntimeError("meson.build has no line with the version of the project")
    project = tomllib.loads(Path("pyproject.toml").read_text())
    project["project"]["dynamic"].remove("version")
    project["project"]["version"] = found.group(1)
    metadata = pyproject_metadata.StandardMetadata.from_pyproject(project, Path.cwd())
    place = Path(folder, f"{metadata.name}-{metadata.version}.dist-info")
    place.mkdir()
    (place / "METADATA").write_bytes(bytes(metadata.as_rfc822()))
    return place.name


def build_wheel(folder: str, settings: dict | None = None, metadata: str | None = None) -> str:
    """Builds the wheel into `folder`; returns the name of its file."""
    built = Path(folder, mesonpy.build_wheel(folder, settings, metadata))
    tags = [sys.executable, "-m", "wheel", "tags", "--python-tag=py3", "--abi-tag=none", "--remove"]
    named = subprocess.run([*tags, str(built)], check=True, capture_output=True, text=True)
    return named.stdout.split()[-1]
