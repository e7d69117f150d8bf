# SPDX-License-Identifier: Apache-2.0
"""Sphinx makes the reference of the Python interface from the docstrings: tests/style/check_api.py FOLDER."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import re
import sys
import types
from pathlib import Path
from typing import Any

from sphinx.ext.autodoc.mock import mock
from sphinx.util.inspect import stringify_signature

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "runtime" / "python"), str(ROOT / "runtime" / "horovod")]

project = "hvd"
author = "the authors of hvdrun"
version = re.search(r"version: '([^']+)'", (ROOT / "meson.build").read_text()).group(1)  # type: ignore[union-attr]
release = version
extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns: list[str] = []
html_theme = "alabaster"
html_show_copyright = False
html_copy_source = False

autodoc_default_options = {"members": True}
autodoc_member_order = "groupwise"
autodoc_inherit_docstrings = False  # those of a framework have another form
autodoc_typehints = "none"  # the signature has them; again in the text they only take room
autodoc_preserve_defaults = True
# What is missing here is imagined: its types are names in signatures, no more.
autodoc_mock_imports = [
    name
    for name in ("numpy", "torch", "cloudpickle", "tensorflow")
    if importlib.util.find_spec(name) is None
]
# What asks a framework for more than names when it is imported.
if "tensorflow" in autodoc_mock_imports:
    autodoc_mock_imports.append("hvd.tensorflow.library")
if "torch" in autodoc_mock_imports:
    autodoc_mock_imports.append("hvd.torch.distributed.process_group")
if importlib.util.find_spec("keras") is None:
    # hvd.keras asks it what it computes with, and registers classes that stay what they are.
    with mock(["keras"]):
        keras = importlib.import_module("keras")
    keras.saving = types.SimpleNamespace(  # type: ignore[attr-defined]
        register_keras_serializable=lambda *_, **__: lambda kind: kind
    )
    keras.backend = types.SimpleNamespace(backend=lambda: "tensorflow")  # type: ignore[attr-defined]
    sys.modules["keras"] = keras
    autodoc_mock_imports.append("horovod._dropped")  # what it adds to Keras has no page
napoleon_google_docstring = False


def arguments_of_init(
    app: Any,
    what: str,
    name: str,
    found: Any,
    options: Any,
    text: str | None,
    annotation: str | None,
) -> tuple[str | None, str | None]:
    """A class with an imagined base takes what its own ``__init__`` does."""
    if what == "class" and text == "(*args, **kwargs)" and "__init__" in vars(found):
        own = inspect.signature(found.__init__)
        parameters = [one for one in own.parameters.values() if one.name != "self"]
        text = stringify_signature(own.replace(parameters=parameters), show_return_annotation=False)
    return text, annotation


def setup(app: Any) -> None:
    """What Sphinx calls."""
    app.connect("autodoc-process-signature", arguments_of_init)
