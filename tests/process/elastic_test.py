# SPDX-License-Identifier: Apache-2.0
"""Jobs that go on when ranks are lost: with spares, with fewer ranks, and until they cannot."""

from __future__ import annotations

import os
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import jobs
from elastic_program import TRAINING, all_steps, steps


class Elastic(jobs.JobCase):
    def train(self, *options: str, deaths: str = "", **more: str) -> jobs.Ended:
        return self.run_job(list(options), TRAINING, DEATHS=deaths, **more)

    def folder(self, name: str) -> str:
        if not hasattr(self, "work"):
            self.work = tempfile.mkdtemp(prefix="hvd-elastic-")
            self.addCleanup(shutil.rmtree, self.work)
        return f"{self.work}/{name}"

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

    def test_a_rank_that_is_stopped_is_killed_and_replaced(self) -> None:
        expected = self.undisturbed(3)
        ended = self.train(
            *("-np", "3", "--spares", "1", "--loss-timeout", "3"),
            deaths="1:5:SIGSTOP",
            HVD_SILENCE_TIMEOUT_SECONDS="2",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())
        self.assertRegex(
            ended.stderr,
            r"rank 1 on host \S+ has not come back within 3 s",
        )

    def test_a_lost_process_is_started_again(self) -> None:
        expected = self.undisturbed(3)
        ended = self.train(
            *("-np", "3", "--restarts", "2", "--output-dir", self.folder("logs")),
            deaths="1:3:SIGKILL 3:7:raise",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())
        self.assertRegex(ended.stderr, r"rank 1 on host \S+ was lost: .*; it is started again as 3")
        self.assertRegex(ended.stderr, r"rank 1 on host \S+ was lost: .*; it is started again as 4")
        self.assertIn("ENDS 1 3", ended.lines[4])
        self.assertIn("ENDS 1 3", Path(self.folder("logs"), "latest", "rank-4.out").read_text())
        self.assertIn(
            "a fault of its own", Path(self.folder("logs"), "latest", "rank-3.err").read_text()
        )

    def test_a_job_that_has_shrunk_grows_again(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n",
            "if PROCESS == '3':\n    time.sleep(4)\n    open(SCRATCH + '/ready', 'w').close()\nhvd.init()\n",
        ).replace(
            "    while state.step < STEPS:\n",
            "    while state.step < STEPS or hvd.size() < 3:\n        time.sleep(0.01)\n",
        )
        ended = self.run_job(
            ["-np", "3", "--min-np", "2", "--restarts", "1"], program, DEATHS="1:5:SIGKILL"
        )
        self.assertEqual(ended.code, 0, ended.text())
        all_steps(ended)
        self.assertIn("2 ranks again", ended.stderr)
        sizes = [line.split()[2] for line in ended.lines[0] if line.startswith("BEGINS")]
        self.assertEqual(sizes, ["3", "2", "3"], ended.text())
        # Nothing is lost, and nothing done twice, where no rank was.
        counted = [line.split()[1] for line in ended.lines[2] if line.startswith("STEP")]
        self.assertEqual(len(counted), len(set(counted)), ended.text())
        self.assertIn("ENDS 2 3", ended.lines[3])
        self.assertIn("membership 3: 3 ranks; rank 2 is process 3 now", ended.stderr)

    def test_callbacks_with_operations_are_called_by_newcomers_too(self) -> None:
        # A rank that ends in one is lost as any other.
        program = TRAINING.replace("train(hvd.elastic", "state = hvd.elastic").replace(
            "value=0.25))\n",
            "value=0.25)\n"
            "def again():\n    if PROCESS == '3': sys.exit(4)\n    allreduce('callback')\n"
            "state.register_reset_callbacks([again])\ntrain(state)\n",
        )
        ended = self.run_job(["-np", "3", "--spares", "2"], program, DEATHS="1:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(len(all_steps(ended)), 12, ended.text())
        self.assertRegex(ended.stderr, r"rank 1 on host \S+ was lost: exit code 4")

    def test_process_sets_of_init_are_there_again_as_far_as_they_fit(self) -> None:
        program = (
            TRAINING.replace(
                "hvd.init()\n",
                "pair, late = hvd.ProcessSet([0, 1]), hvd.ProcessSet([1, 2])\n"
                "hvd.init(process_sets=[late, pair])\n",
            )
            .replace(
                "train(hvd.elastic",
                "state = hvd.elastic",
            )
            .replace(
                "value=0.25))\n",
                "value=0.25)\nstate.register_reset_callbacks([lambda: hvd.add_process_set(pair)])\ntrain(state)\n",
            )
            .replace(
                "    while state.step < STEPS:\n",
                "    say('SETS', pair.included(), late.process_set_id is not None)\n"
                "    while state.step < STEPS:\n",
            )
        )
        ended = self.run_job(["-np", "3", "--spares", "1"], program, DEATHS="1:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.lines[3][1], "SETS True True", ended.text())
        ended = self.run_job(["-np", "3", "--min-np", "2"], program, DEATHS="1:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        sets = [line for line in ended.lines[0] if line.startswith("SETS")]
        self.assertEqual(sets, ["SETS True True", "SETS True False"], ended.text())

    def test_a_pipe_does_not_hide_a_loss(self) -> None:
        command = [sys.executable, "-c", jobs.PROLOGUE + TRAINING]
        for options, code in (
            (["--spares", "1"], 0),
            (["--restarts", "1"], 0),
            (["--min-np", "3"], 1),
        ):
            with self.subTest(options=options):
                job = jobs.start(
                    ["--prefix", "-np", "3", *options],
                    ["bash", "-c", '"$0" "$@" | cat', *command],
                    HVD_TEST_SCRATCH=self.folder(""),
                    DEATHS="1:5:SIGKILL",
                )
                output, errors = job.communicate(timeout=jobs.LIMIT_S)
                self.assertEqual(job.returncode, code, errors)
                self.assertIn("rank 1 on host", errors)
                self.assertIn(
                    "without hvd (os._exit(), or a pipe or a shell that hides exit codes", errors
                )
                if code == 0:
                    self.assertIn("STEP 12 ", output)

    def test_a_rank_that_hangs_is_killed_and_replaced(self) -> None:
        program = TRAINING.replace(
            "getattr(signal, how))", "getattr(signal, how)) if how != 'hang' else time.sleep(1000)"
        )
        ended = self.run_job(
            ["-np", "3", "--spares", "1", "--loss-timeout", "2"],
            program,
            DEATHS="1:5:hang",
            HVD_STALL_CHECK_TIME_SECONDS="1",
            HVD_STALL_SHUTDOWN_TIME_SECONDS="2",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), self.undisturbed(3), ended.text())

    def test_a_rank_that_is_at_work_is_waited_for(self) -> None:
        program = TRAINING.replace(
            "        die_if_due(state.step)\n",
            "        die_if_due(state.step)\n        if PROCESS == '2' and state.step == 5: time.sleep(4)\n",
        )
        ended = self.run_job(
            ["-np", "3", "--spares", "1"],
            program,
            DEATHS="1:5:SIGKILL",
            HVD_START_TIMEOUT_SECONDS="2",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), self.undisturbed(3), ended.text())

    def test_a_spare_that_is_stopped_does_not_hold_up_the_job(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n",
            "if PROCESS == '3':\n    import threading\n"
            "    stop = lambda: (time.sleep(0.5), os.kill(os.getpid(), signal.SIGSTOP))\n"
            "    threading.Thread(target=stop, daemon=True).start()\n"
            "if PROCESS == '1':\n    time.sleep(1)\nhvd.init()\n",
        )
        ended = self.run_job(
            ["-np", "3", "--spares", "2", "--loss-timeout", "2"],
            program,
            DEATHS="1:5:SIGKILL",
            HVD_START_TIMEOUT_SECONDS="5",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), self.undisturbed(3), ended.text())

    def test_a_newcomer_that_would_wait_alone_is_told(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n", "hvd.init()\nif PROCESS == '3': allreduce('alone')\n"
        )
        ended = self.run_job(["-np", "3", "--spares", "1"], program, DEATHS="1:5:SIGKILL")
        self.assertEqual(ended.code, 1, ended.text())
        self.assertIn("'alone': this process has come to a job that is at work", ended.stderr)

    def test_restarts_end_with_their_number_and_with_a_crash_loop(self) -> None:
        ended = self.train("-np", "2", "--restarts", "1", deaths="1:3:SIGKILL 2:7:SIGKILL")
        self.assertEqual(ended.code, 137, ended.text())
        self.assertRegex(ended.stderr, r"rank 1 on host \S+ failed: signal 9 .*; the job ends")
        ended = self.train(
            *("-np", "2", "--min-np", "1", "--restarts", "9"),
            deaths=" ".join(f"{process}:3:SIGKILL" for process in range(1, 9)),
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn(
            "1 rank goes on; it is not started again: 3 times in a row it has ended within 30 s",
            ended.stderr,
        )

    def test_what_a_lost_rank_has_started_ends_with_it(self) -> None:
        program = """
import subprocess
if hvd_process() == "1":
    helper = subprocess.Popen(["sleep", "86399"], start_new_session=True)
    note = open(SCRATCH + "/helper", "w")
    note.write(str(helper.pid))
    note.close()
""".replace("hvd_process()", 'os.environ["HVD_PROCESS"]')
        last = """
if os.environ["HVD_PROCESS"] == "0":
    helper = int(open(SCRATCH + "/helper").read())
    say("HELPER", os.path.exists(f"/proc/{helper}/exe"))
"""
        ended = self.run_job(
            ["-np", "2", "--spares", "1"],
            program + TRAINING.replace("hvd.shutdown()", last + "hvd.shutdown()"),
            DEATHS="1:5:SIGKILL",
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.line(0, "HELPER"), "False", ended.text())

    def test_the_newest_spare_does_not_become_the_root(self) -> None:
        # It is rank 0's place that it may take, and it has no state before the others gave it.
        expected = self.undisturbed(3)
        program = TRAINING.replace(
            "hvd.init()\n",
            "hvd.init()\nif PROCESS in '34' and not os.path.exists(SCRATCH + '/go'):\n"
            "    open(SCRATCH + '/go', 'w').close()\n    time.sleep(1)\n",
        ).replace(
            "@hvd.elastic.run\n",
            "import threading\ndef follow():\n"
            "    while not os.path.exists(SCRATCH + '/go'): time.sleep(0.001)\n"
            "    os.kill(os.getpid(), signal.SIGKILL)\n"
            "if PROCESS == '1': threading.Thread(target=follow, daemon=True).start()\n"
            "@hvd.elastic.run\n",
        )
        ended = self.run_job(["-np", "3", "--spares", "2"], program, DEATHS="0:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), expected, ended.text())
        self.assertIn("rank 0 is what was rank 2", ended.stderr)

    def test_a_signal_for_ranks_does_not_end_spares(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n",
            "def note(*_):\n    say('USR1')\nif PROCESS != '2':\n    signal.signal(signal.SIGUSR1, note)\n"
            "hvd.init()\nif PROCESS == '0': open(SCRATCH + '/up', 'w').close()\n",
        ).replace(
            "    while state.step < STEPS:\n",
            "    while state.step < STEPS:\n        time.sleep(0.05)\n",
        )
        job = self.launch(["-np", "2", "--spares", "1"], program, DEATHS="1:20:SIGKILL", STEPS="30")
        began = time.monotonic()
        while not os.path.exists(f"{self.scratch}/up"):
            time.sleep(0.01)
        job.send_signal(signal.SIGUSR1)
        ended = self.finish(job, began)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn("USR1", ended.lines[0])
        self.assertIn("ENDS 1 2", ended.lines[2])

    def test_a_rank_that_fails_as_the_others_end_fails_the_job(self) -> None:
        program = """
hvd.init()
allreduce("all")
if os.environ["HVD_PROCESS"] == "1":
    os.kill(os.getpid(), signal.SIGSEGV)
time.sleep(1)
"""
        ended = self.run_job(["-np", "2", "--spares", "1"], program)
        self.assertEqual(ended.code, 139, ended.text())
        self.assertRegex(
            ended.stderr, r"rank 1 on host \S+ was lost: signal 11 .*; the others ended without it"
        )

    def test_one_rank_that_cannot_start_is_replaced(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n",
            "import resource\nif PROCESS == '3':\n"
            "    resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))\nhvd.init()\n",
        )
        ended = self.run_job(["-np", "3", "--spares", "2"], program, DEATHS="1:5:SIGKILL")
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), self.undisturbed(3), ended.text())

    def test_a_rank_that_cannot_start_with_the_others_is_replaced(self) -> None:
        # Nobody comes late then: the job has not been at work yet.
        program = TRAINING.replace(
            "hvd.init()\n",
            "import resource\nif PROCESS == '1':\n"
            "    resource.setrlimit(resource.RLIMIT_NOFILE, (12, 12))\nhvd.init()\nallreduce('first')\n",
        )
        ended = self.run_job(["-np", "3", "--spares", "1"], program)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(all_steps(ended), self.undisturbed(3), ended.text())

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
            (["-np", "2", "--min-np", "3"], "--min-np 3 is more than the 2 ranks of the job"),
            (["-np", "2", "--spares", "1", "--gpu-visibility", "one"], "does not go with"),
        ):
            with self.subTest(options=options):
                ended = self.run_job(options, "")
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn(words, ended.stderr)

    def test_plan_of_an_elastic_job(self) -> None:
        job = self.launch(["-np", "2", "--spares", "1", "--dry-run"], "")
        output, _ = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 0)
        self.assertIn("losses: the job goes on with 2 to 2 ranks; 1 spare", output)
        self.assertIn("environment of spare 2:", output)


if __name__ == "__main__":
    jobs.main()
