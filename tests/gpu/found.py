# SPDX-License-Identifier: Apache-2.0
"""What the machine has that tests on GPUs need: a driver, NCCL, torch, compute-sanitizer.

python3 tests/gpu/found.py      the headers and NVRTC that came with a torch, for -Dgpu_roots=
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "python"))

from ranks import ON_DOUBLE  # noqa: E402 (the path comes first)

ASK_TORCH = """
import torch
print(torch.__version__, torch.cuda.device_count() if torch.cuda.is_available() else 0)
"""
ASK_NCCL = """
import importlib.util, pathlib
found = importlib.util.find_spec("nvidia")
for folder in found.submodule_search_locations if found else ():
    for path in sorted(pathlib.Path(folder).glob("*/lib/libnccl.so.2")):
        print(path)
"""
ASK_ROOTS = """
import importlib.util, pathlib
found = importlib.util.find_spec("nvidia")
wanted = ("include/cuda.h", "include/nccl.h", "include/nvrtc.h")
for folder in found.submodule_search_locations if found else ():
    for root in sorted(pathlib.Path(folder).iterdir()):
        if any((root / header).exists() for header in wanted):
            print(root)
"""


class Gpus(NamedTuple):
    """How many GPUs the driver sees; 0: why."""

    count: int
    reason: str


class Found(NamedTuple):
    """What is there, and for what is not the reason."""

    python: str
    sanitizer: list[str]
    environment: dict[str, str]
    reasons: dict[str, str]
    gpus: int
    is_double: bool

    def describe(self) -> str:
        """One line for people."""
        nccl = self.environment.get("HVD_NCCL_LIBRARY", "none")
        return f"NCCL: {nccl}; Python: {self.python}; sanitizer: {' '.join(self.sanitizer)}"


def first_gpu() -> Gpus:
    """Asks the driver in a process of its own, so that this one holds no GPU."""
    program = (
        "import ctypes, os, sys\n"
        "driver = ctypes.CDLL(os.environ.get('HVD_CUDA_LIBRARY', 'libcuda.so.1'))\n"
        "code = driver.cuInit(0)\n"
        "count = ctypes.c_int()\n"
        "code = code or driver.cuDeviceGetCount(ctypes.byref(count))\n"
        "print(count.value if code == 0 else f'no GPU: error {code} of the driver')\n"
    )
    asked = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    said = asked.stdout.strip() or (asked.stderr.strip().splitlines() or ["no answer"])[-1]
    return Gpus(int(said), "") if said.isdigit() else Gpus(0, said)


def ask(python: str, program: str) -> str:
    """What a Python prints; "" where it fails."""
    try:
        asked = subprocess.run(
            [python, "-c", program], capture_output=True, text=True, timeout=120, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return asked.stdout.strip() if asked.returncode == 0 else ""


def pythons() -> list[str]:
    """Those that may have torch, without repetition."""
    given = os.environ.get("HVD_TEST_PYTHON")
    if given:
        return [given]
    names = [sys.executable, shutil.which("python3"), shutil.which("python"), "/usr/bin/python3"]
    return list(dict.fromkeys(name for name in names if name))


def python_with_torch(is_double: bool) -> tuple[str, str]:
    """A Python whose torch finds a GPU (any torch, over the double); and what is missing."""
    with_torch = ""
    for python in pythons():
        said = ask(python, ASK_TORCH).split()
        with_torch = with_torch or (python if said else "")
        if said and (is_double or said[-1] != "0"):
            return python, ""
    if with_torch:
        return with_torch, f"the torch of {with_torch} finds no GPU"
    return sys.executable, "no torch in " + ", ".join(pythons())


def nccl_library(build: Path) -> str:
    """Of the variable, the loader, torch's wheels, or what the build was made with; "": none."""
    given = os.environ.get("HVD_NCCL_LIBRARY")
    if given:
        return given
    try:
        ctypes.CDLL("libnccl.so.2")
        return "libnccl.so.2"
    except OSError:
        pass
    for python in pythons():
        paths = ask(python, ASK_NCCL).splitlines()
        if paths:
            return paths[0]
    brought = [build / "lib" / "libnccl.so.2"]
    brought.append(ROOT / "build-tools" / "gpu" / "nvidia" / "nccl" / "lib" / "libnccl.so.2")
    return next((str(path) for path in brought if path.exists()), "")


def gpu_roots() -> list[str]:
    """Folders with include/ and lib/, of the first Python that has any."""
    for python in pythons():
        roots = ask(python, ASK_ROOTS).splitlines()
        if roots:
            return roots
    return []


def sanitizer_command() -> list[str]:
    """compute-sanitizer, for kernels of ours alone; empty: it is not here."""
    named = os.environ.get("COMPUTE_SANITIZER") or shutil.which("compute-sanitizer")
    path = named or "/usr/local/cuda/bin/compute-sanitizer"
    if not os.access(path, os.X_OK):
        return []
    says = subprocess.run([path, "--help"], capture_output=True, text=True, check=False)
    for option in "--kernel-name", "--kernel-regex":
        if option in says.stdout:
            return [path, option, "kns=hvd_"]
    return [path]


def look_around(build: Path, gpus: Gpus) -> Found:
    """Everything, once."""
    reasons = {}
    python, without_torch = python_with_torch(ON_DOUBLE)
    if without_torch:
        reasons["torch"] = without_torch
    nccl = nccl_library(build)
    if not nccl:
        reasons["nccl"] = "no libnccl.so.2: HVD_NCCL_LIBRARY names one"
    sanitizer = sanitizer_command()
    if not sanitizer:
        reasons["sanitizer"] = "no compute-sanitizer: COMPUTE_SANITIZER names one"
    if ON_DOUBLE:
        reasons["sanitizer"] = "the double of the driver is no GPU"
    libraries = [str(build / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    packages = [str(ROOT / "runtime" / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {
        "HVD_LIBRARY": str(build / "runtime" / "c" / "libhvd.so"),
        "HVD_TEST_PYTHON": python,
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
    }
    if (build / "lib").is_dir():  # made by collect.py
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    if nccl:
        environment["HVD_NCCL_LIBRARY"] = nccl
    return Found(python, sanitizer, environment, reasons, gpus.count, ON_DOUBLE)


if __name__ == "__main__":
    print(",".join(gpu_roots()))
