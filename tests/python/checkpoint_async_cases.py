# SPDX-License-Identifier: Apache-2.0
"""Checkpoints written while training goes on, and in parts by many ranks; run by each."""

from __future__ import annotations

import errno
import logging
import os
import subprocess
import sys
import tempfile
import threading
import unittest
import unittest.mock
import warnings
from pathlib import Path
from typing import Any

import torch

import hvd
import hvd.torch as ht
from hvd import checkpoints, elastic, objects
from hvd._core import whole_files
from hvd.torch import part_files, shards
from hvd.torch.host_copies import HostCopies

FULL = OSError(errno.ENOSPC, "No space left on device")
# A job of one rank reads what many have saved.
ALONE = """
import sys, torch, hvd.torch as ht
ht.init()
resumed = ht.Checkpoints(sys.argv[1]).resume(torch.nn.Linear(40, 30))
count = len(resumed.shards)
assert resumed.shards.assigned() == list(range(count)), resumed
assert [one["rank"] for one in resumed.shards] == list(range(count))
assert resumed.shards.slices()["flat.m"].tensor.tolist() == list(map(float, range(10)))
ht.Checkpoints(sys.argv[1]).save(resumed.step + 1, shard={"alone": True})
"""


def setUpModule() -> None:  # noqa: N802 (unittest's name)
    torch.set_num_threads(1)
    logging.getLogger("hvd.elastic").setLevel(logging.ERROR)
    ht.init()


def tearDownModule() -> None:  # noqa: N802
    ht.shutdown()


class OneFolder(unittest.TestCase):
    """A folder that all ranks see and none has made, and a model."""

    def setUp(self) -> None:
        folder = None
        if ht.rank() == 0:
            kept = tempfile.TemporaryDirectory(prefix="hvd-test-")
            self.addCleanup(kept.cleanup)
            folder = kept.name
        self.folder = Path(objects.broadcast_object(folder)) / "deep"
        self.addCleanup(ht.barrier)
        self.model = torch.nn.Linear(40, 30)
        self.files = ht.Checkpoints(self.folder, keep=2)


