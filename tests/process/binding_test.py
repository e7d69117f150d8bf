# SPDX-License-Identifier: Apache-2.0
"""What a rank finds itself bound to: CPUs, memory, threads and GPU.

Usage: binding_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import ctypes
import errno
import os
import subprocess
import sys
import unittest

import jobs

CPUS = sorted(os.sched_getaffinity(0))

# Rank, CPUs, threads, memory policy with its NUMA nodes, and GPU of each rank, a line each.
SAY = """
import ctypes, os
libc = ctypes.CDLL(None, use_errno=True)
mode, nodes = ctypes.c_int(-1), (ctypes.c_ulong * 16)()
get_mempolicy = {"x86_64": 239, "aarch64": 236}[os.uname().machine]
libc.syscall(get_mempolicy, ctypes.byref(mode), nodes, ctypes.c_ulong(1024), None, ctypes.c_ulong(0))
get = lambda name: os.environ.get(name, "-")
cpus = ",".join(map(str, sorted(os.sched_getaffinity(0))))
words = [get("HVD_RANK"), cpus, get("OMP_NUM_THREADS"), str(mode.value), str(nodes[0])]
words += map(get, ["HVD_LOCAL_DEVICE", "HVD_GPU_ID", "CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER"])
os.write(1, (" ".join(words) + "\\n").encode())  # One write: lines of two ranks do not mix.
"""

SET_MEMPOLICY = {"x86_64": 238, "aarch64": 237}[os.uname().machine]


def has_memory_policies() -> bool:
    """False where the kernel has none, or a container forbids them."""
    no_nodes = (ctypes.c_void_p(), ctypes.c_ulong())
    return ctypes.CDLL(None).syscall(SET_MEMPOLICY, 0, *no_nodes) == 0


def forbid_set_mempolicy() -> None:
    """What Docker does to a container without CAP_SYS_NICE, by a seccomp filter of four instructions."""

    class Instruction(ctypes.Structure):
        _fields_ = (
            ("code", ctypes.c_uint16),
            ("jump_true", ctypes.c_uint8),
            ("jump_false", ctypes.c_uint8),
            ("operand", ctypes.c_uint32),
        )

    class Program(ctypes.Structure):
        _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(Instruction)))

    filters = (Instruction * 4)(
        Instruction(0x20, 0, 0, 0),  # load the number of the call
        Instruction(0x15, 0, 1, SET_MEMPOLICY),
        Instruction(0x06, 0, 0, 0x00050000 | errno.EPERM),  # fail
        Instruction(0x06, 0, 0, 0x7FFF0000),  # allow
    )
    libc = ctypes.CDLL(None)
    set_no_new_privileges, set_seccomp, filter_mode = 38, 22, 2
    libc.prctl(set_no_new_privileges, 1, 0, 0, 0)
    libc.prctl(set_seccomp, filter_mode, ctypes.byref(Program(4, filters)))


def hvdrun(*options: str, prefix: tuple[str, ...] = (), **more: str) -> subprocess.CompletedProcess:
    """Runs SAY as ranks; OMP_NUM_THREADS is left to hvdrun."""
    environment = jobs.clean_environment(**more)
    if "OMP_NUM_THREADS" not in more:
        del environment["OMP_NUM_THREADS"]
    return subprocess.run(
        [*prefix, jobs.arguments()[0], "--no-prefix", *options, sys.executable, "-S", "-c", SAY],
        capture_output=True,
        text=True,
        timeout=jobs.LIMIT_S,
        env=environment,
        check=False,
    )


class Bound(unittest.TestCase):
    """The ranks of one machine."""

    def ranks(self, *options: str, prefix: tuple[str, ...] = (), **more: str) -> list[list[str]]:
        done = hvdrun(*options, prefix=prefix, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        return [row[1:] for row in sorted(rows, key=lambda row: int(row[0]))]

    def refused(self, *options: str, prefix: tuple[str, ...] = (), **more: str) -> str:
        done = hvdrun(*options, prefix=prefix, **more)
        self.assertEqual(done.returncode, 2, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        return done.stderr

    @unittest.skipUnless(len(CPUS) >= 2, "one CPU is not enough to bind anything")
    def test_cpus(self) -> None:
        first, second = CPUS[:2]
        both = f"{first},{second}"
        under = ("taskset", "-c", both)
        for options, expected in (
            (["--bind", f"map:{second}:{first}"], [str(second), str(first)]),
            (["--bind", f"map:{first}-{second}:{second}"], [both, str(second)]),
            (["--bind", "none"], [both, both]),
            ([], [both, both]),
        ):
            with self.subTest(options=options):
                ranks = self.ranks("-np", "2", *options, prefix=under)
                self.assertEqual([rank[0] for rank in ranks], expected)

    @unittest.skipUnless(len(CPUS) >= 2, "one CPU is not enough to bind a rank to one")
    def test_what_another_launcher_has_bound_stays(self) -> None:
        of_rank_1 = {"RANK": "1", "SIZE": "2", "LOCAL_RANK": "1", "LOCAL_SIZE": "2"}
        variables = {f"OMPI_COMM_WORLD_{name}": value for name, value in of_rank_1.items()}
        to_one = ("taskset", "-c", str(CPUS[1]))
        # Started by mpirun itself, and by a script that mpirun has started.
        for prefix in to_one, (*to_one, "sh", "-c", '"$@"; exit $?', "sh"):
            with self.subTest(prefix=prefix):
                done = hvdrun("-v", prefix=prefix, **variables)
                self.assertEqual(done.stdout.split()[1:3], [str(CPUS[1]), "1"], done.stderr)
                bound = f"CPUs {CPUS[1]}: as Open MPI has bound this rank"
                self.assertIn(bound, done.stderr)
        done = hvdrun("-v", **variables)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("rank 1 of 2 by Open MPI", done.stderr)
        self.assertNotIn("as Open MPI", done.stderr)

    @unittest.skipUnless(len(CPUS) >= 2, "one CPU is not enough to leave one out")
    def test_never_outside_of_the_mask(self) -> None:
        under = ("taskset", "-c", str(CPUS[1]))
        for policy in "cores", "numa", "socket":
            with self.subTest(policy=policy):
                ranks = self.ranks("-np", "1", "--bind", policy, prefix=under)
                self.assertEqual([rank[0] for rank in ranks], [str(CPUS[1])])
        self.assertIn(
            f"CPUs {CPUS[0]} are outside of the mask {CPUS[1]}",
            self.refused("-np", "1", "--bind", f"map:{CPUS[0]}", prefix=under),
        )
        self.assertIn(
            "2 ranks share 1 core", self.refused("-np", "2", "--bind", "cores", prefix=under)
        )

    def test_threads_are_set_where_they_are_unset(self) -> None:
        self.assertEqual(self.ranks("-np", "1", "--bind", "none", OMP_NUM_THREADS="7")[0][1], "7")
        one = self.ranks("-np", "1", "--bind", f"map:{CPUS[0]}")
        self.assertEqual(one[0][1], "1")

    @unittest.skipUnless(has_memory_policies(), "no memory policies here")
    def test_memory_is_preferred_near_the_cpus(self) -> None:
        default, _ = self.ranks("-np", "1", "--mem-bind", "none")[0][2:4]
        self.assertEqual(default, "0")
        done = hvdrun("-np", "1", "--bind", "cores", "--mem-bind", "local")
        self.assertEqual(done.returncode, 0, done.stderr)
        mode, nodes = done.stdout.split()[3:5]
        self.assertIn(mode, ("1", "5"))  # MPOL_PREFERRED, MPOL_PREFERRED_MANY
        self.assertNotEqual(nodes, "0")

    def test_a_container_that_forbids_it_is_a_note(self) -> None:
        flags = ["-np", "2", "--mem-bind", "local"]
        done = subprocess.run(
            [jobs.arguments()[0], *flags, "true"],
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            env=jobs.clean_environment(),
            check=False,
            preexec_fn=forbid_set_mempolicy,
        )
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stderr.count("memory is not bound near the CPUs"), 1, done.stderr)

    def test_the_report_has_a_line_per_rank(self) -> None:
        done = hvdrun("-np", "2", "--bind", f"map:{CPUS[0]}:{CPUS[0]}", "--report-bindings")
        lines = [line for line in done.stderr.splitlines() if line.startswith("hvdrun: rank ")]
        self.assertEqual(len(lines), 2, done.stderr)
        self.assertRegex(lines[1], rf"rank 1 on \S+: no GPU, .*\b{CPUS[0]}\b.* \[.*B.*\]$")


class Gpus(unittest.TestCase):
    """Visible lists that name GPUs which are not there: nothing opens them."""

    LIST = "GPU-aaaa,GPU-bbbb"

    def ranks(self, *options: str, **more: str) -> list[list[str]]:
        done = hvdrun(*options, **more)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        rows = [line.split() for line in done.stdout.splitlines()]
        return [row[5:] for row in sorted(rows, key=lambda row: int(row[0]))]

    def test_every_rank_sees_all_and_knows_its_own(self) -> None:
        self.assertEqual(
            self.ranks("-np", "2", CUDA_VISIBLE_DEVICES=self.LIST),
            [
                ["0", "GPU-aaaa", self.LIST, "PCI_BUS_ID"],
                ["1", "GPU-bbbb", self.LIST, "PCI_BUS_ID"],
            ],
        )

    def test_every_rank_sees_its_own_alone(self) -> None:
        self.assertEqual(
            self.ranks("-np", "2", "--gpu-visibility", "one", CUDA_VISIBLE_DEVICES=self.LIST),
            [
                ["0", "GPU-aaaa", "GPU-aaaa", "PCI_BUS_ID"],
                ["0", "GPU-bbbb", "GPU-bbbb", "PCI_BUS_ID"],
            ],
        )

    def test_an_order_that_the_user_chose_stays(self) -> None:
        ranks = self.ranks(
            "-np", "1", CUDA_VISIBLE_DEVICES="GPU-aaaa", CUDA_DEVICE_ORDER="FASTEST_FIRST"
        )
        self.assertEqual(ranks[0][3], "FASTEST_FIRST")

    def test_an_idle_gpu_and_a_shared_one_are_told(self) -> None:
        idle = hvdrun("-np", "1", CUDA_VISIBLE_DEVICES=self.LIST)
        self.assertIn("warning: 1 of 2 GPUs stay idle", idle.stderr)
        shared = hvdrun("-np", "3", CUDA_VISIBLE_DEVICES=self.LIST)
        self.assertEqual(shared.returncode, 2)
        self.assertIn("HVD_SHARE_GPU=1", shared.stderr)


class Duplicates(jobs.JobCase):
    """Ranks that name one GPU, and the library that compares."""

    PROGRAM = """
