# SPDX-License-Identifier: Apache-2.0
"""Python programs with MPI of their own (mpi4py, Open MPI) beside hvd.

Usage: mpi4py_test.py LIBHVD [unittest arguments]
"""

from __future__ import annotations

import importlib.util
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

from jobs import without_launchers

LIMIT_S = 60
ROOT = Path(__file__).resolve().parent.parent.parent

PROLOGUE = """
import ctypes, os, sys
import mpi4py

rank, size = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("RANK", "SIZE"))
os.environ["HVD_VIRTUAL_NODE"] = str(rank * 2 // size)
import hvd
from hvd._core import _lib, api
from hvd._core.work import Work


def total(name, count, process_set=hvd.global_process_set):
    values = (ctypes.c_double * count)(*[hvd.rank() + 1.0] * count)
    address = ctypes.addressof(values)
    tensor = api.tensor_struct(8, (count,), source=address, target=address)
    number = process_set.process_set_id
    handle = api.submit(Work(_lib.ALLREDUCE, name, process_set=number), [tensor])
    try:
        api.wait(handle)
    finally:
        api.release(handle)
    ranks = process_set.ranks
    assert values[0] == values[count - 1] == sum(ranks) + len(ranks), values[0]


def refused(kind, words, call, *arguments, **named):
    try:
        call(*arguments, **named)
    except kind as error:
        assert words in str(error), error
    else:
        raise AssertionError("accepted: " + words)


def fine():
    os.write(1, b"FINE\\n")

"""

BESIDE = """
from mpi4py import MPI

world = MPI.COMM_WORLD
half = world.Split(rank % 2, -rank)
of_half = hvd.ProcessSet(half)
ends = hvd.ProcessSet([0, size - 1])
hvd.init(world, process_sets=[ends, of_half])
print(hvd.describe(), flush=True)
assert MPI.Query_thread() == MPI.THREAD_MULTIPLE
assert of_half.ranks == list(range(rank % 2, size, 2)) and of_half.included()
assert (ends.process_set_id, of_half.process_set_id) == (1, 2 + rank % 2)
for count in (1, 1000, 300000):
    mine = bytearray(count)
    theirs = bytearray(count)
    # On their way while hvd moves its own.
    requests = [
        world.Irecv(theirs, source=(rank - 1) % size),
        world.Isend(mine, dest=(rank + 1) % size),
    ]
    total("x", count)
    total("half", count, of_half)
    assert world.allreduce(rank) == size * (size - 1) // 2
    if ends.included():
        total("ends", count, ends)
    MPI.Request.Waitall(requests)
    assert half.allreduce(1) == len(of_half.ranks)

refused(hvd.InvalidArgumentError, "is there already", hvd.add_process_set, half)
refused(hvd.MismatchError, "gives MPI_COMM_NULL", hvd.add_process_set,
        MPI.COMM_NULL if rank == 0 else half)
refused(hvd.InvalidArgumentError, "no rank gives", hvd.add_process_set, MPI.COMM_NULL)
refused(hvd.InvalidArgumentError, "is not a communicator", hvd.ProcessSet.from_mpi, [0, 1])
low = world.Split(0 if rank < size - 1 else MPI.UNDEFINED)
most = hvd.add_process_set(hvd.ProcessSet.from_mpi(low))
assert most.ranks == list(range(size - 1)) and most.included() == (rank < size - 1)
if most.included():
    total("most", 1000, most)
    low.Free()
for number in hvd.process_set_ids()[1:]:
    assert hvd.remove_process_set(number)
assert hvd.process_set_ids() == [0]
hvd.shutdown()
assert world.allreduce(1) == size

hvd.init([world, half], process_sets="dynamic")
assert hvd.process_set_ids() == [0, 1, 2], hvd.process_set_ids()
hvd.shutdown()
refused(hvd.UnsupportedError, "all ranks", hvd.init, half)
refused(hvd.UnsupportedError, "all ranks", hvd.init, [1, 0])
refused(hvd.UnsupportedError, "all ranks", hvd.init, world.Split(0, -rank))
refused(hvd.UnsupportedError, "all ranks", hvd.init, [0, 1])
hvd.init(list(range(size)))
total("last", 3)
hvd.shutdown()
fine()
"""

FUNNELED = """
mpi4py.rc.thread_level = "funneled"
from mpi4py import MPI

half = MPI.COMM_WORLD.Split(rank % 2)
hvd.init(process_sets=[hvd.ProcessSet(half)])
print(hvd.describe(), flush=True)
total("x", 1000)
assert MPI.COMM_WORLD.allreduce(1) == size
hvd.shutdown()
fine()
"""

