# SPDX-License-Identifier: Apache-2.0
"""Compiles kernels.cu for every architecture and makes one assembly file that holds the results.

    compile.py find VENDOR ROOT...             prints the compiler, what it is, and the architectures
    compile.py make VENDOR COMPILER ARCHITECTURES SOURCE_ROOT FOLDER

NVRTC needs neither a GPU nor a toolkit: one library of PyPI.
"""

import concurrent.futures
import ctypes
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import typing

# What clusters have: P100, V100, A100, H100, B200, RTX PRO 6000. A GPU between runs the code of the
# one before it with the same major number. The others compile the text, which a driver takes only
# if it is not older than the compiler: so what there is gets code.
_WANTED = {
    "cuda": ["60", "70", "80", "90", "100", "120"],
    "rocm": ["gfx906", "gfx908", "gfx90a", "gfx942"],
}
_KERNELS = pathlib.Path("device/kernels")
# As the host: no products fused with sums, so that both give the same bits.
_NVCC_FLAGS = ["--std=c++17", "--fmad=false"]
# NVRTC has no standard library; the kernels use names of one header.
_CSTDINT = b"""#pragma once
namespace std {
using int8_t = signed char;
using uint8_t = unsigned char;
using int16_t = short;
using uint16_t = unsigned short;
using int32_t = int;
using uint32_t = unsigned int;
using int64_t = long;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;
}
"""
_USAGE = re.compile(
    r"function '(?P<kernel>\w+)'.*?(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill "
    r"stores, (?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers",
    re.DOTALL,
)


class Result(typing.NamedTuple):
    """What a compiler made: code or text for GPUs, and what it said."""

    image: bytes
    log: str


def _includes(root: pathlib.Path, vendor: str) -> list[str]:
    return [f"-I{root}", f"-I{root / _KERNELS / vendor}"]


class Nvrtc:
    """NVIDIA's compiler as a library."""

    def __init__(self, path: str) -> None:
        self._library = ctypes.CDLL(path)
        self._library.nvrtcGetErrorString.restype = ctypes.c_char_p

    def _call(self, name: str, *arguments: object) -> None:
        code = getattr(self._library, name)(*arguments)
        if code != 0:
            reason = self._library.nvrtcGetErrorString(code).decode()
            raise RuntimeError(f"{name}: {reason}")

    def describe(self) -> str:
        major, minor = ctypes.c_int(), ctypes.c_int()
        self._call("nvrtcVersion", ctypes.byref(major), ctypes.byref(minor))
        return f"NVRTC {major.value}.{minor.value}"

    def architectures(self) -> list[str]:
        count = ctypes.c_int()
        self._call("nvrtcGetNumSupportedArchs", ctypes.byref(count))
        numbers = (ctypes.c_int * count.value)()
        self._call("nvrtcGetSupportedArchs", numbers)
        return [str(number) for number in numbers]

    def _text(self, program: ctypes.c_void_p, what: str) -> bytes:
        size = ctypes.c_size_t()
        self._call(f"nvrtcGet{what}Size", program, ctypes.byref(size))
        text = ctypes.create_string_buffer(max(size.value, 1))
        self._call(f"nvrtcGet{what}", program, text)
        return text.raw[: size.value]

    def compile(self, root: pathlib.Path, architecture: str, as_text: bool) -> Result:
        kind = "compute" if as_text else "sm"
        options = [f"--gpu-architecture={kind}_{architecture}", "--ptxas-options=-v"]
        options += _NVCC_FLAGS + _includes(root, "cuda")
        source = (root / _KERNELS / "kernels.cu").read_bytes()
        program = ctypes.c_void_p()
        headers = (ctypes.c_char_p * 1)(_CSTDINT)
        names = (ctypes.c_char_p * 1)(b"cstdint")
        self._call(
            "nvrtcCreateProgram", ctypes.byref(program), source, b"kernels.cu", 1, headers, names
        )
        encoded = [option.encode() for option in options]
        code = self._library.nvrtcCompileProgram(
            program, len(encoded), (ctypes.c_char_p * len(encoded))(*encoded)
        )
        log = self._text(program, "ProgramLog").decode(errors="replace").strip("\0\n ")
        if code != 0:
            raise RuntimeError(f"{kind}_{architecture}: {log}")
        return Result(self._text(program, "PTX" if as_text else "CUBIN"), log)


