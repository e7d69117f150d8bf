# SPDX-License-Identifier: Apache-2.0
"""The MPI plane under the mpirun of each MPI: values, the program's own MPI beside it, deaths.

Usage: mpi_test.py LIBHVD PLANE_RANK TABLE_RANK MPI_RANK_OPENMPI|- MPI_RANK_MPICH|- [unittest arguments]
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from jobs import without_launchers

LIMIT_S = 60
# The promise is 0.5 s for a process and 3 s for a node; busy test machines get more.
LOSS_S = 8.0


def word_of(path: Path) -> str:
    """What a rank has left there, once it has: the launcher may have returned before."""
    deadline = time.monotonic() + LIMIT_S
    while not path.exists():
        if time.monotonic() > deadline:
            return f"{path.name}: nothing"
        time.sleep(0.02)
    return path.read_text()


def mapped_library(program: str) -> str:
    """The MPI library that a program is linked with."""
    told = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.search(r"libmpi\w*\.so\S* => (\S+)", told)[1]


class Launched(unittest.TestCase):
    """Jobs under the mpirun of the MPI that a subclass names."""

    name = ""
    library = ""  # as it calls itself
    launchers: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    hidden: tuple[str, ...] = ()  # where survivors can outlive the launcher's clearing up
    variables: dict[str, str] = {}
    plugin = ""
    rank_program = ""

    def setUp(self) -> None:
        self.launcher = next((path for n in self.launchers if (path := shutil.which(n))), "")
        if not self.launcher:
            self.skipTest(f"none of {', '.join(self.launchers)} is installed")
        if not (Path(sys.argv[1]).parent / self.plugin).exists():
            self.skipTest(f"{self.plugin} was not built: the headers of {self.name} are missing")
        folder = tempfile.TemporaryDirectory(prefix="hvd-test-")
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def launch(
        self, ranks: int, command: list[str], **more: str
    ) -> subprocess.CompletedProcess[str]:
        environment = without_launchers(HVD_RENDEZVOUS_DIR=self.folder, TMPDIR=self.folder)
        environment.update(self.variables, **more)
        return subprocess.run(
            [self.launcher, *self.options, "-np", str(ranks), *command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT_S,
            env=environment,
            check=False,
        )

    def mpi_rank(self) -> str:
        if self.rank_program == "-":
            self.skipTest(f"the library of {self.name} is missing, to build a program with")
        return self.rank_program

    def assert_fine(self, ended: subprocess.CompletedProcess[str], ranks: int) -> None:
        self.assertEqual(ended.returncode, 0, ended.stdout)
        self.assertEqual(ended.stdout.count("FINE"), ranks, ended.stdout)


class Mpi(Launched):
    """What programs may do."""

    def test_a_program_without_mpi_gets_right_values_over_mpi(self) -> None:
        for ranks, nodes in ((2, 2), (4, 2), (4, 3)):
            with self.subTest(ranks=ranks, nodes=nodes):
                ended = self.launch(ranks, [sys.argv[2], str(nodes)], HVD_BACKEND="mpi")
                self.assert_fine(ended, ranks)
                self.assertRegex(ended.stdout, f"moves by mpi.*{self.library}.*started by hvd")

    def test_by_default_tcp_moves_the_data_and_says_why(self) -> None:
        ended = self.launch(2, [sys.argv[2], "2"])
        self.assert_fine(ended, 2)
        self.assertRegex(ended.stdout, "moves by tcp.*mpi: .*the program has no MPI")

    def test_a_library_is_taken_by_its_path(self) -> None:
        ended = self.launch(
            2, [sys.argv[2], "2"], HVD_BACKEND="mpi", HVD_MPI_LIBRARY="/nowhere/libmpi.so"
        )
        self.assertNotEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("/nowhere/libmpi.so", ended.stdout)
        path = mapped_library(self.mpi_rank())
        ended = self.launch(2, [sys.argv[2], "2"], HVD_BACKEND="mpi", HVD_MPI_LIBRARY=path)
        self.assert_fine(ended, 2)

    def test_one_node_is_refused_with_a_sentence(self) -> None:
        ended = self.launch(2, [sys.argv[2], "1"], HVD_BACKEND="mpi")
        self.assertNotEqual(ended.returncode, 0, ended.stdout)
        self.assertIn("mpi serves several nodes, and all ranks live on one", ended.stdout)

    def test_beside_the_programs_own_mpi_in_two_lives(self) -> None:
        for ranks, nodes in ((2, 2), (4, 2)):
            with self.subTest(ranks=ranks, nodes=nodes):
                command = [self.mpi_rank(), str(nodes), "beside"]
                ended = self.launch(ranks, command, HVD_BACKEND="mpi")
                self.assert_fine(ended, ranks)
                self.assertRegex(ended.stdout, f"moves by mpi.*{self.library}.*program initialised")

    def test_below_thread_multiple_it_declines(self) -> None:
        command = [self.mpi_rank(), "2", "funneled"]
        ended = self.launch(2, command)
        self.assert_fine(ended, 2)
        self.assertRegex(ended.stdout, "moves by tcp.*initialised MPI with MPI_THREAD_FUNNELED")
        ended = self.launch(2, command, HVD_BACKEND="mpi")
        self.assertNotEqual(ended.returncode, 0, ended.stdout)
        self.assertRegex(ended.stdout, "FAILED .*MPI_Init_thread with MPI_THREAD_MULTIPLE")

    def test_communicators_of_the_program_become_process_sets(self) -> None:
        for backend in ("mpi", "tcp", ""):
            with self.subTest(backend=backend):
                ended = self.launch(4, [self.mpi_rank(), "2", "sets"], HVD_BACKEND=backend)
                self.assert_fine(ended, 4)

    def test_the_end_of_mpi_before_that_of_hvd_is_an_error(self) -> None:
        ended = self.launch(2, [self.mpi_rank(), "2", "early"], HVD_BACKEND="mpi")
        self.assert_fine(ended, 2)
        self.assertRegex(ended.stdout, "too late: .*the program has ended MPI")

    def test_a_death_in_flight_is_an_error_and_the_end_of_mpi(self) -> None:
        for ranks, nodes in ((2, 2), (4, 2)):
            with self.subTest(ranks=ranks, nodes=nodes):
                folder = Path(self.folder) / str(ranks)
                folder.mkdir()
                command = [self.mpi_rank(), str(nodes), "dies", str(folder), *self.hidden]
                began = time.monotonic()
                ended = self.launch(ranks, command, HVD_BACKEND="mpi")
                self.assertNotEqual(ended.returncode, 0, ended.stdout)
                if self.hidden:
                    for rank in range(ranks - 1):
                        self.assert_lost(word_of(folder / f"lost.{rank}"), {ranks - 1})
                    continue
                # The launcher kills the others at once: who was faster may have seen one of these.
                self.assertTrue((folder / "dying").exists(), ended.stdout)
                self.assertLess(time.monotonic() - began, LIMIT_S / 2, ended.stdout)
                for path in folder.glob("lost.*[0-9]"):
                    others = set(range(ranks)) - {int(path.suffix[1:])}
                    self.assert_lost(path.read_text(), others)

    def assert_lost(self, word: str, dead: set[int]) -> None:
        found = re.match(r"LOST after ([0-9.]+) s, then (\d+) calls: .*rank (\d+) on host", word)
        assert found, word
        self.assertLess(float(found[1]), LOSS_S, word)
        self.assertEqual(found[2], "0", word)
        self.assertIn(int(found[3]), dead, word)


class Table(Launched):
    """Every operation with every type; run by name, since it takes long."""

    def test_every_operation_and_type_has_the_values_of_its_reference(self) -> None:
        for ranks, nodes in ((2, 2), (3, 2), (4, 4), (5, 3)):
            with self.subTest(ranks=ranks, nodes=nodes):
                command = [sys.argv[3], "mpi", str(nodes)]
                self.assert_fine(self.launch(ranks, command, HVD_BACKEND="mpi"), ranks)


class OpenMpiSettings:
    """Open MPI."""

    name = "Open MPI"
    library = "Open MPI"
    launchers = ("mpirun.openmpi", "mpirun")
    options = ("--oversubscribe", "--allow-run-as-root")
    hidden = ("hidden",)
    plugin = "libhvd_mpi_openmpi.so"
    rank_program = sys.argv[4]


class MpichSettings:
    """MPICH."""

    name = "MPICH"
    library = "MPICH"
    launchers = ("mpiexec.mpich", "mpiexec.hydra")
    # With CMA UCX ends its process by itself where it cannot read the memory of a peer that is no more; with TCP
    # MPI_Finalize of MPICH 4.0.2 hangs at random.
    variables = {"UCX_TLS": "posix,self"}
    plugin = "libhvd_mpi_mpich.so"
    rank_program = sys.argv[5]


class OpenMpi(OpenMpiSettings, Mpi):
    """Programs under Open MPI."""


class Mpich(MpichSettings, Mpi):
    """Programs under MPICH."""


class OpenMpiTable(OpenMpiSettings, Table):
    """The table over Open MPI."""


class MpichTable(MpichSettings, Table):
    """The table over MPICH."""


def load_tests(
    loader: unittest.TestLoader, tests: unittest.TestSuite, pattern: str | None
) -> unittest.TestSuite:
    """The cases of each MPI, and not those of the class they share."""
    return unittest.TestSuite(loader.loadTestsFromTestCase(one) for one in (OpenMpi, Mpich))


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[6:]], verbosity=2)
