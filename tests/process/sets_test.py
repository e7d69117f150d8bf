# SPDX-License-Identifier: Apache-2.0
"""Process sets of real processes, on one node and over virtual ones.

Usage: sets_test.py HVDRUN LIBHVD [unittest arguments]
"""

from __future__ import annotations

import jobs

LAYOUTS = ([], ["--nodes", "2"], ["--nodes", "4"])

SETS = """
def total(process_set, name, count):
    values = (ctypes.c_float * count)(*[hvd.rank() + 1.0] * count)
    address = ctypes.addressof(values)
    tensor = api.tensor_struct(FLOAT32, (count,), source=address, target=address)
    work = Work(_lib.ALLREDUCE, name, process_set=process_set.process_set_id)
    handle = api.submit(work, [tensor])
    try:
        api.wait(handle)
    finally:
        api.release(handle)
    assert values[0] == values[count - 1] == sum(process_set.ranks) + len(process_set.ranks)


def held():
    maps = open("/proc/self/maps").read()
    return descriptors(), maps.count("memfd:")

"""


class Sets(jobs.JobCase):
    """What processes may do with process sets."""

    def assert_fine(self, ended: jobs.Ended) -> None:
        self.assertEqual(ended.code, 0, ended.text())
        for rank in range(4):
            self.assertEqual(ended.line(rank, "FINE"), "", ended.text())

    def test_sets_come_work_and_go_without_a_trace(self) -> None:
        program = """
hvd.init()
before = held()
for life in range(3):
    sets = [hvd.add_process_set(ranks) for ranks in ([0, 1], [2, 1], [3, 2, 0], [3])]
    assert [s.process_set_id for s in sets] == [life * 4 + i for i in (1, 2, 3, 4)]
    for count in (1, 1000, 500000):
        for s in sets if hvd.rank() % 2 else reversed(sets):
            if s.included():
                assert s.ranks[s.rank()] == hvd.rank()
                total(s, "x", count)
    if life == 0:
        assert "process set 3 (ranks [0, 2, 3])" in hvd.describe(), hvd.describe()
    for s in sets:
        assert hvd.remove_process_set(s)
    assert hvd.process_set_ids() == [0]
    assert held() == before, (held(), before)
hvd.shutdown()
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_fine(self.run_job(["-np", "4", *options], SETS + program))

    def test_sets_given_to_init_are_there_at_once(self) -> None:
        program = """
evens, odds = hvd.ProcessSet([0, 2]), hvd.ProcessSet([1, 3])
hvd.init(process_sets=[evens, odds])
assert (evens.process_set_id, odds.process_set_id) == (1, 2)
total(evens if evens.included() else odds, "x", 10)
hvd.shutdown()
say("FINE")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                self.assert_fine(self.run_job(["-np", "4", *options], SETS + program))

    def test_a_death_while_a_set_is_added_is_a_loss_on_every_rank(self) -> None:
        program = """
hvd.init()
hvd.barrier()
if hvd.rank() == 3:
    note_time()
    os.kill(os.getpid(), signal.SIGKILL)
try:
    hvd.add_process_set([1, 2, 3])
except hvd.PeerLostError as failure:
    assert "rank 3" in str(failure), failure
    say("LOST")
"""
        for options in LAYOUTS:
            with self.subTest(options=options):
                ended = self.run_job(["-np", "4", "--grace", "5", *options], SETS + program)
                for rank in range(3):
                    self.assertEqual(ended.line(rank, "LOST"), "", ended.text())


if __name__ == "__main__":
    jobs.main()
