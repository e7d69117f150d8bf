# SPDX-License-Identifier: Apache-2.0
"""What goes wrong on GPUs, in whole jobs over the doubles of the driver and of NCCL; what is there.

Usage: gpu_failures_test.py HVDRUN LIBHVD CUDA_DOUBLE NCCL_DOUBLE [unittest arguments]
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

import gpu_jobs
import jobs
from gpu_jobs import HOST, LAYOUTS, GpuJobCase, free_port


class Check(unittest.TestCase):
    """hvdrun check --build, of a build with a part for GPUs."""

    def line(self, start: str, **variables: str) -> str:
        """What stands behind the name of one part."""
        done = subprocess.run(
            [jobs.arguments()[0], "check", "--build"],
            env=jobs.clean_environment(**variables),
            capture_output=True,
            text=True,
            timeout=jobs.LIMIT_S,
            check=True,
        )
        found = [line for line in done.stdout.splitlines() if line.startswith(f"  {start} ")]
        self.assertGreater(len(found), 0, done.stdout)
        return found[0].removeprefix(f"  {start}").strip()

    def test_names_the_driver_and_uses_no_gpu(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            calls = Path(folder, "calls")
            said = self.line(
                "[x] CUDA driver", HVD_CUDA_LIBRARY=sys.argv[3], HVD_DOUBLE_CALLS=str(calls)
            )
            self.assertRegex(said, re.escape(sys.argv[3]) + r", up to CUDA \d+\.\d")
            self.assertEqual(
                [line.split()[0] for line in calls.read_text().splitlines()], ["cuDriverGetVersion"]
            )
        self.assertRegex(
            self.line("[ ] CUDA driver", HVD_CUDA_LIBRARY="/nowhere"),
            "/nowhere: .*HVD_CUDA_LIBRARY",
        )
        self.assertRegex(self.line("[x] GPU kernels"), r"^sm_\d+, .*newer GPUs")

    def test_names_the_nccl_that_would_be_used_and_why(self) -> None:
        begin = "NCCL is loaded at the first tensor in GPU memory: "
        for named, says in (
            (sys.argv[4], f"{sys.argv[4]} (HVD_NCCL_LIBRARY names it)"),
            (
                "/nowhere/nccl.so",
                "/nowhere/nccl.so (HVD_NCCL_LIBRARY names it, but it is not there)",
            ),
            ("libmine.so", "libmine.so (HVD_NCCL_LIBRARY names it)"),
            ("", "libnccl.so.2 (the system's loader finds it by this name, if it does)"),
        ):
            self.assertEqual(self.line("[x] nccl", HVD_NCCL_LIBRARY=named), begin + says)


class Disagreement(GpuJobCase):
    """What ranks find out about each other before NCCL is asked."""

    def test_versions_of_nccl_that_differ_are_named_with_their_ranks(self) -> None:
        program = """
if RANK == 2:
    os.environ["HVD_DOUBLE_NCCL_VERSION"] = "21903"
