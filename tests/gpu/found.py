# SPDX-License-Identifier: Apache-2.0
"""What the machine has that tests on GPUs need: a driver, NCCL, torch, compute-sanitizer, MPS.

python3 tests/gpu/found.py        the headers and NVRTC that came with a torch, for -Dgpu_roots=
python3 tests/gpu/found.py --gpu  nothing; without a GPU the reason, and exit code 77
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[2]
sys.path.append(str(ROOT / "tests" / "python"))

from ranks import ON_DOUBLE, SKIPPED  # noqa: E402 (the path comes first)

ASK_TORCH = """
import torch
print(torch.__version__, torch.cuda.device_count() if torch.cuda.is_available() else 0)
"""
ASK_DRIVER = """
import ctypes, os
try:
    driver = ctypes.CDLL(os.environ.get("HVD_CUDA_LIBRARY", "libcuda.so.1"))
except OSError as error:
    raise SystemExit(f"no GPU: the driver cannot be loaded: {error}")
count, cuda, name = ctypes.c_int(), ctypes.c_int(), ctypes.create_string_buffer(256)
code = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
if code:
    raise SystemExit(f"no GPU: error {code} of the driver")
driver.cuDeviceGetName(name, 256, 0)
driver.cuDriverGetVersion(ctypes.byref(cuda))
print(count.value)
print(f"{name.value.decode()}, CUDA {cuda.value // 1000}.{cuda.value % 1000 // 10}")
"""
ASK_NCCL_VERSION = """
import ctypes, sys
version = ctypes.c_int()
ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version))
print(f"{version.value // 10000}.{version.value // 100 % 100}.{version.value % 100}")
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
    """How many GPUs the driver sees, and what the first is; 0: why."""

    count: int
    reason: str
    what: str = ""


class Found(NamedTuple):
    """What is there, and for what is not the reason."""

    python: str
    sanitizer: list[str]
    environment: dict[str, str]
    reasons: dict[str, str]
    gpus: int
    is_double: bool
    mps: str = ""  # the control program of the Multi-Process Service
    debugger: str = ""
    machine: str = ""  # GPU, driver, NCCL, torch, for people


def first_gpu() -> Gpus:
    """Asks the driver in a process of its own, so that this one holds no GPU."""
    asked = subprocess.run(
        [sys.executable, "-c", ASK_DRIVER], capture_output=True, text=True, check=False
    )
    lines = asked.stdout.splitlines()
    if asked.returncode == 0 and lines and lines[0] != "0":
        return Gpus(int(lines[0]), "", lines[-1])
    said = asked.stderr.strip().splitlines() or ["no GPU: the driver counts none"]
    return Gpus(0, said[-1])


def driver_version() -> str:
    """Of the driver's part in the kernel; "": not known."""
    try:
        text = Path("/proc/driver/nvidia/version").read_text()
    except OSError:
        return ""
    found = re.search(r"Module.*?\s(\d+\.[\d.]+)\s", text)
    return found.group(1) if found else ""


def ask(python: str, program: str, *arguments: str) -> str:
    """What a Python prints; "" where it fails."""
    command = [python, "-c", program, *arguments]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=90, check=False)
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


class Torch(NamedTuple):
    """A Python; its torch; and what is missing."""

    python: str
    version: str
    missing: str


def python_with_torch(is_double: bool) -> Torch:
    """A Python whose torch finds a GPU (any torch, over the double)."""
    blind = None
    for python in pythons():
        said = ask(python, ASK_TORCH).split()
        if said and (is_double or said[-1] != "0"):
            return Torch(python, said[-2], "")
        if said and blind is None:
            blind = Torch(python, said[-2], f"the torch of {python} finds no GPU")
    return blind or Torch(sys.executable, "none", "no torch in " + ", ".join(pythons()))


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


def first_program(variable: str, *names: str) -> str:
    """What the variable names, else the first of the names on the path, or at such a path; "": none."""
    named = os.environ.get(variable)
    programs = [named] if named else names
    return next(filter(None, map(shutil.which, programs)), "")


def look_around(build: Path, gpus: Gpus) -> Found:
    """Everything, once."""
    reasons = {}
    torch = python_with_torch(ON_DOUBLE)
    if torch.missing:
        reasons["torch"] = torch.missing
    nccl = nccl_library(build)
    if not nccl:
        reasons["nccl"] = "no libnccl.so.2: HVD_NCCL_LIBRARY names one"
    sanitizer = sanitizer_command()
    if not sanitizer:
        reasons["sanitizer"] = "no compute-sanitizer: COMPUTE_SANITIZER names one"
    if ON_DOUBLE:
        reasons["sanitizer"] = "the double of the driver is not a GPU"
    control = "nvidia-cuda-mps-control"
    places = () if ON_DOUBLE else (control, f"/usr/local/nvidia/bin/{control}")
    mps = first_program("MPS_CONTROL", *places)
    if not mps:
        reasons["mps"] = f"no {control}: MPS_CONTROL names one"
    debugger = first_program("DEBUGGER", "gdb", "cuda-gdb", "/usr/local/cuda/bin/cuda-gdb")
    libraries = [str(build / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    packages = [str(ROOT / "runtime" / "python"), os.environ.get("PYTHONPATH", "")]
    environment = {
        "HVD_LIBRARY": str(build / "runtime" / "c" / "libhvd.so"),
        "HVD_TEST_PYTHON": torch.python,
        "PYTHONPATH": os.pathsep.join(filter(None, packages)),
    }
    if (build / "lib").is_dir():  # made by collect.py
        environment["LD_LIBRARY_PATH"] = os.pathsep.join(filter(None, libraries))
    if nccl:
        environment["HVD_NCCL_LIBRARY"] = nccl
    version = ask(sys.executable, ASK_NCCL_VERSION, nccl) if nccl else "none"
    machine = (
        f"{gpus.count} x {gpus.what}, driver {driver_version() or 'not known'}; NCCL {version} "
        f"({nccl}); torch {torch.version} ({torch.python}); {' '.join(sanitizer) or 'no sanitizer'}; "
        f"{mps or 'no MPS'}; {debugger or 'no debugger'}"
    )
    return Found(
        *(torch.python, sanitizer, environment, reasons, gpus.count, ON_DOUBLE),
        *(mps, debugger, machine),
    )


def main() -> int:
    """What the shell asks."""
    if sys.argv[1:] != ["--gpu"]:
        print(",".join(gpu_roots()))
        return 0
    reason = first_gpu().reason
    if reason:
        print(f"skipped: {reason}")
    return SKIPPED if reason else 0


if __name__ == "__main__":
    sys.exit(main())
