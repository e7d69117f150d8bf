# SPDX-License-Identifier: Apache-2.0
"""What a type checker, and so an editor, says of an optimizer that is wrapped.

Stand-ins of a few lines for torch and Keras are enough, and quick.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import tempfile

import sources

_ANY = "from typing import Any\ndef __getattr__(name: str) -> Any: ...\n"
_CLASSES = "".join(
    f"class {name}(Optimizer): ...\n"
    for name in ("SGD", "Adam", "AdamW", "Adagrad", "RMSprop", "Adadelta")
)
_STUBS = {
    "numpy/__init__.pyi": _ANY,  # the real one takes mypy seconds
    "torch/__init__.pyi": _ANY + "from torch import optim as optim\n",
    "torch/optim.pyi": "class Optimizer:\n    def step(self) -> None: ...\n" + _CLASSES,
    "keras/__init__.pyi": _ANY + "from keras import optimizers as optimizers\n",
    "keras/optimizers.pyi": "class Optimizer:\n    iterations: int\n" + _CLASSES,
}
_PROGRAM = """
import torch
import keras
from hvd.torch.optimizer import DistributedOptimizer
from hvd.keras.optimizer import DistributedOptimizer as OfKeras

class Own(torch.optim.Optimizer):
    mine = 1

sgd = DistributedOptimizer(torch.optim.SGD(), op=1)
reveal_type(sgd)
sgd.synchronize()
with sgd.skip_synchronize():
    sgd.step()
reveal_type(DistributedOptimizer(optimizer=torch.optim.AdamW()))
reveal_type(DistributedOptimizer(Own()))
reveal_type(OfKeras(keras.optimizers.Adam()))
DistributedOptimizer(torch.optim.SGD(), nonsense=1)
"""
_EXPECTED = [
    'Revealed type is "hvd.torch.typed.DistributedSGD"',
    'Revealed type is "hvd.torch.typed.DistributedAdamW"',
    'Revealed type is "program.Own"',
    'Revealed type is "keras.optimizers.Adam"',
    'No overload variant of "__call__" of "Distributing" matches argument types "SGD", "int"',
]


def answers(program: str) -> list[str]:
    """What mypy says of a program, line by line, without hints."""
    with tempfile.TemporaryDirectory(prefix="hvd-types-") as folder:
        for name, text in {**_STUBS, "program.py": program}.items():
            path = pathlib.Path(folder, name)
            path.parent.mkdir(exist_ok=True)
            path.write_text(text)
        packages = os.pathsep.join([folder, str(sources.ROOT / "runtime" / "python")])
        command = [sources.tool("mypy"), "--config-file=", "--no-site-packages"]
        said = subprocess.run(
            [
                *command,
                "--ignore-missing-imports",
                "--follow-imports=silent",
                "--cache-dir=/dev/null",
                "program.py",
            ],
            cwd=folder,
            env={**os.environ, "MYPYPATH": packages},
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
    lines = re.findall(r"^program\.py:\d+: (?:note|error): (.*?)(?:  \[.*)?$", said.stdout, re.M)
    found = [line for line in lines if not line.startswith(("Possible overload", " "))]
    return found or [said.stdout + said.stderr]


def main() -> None:
    found = answers(_PROGRAM)
    sources.finish([] if found == _EXPECTED else ["expected:", *_EXPECTED, "found:", *found])


if __name__ == "__main__":
    main()
