# SPDX-License-Identifier: Apache-2.0
"""Jobs that go on when ranks are lost: with spares, with fewer ranks, and until they cannot."""

from __future__ import annotations

import signal
import time

import jobs

# A training whose every value depends on all ranks and on all steps before; ranks say what they
# have after each step. DEATHS: "process:step:how" of those that end, once each.
TRAINING = """
import hvd.elastic

DEATHS = [death.split(":") for death in os.environ.get("DEATHS", "").split()]
STEPS = int(os.environ.get("STEPS", "12"))
PROCESS = os.environ["HVD_PROCESS"]


def die_if_due(step):
    for process, when, how in DEATHS:
        if process == PROCESS and int(when) == step:
            say("DIES", step, time.monotonic())
            if how == "raise":
                raise RuntimeError("a fault of its own")
            os.kill(os.getpid(), getattr(signal, how))


@hvd.elastic.run
def train(state):
    say("BEGINS", hvd.rank(), hvd.size(), hvd.local_rank(), state.step, time.monotonic())
    while state.step < STEPS:
        one = Sum("gradient", first=(state.value + hvd.rank() + 1) / hvd.size())
        die_if_due(state.step)
        one.wait()
        state.value = one.values[0] * 0.5
        state.step += 1
        say("STEP", state.step, state.value, time.monotonic())
        state.commit()


hvd.init()
train(hvd.elastic.ObjectState(step=0, value=1.0))
say("ENDS", hvd.rank(), hvd.size())
hvd.shutdown()
"""


def steps(ended: jobs.Ended, process: int) -> dict[int, str]:
    """The value of each step, as that process says them last."""
    found = {}
    for line in ended.lines.get(process, []):
        if line.startswith("STEP "):
            _, step, value, _ = line.split()
            found[int(step)] = value
    return found


def all_steps(ended: jobs.Ended) -> dict[int, str]:
    """The value of each step, on which all that have said one must agree.

    One rank may have finished a step when another was lost in it, and only the first says it.
    """
    found: dict[int, str] = {}
    for process in ended.lines:
        for step, value in steps(ended, process).items():
            if found.setdefault(step, value) != value:
                raise AssertionError(f"step {step}: {value}, not {found[step]}\n{ended.text()}")
    return found


