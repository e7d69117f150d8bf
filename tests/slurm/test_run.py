# SPDX-License-Identifier: Apache-2.0
"""hvd.run() from a program in salloc: its ranks are on the nodes of the allocation."""

import importlib.util
import json
import textwrap
import unittest

import slurm_test

_PACKAGES = slurm_test.SOURCE / "runtime" / "python"
_PROGRAM = textwrap.dedent(
    """
    import json, os, signal, socket, sys, time
    import hvd

    def who():
        print("line of", hvd.rank(), flush=True)
        return hvd.rank(), hvd.size(), hvd.local_rank(), hvd.cross_rank(), socket.gethostname()

    def broken():
        if hvd.rank() == 3:
            raise KeyError("gone")
        hvd.barrier()

    def killed():
        if hvd.rank() == 2:
            os.kill(os.getpid(), signal.SIGKILL)
        hvd.barrier()

    def endless():
        print("up", flush=True)
        while hvd.rank() == 1:
            time.sleep(0.1)

    def failure(fn, **options):
        try:
            hvd.run(fn, options=["--grace", "1"], **options)
        except hvd.RankFailedError as error:
            return error.rank, error.host, str(error)
        except hvd.DeadlineError as error:
            return str(error)
        except KeyboardInterrupt:
            return "interrupted"

    class Interrupting:
        def write(self, text):
            if "up" in text:
                os.kill(os.getpid(), signal.SIGINT)

        def flush(self):
            pass

    def late():
        # On a busy machine the first deadline may come before the ranks are up.
        for seconds in (4.0, 12.0, 40.0):
            text = failure(endless, timeout=seconds)
            if "ranks 1 did not return" in text:
                break
        return text

    def interrupted():
        # Ctrl-C, as soon as a rank is up.
        shown, sys.stdout = sys.stdout, Interrupting()
        try:
            return failure(endless)
        finally:
            sys.stdout = shown

    found = {
        "all": hvd.run(who),
        "two": hvd.run(who, np=2, env={"GIVEN": "yes"}),
        "one": hvd.run(who, np=1),
        "one node": hvd.run(who, nodes=1),
        "broken": failure(broken),
        "killed": failure(killed),
        "late": late(),
        "interrupted": interrupted(),
        "left": os.listdir(os.path.expanduser("~/.cache/hvd")),
    }
    print("FOUND " + json.dumps(found))
    """
)


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and slurm_test.LIBHVD.exists(), "hvdrun or libhvd is not built"
)
@unittest.skipUnless(importlib.util.find_spec("cloudpickle"), "python3-cloudpickle is missing")
class TestRun(slurm_test.SlurmTest):
    def test_ranks_results_and_failures_in_salloc(self):
        program = self.write_script("program.py", _PROGRAM)
        output = self.run_ok(
            ["salloc", "-N2", "--ntasks-per-node=2", slurm_test.PYTHON, program],
            timeout=120,
            HVD_LIBRARY=slurm_test.LIBHVD,
            PYTHONPATH=_PACKAGES,
        )
        line = next(line for line in output.splitlines() if line.startswith("FOUND "))
        found = json.loads(line.removeprefix("FOUND "))
        hosts = ["jz1", "jz1", "jz2", "jz2"]
        self.assertEqual(found["all"], [[r, 4, r % 2, r // 2, hosts[r]] for r in range(4)])
        self.assertEqual(found["two"], [[0, 2, 0, 0, "jz1"], [1, 2, 0, 1, "jz2"]])
        self.assertEqual(found["one"], [[0, 1, 0, 0, "jz1"]])
        self.assertEqual(found["one node"], [[0, 2, 0, 0, "jz1"], [1, 2, 1, 0, "jz1"]])
        for rank in range(4):
            self.assertIn(f"[{rank}] line of {rank}\n", output)
        rank, host, text = found["broken"]
        self.assertEqual((rank, host), (3, "jz2"))
        self.assertIn("KeyError: 'gone'", text)
        rank, host, text = found["killed"]
        self.assertEqual((rank, host), (2, "jz2"), text)
        self.assertIn("signal 9", text)
        self.assertIn("ranks 1 did not return within", found["late"])
        self.assertIn("in endless", found["late"])
        self.assertEqual(found["interrupted"], "interrupted")
        self.assertEqual(found["left"], [])
        self.assertEqual(self.cluster.processes("hvd._core.launched"), [])

    @unittest.skipUnless(importlib.util.find_spec("torch"), "python3-torch is missing")
    def test_the_scaling_curve_in_a_batch_shell(self):
        (self.cluster.root / "examples").symlink_to(slurm_test.SOURCE / "examples")
        state, output = self.run_batch(
            slurm_test.SOURCE / "examples" / "slurm" / "generic" / "scaling-curve.sbatch",
            *("-D", self.cluster.root, "--export=ALL"),
            seconds=120,
            HVD_LIBRARY=slurm_test.LIBHVD,
            PYTHONPATH=_PACKAGES,
            PATH=f"{slurm_test.HVDRUN.parent}:/usr/bin:/bin",
        )
        self.assertEqual(state, "COMPLETED", output)
        self.assertRegex(output, r"(?s)   1 ranks .*   2 ranks .* efficiency ")


if __name__ == "__main__":
    slurm_test.main()
