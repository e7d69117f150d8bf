# SPDX-License-Identifier: Apache-2.0
"""Jobs that grow and shrink, as a discovery script says how many slots this machine has."""

from __future__ import annotations

import shutil
import signal
import tempfile
from pathlib import Path

import jobs
from elastic_program import TRAINING, all_steps

# The script says another number of slots from some step on.
CHANGING = """
SLOTS = dict(change.split("=") for change in os.environ["CHANGES"].split())


def change_slots(step):
    if hvd.rank() == 0 and str(step) in SLOTS:
        with open(SCRATCH + "/next", "w") as file:
            file.write(SLOTS[str(step)] + "\\n")
        os.replace(SCRATCH + "/next", os.environ["HOSTS"])


"""

# Goes on until the ranks are as many as told, and then a few steps more.
RESIZED = (
    TRAINING.replace(
        "while state.step < STEPS:",
        "while state.more > 0:\n"
        "        state.more -= 1 if hvd.size() == int(os.environ['UNTIL']) else 0\n"
        "        time.sleep(0.01)",
    )
    .replace("step=0, value=0.25", "step=0, value=0.25, more=3")
    .replace("state.commit()", "change_slots(state.step)\n        state.commit()")
    .replace("@hvd.elastic.run", CHANGING + "@hvd.elastic.run")
)

# Each item counts the steps, on whichever rank it is; each rank draws its own random numbers.
OWN = (
    CHANGING
    + """
import random
import hvd.elastic
from hvd.seeds import RandomState, derived_seed, seed_everything

LOOKS = "LOOKS" in os.environ


def reshard(parts, rank, size):
    return sorted(item for part in parts for item in part)[rank::size]


@hvd.elastic.run
def train(state):
    while state.more > 0:
        state.more -= 1 if hvd.size() == int(os.environ["UNTIL"]) else 0
        state.step += 1
        state.items = [(number, count + 1) for number, count in state.items]
        draw = random.random()
        say("DRAW", hvd.rank(), state.step, draw, draw == expected[state.step - 1])
        time.sleep(0.01)
        change_slots(state.step)
        if LOOKS and state.step > 1:
            state.check_host_updates()
        else:
            state.commit()


hvd.init()
seed_everything(1)
stream = random.Random(derived_seed(1, hvd.rank()))
expected = [stream.random() for _ in range(5000)]
own = hvd.elastic.PerRank
items = own([(hvd.rank(), 0)], reshard)
state = hvd.elastic.ObjectState(step=0, more=3, items=items, rng=own(RandomState()))
train(state)
say("ITEMS", hvd.rank(), hvd.size(), state.step, *(f"{one}:{count}" for one, count in state.items))
hvd.shutdown()
"""
)


