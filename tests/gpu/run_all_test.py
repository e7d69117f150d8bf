# SPDX-License-Identifier: Apache-2.0
"""run_all.py over the doubles of the driver and of NCCL: that what waits for a GPU still runs.

Usage: run_all_test.py BUILD CUDA_DOUBLE NCCL_DOUBLE [unittest arguments]
"""

from __future__ import annotations

import argparse
import ast
import os
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path
from unittest import mock

import found
import run_all

BUILD, CUDA_DOUBLE, NCCL_DOUBLE = sys.argv[1:4]
HERE = Path(__file__).resolve().parent
PYTHON_TESTS = found.ROOT / "tests" / "python"
# Programs that need neither torch nor a GPU; the Python suite has the cases of torch.
PARTS = [
    "nccl",
    "table",
    "table-3-ranks",
    "table-graphs",
    "table-staged",
    "steps",
    "steps-graphs",
    "steps-waits",
    "allreduce",
    "costs",
    "packing-25",
]
LIMIT_S = 200


def run(
    script: str, *arguments: str, gpus: str = "1", **more: str
) -> subprocess.CompletedProcess[str]:
    """One of the scripts on a machine with so many GPUs of the double."""
    command = [sys.executable, "-B"] if script.endswith(".py") else []
    variables = {"HVD_CUDA_LIBRARY": CUDA_DOUBLE, **more}
    with tempfile.TemporaryDirectory() as folder:
        os.symlink(CUDA_DOUBLE, f"{folder}/libcuda.so.1")  # what libgpu_waits.so needs
        environment = {k: v for k, v in os.environ.items() if k != "HVD_SHARE_GPU"}
        environment.update(
            HVD_NCCL_LIBRARY=NCCL_DOUBLE,
            HVD_DOUBLE_GPUS=gpus,
            HVD_TEST_PYTHON=sys.executable,
            LD_LIBRARY_PATH=folder,
            **variables,
        )
        return subprocess.run(
            [*command, str(HERE / script), *arguments],
            env=environment,
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )


def results(output: str) -> dict[str, str]:
    """The last column but two of the table at the end, by part."""
    table = output.rpartition("remark\n")[2].splitlines()[:-1]
    return {line.split()[0]: line.split()[1] for line in table}


