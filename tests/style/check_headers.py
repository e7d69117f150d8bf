# SPDX-License-Identifier: Apache-2.0
"""Every header compiles alone, in C++20; those of include/hvd that end in .h also as C11.

The build shows it already for a header that its own source file includes before all else.
"""

import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import sources

_FOLDERS = [".", "runtime", "runtime/include", "runtime/device/vendor/cuda", "tests"]
_FLAGS = ["-fsyntax-only", "-Wall", "-Wextra", "-Werror", *(f"-I{folder}" for folder in _FOLDERS)]
_CXX = ["-x", "c++", "-std=c++20"]
_C = ["-x", "c", "-std=c11", "-pedantic"]


def _needs_what_is_missing(stderr: str) -> bool:
    # mpi.h is on no default path: several libraries bring one. Nor are the headers of GPUs.
    gpu = ("cuda.h", "nccl.h", "hip/hip_runtime_api.h", "rccl/rccl.h")
    return any(
        f"{name}: No such file" in stderr
        for name in ("hwloc.h", "ATen/ATen.h", "torch/torch.h", "mpi.h", *gpu)
    )


def complaint(header: pathlib.Path, language: list) -> str:
    """What the compiler says to a file that includes nothing but this header; empty if nothing."""
    compiler = sources.tool("gcc", "cc") if language is _C else sources.tool("g++", "c++")
    text = f'#include "{header}"\n'
    finished = subprocess.run(
        [compiler, *language, *_FLAGS, "-"],
        cwd=sources.ROOT,
        input=text,
        capture_output=True,
        text=True,
        check=False,
    )
    if finished.returncode == 0 or _needs_what_is_missing(finished.stderr):
        return ""
    return f"{header} does not compile alone as {language[1]}:\n{finished.stderr[:2000]}"


def is_built_alone(header: pathlib.Path) -> bool:
    """Whether a source file of the same name includes this header before all else."""
    source = sources.ROOT / header.with_suffix(".cc")
    if not source.exists():
        return False
    first = re.search(r"^#include [<\"](.*)[>\"]", source.read_text(), re.MULTILINE)
    return first is not None and str(header).endswith(first.group(1))


def _self_test() -> None:
    with tempfile.TemporaryDirectory() as folder:
        lacking = pathlib.Path(folder) / "lacking.h"
        lacking.write_text("#pragma once\ninline std::string name() { return {}; }\n")
        if not complaint(lacking, _CXX):
            sys.exit("a header that lacks an include was not found: the check is blind")
    if is_built_alone(pathlib.Path("runtime/include/hvd/hvd.h")):
        sys.exit(
            "a header without a source file was taken for one that is built: the check is blind"
        )


def main() -> None:
    _self_test()
    headers = sources.tracked("runtime/*.h", "runtime/*.hpp", "launcher/*.h", "tests/*.h")
    jobs = [(header, _CXX) for header in headers if not is_built_alone(header)]
    jobs += [
        (header, _C) for header in headers if header.suffix == ".h" and header.parent.name == "hvd"
    ]
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        complaints = pool.map(lambda job: complaint(*job), jobs)
        sources.finish(text for text in complaints if text)


if __name__ == "__main__":
    main()
