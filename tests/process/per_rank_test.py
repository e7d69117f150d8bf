# SPDX-License-Identifier: Apache-2.0
"""Values that each rank has of its own, in jobs whose ranks are lost: partners have their copies."""

from __future__ import annotations

import jobs

# What a rank has of its own depends on all of its steps; ranks say what they have after each.
TRAINING = """
import random, threading
import hvd.elastic

DEATHS = [death.split(":") for death in os.environ.get("DEATHS", "").split()]
STEPS = int(os.environ.get("STEPS", "10"))
PROCESS = os.environ["HVD_PROCESS"]
WITH = os.environ.get("WITH", "").split()


def advance(own, rank):
    return (own * 69069 + rank + 1) % 2**32


def die_if_due(step, where):
    for process, when, place in DEATHS:
        place, _, other = place.partition("+")
        if process == PROCESS and int(when) == step and place == where:
            say("DIES", step)
            if other:
                with open(f"{SCRATCH}/pid.{other}") as file:
                    os.kill(int(file.read()), signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)


def reshard(parts, rank, size):
    say("PARTS", *(part["items"] for part in parts))
    items = sorted(item for part in parts for item in part["items"])
    return {"items": items[rank::size], "own": 0, "bulk": b""}


def missing(rank, size):
    say("MISSING", rank, size)
    return {"items": [], "own": -rank, "bulk": b""}


@hvd.elastic.run
def train(state):
    say("BEGINS", hvd.rank(), hvd.size(), state.step, state.mine["own"], len(state.mine["bulk"]))
    while state.step < STEPS:
        one = Sum("gradient", first=1.0)
        die_if_due(state.step, "step")
        one.wait()
        state.step += 1
        state.mine["own"] = advance(state.mine["own"], hvd.rank())
        die_if_due(state.step, "commit")
        state.commit()
        die_if_due(state.step, "after")
        say("OWN", state.step, hvd.rank(), state.mine["own"], state.mine["items"])


hvd.init()
note_pid()
mine = {"items": [hvd.rank()], "own": 0, "bulk": bytes([hvd.rank()]) * 100000}
hooks = {name: globals()[name] for name in WITH}
try:
    state = hvd.elastic.ObjectState(step=0, mine=hvd.elastic.PerRank(mine, **hooks))
    train(state)
except hvd.HvdError as error:
    say("ERROR", type(error).__name__, error)
    raise
costs = state.commit_statistics()
say("ENDS", hvd.rank(), hvd.size(), costs.commits, costs.partner_bytes, state.mine["items"])
hvd.shutdown()
"""


def own_of(rank: int, step: int) -> int:
    """What a rank has after a step that was never lost."""
    own = 0
    for _ in range(step):
        own = (own * 69069 + rank + 1) % 2**32
    return own


class PerRank(jobs.JobCase):
    def train(self, *options: str, deaths: str = "", **more: str) -> jobs.Ended:
        return self.run_job(list(options), TRAINING, DEATHS=deaths, **more)

    def check_values(self, ended: jobs.Ended, newcomers: dict[int, int]) -> None:
        """Each rank had its own value at each step, whichever process it was."""
        self.assertEqual(ended.code, 0, ended.text())
        for process, lines in ended.lines.items():
            for line in lines:
                if line.startswith("OWN"):
                    _, step, rank, own, _ = line.split()
                    self.assertEqual(int(own), own_of(int(rank), int(step)), (process, line))
                if line.startswith("BEGINS"):
                    _, rank, _, step, own, length = line.split()
                    self.assertEqual(int(own), own_of(int(rank), int(step)), (process, line))
                    self.assertEqual(length, "100000", (process, line))
        for process, rank in newcomers.items():
            begins = [one for one in ended.lines[process] if one.startswith("BEGINS")][-1].split()
            self.assertEqual(int(begins[1]), rank, ended.text())
            self.assertGreaterEqual(int(begins[3]), 3, ended.text())

    def test_who_takes_a_place_gets_the_value_of_the_lost_rank(self) -> None:
        """Rank 0 first, whose place goes to rank 1; then others, and one that has just come."""
        deaths = "0:3:commit 2:5:step 3:7:after"
        ended = self.train("-np", "3", "--restarts", "3", deaths=deaths)
        self.check_values(ended, {3: 1, 4: 2, 5: 1})
        commits, sent = ended.line(1, "ENDS").split()[2:4]
        self.assertGreater(int(sent), 100000 * int(commits), ended.text())

    def test_a_node_is_lost_as_partners_are_on_another(self) -> None:
        ended = self.train(*("-np", "4", "--nodes", "2", "--spares", "2"), deaths="2:5:step+3")
        self.check_values(ended, {})

    def test_owner_and_partner_are_lost(self) -> None:
        ended = self.train(*("-np", "4", "--spares", "2", "--grace", "5"), deaths="1:5:step+2")
        self.assertNotEqual(ended.code, 0, ended.text())
        for process in (0, 3, 4, 5):
            self.assertRegex(
                ended.line(process, "ERROR"),
                r"StateLostError elastic: rank \d: 'mine' of rank 1 is lost: .*missing=",
            )

    def test_a_program_may_make_what_is_lost(self) -> None:
        ended = self.train(*("-np", "4", "--spares", "2"), deaths="1:5:step+2", WITH="missing")
        self.assertEqual(ended.code, 0, ended.text())
        made = [line for lines in ended.lines.values() for line in lines if "MISSING" in line]
        self.assertEqual(made, ["MISSING 1 4"], ended.text())

    def test_fewer_ranks_share_all_parts_out_and_so_do_more(self) -> None:
        program = TRAINING.replace(
            "hvd.init()\n", "if PROCESS == '4':\n    time.sleep(2.5)\nhvd.init()\n", 1
        ).replace("state.step < STEPS:\n", "state.step < STEPS or hvd.size() < 4:\n")
        options = ["-np", "4", "--min-np", "3", "--restarts", "1"]
        ended = self.run_job(options, program, DEATHS="1:5:step", WITH="reshard", STEPS="12")
        self.assertEqual(ended.code, 0, ended.text())
        for process, few in ((0, "[0, 3]"), (2, "[2]"), (3, "[1]")):
            parts = [one for one in ended.lines[process] if one.startswith("PARTS")]
            self.assertEqual(parts, ["PARTS [0] [1] [2] [3]", "PARTS [0, 3] [1] [2]"], ended.text())
            items = [one.split(" ", 4)[4] for one in ended.lines[process] if one.startswith("OWN")]
            self.assertEqual(items[-1], few, ended.text())
        for process, rank in ((0, 0), (2, 2), (3, 1), (4, 3)):
            end = ended.line(process, "ENDS").split(" ", 4)
            self.assertEqual((end[0], end[4]), (str(rank), f"[{rank}]"), ended.text())

    def test_fewer_ranks_without_a_function_are_an_error(self) -> None:
        ended = self.train(*("-np", "3", "--min-np", "2", "--grace", "5"), deaths="1:5:step")
        self.assertNotEqual(ended.code, 0, ended.text())
        for process in (0, 2):
            self.assertRegex(
                ended.line(process, "ERROR"),
                r"InvalidArgumentError .*'mine' is each rank's own, and there are 2 ranks now, "
                r"3 before: give PerRank\(\.\.\., reshard=\.\.\.\)",
            )


if __name__ == "__main__":
    jobs.main()
