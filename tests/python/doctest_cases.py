# SPDX-License-Identifier: Apache-2.0
"""The examples in the docstrings of the package do what they say."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import os
import pkgutil
import unittest

import hvd

# Where the framework is missing, its part has no examples to run.
FRAMEWORKS = {
    "hvd.keras": "keras",
    "hvd.numpy": "numpy",
    "hvd.tensorflow": "tensorflow",
    "hvd.torch": "torch",
}
# Parts of others that need one.
NEEDS = {
    **FRAMEWORKS,
    "hvd.keras.backends.tensorflow": "tensorflow",
    "hvd.keras.backends.torch": "torch",
    "hvd.keras.generations.keras2": "tf_keras",
    "hvd.seeds.worker_init_fn": "torch",
}
# Keras takes TensorFlow unless told, whether that is here or not.
if importlib.util.find_spec("tensorflow") is None:
    os.environ.setdefault("KERAS_BACKEND", "torch")
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


def is_here(name: str) -> bool:
    """True for what needs no framework that is missing."""
    return not any(
        name.startswith(prefix) and importlib.util.find_spec(framework) is None
        for prefix, framework in NEEDS.items()
    )


def module_names() -> list[str]:
    """The modules of the package whose framework is here."""
    names = ["hvd", *(found.name for found in pkgutil.walk_packages(hvd.__path__, "hvd."))]
    return [name for name in names if is_here(name)]


def without_example(module: str) -> list[str]:
    """The public functions of a module whose docstring, or that of their class, shows no call."""
    exported = vars(importlib.import_module(module))
    names = exported.get("__all__") or exported
    return [
        name
        for name in names
        if callable(exported.get(name))
        and not isinstance(exported[name], type)
        and ">>>" not in (exported[name].__doc__ or "")
    ]


class Examples(unittest.TestCase):
    def setUp(self) -> None:
        hvd.init()

    def test_every_example(self) -> None:
        finder, ran = doctest.DocTestFinder(), 0
        for name in module_names():
            try:
                module = importlib.import_module(name)
            except hvd.UnsupportedError as older:  # this version of a framework lacks the part
                print(f"{name}: {older}")
                continue
            for test in finder.find(module, name):
                if not test.examples or not is_here(test.name):
                    continue
                hvd.init()  # an example may have left the job
                with self.subTest(test.name):
                    text: list[str] = []
                    runner = doctest.DocTestRunner(verbose=False, optionflags=FLAGS)
                    failed = runner.run(test, out=text.append).failed
                    self.assertEqual(failed, 0, "".join(text))
                    ran += 1
        self.assertGreater(ran, 15)

    def test_every_public_function_has_one(self) -> None:
        shown = {"hvd", "hvd.elastic", "hvd.data", "hvd.torch.elastic", *FRAMEWORKS}
        for name in shown.intersection(module_names()):
            self.assertEqual(without_example(name), [], f"{name}: functions without an example")


if __name__ == "__main__":
    unittest.main()