class Async(OneFolder):
    def fill(self, value: float) -> None:
        with torch.no_grad():
            self.model.weight.fill_(value)

    def gated(self, files: checkpoints.Checkpoints) -> threading.Event:
        """Has every write of these wait."""
        gate, write = threading.Event(), files._write

        def when_open(state, file) -> None:
            self.assertTrue(gate.wait(60))
            write(state, file)

        files._write = when_open
        return gate

    def values_of(self, step: int) -> set[float]:
        state = torch.load(self.folder / f"checkpoint-{step:010d}")["model"]
        return set(state["weight"].flatten().tolist())

    def test_nobody_waits_for_the_disk(self) -> None:
        files = ht.Checkpoints(self.folder)
        gate = self.gated(files.files)
        self.fill(1.0)
        files.save_async(1, self.model, best=0.5, shard=None)
        self.fill(2.0)
        ht.barrier()
        self.assertEqual(files.files.steps(), [])
        gate.set()
        files.wait()
        self.assertEqual(files.resume(self.model), (1, {"best": 0.5}))
        self.assertEqual(set(self.model.weight.flatten().tolist()), {1.0})

    def test_a_second_one_waits_for_the_first(self) -> None:
        files = ht.Checkpoints(self.folder)
        gate = self.gated(files.files)
        self.fill(1.0)
        files.save_async(1, self.model)
        self.fill(2.0)
        threading.Timer(0.1, gate.set).start()
        files.save_async(2, self.model)
        if ht.rank() == 0:
            self.assertEqual(self.values_of(1), {1.0})
        self.fill(3.0)
        files.save(3, self.model)
        if ht.rank() == 0:
            self.assertEqual([self.values_of(step) for step in (2, 3)], [{2.0}, {3.0}])
            self.assertEqual(len(os.listdir(self.folder)), 3)

    def test_a_failure_is_an_error_of_all_once(self) -> None:
        files = ht.Checkpoints(self.folder)
        words = "rank 0: .*writing checkpoint .*0000000001 failed: OSError: .*No space left"
        acts = (
            files.wait,
            lambda: files.save(2, self.model),
            lambda: files.save_async(2, self.model),
            lambda: files.resume(self.model),
        )
        for act in acts:
            with unittest.mock.patch.object(files.files, "_write", side_effect=FULL):
                files.save_async(1, self.model)
                with self.assertRaisesRegex(hvd.CheckpointError, words):
                    act()
            files.wait()
            self.assertEqual(files.files.steps(), [])
            if ht.rank() == 0:
                self.assertEqual(os.listdir(self.folder), [])
        files.save(2, self.model)
        self.assertEqual(files.resume(self.model).step, 2)

    def test_without_a_framework(self) -> None:
        files = checkpoints.Checkpoints(self.folder)
        state = [1, 2]
        files.save_async(1, state)
        state.append(3)
        self.assertEqual(files.load(), (1, [1, 2]))
        with unittest.mock.patch.object(whole_files, "write_sealed_aside", side_effect=FULL):
            files.save_async(2, state)
            with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*0000000002 failed.*No sp"):
                files.wait()
        with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: .*0000000003 could not be begun"):
            files.save_async(3, lambda: "what pickle does not take")
        with self.assertRaisesRegex(ValueError, "step is -1"):
            files.save_async(-1, None)
        self.assertEqual(files.load().step, 1)

    def test_a_job_that_starts_again_has_what_was_being_written(self) -> None:
        old_rank = ht.rank()
        for name, shard in (("plain", None), ("parts", {"rank": old_rank})):
            files = ht.Checkpoints(self.folder, name=name)
            gate = self.gated(files.files)
            seen = []

            def train(state, files=files, shard=shard, gate=gate, seen=seen) -> None:
                seen.append(state.step)
                if len(seen) == 1:
                    files.save_async(1, self.model, shard=shard)
                    ht.barrier()  # else the end might overtake what the others agree on in there
                    if old_rank == ht.size() - 1:
                        raise hvd.HvdError("starts again")
                    ht.barrier()
                gate.set()
                files.save_async(2, self.model, shard=shard)
                files.wait()

            elastic.run(train)(elastic.ObjectState(step=0))
            self.assertEqual(len(seen), 2)
            ht.barrier()
            self.assertEqual(files.files.steps(), [1, 2])

    def test_copies_use_their_memory_again(self) -> None:
        copies = HostCopies()
        tied = torch.arange(6.0).reshape(2, 3)
        state = {"a": tied, "b": [tied, tied.t()], "c": {"n": 3, "e": torch.empty(0)}}
        first = copies.take(state)
        self.assertIs(first["a"], first["b"][0])
        self.assertTrue(torch.equal(first["b"][1], tied.t()))
        tied.add_(1.0)
        second = copies.take({**state, "d": torch.ones(1)})
        self.assertIs(second["a"], first["a"])
        self.assertTrue(torch.equal(second["a"], tied))
        self.assertIsNot(second["a"], tied)
        third = copies.take({"a": torch.ones(2), "z": torch.ones(2, dtype=torch.complex64).conj()})
        self.assertIsNot(third["a"], first["a"])
        self.assertEqual(len(copies._memory), 2)


