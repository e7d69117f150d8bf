# SPDX-License-Identifier: Apache-2.0
"""Reading ahead, measuring the wait, and sharing input out, run by each rank."""

from __future__ import annotations

import contextlib
import gc
import io
import random
import threading
import time
import traceback
import unittest
from collections.abc import Iterable

import hvd
from hvd import data, objects
from hvd.data import feed


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    hvd.init()


def tearDownModule() -> None:  # noqa: N802
    hvd.shutdown()


class Threads(unittest.TestCase):
    """Each case leaves no thread."""

    def setUp(self) -> None:
        before = set(threading.enumerate())

        def check() -> None:
            left = set(threading.enumerate()) - before
            self.assertEqual(left, set(), "a thread was left")

        self.addCleanup(check)


def numbers(count: int, ended: list[int], fails_at: int = -1):
    """A source that notes its end."""
    try:
        for number in range(count):
            if number == fails_at:
                raise ZeroDivisionError(f"no item {number}")
            yield number
    finally:
        ended.append(count)


class Batches(data.BaseDataLoader):
    def __init__(self, count: int, fails_at: int = -1) -> None:
        self.count = count
        self.fails_at = fails_at
        self.ended: list[int] = []
        self.threads: set[str] = set()

    def __len__(self) -> int:
        return self.count

    def _iterate(self):
        self.threads.add(threading.current_thread().name)
        return numbers(self.count, self.ended, self.fails_at)

    def _process_batch(self, batch):
        return batch * 10


class AsyncBatches(data.AsyncDataLoaderMixin, Batches):
    pass


class AsyncLoader(Threads):
    def test_gives_what_the_plain_loader_gives(self) -> None:
        plain = list(Batches(20))
        self.assertEqual(plain, [10 * number for number in range(20)])
        for size in (0, 1, 3, 64):
            loader = AsyncBatches(async_loader_queue_size=size, count=20)
            for _ in range(2):
                self.assertEqual(list(loader), plain)
            self.assertEqual(loader.ended, [20, 20])
            here = threading.current_thread().name
            self.assertEqual(loader.threads, {"AsyncBatches"} if size else {here})

    def test_an_exception_arrives_after_what_came_before_it(self) -> None:
        for size in (0, 2, 64):
            loader = AsyncBatches(size, False, 9, 4)
            got = []
            text = ""
            try:
                for batch in loader:
                    got.append(batch)
            except ZeroDivisionError:
                text = traceback.format_exc()
            self.assertEqual(got, [0, 10, 20, 30])
            self.assertRegex(text, "(?s)in numbers.*no item 4")

    def test_closing_ends_the_loops(self) -> None:
        loader = AsyncBatches(2, count=10**9)
        iterator = iter(loader)
        self.assertEqual(next(iterator), 0)
        loader.close_async_loader()
        loader.close_async_loader()
        self.assertEqual(list(iterator), [])
        self.assertEqual(loader.ended, [10**9])

    def test_debugging_tells_how_many_were_ahead(self) -> None:
        text = io.StringIO()
        with contextlib.redirect_stdout(text):
            list(AsyncBatches(4, debug_data_loader=True, count=3))
        self.assertEqual(text.getvalue().count("batches ahead"), 3)