class Command:
    """A compiler that is a program."""

    def __init__(self, path: str) -> None:
        self._path = path

    def _run(self, *arguments: str) -> str:
        finished = subprocess.run(
            [self._path, *arguments], capture_output=True, text=True, check=False, timeout=600
        )
        if finished.returncode != 0:
            raise RuntimeError(f"{self._path} {' '.join(arguments)}: {finished.stderr}")
        return finished.stdout + finished.stderr

    def describe(self) -> str:
        version = re.search(r"(?:release|version:) ([\d.]+)", self._run("--version"))
        return f"{pathlib.Path(self._path).name} {version.group(1) if version else '?'}"


class Nvcc(Command):
    def architectures(self) -> list[str]:
        return re.findall(r"sm_(\d+)$", self._run("--list-gpu-code"), re.MULTILINE)

    def compile(self, root: pathlib.Path, architecture: str, as_text: bool) -> Result:
        kind = f"--gpu-architecture={'compute' if as_text else 'sm'}_{architecture}"
        source = str(root / _KERNELS / "kernels.cu")
        flags = ["--ptx" if as_text else "--cubin", kind, "--ptxas-options=-v", *_NVCC_FLAGS]
        return _through_file(
            lambda out: self._run(*flags, *_includes(root, "cuda"), "-o", out, source)
        )


class Hipcc(Command):
    """One image for all architectures: the runtime of HIP chooses."""

    def architectures(self) -> list[str]:
        return _WANTED["rocm"]

    def compile(self, root: pathlib.Path, architecture: str, as_text: bool) -> Result:
        assert not as_text
        source = str(root / _KERNELS / "kernels.cu")
        targets = [f"--offload-arch={one}" for one in architecture.split("+")]
        flags = ["--genco", "-x", "hip", "-std=c++17", "-O3", "-ffp-contract=off", *targets]
        return _through_file(
            lambda out: self._run(*flags, *_includes(root, "rocm"), "-o", out, source)
        )


Compiler = typing.Union[Nvrtc, Nvcc, Hipcc]


def _through_file(run: typing.Callable[[str], str]) -> Result:
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "image"
        log = run(str(out))
        return Result(out.read_bytes(), log)


def _compiler(vendor: str, path: str) -> Compiler:
    if vendor == "rocm":
        return Hipcc(path)
    return Nvrtc(path) if ".so" in pathlib.Path(path).name else Nvcc(path)


def _candidates(vendor: str, roots: list[str]) -> list[str]:
    program = "hipcc" if vendor == "rocm" else "nvcc"
    found = []
    for root in map(pathlib.Path, roots):
        if vendor == "cuda":
            for folder in ("lib", "lib64"):
                found += sorted((root / folder).glob("libnvrtc.so.[0-9][0-9]"))
        found += [root / "bin" / program]
    on_path = shutil.which(program)
    found += [pathlib.Path(on_path)] if on_path else []
    return [str(path.resolve()) for path in found if path.is_file()]


def usable(vendor: str, known: list[str]) -> list[str]:
    """What is wanted; what a compiler has dropped gives way to the next of its family that it knows.

    CUDA 13 compiles for sm_75, and not for sm_70. AMD has no families: no GPU runs the code of
    another.
    """
    found = []
    for wanted in _WANTED[vendor]:
        family = [one for one in known if one[:-1] == wanted[:-1] and one >= wanted]
        if wanted in known:
            found.append(wanted)
        elif vendor == "cuda":
            found += sorted(family)[:1]
    return found