STARTED_BY_HVD = """
mpi4py.rc.initialize = False
mpi4py.rc.finalize = False
from mpi4py import MPI

assert not MPI.Is_initialized()
hvd.init()
print(hvd.describe(), flush=True)
assert MPI.Is_initialized() and MPI.Query_thread() == MPI.THREAD_MULTIPLE
half = hvd.add_process_set(MPI.COMM_WORLD.Split(rank % 2))
for count in (1, 300000):
    total("x", count)
    assert MPI.COMM_WORLD.allreduce(1) == size
    total("half", count, half)
hvd.shutdown()
assert MPI.Is_finalized()
hvd.init()
refused(hvd.UnsupportedError, "was finalised in this process", total, "never", 1)
fine()
"""

ENDS_EARLY = """
from mpi4py import MPI

hvd.init()
print(hvd.describe(), flush=True)
total("x", 1000)
hvd.barrier()
MPI.Finalize()
if os.environ.get("HVD_BACKEND") == "mpi":
    refused(hvd.PeerLostError, "call hvd_shutdown() before", total, "too late", 1000)
else:
    total("never too late", 1000)
hvd.shutdown()
fine()
"""

ENDS_LATE = """
from mpi4py import MPI

hvd.init()
print(hvd.describe(), flush=True)
total("x", 1000)
hvd.shutdown()
assert not MPI.Is_finalized() and MPI.COMM_WORLD.allreduce(1) == size
MPI.Finalize()
fine()
"""


class Mpi4py(unittest.TestCase):
    """What a program with mpi4py may do."""

    def setUp(self) -> None:
        self.launcher = shutil.which("mpirun.openmpi") or shutil.which("mpirun") or ""
        if not self.launcher:
            self.skipTest("no mpirun of Open MPI is installed")
        if importlib.util.find_spec("mpi4py") is None:
            self.skipTest("mpi4py (python3-mpi4py) is not installed")
        if not (Path(sys.argv[1]).parent / "libhvd_mpi_openmpi.so").exists():
            self.skipTest("libhvd_mpi_openmpi.so was not built: Open MPI's headers are missing")

    def run_ranks(self, program: str, ranks: int, backend: str) -> str:
        """What all ranks print; each must be fine."""
        environment = without_launchers()
        with tempfile.TemporaryDirectory(prefix="hvd-test-") as folder:
            environment.update(
                HVD_LIBRARY=sys.argv[1],
                HVD_RENDEZVOUS_DIR=folder,
                PYTHONPATH=str(ROOT / "runtime" / "python"),
                TMPDIR=folder,
            )
            if backend:
                environment["HVD_BACKEND"] = backend
            command = [self.launcher, "--oversubscribe", "--allow-run-as-root", "-np", str(ranks)]
            ended = subprocess.run(
                [*command, sys.executable, "-B", "-c", PROLOGUE + program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
                timeout=LIMIT_S,
                env=environment,
                check=False,
            )
        self.assertEqual(ended.stdout.count("FINE"), ranks, ended.stdout)
        self.assertEqual(ended.returncode, 0, ended.stdout)
        return ended.stdout

    def test_its_calls_and_communicators_live_beside_hvd(self) -> None:
        for backend in ("mpi", "tcp", ""):
            with self.subTest(backend=backend):
                self.assertIn(f"moves by {backend or 'tcp'}", self.run_ranks(BESIDE, 4, backend))

    def test_below_thread_multiple_tcp_moves_the_data(self) -> None:
        text = self.run_ranks(FUNNELED, 4, "")
        self.assertRegex(text, "moves by tcp.*initialised MPI with MPI_THREAD_FUNNELED")

    def test_mpi_started_by_hvd_serves_the_program_too(self) -> None:
        text = self.run_ranks(STARTED_BY_HVD, 4, "mpi")
        self.assertRegex(text, "moves by mpi.*started by hvd")

    def test_mpi_may_end_last_and_is_missed_when_it_ends_first(self) -> None:
        for program, backend in ((ENDS_LATE, "mpi"), (ENDS_EARLY, "mpi"), (ENDS_EARLY, "tcp")):
            with self.subTest(first=program is ENDS_EARLY, backend=backend):
                text = self.run_ranks(program, 2, backend)
                self.assertTrue(re.search(f"moves by {backend}", text), text)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]], verbosity=2)