hvd.init()
refused(lambda: gpu_sum(Gpu(RANK), "x"))
allreduce("on the host")
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_gpus(options, program)
                self.assert_all_fine(ended)
                self.assert_refused(
                    ended,
                    rf"rank 2 on host {HOST}\S* has NCCL 2\.19\.3, and rank 0 on host {HOST}\S* "
                    r"has 2\.\d+\.\d+: .*HVD_NCCL_LIBRARY",
                )

    def test_two_ranks_on_one_gpu_are_told_the_remedy_and_may_begin_anew(self) -> None:
        program = """
hvd.init()
refused(lambda: gpu_sum(Gpu(0), "x"))
hvd.shutdown()
hvd.init()
assert gpu_sum(Gpu(RANK), "x") == 3.0
say("FINE")
"""
        ended = self.run_gpus([], program)
        self.assert_all_fine(ended)
        self.assert_refused(
            ended,
            f"rank 0 on host {HOST} and rank 1 on host {HOST} use the same GPU "
            r"\(Double of a GPU, 0000:1a:00.0\).*one rank per GPU.*HVD_SHARE_GPU=1",
        )

    def test_two_ranks_on_one_gpu_need_host_ids_of_their_own(self) -> None:
        program = """
hvd.init()
refused(lambda: gpu_sum(Gpu(0), "x"))
say("FINE")
"""
        ended = self.run_gpus([], program, HVD_SHARE_GPU="1")
        self.assert_all_fine(ended)
        self.assert_refused(ended, "rank 0 on .* and rank 1 on .*another NCCL_HOSTID")

    def test_ranks_told_to_use_other_backends_do_not_begin(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_BACKEND"] = "staged"
try:
    hvd.init()
    say("REFUSED by nobody")
except hvd.HvdError as failure:
    say("REFUSED", type(failure).__name__, failure)
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_gpus(options, program)
                self.assertEqual(ended.code, 0, ended.text())
                self.assert_refused(
                    ended,
                    f"MismatchError .*: rank 1 on {HOST} has HVD_BACKEND=staged, "
                    f"rank 0 on {HOST} has no HVD_BACKEND: set it alike for all ranks",
                )

    def test_ranks_share_a_gpu_where_they_are_allowed_to(self) -> None:
        program = """
os.environ["NCCL_HOSTID"] = f"of-{RANK}"
hvd.init()
gpu = Gpu(0)
for step in range(10):
    assert gpu_sum(gpu, "x", RANK + step) == 3 + 3 * step
assert "GPU allreduce moves by nccl" in hvd.describe(), hvd.describe()
say("DESCRIBED", hvd.describe().replace("\\n", " "))
say("FINE")
"""
        ended = self.run_gpus([], program, HVD_SHARE_GPU="1", HVD_LOG="nccl")
        self.assert_all_fine(ended)
        library = rf"NCCL 2\.\d+\.\d+ \({re.escape(sys.argv[4])}: HVD_NCCL_LIBRARY names it\)"
        self.assertEqual(len(re.findall(library, ended.stderr)), 3, ended.text())
        for rank in range(3):
            self.assertRegex(ended.line(rank, "DESCRIBED"), library)


class Missing(GpuJobCase):
    """A library, or a GPU, that is not there."""

    SUMS = """
if RANK in {missing}:
    os.environ["HVD_NCCL_LIBRARY"] = "/nowhere/libnccl.so.2"
hvd.init()
gpu = Gpu(RANK)
for step in range(5):
    for name in "x", "y":
        assert gpu_sum(gpu, name, RANK + step, 300000) == 3 + 3 * step
assert "GPU allreduce moves by staged" in hvd.describe(), hvd.describe()
say("FINE")
"""

    def test_without_nccl_all_goes_by_the_host_and_this_is_said_once(self) -> None:
        for missing in (0, 1, 2), (1,):
            for options in LAYOUTS:
                with self.subTest(missing=missing, options=options):
                    ended = self.run_gpus(options, self.SUMS.format(missing=missing))
                    self.assert_all_fine(ended)
                    said = re.findall(".*on GPUs does not go by nccl: .*", ended.stderr)
                    self.assertEqual(len(said), 1, ended.text())
                    self.assertRegex(said[0], f"rank {missing[0]} on host {HOST}.*/nowhere/libnccl")
                    self.assertIn("HVD_NCCL_LIBRARY", said[0])

    def test_an_nccl_that_is_too_old_is_none(self) -> None:
        ended = self.run_gpus([], self.SUMS.format(missing=()), HVD_DOUBLE_NCCL_VERSION="21704")
        self.assert_all_fine(ended)
        old = "rank 0 on host .* is NCCL 2.17.4; 2.18.0 or newer is needed.*said once"
        self.assertRegex(ended.stderr, f"allreduce.* on GPUs does not go by nccl: .*{old}")

    def test_hvd_backend_nccl_allows_no_other_way(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_NCCL_LIBRARY"] = "/nowhere/libnccl.so.2"
hvd.init()
refused(lambda: gpu_sum(Gpu(RANK), "x"))
allreduce("on the host")
say("FINE")
"""
        ended = self.run_gpus([], program, HVD_BACKEND="nccl")
        self.assert_all_fine(ended)
        self.assert_refused(ended, f"rank 1 on host {HOST}: no NCCL was found")

    def test_a_rank_without_gpu_says_so(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_DOUBLE_GPUS"] = "0"
hvd.init()
allreduce("together")
if RANK == 1:
    tensor = (ctypes.c_float * 4)()
    GpuSum(type("None", (), {"number": 0, "stream": ctypes.c_void_p()}), "x", tensor)
refused(lambda: gpu_sum(Gpu(RANK), "x"))
sys.exit(9)
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_gpus(options, program)
                self.assertEqual(ended.code, 1, ended.text())
                self.assertRegex(ended.stderr, f"hvdrun: rank 1 on host {HOST}.* failed first: ")
                self.assertRegex(
                    ended.stderr,
                    "rank 1: allreduce 'x': no GPU can be used: .*no CUDA-capable device",
                )
                for rank in 0, 2:
                    self.assertIn("rank 1 on host", ended.line(rank, "REFUSED"))

    def test_a_rank_that_gives_cpu_memory_instead_is_named(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_DOUBLE_GPUS"] = "0"
hvd.init()
refused((lambda: allreduce("x", 1000)) if RANK == 1 else (lambda: gpu_sum(Gpu(RANK), "x")))
allreduce("later")
say("FINE")
"""
        ended = self.run_gpus([], program)
        self.assert_all_fine(ended)
        self.assert_refused(ended, "ranks 0, 2 have it on a CUDA GPU, rank 1 has it in CPU memory")


class SlowCalls(GpuJobCase):
    """A call of NCCL that takes longer than silence on a connection may."""

    def test_a_rank_in_a_long_call_is_not_taken_for_dead(self) -> None:
        program = """
if RANK == 0:
    os.environ["HVD_DOUBLE_NCCL_BLOCK"] = "ncclGetUniqueId:1:4500"
hvd.init()
began = time.monotonic()
assert gpu_sum(Gpu(RANK), "x", RANK) == 3.0
assert time.monotonic() - began > 4, "no call was slow"
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_all_fine(self.run_gpus(options, program, HVD_LINK_TIMEOUT_SECONDS="2"))


class Mixture(GpuJobCase):
    """Streams, devices and kinds of memory."""

    def test_a_stream_of_another_gpu_is_refused_where_it_is_given(self) -> None:
        program = """
hvd.init()
gpu, other = Gpu(RANK), Gpu((RANK + 1) % 3)
refused(lambda: GpuSum(gpu, "x", gpu.tensor([1.0]), other.stream))
waits = GpuSum(gpu, "x", gpu.tensor([1.0]))
try:
    api.wait_stream(waits.handle, other.stream.value)
    say("WAITED")
except ValueError as failure:
    say("WAITED not:", failure)
waits.wait()
assert waits.tensor[0] == 3.0
say("FINE")
"""
        ended = self.run_gpus([], program)
        self.assert_all_fine(ended)
        for rank in range(3):
            wrong = f"rank {rank}: .*'x': GPU {rank} .*stream .*belongs to another GPU"
            self.assertRegex(ended.line(rank, "REFUSED"), wrong)
            self.assertRegex(ended.line(rank, "WAITED"), wrong)

    def test_a_second_gpu_of_a_rank_is_refused(self) -> None:
        program = """
hvd.init()
gpu, other = Gpu(RANK), Gpu((RANK + 1) % 3)
assert gpu_sum(gpu, "x") == 3.0
refused(lambda: gpu_sum(other, "y"))
assert gpu_sum(gpu, "y") == 3.0
say("FINE")
"""
        ended = self.run_gpus([], program)
        self.assert_all_fine(ended)
        for rank in range(3):
            self.assertRegex(
                ended.line(rank, "REFUSED"),
                f"rank {rank}: .*'y' is on GPU {(rank + 1) % 3}.*GPU {rank} of this rank.*copy",
            )

    def test_graphs_are_a_matter_of_each_rank(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_GPU_GRAPHS"] = "1"
hvd.init()
gpu = Gpu(RANK)
tensors = [gpu.tensor([0.0] * 100) for _ in range(6)]
for step in range(40):
    for tensor in tensors:
        tensor[:] = [RANK + step] * len(tensor)
    pending = [GpuSum(gpu, f"x{i}", tensor) for i, tensor in enumerate(tensors)]
    for one in pending:
        one.wait()
        assert one.tensor[0] == one.tensor[99] == 3 + 3 * step, (step, one.tensor[0])
hvd.shutdown()
say("FINE")
"""
        ended = self.run_gpus([], program, HVD_LOG="nccl")
        self.assert_all_fine(ended)
        self.assertEqual(re.findall(r".*[1-9]\d* replayed", ended.stderr)[0][:3], "[1]")
        self.assertEqual(ended.stderr.count(" replayed"), 1, ended.text())

    def test_cpu_and_gpu_memory_in_the_same_step(self) -> None:
        program = """
hvd.init()
gpu = Gpu(RANK)
for step in range(20):
    given = [gpu.tensor([RANK + step + i] * (1 + 999 * i)) for i in range(8)]
    pending = []
    for i, tensor in enumerate(given):
        pending.append(Sum(f"cpu.{i}", 10 * i + 1))
        pending.append(GpuSum(gpu, f"gpu.{i}", tensor))
    for one in reversed(pending):
        one.wait()
    for i, tensor in enumerate(given):
        assert tensor[0] == tensor[len(tensor) - 1] == 3 + 3 * (step + i), (step, i, tensor[0])
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_all_fine(self.run_gpus(options, program))


class Ends(GpuJobCase):
    """A program that ends without a shutdown."""

    def test_the_job_is_left_before_driver_and_nccl_end(self) -> None:
        program = """
hvd.init()
gpu = Gpu(RANK)
for step in range(3):
    pending = [GpuSum(gpu, "x%d" % i, gpu.tensor([1.0] * 1000)) for i in range(3)]
    for one in pending:
        api.wait_stream(one.handle, gpu.stream.value)
say("FINE")
"""
        for backend in "nccl", "staged":
            with self.subTest(backend=backend):
                ended = self.run_gpus([], program, HVD_BACKEND=backend, HVD_DOUBLE_TELL_LATE="1")
                self.assert_all_fine(ended)
                self.assertNotIn("after its end", ended.stderr)


class Failures(GpuJobCase):
    """Of a device, of a rank, of a kernel."""

    LOAD = """
hvd.init()
gpu = Gpu(RANK)
tensors = [gpu.tensor([1.0] * 100000) for _ in range(4)]
try:
    for step in range(1000000):
        pending = [GpuSum(gpu, "x%d" % i, tensor) for i, tensor in enumerate(tensors)]
        if RANK == 1 and step == 20:
            {fault}
        for one in pending:
            one.wait()
except hvd.HvdError as failure:
    if RANK == 1:
        raise
    say("FAILED", type(failure).__name__, str(failure).replace("\\n", " "))
refused(lambda: gpu_sum(gpu, "later"))
sys.exit(9)
"""

    def check(self, fault: str, code: int, end: str, cause: str, **more: str) -> jobs.Ended:
        ended = self.run_gpus([], self.LOAD.format(fault=fault), **more)
        self.assertEqual(ended.code, code, ended.text())
        first = re.findall("hvdrun: .* failed first: .*", ended.stderr)
        self.assertEqual(len(first), 1, ended.text())
        self.assertRegex(first[0], f"hvdrun: rank 1 on host {HOST}.* failed first: {end}")
        for rank in 0, 2:
            self.assertRegex(ended.line(rank, "FAILED"), cause, ended.text())
            self.assertRegex(ended.line(rank, "REFUSED"), "Error rank 1 ", ended.text())
        return ended

    def test_a_rank_killed_under_load(self) -> None:
        for silent in {}, {"HVD_DOUBLE_NCCL_SILENT_DEATHS": "1"}:
            with self.subTest(silent=silent):
                kill = "os.kill(os.getpid(), signal.SIGKILL)"
                lost = f"PeerLostError .*rank 1 on host {HOST}"
                self.check(kill, 137, "signal 9", lost, **silent)

    def test_a_device_that_fails_under_load(self) -> None:
        ended = self.check(
            "driver.double_spoil(RANK, 719)", 1, "exit code 1", f"rank 1 on host {HOST}"
        )
        self.assertIn("CUDA_ERROR_LAUNCH_FAILED", ended.stderr)

    def test_a_kernel_that_hangs_is_reported_with_what_ras_says(self) -> None:
        program = """
if RANK == 1:
    os.environ["HVD_DOUBLE_NCCL_HANG"] = "1:3"
if RANK == 0:
    os.environ["HVD_DOUBLE_NCCL_RAS"] = "1"
hvd.init()
gpu = Gpu(RANK)
for step in range(2):
    assert gpu_sum(gpu, "x") == 3.0
# The report comes on standard error, which a pipe makes readable for us.
readable, writable = os.pipe()
errors = os.dup(2)
if RANK == 0:
    os.dup2(writable, 2)
stuck = [GpuSum(gpu, f"x{i}", gpu.tensor([1.0])) for i in range(4)]
if RANK == 0:
    report = ""
    while "has not arrived" not in report:
        report += os.read(readable, 4096).decode()
    os.dup2(errors, 2)
    say("REPORT", report.replace("\\n", " "))
    api.abort("the test has seen enough")
for one in stuck:
    refused(one.wait)
"""
        ended = self.run_gpus(
            [],
            program,
            HVD_STALL_CHECK_TIME_SECONDS="1",
            NCCL_RAS_ADDR=f"localhost:{free_port()}",
        )
        report = ended.line(0, "REPORT")
        self.assertRegex(
            report, rf"rank 0 on host {HOST}: batch \d+ of process set 0 \(.*is on the"
        )
        self.assertRegex(report, "NCCL's RAS says: .*Rank 1 has not arrived")
        for rank in range(3):
            failed = [line for line in ended.lines[rank] if line.startswith("REFUSED")]
            self.assertTrue(failed, ended.text())
            for line in failed:
                self.assertIn("the test has seen enough", line)


if __name__ == "__main__":
    gpu_jobs.main()
