# SPDX-License-Identifier: Apache-2.0
"""horovodrun, horovod.run, Horovod's variables, and the refusal to hide Horovod itself."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import os
import subprocess
import sys
import tempfile
import unittest
import warnings
from pathlib import Path
from unittest import mock

import horovod
from horovod import _environment
from horovod.common import exceptions, util
from horovod.runner import launch

SCRIPTS = Path(__file__).resolve().parent / "horovod_scripts"
HERE: dict[str, str] = {}
JOB = {"SLURM_JOB_ID": "7", "SLURM_NNODES": "2", "SLURM_NTASKS": "8"}


def python(program: str, *path: str, **variables: str) -> subprocess.CompletedProcess:
    """Runs a program with more folders behind those of PYTHONPATH."""
    folders = [*os.environ["PYTHONPATH"].split(os.pathsep), *path]
    return subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(folders), **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def planned(line: str, environment: dict[str, str] = HERE) -> launch.Plan:
    return launch.plan(launch.parse_args(line.split()), environment)


class Horovodrun(unittest.TestCase):
    def test_options_that_mean_something(self) -> None:
        plan = planned(
            "-np 2 -H localhost:4 --verbose --output-filename out --start-timeout 90 "
            "--network-interfaces ib0,ib1 --fusion-threshold-mb 32 --log-level TRACE "
            "--prefix-output-with-timestamp --stall-check-warning-time-seconds 5 "
            "--stall-check-shutdown-time-seconds 90 "
            "--timeline-filename t-{rank}.json --timeline-mark-cycles python t.py --mpi"
        )
        self.assertEqual(
            plan.arguments,
            "-np 2 --output-dir out --timestamp --verbose -- python t.py --mpi".split(),
        )
        self.assertEqual(
            plan.variables,
            {
                "HVD_START_TIMEOUT_SECONDS": "90",
                "HVD_INTERFACE": "ib0,ib1",
                "HVD_FUSION_THRESHOLD": "33554432",
                "HVD_STALL_CHECK_TIME_SECONDS": "5",
                "HVD_STALL_SHUTDOWN_TIME_SECONDS": "90",
                "HVD_LOG": "debug",
                "HVD_TIMELINE": "t-{rank}.json",
                "HVD_TIMELINE_MARK_BATCHES": "1",
            },
        )
        self.assertEqual(planned("-np 1 --timeline-mark-cycles python t.py").variables, {})

    def test_options_without_effect_say_why(self) -> None:
        said = planned("-np 1 --gloo --cycle-time-ms 3.5 -p 22 --cache-capacity 9 x").said
        self.assertEqual(len(said), 4, said)
        for word in ("--gloo has no effect", "no cycle", "never through ssh", "without a limit"):
            self.assertTrue(any(word in sentence for sentence in said), word)
        for names, reason in launch.known.IGNORED_VALUES + launch.known.IGNORED_SWITCHES:
            value = "1" if (names, reason) in launch.known.IGNORED_VALUES else ""
            for name in names:
                self.assertIn(reason, " ".join(planned(f"-np 1 {name} {value} x").said), name)

    def test_elastic_jobs_here_and_in_a_job_of_slurm(self) -> None:
        script = "-np 2 --min-np 1 --max-np 4 --host-discovery-script ./hosts.sh"
        same = [*script.split(), "--slots-per-host", "2"]
        line = f"{script} --slots-per-host 2 python t.py"
        self.assertEqual(planned(line).arguments, [*same, "--", "python", "t.py"])
        bounds = "--nodes 2 --min-np 1 --max-np 4 -- python t.py"
        plan = planned(f"{script} python t.py", JOB)
        self.assertEqual(plan.arguments, bounds.split())
        self.assertIn("the nodes are those of the job", plan.said[0])
        fixed = planned("-np 1 --min-np 1 --max-np 4 -H localhost:3 x").arguments
        self.assertEqual(fixed, "-np 3 --min-np 1 -- x".split())

    def test_what_cannot_be_is_refused(self) -> None:
        for line, words in (
            ("-np 2 -H other:2 python", "hvdrun submit"),
            ("-np 4 -H localhost:2 python", "2 slots"),
            ("python t.py", "-np N"),
        ):
            with self.assertRaisesRegex(launch.Refusal, words):
                planned(line)

    def test_in_a_job_of_slurm_its_nodes_are_used(self) -> None:
        plan = planned("-np 4 -H a:2,b:2 python t.py", JOB)
        self.assertEqual(plan.arguments, ["--nodes", "2", "--", "python", "t.py"])
        self.assertEqual(plan.variables["SLURM_NTASKS"], "4")
        self.assertIn("the nodes are those of the job", plan.said[0])
        self.assertEqual(planned("python t.py", JOB).arguments, ["--", "python", "t.py"])

    def test_host_file_and_configuration(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            hosts = Path(folder, "hosts")
            hosts.write_text("localhost slots=3 # here\n\n")
            self.assertEqual(planned(f"-np 3 -hostfile {hosts} x").arguments[:2], ["-np", "3"])
            settings = Path(folder, "settings.yaml")
            settings.write_text(
                "params:\n  fusion_threshold_mb: 16\n  cycle_time_ms: 5\n"
                "stall_check:\n  enabled: false\nlogging:\n  level: info\n"
            )
            try:
                plan = planned(f"-np 1 --config-file {settings} x")
            except launch.Refusal as refusal:
                self.assertIn("PyYAML", str(refusal))
                return
            self.assertEqual(plan.variables["HVD_FUSION_THRESHOLD"], "16777216")
            self.assertEqual(plan.variables["HVD_STALL_CHECK_TIME_SECONDS"], "0")
            self.assertEqual(plan.variables["HVD_LOG"], "info")
            self.assertIn("params.cycle_time_ms has no effect", plan.said[0])

    def test_it_starts_ranks(self) -> None:
        program = "import horovod.torch as h; h.init(); print('rank', h.rank(), 'of', h.size())"
        known = "import os, horovod; rank = os.environ['HOROVOD_RANK']; "
        program = known + program + "; assert os.environ['HOROVOD_CROSS_SIZE'] == '1', rank"
        run = python(
            "import sys; from horovod.runner.launch import run_commandline as r; "
            f"sys.exit(r(['-np', '2', '--cycle-time-ms', '1', sys.executable, '-c', {program!r}]))",
            HOROVOD_CYCLE_TIME="5",
        )
        self.assertEqual(run.returncode, 0, run.stderr)
        for rank in (0, 1):
            self.assertIn(f"rank {rank} of 2", run.stdout)
        self.assertIn("horovodrun: --cycle-time-ms has no effect", run.stderr)
        self.assertEqual(run.stderr.count("HOROVOD_CYCLE_TIME has no effect"), 1, run.stderr)

    def test_summary_of_the_build(self) -> None:
        text = launch.build_summary()
        nccl = "[X] NCCL" if util.nccl_built() else "[ ] NCCL"
        for line in ("[X] PyTorch", "[ ] TensorFlow", "[X] Gloo", nccl):
            self.assertIn(line, text)

    def test_version_is_the_one_that_scripts_compare(self) -> None:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            launch.run_commandline(["--version"])
        self.assertEqual(printed.getvalue(), "0.28.1\n")


class Run(unittest.TestCase):
    @unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "cloudpickle is not installed")
    def test_a_function_of_a_script(self) -> None:
        program = (
            f"import runpy; runpy.run_path({str(SCRIPTS / 'interactive.py')!r}, None, '__main__')"
        )
        run = python(program)
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn("[(0, 2, 42), (1, 2, 42)]", run.stdout)

    def test_arguments_without_a_meaning_are_refused(self) -> None:
        for more, words in (
            ({"min_num_proc": 2, "num_proc": 4}, "keeps its size"),
            ({"slots": 2}, "keeps its size"),
            ({"host_discovery_script": "x"}, "keeps its hosts"),
            ({"mpi_args": "-x A"}, "mpirun"),
            ({"executable": "/other/python"}, sys.executable),
            ({"hosts": "far:2", "np": 2}, "through ssh"),
            ({"reset_limit": 1}, "hvd.elastic.run"),
        ):
            with self.assertRaisesRegex(ValueError, words), warnings.catch_warnings():
                horovod.run(print, **more)


class Variables(unittest.TestCase):
    def test_those_with_a_counterpart_are_taken_over(self) -> None:
        environment = {
            "HOROVOD_GLOO_IFACE": "ib0",
            "HOROVOD_LOG_LEVEL": "FATAL",
            "HOROVOD_STALL_CHECK_DISABLE": "1",
            "HOROVOD_START_TIMEOUT": "33",
            "HVD_INTERFACE": "eth0",
        }
        said = _environment.translate(environment)
        self.assertEqual(environment["HVD_INTERFACE"], "eth0")
        self.assertEqual(environment["HVD_LOG"], "error")
        self.assertEqual(environment["HVD_STALL_CHECK_TIME_SECONDS"], "0")
        self.assertEqual(environment["HVD_START_TIMEOUT_SECONDS"], "33")
        self.assertEqual(len(said), 3, said)

    def test_those_without_effect_are_told(self) -> None:
        said = _environment.translate(
            {"HOROVOD_AUTOTUNE_LOG": "x", "HOROVOD_FUSION_THRESHOLD": "1"}
        )
        self.assertEqual(len(said), 1)
        self.assertIn("HOROVOD_AUTOTUNE_LOG has no effect", said[0])


class Shadow(unittest.TestCase):
    def test_an_installed_horovod_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            info = Path(folder, "horovod-0.28.1.dist-info")
            info.mkdir()
            info.joinpath("METADATA").write_text(
                "Metadata-Version: 2.1\nName: horovod\nVersion: 0.28.1\n"
            )
            run = python("import horovod.torch", folder)
        self.assertIn("ImportError: hvdrun-horovod has the package horovod", run.stderr)
        self.assertIn("Horovod 0.28.1 is installed in", run.stderr)
        self.assertIn("pip uninstall horovod", run.stderr)

    def test_another_package_of_the_name_is_named(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            package = Path(folder, "horovod")
            package.mkdir()
            package.joinpath("__init__.py").write_text("")
            run = python("import horovod", folder)
            self.assertIn(f"another package horovod lies in {package}", run.stderr)
            # A second copy of this one is no other.
            package.joinpath("_shadow.py").write_text("")
            self.assertEqual(python("import horovod", folder).returncode, 0)


class Utilities(unittest.TestCase):
    def test_exceptions(self) -> None:
        error = exceptions.HorovodVersionMismatchError("torch", "2.0", "1.9")
        self.assertIsInstance(error, ImportError)
        self.assertEqual(
            (error.name, error.version, error.installed_version), ("torch", "2.0", "1.9")
        )
        self.assertIn("torch 2.0", str(error))
        self.assertIs(exceptions.HostsUpdatedInterrupt(True).skip_sync, True)

    def test_functions(self) -> None:
        with util.env(HVD_TEST_A="1"):
            self.assertEqual(os.environ["HVD_TEST_A"], "1")
            with util.env(HVD_TEST_A=None):
                self.assertNotIn("HVD_TEST_A", os.environ)
        self.assertNotIn("HVD_TEST_A", os.environ)
        self.assertTrue(util.is_version_greater_equal_than("1.13.0a0", "1.5.0"))
        self.assertFalse(util.is_version_greater_equal_than("1.4", "1.5.0"))
        with self.assertRaises(ValueError):
            util.is_version_greater_equal_than("1.4", "1.5")
        self.assertEqual(util.split_list([1, 2, 3, 4, 5], 3), [[1, 2], [3, 4], [5]])
        with self.assertRaisesRegex(ImportError, "horovod.mxnet is not part"):
            util.check_extension("horovod.mxnet", "HOROVOD_WITH_MXNET", __file__, "mpi_lib")
        chosen = util.get_average_backwards_compatibility_fun(mock.Mock(Average=0, Sum=1))
        with warnings.catch_warnings(record=True):
            warnings.simplefilter("always")
            self.assertEqual(
                [chosen(None, None), chosen(1, None), chosen(None, False), chosen(None, True)],
                [0, 1, 1, 0],
            )
        with self.assertRaises(ValueError):
            chosen(0, True)


if __name__ == "__main__":
    unittest.main(verbosity=2)
