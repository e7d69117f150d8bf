# SPDX-License-Identifier: Apache-2.0
"""What the file of a model says of how its optimizer was distributed; Keras alone passes over it."""

from __future__ import annotations

import json
import os
import zipfile
from collections.abc import Mapping
from typing import Any

_NAME = "hvd.json"
# Of an optimizer, and of one that Keras has put another around.
_PLACES = tuple(f"assets/{path}/{_NAME}" for path in ("optimizer", "optimizer/inner_optimizer"))


def write(folder: str, arguments: Mapping[str, Any]) -> None:
    """Writes them where Keras keeps files of an optimizer; nothing where there are none."""
    if arguments:
        with open(os.path.join(folder, _NAME), "w", encoding="utf-8") as file:
            json.dump(arguments, file)


def read(filepath: Any) -> dict[str, Any] | None:
    """What was written; None where the format has no room for it.

    >>> read("model.h5")
    """
    if not isinstance(filepath, (str, os.PathLike)):
        return None
    if str(filepath).endswith(".keras") and zipfile.is_zipfile(filepath):
        with zipfile.ZipFile(filepath) as archive:
            names = archive.namelist()
            texts = [archive.read(place) for place in _PLACES if place in names]
    elif os.path.isdir(filepath) and os.path.exists(os.path.join(filepath, "config.json")):
        paths = [os.path.join(filepath, place) for place in _PLACES]
        texts = [_text(path) for path in paths if os.path.exists(path)]
    else:
        return None
    return json.loads(texts[0]) if texts else {}


def _text(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()