def text_of(names: list[str]) -> str:
    """Whose text serves GPUs without code: the last but one's, for sm_110 lies before sm_120."""
    return names[-2:][0]


def find(vendor: str, roots: list[str]) -> tuple[str, str, list[str]]:
    """The compiler that knows most architectures, what it is, and which it knows."""
    best: tuple[str, str, list[str]] = ("", "", [])
    for path in _candidates(vendor, roots):
        try:
            compiler = _compiler(vendor, path)
            known = usable(vendor, compiler.architectures())
            if len(known) > len(best[2]):
                best = (path, compiler.describe(), known)
        except (OSError, RuntimeError) as error:
            print(f"{path}: {error}", file=sys.stderr)
    return best


def assembly(images: list[tuple[int, int, pathlib.Path]]) -> str:
    """A table of (architecture, is text, offset, size), and the images behind it."""
    lines = [
        '  .section .rodata, "a", %progbits',
        "  .balign 64",
        "  .globl hvd_kernel_images",
        "  .hidden hvd_kernel_images",
        "hvd_kernel_images:",
    ]
    for number, (architecture, is_text, _) in enumerate(images):
        offset = f".Limage{number} - hvd_kernel_images"
        lines.append(
            f"  .long {architecture}, {is_text}, {offset}, .Lend{number} - .Limage{number}"
        )
    lines.append("  .long 0, 0, 0, 0")
    for number, (_, _, path) in enumerate(images):
        lines += ["  .balign 64", f".Limage{number}:", f'  .incbin "{path}"']
        lines += ["  .byte 0", f".Lend{number}:"]  # a text ends with a zero
    lines += ['  .section .note.GNU-stack, "", %progbits', ""]
    return "\n".join(lines)


def usage(log: str) -> dict[str, dict[str, int]]:
    """Registers and spilled bytes of each kernel, where the compiler tells."""
    found = {}
    for match in _USAGE.finditer(log):
        spilled = int(match["stack"]) + int(match["stores"]) + int(match["loads"])
        found[match["kernel"]] = {"registers": int(match["registers"]), "spilled_bytes": spilled}
    return found


def make(compiler: Compiler, names: list[str], root: pathlib.Path, folder: pathlib.Path) -> None:
    """Compiles for all architectures, and a text; writes what the build needs."""
    jobs = [(name, False) for name in names]
    if isinstance(compiler, Hipcc):
        jobs = [("+".join(names), False)]
    else:
        jobs.append((text_of(names), True))
    with concurrent.futures.ThreadPoolExecutor() as pool:
        results = list(pool.map(lambda job: compiler.compile(root, *job), jobs))
    images, resources = [], {}
    for (name, is_text), result in zip(jobs, results):
        path = folder / ("kernels.ptx" if is_text else f"kernels_{name.replace('+', '_')}.image")
        path.write_bytes(result.image)
        images.append((int(name) if name.isdigit() else 0, int(is_text), path.resolve()))
        if not is_text:
            resources[name] = usage(result.log)
    (folder / "kernel_resources.json").write_text(json.dumps(resources, indent=1, sort_keys=True))
    (folder / "kernel_images.S").write_text(assembly(images))


def main(arguments: list[str]) -> None:
    if arguments[:1] == ["find"]:
        path, what, architectures = find(arguments[1], arguments[2:])
        if not path:
            sys.exit("none found")
        print(path, what, ",".join(architectures), sep="\n")
        return
    _, vendor, path, architectures_text, root, folder = arguments
    try:
        make(
            _compiler(vendor, path),
            architectures_text.split(","),
            pathlib.Path(root),
            pathlib.Path(folder),
        )
    except RuntimeError as error:
        sys.exit(f"kernels.cu: {error}")


if __name__ == "__main__":
    main(sys.argv[1:])