class Growth(jobs.JobCase):
    def setUp(self) -> None:
        super().setUp()
        self.folder = Path(tempfile.mkdtemp(prefix="hvd-growth-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.hosts = self.folder / "hosts"

    def train(
        self,
        *options: str,
        slots: str,
        changes: str,
        until: int,
        program: str = RESIZED,
        **more: str,
    ) -> jobs.Ended:
        self.hosts.write_text(slots + "\n")
        return self.run_job(
            [*options, "--host-discovery-script", f"cat {self.hosts}"],
            program,
            HOSTS=str(self.hosts),
            CHANGES=changes,
            UNTIL=str(until),
            **more,
        )

    def test_grows_as_the_script_says(self) -> None:
        ended = self.train(
            *("-np", "2", "--min-np", "1", "--max-np", "3"),
            slots="localhost:2",
            changes="3=localhost:3",
            until=3,
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn("this machine has 3 slots now: the job goes from 2 to 3 ranks", ended.stderr)
        self.assertRegex(ended.stderr, r"membership 2: 3 ranks; rank 2 is process 3 now")
        self.assertNotIn("lost", ended.stderr)
        # Nobody has seen another value of a step.
        self.assertGreater(len(all_steps(ended)), 5, ended.text())
        self.assertEqual(ended.lines[3][-1], "ENDS 2 3", ended.text())

    def test_shrinks_without_a_word_of_loss(self) -> None:
        ended = self.train(
            "-np", "3", "--min-np", "1", slots="localhost:3", changes="3=localhost:1", until=1
        )
        self.assertEqual(ended.code, 0, ended.text())
        self.assertIn("this machine has 1 slot now: the job goes from 3 to 1 rank,", ended.stderr)
        self.assertNotIn("lost", ended.stderr)
        self.assertEqual(ended.lines[0][-1], "ENDS 0 1", ended.text())
        self.assertNotIn("ENDS", "".join(ended.lines[1] + ended.lines[2]))

    def check_own(self, ended: jobs.Ended, items: int, processes: set[int]) -> None:
        """No item, nor a step of one, is lost, and generators went on or had seeds of their own."""
        self.assertEqual(ended.code, 0, ended.text())
        self.assertNotIn("lost", ended.stderr)
        counts: dict[str, str] = {}
        draws: dict[str, int] = {}
        for process, lines in ended.lines.items():
            for words in map(str.split, lines):
                if words[0] == "DRAW":
                    self.assertEqual(words[4] == "True", process < items, (process, words))
                    self.assertEqual(draws.setdefault(words[3], process), process, words)
                else:
                    counts |= dict(one.split(":") for one in words[4:])
                    step = words[3]
        self.assertEqual(counts, {str(number): step for number in range(items)}, ended.text())
        ends = {process for process in ended.lines if ended.lines[process][-1][:5] == "ITEMS"}
        self.assertEqual(ends, processes, ended.text())

    def test_values_of_each_rank_outlive_ranks_that_are_released(self) -> None:
        """Of the commit, and of steps after it; owner and partner are released together."""
        for ranks, left, more in ((4, 2, {}), (3, 1, {"LOOKS": "1"})):
            with self.subTest(ranks=ranks):
                ended = self.train(
                    *("-np", str(ranks), "--min-np", "1"),
                    slots=f"localhost:{ranks}",
                    changes=f"3=localhost:{left}",
                    until=left,
                    program=OWN,
                    **more,
                )
                self.check_own(ended, ranks, set(range(left)))

    def test_new_ranks_have_values_of_their_own(self) -> None:
        ended = self.train(
            *("-np", "2", "--min-np", "1", "--max-np", "3"),
            slots="localhost:2",
            changes="3=localhost:3",
            until=3,
            program=OWN,
        )
        self.check_own(ended, 2, {0, 1, 3})

    def test_a_script_that_fails_changes_nothing(self) -> None:
        broken = self.folder / "broken"
        self.hosts.write_text("localhost\n")
        program = f"""
hvd.init()
say("SIZE", hvd.size())
open("{broken}", "w").close()
time.sleep(2.5)
hvd.shutdown()
"""
        script = f"cat {self.hosts}; [ ! -e {broken} ]"
        options = ["--slots-per-host", "2", "--host-discovery-script", script]
        ended = self.run_job(["-np", "2", *options], program)
        self.assertEqual(ended.code, 0, ended.text())
        self.assertEqual(ended.line(1, "SIZE"), "2", ended.text())
        self.assertEqual(ended.stderr.count("what it said before counts"), 1, ended.text())

    def test_waits_for_the_slots_it_needs(self) -> None:
        self.hosts.write_text("elsewhere:8\n")
        job = self.launch(
            ["-np", "1", "--max-np", "2", "--host-discovery-script", f"cat {self.hosts}"],
            "hvd.init(); say('SIZE', hvd.size())",
        )
        assert job.stderr is not None
        line = job.stderr.readline()
        self.assertRegex(
            line,
            r"this machine \(\S+\) has 0 slots, and the job needs 1 to start; on elsewhere hvdrun "
            r"starts nothing: ranks on other hosts need a job of Slurm; hvdrun waits",
        )
        self.hosts.write_text("127.0.0.1:9\n")
        output, _ = job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 0)
        self.assertEqual(output.count("SIZE 2"), 2, output)

    def test_ctrl_c_ends_it_also_while_the_script_hangs(self) -> None:
        self.hosts.write_text("localhost:1\n")
        # Also what the script has left behind ends with the job.
        hang = f"if [ -e {self.folder}/asked ]; then sleep 99 & sleep 100; fi"
        script = f"{hang}; cat {self.hosts}"
        job = self.launch(
            ["-np", "1", "--host-discovery-script", script],
            f"hvd.init(); open('{self.folder}/asked', 'w').close(); time.sleep(1.3)\n"
            "say('READY'); time.sleep(100)",
        )
        assert job.stdout is not None
        self.assertIn("READY", job.stdout.readline())
        job.send_signal(signal.SIGINT)
        job.communicate(timeout=jobs.LIMIT_S)
        self.assertEqual(job.returncode, 128 + signal.SIGINT)
        self.assertEqual(jobs.marked_processes(self.mark), [])

    def test_options_that_do_not_fit_are_refused(self) -> None:
        script = ["--host-discovery-script", "echo localhost:4"]
        for options, words in (
            (["-np", "3", "--max-np", "2"], "--max-np 2 is less than the 3 ranks"),
            (["-np", "2", "--spares", "1", *script], "--spares does not go with"),
            (["-np", "2", "--nodes", "2", *script], "does not go with --nodes 2"),
            (
                ["-np", "2", "--host-discovery-script", "echo localhost:many"],
                "it printed 'localhost:many', and each line is to be HOST or HOST:SLOTS",
            ),
            (["-np", "2", "--gpu-visibility", "one", *script], "--host-discovery-script does not"),
        ):
            with self.subTest(options=options):
                ended = self.run_job(options, "")
                self.assertEqual(ended.code, 2, ended.text())
                self.assertIn(words, ended.stderr)
        ended = self.run_job(["-np", "1", "--host-discovery-script", "echo no >&2; exit 3"], "")
        self.assertEqual(ended.code, 1, ended.text())
        self.assertIn("--host-discovery-script: ", ended.stderr)
        ended = self.run_job(["-np", "1", "--max-np", "2"], "hvd.init()")
        self.assertIn("nothing says when there is room for more than 1 rank", ended.stderr)


if __name__ == "__main__":
    jobs.main()