class TestRun(unittest.TestCase):
    def test_every_program_passes_and_is_in_the_table(self) -> None:
        only = [word for part in PARTS for word in ("--only", part)]
        done = run("run_all.py", BUILD, "--quick", *only)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(results(done.stdout), {part: "passed" for part in PARTS}, done.stdout)
        for row in (
            "steps | host time to submit 161 gradients, us",
            "waits | of the program's thread in 3 steps | 0.0 ",
            "allreduce | 16384 bytes, us",
            "costs | ours, is in the stream, us",
        ):
            self.assertIn(row, done.stdout)

    def test_figures_of_torch_are_printed(self) -> None:
        parts = ["torch-hooks", "torch-step", "torch-phases", "torch-allreduce"]
        done = run("run_all.py", BUILD, "--quick", *[w for p in parts for w in ("--only", p)])
        outcomes = results(done.stdout)
        if "no torch in " in done.stdout:
            self.assertEqual(done.returncode, 77, "a run in which nothing ran")
            self.skipTest("no torch here")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertEqual(outcomes, {part: "passed" for part in parts}, done.stdout)
        self.assertRegex(done.stdout, r"step \| ResNet-50, 2 images, us \| [\d.]+ \| [\d.]+ \|")

    def test_programs_that_were_collected_run_elsewhere(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run("collect.py", BUILD, folder, "--nccl", NCCL_DOUBLE)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            collected = Path(folder) / "lib" / "libnccl.so.2"
            self.assertEqual(collected.read_bytes(), Path(NCCL_DOUBLE).read_bytes())
            done = run("run.sh", folder, "--quick", "--only", "table", "--only", "steps-waits")
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        wanted = {"table": "passed", "steps-waits": "passed"}
        self.assertEqual(results(done.stdout), wanted, done.stdout)

    def test_nccl_that_is_not_there_is_not_collected(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            done = run("collect.py", BUILD, folder, "--nccl", f"{folder}/none")
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertEqual(done.stderr, "")
        self.assertIn("no NCCL at ", done.stdout)

    def test_headers_that_came_with_a_torch_are_found(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            for header in "nccl/include/nccl.h", "cu13/include/cuda.h", "cufft/include/cufft.h":
                path = Path(folder) / "nvidia" / header
                path.parent.mkdir(parents=True)
                path.touch()
            done = run("found.py", PYTHONPATH=folder)
            wanted = f"{folder}/nvidia/cu13,{folder}/nvidia/nccl"
        self.assertEqual(done.stdout.strip(), wanted, done.stderr)

    def test_without_a_gpu_it_is_a_skip(self) -> None:
        done = run("run_all.py", BUILD, "--quick", gpus="0")
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(done.stdout, "^skipped: no GPU: error 100 of the driver")

    def test_without_a_driver_nothing_is_built(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder, "build")
            done = run("run.sh", str(build), HVD_CUDA_LIBRARY=f"{folder}/no_driver.so")
            self.assertFalse(build.exists())
        self.assertEqual(done.returncode, 77, done.stdout + done.stderr)
        self.assertRegex(
            done.stdout, "^skipped: no GPU: the driver cannot be loaded: .*no_driver.so"
        )

    def test_a_build_without_tests_gets_the_command_that_adds_them(self) -> None:
        with tempfile.TemporaryDirectory() as build:
            Path(build, "build.ninja").write_text("build build.ninja: phony\n")
            done = run("run.sh", build)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        said = f"no tests for GPUs: meson configure {build} -Dgpu=cuda -Dtests=enabled"
        self.assertIn(said, done.stderr)

    def test_what_finds_no_time_is_left_out(self) -> None:
        done = run("run_all.py", BUILD, "--quick", "--within", "0", "--only", "table")
        self.assertEqual(results(done.stdout), {"table": "left"}, done.stdout + done.stderr)
        self.assertEqual(done.returncode, 1, "it was named")
        done = run("run_all.py", BUILD, "--quick", "--within", "0")
        self.assertEqual(set(results(done.stdout).values()), {"left", "skipped"}, done.stdout)
        self.assertEqual(done.returncode, 77, "nothing ran")

    def with_program(self, script: str, *only: str) -> tuple[subprocess.CompletedProcess[str], str]:
        """Parts with a script in place of gpu_table_rank; and the report."""
        with tempfile.TemporaryDirectory() as build:
            for folder in "launcher", "runtime":
                os.symlink(Path(BUILD) / folder, f"{build}/{folder}")
            program = Path(build) / "tests" / "gpu" / "gpu_table_rank"
            program.parent.mkdir(parents=True)
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
            report = Path(build) / "report.txt"
            words = [word for part in only for word in ("--only", part)]
            done = run("run_all.py", build, "--quick", "--results", str(report), *words)
            return done, report.read_text()

    def test_a_failing_part_fails_the_run_and_shows_its_output(self) -> None:
        script = "seq -f 'line %.0f' 100; echo sum is wrong; exit 1"
        done, report = self.with_program(script, "table")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(results(done.stdout), {"table": "failed"})
        self.assertIn("sum is wrong", done.stdout)
        self.assertNotIn(" line 30\n", done.stdout)
        self.assertIn(" line 30\n", report)  # more of it
        self.assertEqual(results(report), {"table": "failed"})

    def test_what_helps_is_kept_for_the_parts_behind(self) -> None:
        script = '[ "$HVD_NCCL_REGISTER" = 0 ] && echo FINE'
        done, _ = self.with_program(script, "nccl", "table")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        wanted = {"nccl": "failed", "nccl-2": "passed", "table": "passed"}
        self.assertEqual(results(done.stdout), wanted, done.stdout)
        self.assertIn("from here on all parts have HVD_NCCL_REGISTER=0", done.stdout)

    def test_a_service_runs_as_long_as_its_part(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            control, seen = Path(folder, "control"), Path(folder, "seen")
            control.write_text(
                '#!/bin/sh\necho "$([ "$1" = -d ] && echo begins || cat)" >>' + f"{seen}\n"
            )
            control.chmod(0o755)
            done = run(
                "run_all.py", BUILD, "--quick", "--only", "allreduce-mps", MPS_CONTROL=str(control)
            )
            self.assertEqual(results(done.stdout), {"allreduce-mps": "passed"}, done.stdout)
            self.assertEqual(seen.read_text().split(), ["begins", "get_server_list", "quit"])

    def test_an_unknown_part_names_those_that_there_are(self) -> None:
        done = run("run_all.py", BUILD, "--only", "no-such-part")
        self.assertEqual(done.returncode, 2)
        self.assertIn("table-3-ranks", done.stdout)


def all_parts() -> dict[str, run_all.Part]:
    """Every part there is, by its name."""
    options = argparse.Namespace(build=Path(BUILD), ranks=2, quick=False)
    machine = found.Found("python", ["sanitizer"], {}, {}, 1, False)
    return {part.name: part for part in run_all.parts_of(options, machine, Path())}


class TestParts(unittest.TestCase):
    def test_those_of_a_test_have_time_for_their_limits(self) -> None:
        parts = all_parts()
        lines = (HERE / "meson.build").read_text().splitlines()
        lists = [line.partition(":")[2].strip(" ,") for line in lines if line.startswith("  'gpu_")]
        self.assertGreater(len(lists), 1)
        for names in map(ast.literal_eval, lists):
            limits = sum(parts[name].limit_s for name in names)
            self.assertLessEqual(limits, run_all.WITHIN_S, names)

    def test_only_who_had_the_whole_time_fails_for_it(self) -> None:
        part = all_parts()["table"]
        for limit, wanted in ((part.limit_s, "failed"), (part.limit_s - 1, "left out")):
            self.assertEqual(run_all.judge(part, 124, "", limit, limit).result, wanted)

    def test_memcheck_allows_calls_that_a_driver_lacks(self) -> None:
        for name, part in all_parts().items():
            said = " ".join(part.command)
            is_memcheck = name.startswith("memcheck-")
            self.assertEqual("--report-api-errors no" in said, is_memcheck, said)


class TestEnds(unittest.TestCase):
    def test_what_does_not_end_is_ended_and_tells_where_it_stands(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            debugger = Path(folder, "debugger")
            debugger.write_text("#!/bin/sh\necho '#0 nanosleep ()'\necho noise\n")
            debugger.chmod(0o755)
            command = ["sh", "-c", "echo began; sleep 1000; true"]
            log = Path(folder, "log")
            code, text = run_all.run_part(command, dict(os.environ), log, 1, str(debugger))
        self.assertEqual(code, 124)
        self.assertRegex(text, r"^began\n-- stacks of sleep, process \d+\n#0 nanosleep \(\)$")

    def test_a_python_that_does_not_end_tells_where_it_stands(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            program = Path(folder, "waits.py")
            program.write_text("import time\ndef waits():\n    time.sleep(1000)\nwaits()\n")
            command = ["sh", "-c", f"{sys.executable} {program}; true"]
            environment = {**os.environ, "PYTHONFAULTHANDLER": "1"}
            code, text = run_all.run_part(command, environment, Path(folder, "log"), 5, "")
        self.assertEqual(code, 124)
        self.assertRegex(text, r"Fatal Python error: Aborted[^$]*waits\.py\", line 3 in waits")


class TestMachine(unittest.TestCase):
    def says(self, *command: str, **variables: str) -> str:
        """What a Python prints, with more variables."""
        environment = {k: v for k, v in os.environ.items() if k != "HVD_CUDA_LIBRARY"}
        done = subprocess.run(
            [sys.executable, "-B", *command],
            env={**environment, **variables},
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout.strip()

    def test_only_the_double_is_taken_for_the_double(self) -> None:
        asked = "import ranks; print(ranks.ON_DOUBLE)"
        for variables, wanted in (
            ({"HVD_CUDA_LIBRARY": CUDA_DOUBLE}, "True"),
            ({"HVD_CUDA_LIBRARY": "/opt/doubles/libcuda.so.1"}, "False"),
            ({}, "False"),
        ):
            said = self.says("-c", asked, PYTHONPATH=str(PYTHON_TESTS), **variables)
            self.assertEqual(said, wanted, variables)

    def test_a_package_that_came_by_the_variable_is_there_behind_ours(self) -> None:
        program = "import importlib.util as u, brought; print(u.find_spec('hvd').origin)"
        ours = str(found.ROOT / "runtime" / "python" / "hvd" / "__init__.py")
        with tempfile.TemporaryDirectory() as folder:
            for module in "brought", "hvd":
                Path(folder, f"{module}.py").touch()
            cases = Path(folder, "cases", "own.py")
            cases.parent.mkdir()
            cases.write_text(program)
            for count in "0", "1":
                words = ["--needs", "brought", "--ranks", count, str(cases)]
                said = self.says(str(PYTHON_TESTS / "ranks.py"), *words, PYTHONPATH=folder)
                self.assertIn(ours, said.splitlines())
            with mock.patch.dict(os.environ, PYTHONPATH=folder):
                machine = found.look_around(Path(BUILD), found.Gpus(1, ""))
            path = machine.environment["PYTHONPATH"]
            self.assertEqual(self.says("-c", program, PYTHONPATH=path), ours)


if __name__ == "__main__":
    unittest.main(argv=[sys.argv[0], *sys.argv[4:]], verbosity=2)
