# SPDX-License-Identifier: Apache-2.0
"""_lib.py declares exactly what hvd.h does."""

from __future__ import annotations

import ast
import ctypes
import ctypes.util
import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from hvd import errors
from hvd._core import _lib

HEADERS = Path(__file__).resolve().parents[2] / "runtime" / "include" / "hvd"
TEXT = "".join(
    re.sub(r"/\*.*?\*/", "", (HEADERS / name).read_text(), flags=re.S)
    for name in ("hvd.h", "collectives.h", "gradients.h")
)

VALUES = {
    "size_t": ctypes.c_size_t,
    "double": ctypes.c_double,
    "int": ctypes.c_int,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
    "uint32_t": ctypes.c_uint32,
    "uint64_t": ctypes.c_uint64,
    "hvd_handle": ctypes.c_uint64,
    "hvd_status": ctypes.c_int,
    "hvd_dtype": ctypes.c_int,
    "hvd_reduce_op": ctypes.c_int,
}
STRUCTS = {
    "hvd_ranks": _lib.Ranks,
    "hvd_init_options": _lib.InitOptions,
    "hvd_tensor": _lib.Tensor,
    "hvd_request": _lib.Request,
    "hvd_gather": _lib.Gather,
    "hvd_counters": _lib.Counters,
    "hvd_compression": _lib.Compression,
    "hvd_gradients_options": _lib.GradientsOptions,
}


def ctype(declaration: str):
    """The ctypes type of a C type without a variable's name."""
    words = declaration.replace("const", " ")
    stars = words.count("*")
    name = words.replace("*", " ").strip()
    if name == "void" and stars == 0:
        return None
    if name in ("void", "hvd_gradients"):
        base, stars = ctypes.c_void_p, stars - 1
    elif name == "char":
        base, stars = ctypes.c_char_p, stars - 1
    else:
        base = STRUCTS.get(name) or VALUES[name]
    for _ in range(stars):
        base = ctypes.POINTER(base)
    return base


def without_name(argument: str) -> str:
    return re.sub(r"\w+\s*$", "", argument.strip())


class Header(unittest.TestCase):
    def test_no_other_file_imports_ctypes(self) -> None:
        package = Path(_lib.__file__).parents[1]
        found = set()
        for path in package.rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text())):
                names = [one.name for one in node.names] if isinstance(node, ast.Import) else []
                if "ctypes" in names or getattr(node, "module", None) == "ctypes":
                    found.add(path.relative_to(package).as_posix())
        self.assertEqual(found, {"_core/_lib.py"})

    def test_functions(self) -> None:
        found = {}
        for match in re.finditer(r"HVD_API\s+([^;]+?)(\w+)\(([^;]*?)\)\s*HVD_NOEXCEPT;", TEXT):
            result, name, arguments = match.groups()
            listed = [] if arguments.strip() == "void" else arguments.split(",")
            found[name] = (ctype(result), [ctype(without_name(one)) for one in listed])
        self.assertGreater(len(found), 25)
        self.assertEqual(list(found), list(_lib.PROTOTYPES))
        for name, prototype in found.items():
            self.assertEqual(prototype, _lib.PROTOTYPES[name], name)

    def test_structs(self) -> None:
        for name, struct in STRUCTS.items():
            body = re.search(rf"typedef struct {name} \{{(.*?)\}} {name};", TEXT, re.S).group(1)
            fields = []
            for declaration in filter(None, map(str.strip, body.split(";"))):
                pointer = re.match(r"void \(\*(\w+)\)", declaration)
                if pointer:
                    fields.append((pointer.group(1), ctypes.c_void_p))
                else:
                    field = re.search(r"(\w+)$", declaration).group(1)
                    fields.append((field, ctype(without_name(declaration))))
            self.assertEqual(fields, struct._fields_, name)

    def test_numbers(self) -> None:
        numbers = {name: int(value) for name, value in re.findall(r"\b(HVD_\w+)\s*=\s*(\d+)", TEXT)}
        for name, number in _lib.DTYPES.items():
            self.assertEqual(numbers[f"HVD_{name.upper().removesuffix('FN')}"], number)
        kinds = (
            "ALLREDUCE ALLGATHER BROADCAST BARRIER REDUCESCATTER ALLTOALL REDUCE GATHER SCATTER "
            "JOIN AVERAGE SUM ADASUM MIN MAX PRODUCT BIT_AND BIT_OR BIT_XOR "
            "WIRE_SAME WIRE_FLOAT16 WIRE_BFLOAT16 COMPRESS_NONE COMPRESS_FLOAT16 "
            "COMPRESS_BFLOAT16 COMPRESS_FLOAT8_E4M3 COMPRESS_FLOAT8_E5M2 COMPRESS_TOP_K "
            "COMPRESS_POWER_SGD REDUCED LOCAL LOCAL_SCALED"
        )
        for name in kinds.split():
            self.assertEqual(numbers[f"HVD_{name}"], getattr(_lib, name))
        self.assertEqual(sorted(errors.BY_STATUS), list(range(1, numbers["HVD_INTERNAL"] + 1)))