class Elastic(jobs.JobCase):
    def train(self, *options: str, deaths: str = "", **more: str) -> jobs.Ended:
        return self.run_job(list(options), TRAINING, DEATHS=deaths, **more)

    def undisturbed(self, ranks: int) -> dict[int, str]:
        ended = self.train("-np", str(ranks), "--min-np", str(ranks))
        self.assertEqual(ended.code, 0, ended.text())
        return steps(ended, 0)

    def test_a_spare_takes_the_place_of_any_rank_and_the_values_are_the_same(self) -> None:
        expected = self.undisturbed(3)
        self.assertEqual(len(expected), 12)
        for victim in range(3):
            for how in ("SIGKILL", "raise"):
                with self.subTest(victim=victim, how=how):
                    ended = self.train("-np", "3", "--spares", "1", deaths=f"{victim}:5:{how}")
                    self.assertEqual(ended.code, 0, ended.text())
                    self.assertEqual(all_steps(ended), expected, ended.text())
                    # The spare begins with the state of the others.
                    self.assertLessEqual(steps(ended, 3).items(), expected.items())
                    self.assertIn(len(steps(ended, 3)), (6, 7), ended.text())
                    self.assertRegex(
                        ended.stderr,
                        rf"rank {victim} on host \S+ was lost: .*; a spare takes its place",
                    )
                    self.assertRegex(ended.stderr, r"membership 2: 3 ranks again, \d+ ms after")

    def test_local_ranks_stay_where_the_processes_stay(self) -> None:
        ended = self.train("-np", "3", "--spares", "1", deaths="0:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        begins = [ended.lines[process][-1] for process in (1, 2, 3)]
        self.assertEqual(begins, ["ENDS 0 3", "ENDS 2 3", "ENDS 1 3"], ended.text())
        second = [line for line in ended.lines[1] if line.startswith("BEGINS")][1]
        self.assertEqual(second.split()[1:4], ["0", "3", "1"], ended.text())
        spare = [line for line in ended.lines[3] if line.startswith("BEGINS")][0]
        self.assertEqual(spare.split()[1:4], ["1", "3", "0"], ended.text())

    def test_one_spare_after_another(self) -> None:
        expected = self.undisturbed(3)
        deaths = "1:3:SIGKILL 3:6:SIGKILL 0:9:SIGKILL"
        ended = self.train("-np", "3", "--spares", "3", deaths=deaths)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())

    def test_two_at_once(self) -> None:
        expected = self.undisturbed(4)
        deaths = "0:5:SIGKILL 2:5:SIGKILL"
        ended = self.train("-np", "4", "--spares", "2", deaths=deaths)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())

    def test_over_virtual_nodes(self) -> None:
        expected = steps(self.train("-np", "4", "--nodes", "2", "--min-np", "4"), 0)
        for victim in range(4):
            with self.subTest(victim=victim):
                ended = self.train(
                    *("-np", "4", "--nodes", "2", "--spares", "2"), deaths=f"{victim}:5:SIGKILL"
                )
                self.assertEqual(ended.code, 0, ended.text())
                self.assertEqual(all_steps(ended), expected, ended.text())
                # That of the node that has lost a rank, if it has started by then.
                spares = [steps(ended, 4), steps(ended, 5)]
                self.assertEqual(sum(12 in spare for spare in spares), 1, ended.text())

    def test_fewer_ranks_go_on_down_to_the_least(self) -> None:
        ended = self.train("-np", "3", "--min-np", "1", deaths="0:4:SIGKILL 2:8:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.lines[1][-1], "ENDS 0 1", ended.text())
        self.assertEqual(len(all_steps(ended)), 12, ended.text())
        self.assertIn("membership 2: 2 ranks again", ended.stderr)
        self.assertIn("membership 3: 1 rank again", ended.stderr)

    def test_the_job_ends_where_too_few_are_left(self) -> None:
        ended = self.train(
            *("-np", "3", "--min-np", "2", "--grace", "5"),
            deaths="0:4:SIGKILL 2:8:raise",
        )
        self.assertEqual(ended.code, 1, ended.text())
        self.assertRegex(
            ended.stderr,
            r"rank 0 on host \S+ failed: exit code 1; the job ends, as 1 process is left, and "
            r"it needs 2 ranks",
        )
        self.assertIn("a fault of its own", ended.stderr)
        self.assertRegex(
            ended.stderr, r"the cause, as said above: rank 0 on host \S+ was lost: signal 9"
        )
        self.assertRegex(ended.stderr, r"cannot start: the job ends: 1 process is left")

    def test_a_fault_in_every_rank_ends_the_job_with_the_first(self) -> None:
        ended = self.train(
            *("-np", "2", "--spares", "2"),
            deaths=" ".join(f"{process}:4:raise" for process in range(4)),
        )
        self.assertEqual(ended.code, 1, ended.text())
        self.assertRegex(ended.stderr, r"the job ends, as")

    def test_a_rank_that_ends_as_the_others_start_again_is_replaced_too(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n",
            "if PROCESS == '3':\n    while not os.path.exists(SCRATCH + '/go'): time.sleep(0.01)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\nhvd.init()\n",
        ).replace('say("DIES"', 'open(SCRATCH + "/go", "w").close(); say("DIES"')
        ended = self.run_job(
            ["-np", "3", "--spares", "2"], program, DEATHS="1:5:SIGKILL", STEPS="8"
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn(len(steps(ended, 4)), (2, 3), ended.text())
        self.assertRegex(ended.stderr, r"spare 3 on host \S+ was lost: signal 9")

    def test_ctrl_c_ends_spares_too_at_once(self) -> None:
        job = self.launch(["-np", "2", "--spares", "1"], TRAINING, STEPS="1000000")
        began = time.monotonic()
        assert job.stdout is not None
        while "STEP" not in job.stdout.readline():
            pass
        job.send_signal(signal.SIGINT)
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 130, ended.text())
        self.assertLess(ended.seconds, 8, ended.text())

    def test_spares_are_gone_when_the_ranks_have_ended(self) -> None:
        ended = self.train("-np", "2", "--spares", "2")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn("ENDS 0 2", ended.lines[0])
        self.assertNotIn(2, ended.lines)
        self.assertEqual(ended.stderr, "", ended.text())

    def test_a_program_that_is_not_elastic_fails_as_ever(self) -> None:
        program = """
hvd.init()
if os.environ["HVD_PROCESS"] == "1":
    sys.exit(7)
allreduce("forgotten")
"""
        ended = self.run_job(["-np", "2", "--spares", "1"], program)
        self.assertNotEqual(ended.code, 0, ended.text())
        self.assertRegex(ended.stderr, r"rank 1 on host \S+ was lost: exit code 7")
        self.assertRegex(ended.stderr, r"rank 0 on host \S+ failed: exit code 1; the job ends")

    def test_jobs_and_programs_within_a_rank_are_not_of_the_job(self) -> None:
        program = """
import subprocess
hvd.init()
if hvd.rank() == 0:
    inner = "import hvd, os; hvd.init(); os.write(1, f'{hvd.rank()} of {hvd.size()};'.encode())"
    nested = [os.environ["HVDRUN"], "-np", "2", "--nested", "--no-prefix"]
    found = subprocess.run([*nested, sys.executable, "-c", inner], capture_output=True, text=True)
    say("NESTED", sorted(found.stdout.split(";")), found.stderr)
    child = subprocess.run([sys.executable, "-c", inner], capture_output=True, text=True)
    say("CHILD", child.stderr.splitlines()[-1])
allreduce("all")
say("DONE")
hvd.shutdown()
"""
        ended = self.run_job(["-np", "2", "--spares", "1"], program, HVDRUN=jobs.arguments()[0])
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.line(0, "NESTED"), "['', '0 of 2', '1 of 2']", ended.text())
        self.assertRegex(ended.line(0, "CHILD"), "process 0 of the job came twice")

    def test_options_that_do_not_fit_are_refused(self) -> None:
        for options, words in (
            (["-np", "2", "--min-np", "3"], "--min-np 3 is more than -np 2"),
            (["-np", "2", "--spares", "1", "--gpu-visibility", "one"], "does not go with"),
        ):
            with self.subTest(options=options):
                ended = self.run_job(options, "")
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn(words, ended.stderr)

    def test_plan_of_an_elastic_job(self) -> None:
        ended = self.run_job(["-np", "2", "--spares", "1", "--dry-run"], "")
        self.assertEqual(ended.code, 0, ended.text())


if __name__ == "__main__":
    jobs.main()