class Prefetch(Threads):
    def test_reads_ahead_and_no_further(self) -> None:
        started = threading.Semaphore(0)
        read = []

        def source():
            for number in range(10):
                read.append(number)
                started.release()
                yield number

        iterator = iter(data.PrefetchLoader(source(), depth=3))
        self.assertEqual([next(iterator), next(iterator)], [0, 1])
        # Two were taken, three are ahead, and one waits for room.
        for _ in range(6):
            self.assertTrue(started.acquire(timeout=20))
        self.assertFalse(started.acquire(timeout=0.3))
        self.assertEqual(list(iterator), list(range(2, 10)))
        self.assertEqual(read, list(range(10)))

    def test_reads_nothing_before_the_loop_waits(self) -> None:
        read = []

        def source():
            for number in range(3):
                read.append(number)
                yield number

        # The draws of what comes before the loop are the model's.
        unasked = feed.Feed(source, 2, "unasked", set())
        time.sleep(0.1)
        self.assertEqual(read, [])
        self.assertEqual(list(unasked), [0, 1, 2])

    def test_ends_with_its_loop(self) -> None:
        for depth in (0, 2):
            ended: list[int] = []
            for _ in data.PrefetchLoader(numbers(100, ended), depth):
                break
            gc.collect()
            self.assertEqual(ended, [100] if depth else ended)
            iterator = iter(data.PrefetchLoader(numbers(100, ended), depth))
            next(iterator)
            del iterator
            gc.collect()
            with self.assertRaisesRegex(ValueError, "of the loop"):
                for _ in data.PrefetchLoader(numbers(100, ended), depth):
                    raise ValueError("of the loop")
            gc.collect()
            self.assertEqual(ended, [100] * 3)
            with self.assertRaisesRegex(ZeroDivisionError, "no item 0"):
                list(data.PrefetchLoader(numbers(3, ended, 0), depth))
            self.assertEqual(len(ended), 4)
        with self.assertRaisesRegex(ValueError, "depth is -1"):
            data.PrefetchLoader([], depth=-1)

    def test_a_source_that_does_not_return_is_named(self) -> None:
        reached, release = threading.Event(), threading.Event()

        def source():
            yield from (1, 2)
            reached.set()
            release.wait(60)

        patience, feed._CLOSE_SECONDS = feed._CLOSE_SECONDS, 0.05
        try:
            iterator = iter(data.PrefetchLoader(source()))
            self.assertEqual([next(iterator), next(iterator)], [1, 2])
            self.assertTrue(reached.wait(20))
            with self.assertWarnsRegex(UserWarning, "generator.*does not return"):
                iterator.close()
        finally:
            feed._CLOSE_SECONDS = patience
            release.set()
            for thread in threading.enumerate():
                if thread.name.startswith("PrefetchLoader"):
                    thread.join(20)

    def test_measures_the_wait(self) -> None:
        def slow():
            for number in range(5):
                time.sleep(0.01)
                yield number

        for depth in (0, 1):
            loader = data.PrefetchLoader([1], depth)
            loader.source = slow()
            self.assertEqual(len(list(loader)), 5)
            measured = loader.statistics()
            self.assertEqual((measured.epochs, measured.items), (1, 5))
            self.assertGreaterEqual(measured.read_seconds, 0.05)
            self.assertGreater(measured.waited_seconds, 0)
            # A reader beside the loop may have begun to sleep before the loop came to wait.
            self.assertGreaterEqual(measured.start_seconds, 0.01 if depth == 0 else 0)
            self.assertTrue(0 < measured.wait_share <= 1)
            loader.reset_statistics()
            self.assertEqual(loader.statistics(), (0, 0, 0, 0, 0, 0))
            self.assertEqual(loader.statistics().wait_share, 0)

    def report(
        self, waited: float, read: float, depth: int = 2, source: Iterable[int] = ()
    ) -> data.InputReport:
        """Of a loader that measured 100 steps of 10 s, waiting included."""
        loader = data.PrefetchLoader(source, depth)
        loader._meter.items = 100
        loader._meter.waited, loader._meter.worked = waited, 10 - waited
        loader._meter.read = read
        text = io.StringIO()
        with contextlib.redirect_stderr(text):
            report = loader.report()
        self.assertEqual(text.getvalue(), f"hvd.data: {report}\n" if hvd.rank() == 0 else "")
        return report

    def test_the_report_says_who_waits_and_what_to_do(self) -> None:
        last = hvd.size() - 1
        slow = hvd.rank() == last
        report = self.report(4.2 if slow else 0.5, 23.2 if slow else 2.0)
        self.assertTrue(report.is_input_bound)
        self.assertEqual([round(share, 9) for share in report.shares], [0.05] * last + [0.42])
        self.assertRegex(
            report.text,
            rf"^input-bound: rank {last} waited 42 % of its time for data \(5 % on rank 0\); .*host "
            r".*: an item took 232.0 ms to read, a step 58.0 ms: more workers \(about 4 times as "
            r"many\) or faster storage$",
        )
        self.assertRegex(self.report(2.0, 5.0).text, "waited 20 % .*depth=4 would even out")
        self.assertRegex(self.report(2.0, 5.0, depth=0).text, "nothing is read ahead: depth=2")
        self.assertRegex(self.report(2.0, 0.001).text, "let items be batches")
        # TensorFlow reads ahead itself: what it lacks is said in its words.
        kind = type("Dataset", (list,), {"__module__": "tensorflow.python.data.ops.dataset_ops"})
        text = self.report(2.0, 5.0, depth=0, source=kind()).text
        self.assertRegex(
            text, r"a step of 80.0 ms waited 20.0 ms: what helps is prefetch\(\) at the end"
        )
        self.assertNotIn("depth", text)
        fine = self.report(0.9 if slow else 0.1, 9.0)
        self.assertFalse(fine.is_input_bound)
        self.assertEqual(
            fine.text,
            f"input keeps up: ranks waited 1 % to 9 % of their time for data, most on rank {last}",
        )