class Parts(OneFolder):
    def shard(self, add: float = 0.0) -> dict[str, Any]:
        """Ten elements, of which the last rank has none where there are more than two."""
        givers = min(ht.size(), 2)
        offset, length = shards.even_cut(10, givers, ht.rank()) if ht.rank() < givers else (10, 0)
        numbers = torch.arange(10.0)[offset : offset + length] + add
        return {"rank": ht.rank(), "flat": {"m": ht.Slice(numbers, offset, 10)}}

    def names(self) -> list[str]:
        return sorted(os.listdir(self.folder))

    def test_each_rank_finds_its_own(self) -> None:
        for step in (1, 2, 3):
            self.files.save(step, self.model, shard=self.shard(step), best=step)
        self.files.save_async(4, self.model, shard=self.shard(4))
        resumed = self.files.resume(self.model)
        self.assertEqual(resumed, (4, {}))
        self.assertEqual(resumed.shards.assigned(), [ht.rank()])
        own = resumed.shards[ht.rank()]
        self.assertEqual(own["rank"], ht.rank())
        self.assertEqual(own["flat"]["m"][1:], self.shard()["flat"]["m"][1:])
        offset, length = shards.even_cut(10, ht.size(), ht.rank())
        again = resumed.shards.slices()["flat.m"]
        self.assertEqual(again.tensor.tolist(), [4.0 + n for n in range(offset, offset + length)])
        self.assertEqual(self.files.files.steps(), [3, 4])
        self.assertEqual(len(self.names()), 4)  # two files and two folders
        ht.barrier()
        self.files.save(4, self.model)  # in its place, without
        self.assertIsNone(self.files.resume(self.model).shards)
        self.assertEqual(len(self.names()), 3)

    def test_another_number_of_ranks(self) -> None:
        self.files.save(1, self.model, shard=self.shard())
        if ht.rank() == 0:
            ours = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
            kept = {name: value for name, value in os.environ.items() if name not in ours}
            command = [sys.executable, "-c", ALONE, self.folder]
            done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
            self.assertEqual(done.returncode, 0, done.stderr)
        ht.barrier()
        resumed = self.files.resume()
        self.assertEqual(resumed.shards.assigned(), [0] if ht.rank() == 0 else [])
        self.assertEqual(resumed.shards[0], {"alone": True})
        with self.assertRaises(IndexError):
            resumed.shards[1]

    def test_a_part_that_is_damaged_or_gone(self) -> None:
        self.files.save(1, self.model, shard=self.shard(1.0))
        self.files.save(2, self.model, shard=self.shard(2.0))
        folder = next(self.folder.glob("checkpoint-0000000002.parts-*"))
        last = folder / part_files.part_name(min(ht.size(), 2) - 1, ht.size())
        whole, index = last.read_bytes(), (folder / "index").read_bytes()
        other = next(self.folder.glob("checkpoint-0000000001.parts-*")) / last.name
        flipped = bytearray(whole)
        flipped[300] ^= 4
        ht.barrier()
        for path, content, words in (
            (last, bytes(flipped), "its checksum is"),
            (last, other.read_bytes(), "not the file that the index has"),
            (last, whole[: -whole_files._SEAL_BYTES], "not the file that the index has"),
            (last, None, "No such file"),
            (folder / "index", index[:60] + b"x" + index[61:], "its checksum is"),
            (folder / "index", None, "index is not there"),
        ):
            if ht.rank() == 0 and content is None:
                path.unlink()
            elif ht.rank() == 0:
                path.write_bytes(content)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                resumed = self.files.resume(self.model)
            self.assertEqual(resumed.step, 1, words)
            self.assertEqual(resumed.shards[0]["flat"]["m"].tensor[0], 1.0)
            self.assertEqual(len(caught), int(ht.rank() == 0))
            if caught:
                self.assertRegex(str(caught[0].message), f"passed over: .*{words}")
                last.write_bytes(whole)
                (folder / "index").write_bytes(index)
            ht.barrier()
        self.assertEqual(self.files.resume(self.model).step, 2)
        if ht.rank() == 0:
            for one in self.folder.glob("*.parts-*/rank-*"):
                one.write_bytes(b"")
        ht.barrier()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with self.assertRaisesRegex(hvd.CheckpointError, "rank 0: no checkpoint in .*used"):
                self.files.resume(self.model)

    def test_a_part_that_cannot_be_written_is_an_error_of_all(self) -> None:
        last = ht.size() - 1
        self.files.save(1, self.model, shard=self.shard())
        words = f"rank {last}: .*writing part {last} of .*0000000002 failed: OSError: .*No space"
        for act in (
            lambda: self.files.save(2, self.model, shard={}),
            lambda: self.files.save_async(2, self.model, shard={}) or self.files.wait(),
        ):
            effect = FULL if ht.rank() == last else self.files.files._write
            with (
                unittest.mock.patch.object(self.files.files, "_write", side_effect=effect),
                self.assertRaisesRegex(hvd.CheckpointError, words),
            ):
                act()
            ht.barrier()
            self.assertEqual(len(self.names()), 2, self.names())  # nothing of the second
        self.assertEqual(self.files.resume(self.model).step, 1)
        with self.assertRaisesRegex(
            hvd.CheckpointError, "rank 0: .*slice 'm': no rank has element"
        ):
            self.files.save(2, shard={"m": ht.Slice(torch.ones(1), 1, 9)} if ht.rank() == 0 else {})

    def test_a_folder_that_not_all_ranks_see(self) -> None:
        if ht.size() == 1:
            return  # it sees what it sees
        mine = self.folder if ht.rank() == 0 else self.folder / f"of-{ht.rank()}"
        files = ht.Checkpoints(mine)
        self.files.save(1, shard={})
        files.save_async(2)  # without parts that is fine
        files.wait()
        with unittest.mock.patch.object(part_files, "FOLDER_SECONDS", 0.1):
            for act in (lambda: files.save(3, shard={}), lambda: files.save_async(3, shard={})):
                words = (
                    r"rank \d: .*0000000003 .*FileNotFoundError: \S+ does not see .*of-\d.*rank 0"
                )
                with self.assertRaisesRegex(hvd.CheckpointError, words):
                    act()
            if ht.rank() == 0:
                files.files.path(2).unlink()
            with self.assertRaisesRegex(hvd.CheckpointError, r"rank \d: .*does not see .*of-\d"):
                files.resume()
        ht.barrier()
        self.assertEqual(len(self.names()), 2, self.names())

    def test_ranks_that_were_lost_complete_nothing(self) -> None:
        """A process comes in the place of the last rank, whose part was on its way."""
        if ht.size() == 1:
            return  # nobody would be left
        is_last = ht.rank() == ht.size() - 1
        self.files.save(1, self.model, shard=self.shard())
        effect = FULL if is_last else self.files.files._write
        with unittest.mock.patch.object(self.files.files, "_write", side_effect=effect):
            self.files.save_async(2, self.model, shard=self.shard())
            for task in self.files.files._tasks:
                task.outcome()
        if is_last:
            self.files = ht.Checkpoints(self.folder, keep=2)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            self.files.save_async(3, self.model, shard=self.shard())
            self.files.wait()
        self.assertEqual(len(caught), int(ht.rank() == 0))
        if caught:
            words = f"0000000002 failed: IncompleteError: parts of ranks {ht.size() - 1} of"
            self.assertRegex(str(caught[0].message), words)
        self.assertEqual(self.files.files.steps(), [1, 3])
        self.assertEqual(len(self.names()), 4, self.names())

    def test_what_was_rank_0_completes_what_it_began(self) -> None:
        """The last rank was the only one, and others have come before it."""
        files = self.files.files
        if ht.rank() == ht.size() - 1:
            folder = self.folder / files.make_folder(1)
            attempt = part_files.Attempt(folder, 0, 1)
            state = {"model": None, "optimizer": None, "extra": {}, "parts": folder.name}
            files.note(
                attempt.begin(
                    files.path(1),
                    lambda file: files._write("its own", file),
                    lambda file: files._write(state, file),
                )
            )
            attempt.begin_commit(files.path(1), [{}], lambda: files.complete(1, folder.name))
            self.files._attempt = attempt
        self.files.save_async(2, shard=self.shard())
        self.assertEqual(list(ht.Checkpoints(self.folder).files.steps())[:1], [1])
        self.assertEqual(self.files.resume().step, 2)
        ht.barrier()
        if ht.rank() == 0:
            files.path(2).unlink()
        self.assertEqual(list(self.files.resume().shards), ["its own"])

    def test_what_lost_writers_left_goes(self) -> None:
        self.files.save(1, shard={})
        with subprocess.Popen(["true"]) as dead:
            dead.wait()
        if ht.rank() == 0:
            name = part_files.folder_name(self.files.files.path(7))
            mine = str(os.getpid())
            for owner in (str(dead.pid), str(os.getppid())):
                (self.folder / name.replace(f"-{mine}-", f"-{owner}-")).mkdir()
            (self.folder / name.replace(f"-{mine}-", "-else-77-")).mkdir()
        self.files.save(2, shard={})
        ht.barrier()
        left = [one for one in self.names() if "0000000007" in one]
        self.assertEqual(len(left), 2, left)
        self.assertFalse(any(f"-{dead.pid}-" in one for one in left) and ht.rank() == 0)

    def test_plain_checkpoints_know_nothing_of_parts(self) -> None:
        self.files.save(1, self.model, shard=self.shard())
        self.assertEqual(checkpoints.Checkpoints(self.folder).steps(), [1])
        if ht.rank() == 0:
            state = torch.load(self.files.files.path(1))
            part = torch.load(self.folder / state["parts"] / part_files.part_name(0, ht.size()))
            self.assertEqual(state["model"].keys(), self.model.state_dict().keys())
            self.assertEqual(part["flat"]["m"].tolist(), self.shard()["flat"]["m"].tensor.tolist())
        with self.assertRaisesRegex(
            hvd.CheckpointError, "rank 0: step 2, sharded|call other things"
        ):
            self.files.save(2, shard={} if ht.rank() == 0 or ht.size() == 1 else None)
            self.assertEqual(ht.size(), 1)
            raise hvd.CheckpointError("call other things")


if __name__ == "__main__":
    unittest.main(verbosity=2)
