# SPDX-License-Identifier: Apache-2.0
"""Signals of Slurm reach all ranks at one step; an error of one rank is survived across nodes."""

import json
import pathlib
import textwrap
import unittest

import cluster
import slurm_test

_PACKAGES = slurm_test.SOURCE / "runtime" / "python"
_STOPPED = textwrap.dedent(
    """
    import pathlib, sys, time
    import hvd

    hvd.init()
    for step in range(3000):
        if hvd.should_stop(float(sys.argv[2])):
            print("rank", hvd.rank(), "stops at", step, flush=True)
            break
        if step == 5 and hvd.rank() == 0:
            pathlib.Path(sys.argv[1]).touch()
        time.sleep(0.01)
    hvd.shutdown()
    """
)
_PREEMPTED = textwrap.dedent(
    """
    import os, sys
    import hvd
    from hvd.checkpoints import Checkpoints

    hvd.init()
    checkpoints = Checkpoints(sys.argv[1])
    found = checkpoints.load()
    first = found.step + 1 if found else 0
    print("begins at", first, "restarts", os.environ.get("SLURM_RESTART_COUNT", "0"), flush=True)
    while not hvd.should_stop():
        pass
    checkpoints.save(first, 0)
    hvd.shutdown()
    """
)
_ELASTIC = textwrap.dedent(
    """
    import hvd
    from hvd import elastic

    failures = []

    @elastic.run
    def train(state):
        while state.step < 6:
            hvd.barrier()
            if state.step == 3 and hvd.rank() == 3 and not failures:
                failures.append(1)
                raise hvd.HvdError("on purpose")
            state.step += 1
            state.commit()
        return state.step

    hvd.init()
    print("rank", hvd.rank(), "of", hvd.size(), "ends at", train(elastic.ObjectState(step=0)))
    hvd.shutdown()
    """
)


@unittest.skipUnless(
    slurm_test.HVDRUN.exists() and slurm_test.LIBHVD.exists(), "hvdrun or libhvd is not built"
)
class TestStopping(slurm_test.SlurmTest):
    def batch(self, line: str) -> pathlib.Path:
        return self.write_script(
            f"{self._testMethodName}.sh",
            f"#!/bin/bash\nexport HVD_LIBRARY={slurm_test.LIBHVD} PYTHONPATH={_PACKAGES}\n{line}\n",
        )

    def test_all_ranks_stop_at_the_same_step(self):
        program = self.write_script("stopped.py", _STOPPED)
        ranks = f"{slurm_test.PYTHON} {program}"
        for start, signal in (("", "TERM"), ("srun ", "USR1")):
            with self.subTest(start=start, signal=signal):
                note = self.cluster.root / f"running.{signal}"
                output = self.cluster.root / f"stopped.{signal}.out"
                script = self.batch(f"exec {start}{slurm_test.HVDRUN} {ranks} {note} 60")
                job = self.cluster.submit("-o", output, "-t60", "-N2", "-n4", script)
                cluster.await_true(note.exists, 60, "the ranks run")
                self.cluster.login(["scancel", f"--signal={signal}", job])
                self.assertEqual(self.cluster.await_job(job), "COMPLETED", output.read_text())
                text = output.read_text()
                steps = {line.split()[-1] for line in text.splitlines() if "stops at" in line}
                self.assertEqual((text.count("stops at"), len(steps)), (4, 1), text)

    def test_all_ranks_stop_before_the_time_limit(self):
        program = self.write_script("stopped.py", _STOPPED)
        ranks = f"{slurm_test.PYTHON} {program} {self.cluster.root / 'unused'} 7200"
        script = self.batch(f"exec {slurm_test.HVDRUN} {ranks}")
        state, text = self.run_batch(script, "-N2", "--ntasks-per-node=2", "-t", "60")
        self.assertEqual((state, text.count("stops at 0\n")), ("COMPLETED", 4), text)

    def test_a_preemption_can_be_tried(self):
        program = self.write_script("preempted.py", _PREEMPTED)
        folder = self.cluster.root / "checkpoints"
        test = f"{slurm_test.HVDRUN} test-preempt --after 3 --grace 30 --folder {folder} --json"
        script = self.batch(
            f"srun {test} true\nexec {test} -- {slurm_test.PYTHON} {program} {folder}"
        )
        state, text = self.run_batch(script, "-N2", "--ntasks-per-node=1")
        self.assertEqual(state, "COMPLETED", text)
        self.assertIn("this is a task that a launcher has started", text)
        report = json.loads(text[text.index("\n{\n") : text.rindex("\n}\n") + 2])
        failed = [one for one in report["checks"] if one["verdict"] == "failed"]
        self.assertEqual((failed, report["survives"]), ([], True), text)
        self.assertIn("the step of srun began", text)
        self.assertIn("begins at 1 restarts 1", text)

    def test_an_error_of_one_rank_is_survived(self):
        program = self.write_script("elastic.py", _ELASTIC)
        for start in ("", "srun "):
            script = self.batch(f"exec {start}{slurm_test.HVDRUN} {slurm_test.PYTHON} {program}")
            state, text = self.run_batch(script, "-N2", "--ntasks-per-node=2")
            self.assertEqual(state, "COMPLETED", text)
            self.assertEqual(text.count("of 4 ends at 6"), 4 if start == "" else 8, text)


if __name__ == "__main__":
    slurm_test.main()