def said(program: str, *path: str, **variables: str) -> str:
    """The last line that a Python prints, with more folders before those of PYTHONPATH."""
    folders = os.pathsep.join([*path, os.environ["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": folders, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=100,
        check=False,
    )
    return (done.stdout.splitlines() or [""])[-1]


class Imports(unittest.TestCase):
    def test_a_missing_framework_is_named_with_what_to_do(self) -> None:
        for framework in ("torch", "tensorflow", "keras", "numpy"):
            line = said(f"import sys; sys.modules['{framework}'] = None; import hvd.{framework}")
            wanted = f"ModuleNotFoundError: hvd.{framework}: this Python ({sys.executable}) has no "
            self.assertTrue(line.startswith(f"{wanted}{framework}: pip install {framework}"), line)

    def test_keras_needs_what_it_computes_with(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            Path(folder, "keras.py").write_text("import engine_of_keras")
            line = said("import hvd.keras", folder)
        self.assertIn(" has no engine_of_keras: pip install keras tensorflow, or set KERAS", line)

    @unittest.skipUnless(importlib.util.find_spec("numpy"), "numpy is not installed")
    def test_hvd_numpy_has_the_names_of_the_job(self) -> None:
        asked = (
            "print([name for name in hvd.__all__ if getattr(n, name) is not getattr(hvd, name)])"
        )
        self.assertEqual(said(f"import hvd, hvd.numpy as n; {asked}"), "[]")


class Versions(unittest.TestCase):
    """One number in four places, and a library that does not fit is named with what to do."""

    ROOT = HEADERS.parents[2]

    def test_are_the_same(self) -> None:
        from horovod import _version

        import hvd

        text = (self.ROOT / "meson.build").read_text()
        wanted = re.search(r"^  version: '([^']+)'", text, re.M).group(1)
        project = (self.ROOT / "runtime" / "horovod" / "pyproject.toml").read_text()
        self.assertEqual(hvd.__version__, wanted)
        self.assertEqual(hvd.build_info()["version"], wanted)
        self.assertEqual(_version.VERSION, wanted)
        self.assertIn(f'version = "{wanted}"', project)
        self.assertIn(f'"hvdrun=={wanted}"', project)

    def imported(self, library: str, module: str = "hvd") -> str:
        return said(f"import {module}", HVD_LIBRARY=str(library))

    def compiled(self, folder: str, text: str) -> str:
        """A library of some functions of text."""
        compiler = shutil.which("cc") or self.skipTest("no C compiler")
        source, library = Path(folder, "old.c"), Path(folder, "libhvd.so")
        source.write_text(text)
        subprocess.run([compiler, "-shared", "-fPIC", source, "-o", library], check=True)
        return str(library)

    def test_a_library_that_does_not_fit_is_named(self) -> None:
        import hvd

        remedy = f"is {hvd.__version__}. HVD_LIBRARY names it: unset that, or set it to the "
        with tempfile.TemporaryDirectory() as folder:
            text = Path(folder, "text.so")
            text.write_text("no library")
            for path, problem in (
                (f"{folder}/none.so", r"cannot be loaded \(.*No such file"),
                (str(text), r"cannot be loaded \(.*(file too short|invalid ELF header)"),
                (ctypes.util.find_library("m"), "is not libhvd"),
            ):
                line = self.imported(path)
                self.assertRegex(line, f"^ImportError: {re.escape(path)} {problem}")
                self.assertIn(remedy, line)
            info = 'const char* hvd_build_info() { return "{\\"version\\": \\"%s\\"}"; }'
            for version in ("0.0.9", hvd.__version__):
                library = self.compiled(folder, info % version)
                line = self.imported(library)
                wanted = f"{library} is libhvd {version}, of another revision: it has no hvd_init; "
                self.assertIn(f"ImportError: {wanted}hvd in ", line)
                self.assertIn(remedy, line)

    def test_horovod_names_its_hvd(self) -> None:
        import hvd

        line = said("import sys; sys.modules['hvd'] = None; import horovod.torch")
        self.assertTrue(
            line.startswith("ModuleNotFoundError: horovod here is hvdrun-horovod"), line
        )
        self.assertIn(f"({sys.executable}) has no hvd", line)
        self.assertIn(f"pip install hvdrun=={hvd.__version__}", line)
        line = said("import hvd; hvd.__version__ = '9.9'; import horovod.torch")
        where = Path(hvd.__file__).parent
        self.assertIn(f"needs hvd {hvd.__version__}, but hvd in {where} is 9.9: pip install", line)


class WithoutInit(unittest.TestCase):
    def test_calls_fail_with_a_sentence(self) -> None:
        import hvd

        self.assertFalse(hvd.is_initialized())
        with self.assertRaisesRegex(ValueError, r"not initialised: call hvd\.init\(\) first"):
            hvd.rank()
        with self.assertRaisesRegex(hvd.AbortedError, "not initialised"):
            hvd.barrier()
        hvd.shutdown()

    def test_build_info_names_the_parts(self) -> None:
        import hvd

        info = hvd.build_info()
        names = {part["name"] for part in info["backends"]}
        self.assertEqual(names, {"mpi", "nccl", "shm", "staged", "tcp"})
        for kind in ("bootstraps", "libraries"):
            for part in info[kind]:
                self.assertTrue(part["reason"], part)


if __name__ == "__main__":
    unittest.main()