class Shards(unittest.TestCase):
    def test_every_index_comes_once(self) -> None:
        for count in (0, 1, 5, 6, 23):
            for size in (1, 2, 3, 7):
                for shuffle in (False, True):
                    shards = [
                        list(data.shard_indices(count, rank, size, shuffle, epoch=4))
                        for rank in range(size)
                    ]
                    self.assertEqual(sorted(sum(shards, [])), list(range(count)))
                    self.assertLessEqual(max(map(len, shards)) - min(map(len, shards)), 1)
                    padded = [
                        list(data.shard_indices(count, rank, size, shuffle, epoch=4, pad=True))
                        for rank in range(size)
                    ]
                    self.assertEqual({len(shard) for shard in padded}, {-(-count // size)})
                    self.assertEqual(set(sum(padded, [])), set(range(count)))

    def test_ranks_and_runs_agree_on_the_order(self) -> None:
        state = random.getstate()
        mine = list(data.shard_indices(40, shuffle=True, seed=1, epoch=2))
        self.assertEqual(random.getstate(), state)
        everything = sum(objects.allgather_object(mine), [])
        self.assertEqual(sorted(everything), list(range(40)))
        self.assertEqual(mine, list(data.shard_indices(40, shuffle=True, seed=1, epoch=2)))
        other = data.shard_indices(40, 0, 1, shuffle=True, seed=1, epoch=3)
        self.assertNotEqual(list(data.shard_indices(40, 0, 1, True, 1, 2)), list(other))
        # Of this order, on every Python and machine.
        self.assertEqual(list(data.shard_indices(6, 0, 1, True, 1, 2)), [5, 4, 1, 2, 3, 0])
        with self.assertRaisesRegex(ValueError, "rank 2 of 2"):
            data.shard_indices(4, 2, 2)

    def test_every_file_goes_to_one_rank(self) -> None:
        paths = [f"part-{number:02}" for number in range(7)]
        for size in (1, 2, 3):
            shards = []
            for rank in range(size):
                random.Random(rank).shuffle(paths)
                shards += data.shard_files(paths, rank, size, shuffle=True, epoch=3)
            self.assertEqual(sorted(shards), sorted(paths))
        with self.assertRaisesRegex(
            ValueError, "rank 1: 7 files for 8 ranks: ranks from 7 on .*at least 8 files.*join"
        ):
            data.shard_files(paths, 1, 8)
        self.assertEqual(data.shard_files(paths, 7, 8, allow_empty=True), [])
        with self.assertRaisesRegex(ValueError, "a is listed twice"):
            data.shard_files(["a", "b", "a"], 0, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