hvd_id = os.environ.get("HVD_GPU_ID")
try:
    hvd.init()
    allreduce("x")
    hvd.shutdown()
    say("FINE", hvd_id)
except hvd.HvdError as failure:
    say("FAILED", str(failure).replace("\\n", " "))
"""

    def test_no_rank_of_a_gpu_chosen_twice_starts(self) -> None:
        # hvdrun itself lets them share it; what they then start without the word is refused.
        program = "del os.environ['HVD_SHARE_GPU']\n" + self.PROGRAM
        ended = self.run_job(
            ["-np", "2"], program, CUDA_VISIBLE_DEVICES="GPU-aaaa", HVD_SHARE_GPU="1"
        )
        for rank in range(2):
            text = ended.line(rank, "FAILED")
            self.assertIn("ranks 0 and 1 on", text)
            self.assertIn("GPU GPU-aaaa", text)
            self.assertIn("HVD_SHARE_GPU=1", text)

    def test_ranks_that_may_share_start(self) -> None:
        ended = self.run_job(
            ["-np", "2"], self.PROGRAM, CUDA_VISIBLE_DEVICES="GPU-aaaa", HVD_SHARE_GPU="1"
        )
        self.assertEqual(ended.line(1, "FINE"), "GPU-aaaa")

    def test_ranks_of_two_gpus_start(self) -> None:
        ended = self.run_job(["-np", "2"], self.PROGRAM, CUDA_VISIBLE_DEVICES="GPU-aaaa,GPU-bbbb")
        self.assertEqual(ended.line(1, "FINE"), "GPU-bbbb")


if __name__ == "__main__":
    jobs.main()
