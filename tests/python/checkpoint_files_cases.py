# SPDX-License-Identifier: Apache-2.0
"""Files of checkpoints: whole whatever ends their writers, and damage is found; who reads which.

No rank runs this.
"""

from __future__ import annotations

import itertools
import os
import random
import struct
import subprocess
import sys
import tempfile
import unittest
import warnings
import zipfile
from pathlib import Path
from typing import Any

import torch

import hvd.torch as ht
from hvd import checkpoints
from hvd._core import whole_files
from hvd.torch import part_files, shards

# Forks jobs of one rank, ends them, and looks at what they have left.
WRITERS = """
import os, random, signal, sys, time, torch, hvd, hvd.torch as ht
from hvd.torch.checkpoint_files import Files
torch.set_num_threads(1)

def state(value):
    model = torch.nn.Linear(300, 300)
    with torch.no_grad():
        model.weight.fill_(value)
    return model, {"own": ht.Slice(torch.full((90000,), value), 0, 90000)}

def look(files):
    model, _ = state(-1.0)
    resumed = files.resume(model)
    if resumed is None:
        return 0
    own = resumed.shards.slices()["own"].tensor
    assert set(model.weight.flatten().tolist()) == set(own.tolist()) == {resumed.step}, resumed
    return resumed.step

def steps():
    return max(ht.Checkpoints("killed").files.steps(), default=0)

def write_on(folder):
    files = ht.Checkpoints(folder)
    newest = look(files)
    for step in range(newest + 1, newest + 100000):
        model, own = state(float(step))
        files.save_async(step, model, shard=own)

def write_slowly(self, state, file, write=Files._write):
    time.sleep(0.1)
    write(self, state, file)

def fail(self, state, file):
    raise OSError("the disk has gone")

newest = 0
for moment in range(5):
    child = os.fork()
    if child == 0:
        ht.init()
        write_on("killed")
    while steps() <= newest:
        assert os.waitpid(child, os.WNOHANG) == (0, 0)
        time.sleep(0.002)
    time.sleep(random.Random(moment).uniform(0.0, 0.1))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    newest = steps()
for way in ("ends", "raises", "fails"):
    child = os.fork()
    if child == 0:
        Files._write = fail if way == "fails" else write_slowly
        ht.init()
        model, own = state(1.0)
        ht.Checkpoints(way).save_async(1, model, shard=own)
        sys.exit(1 // 0 if way == "raises" else 0)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    assert code == (way == "raises"), (way, code)
ht.init()
files = ht.Checkpoints("killed")
assert look(files) == newest >= 5, newest
model, own = state(newest + 1.0)
files.save(newest + 1, model, shard=own)
assert len(os.listdir("killed")) == 6, os.listdir("killed")  # 3 files and their folders
assert [look(ht.Checkpoints(way)) for way in ("ends", "raises", "fails")] == [1, 1, 0]
"""


def cut_at(whole: int, ends: list[int]) -> list[tuple[int, int]]:
    """Offsets and lengths between sorted places."""
    return [(begin, end - begin) for begin, end in zip([0, *ends], [*ends, whole])]


def saved_by(cuts: list[tuple[int, int]], whole: int) -> tuple[list[Any], list[shards.Part]]:
    """What so many ranks would have written of the numbers from 0 on, without them."""
    states, parts = [], []
    for rank, (offset, length) in enumerate(cuts):
        numbers = torch.arange(offset, offset + length, dtype=torch.int32)
        state, rows = shards.taken_apart({"x": [rank, ht.Slice(numbers, offset, whole)]})
        states.append(state)
        parts.append(shards.Part(str(rank), 0, 0, rows))
    return states, parts


class Files(unittest.TestCase):
    def setUp(self) -> None:
        kept = tempfile.TemporaryDirectory(prefix="hvd-test-")
        self.addCleanup(kept.cleanup)
        self.folder = Path(kept.name)

    def test_whatever_ends_a_writer(self) -> None:
        """A kill at any moment, the end of the program, an error of it, a disk that fails."""
        done = subprocess.run(
            [sys.executable, "-c", WRITERS],
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stderr, r"writing part 0 of 1 .* failed: OSError: the disk has gone")

    def test_a_flipped_bit_is_found(self) -> None:
        weights = torch.randn(500)
        states = ({"model": weights, "optimizer": None, "extra": {}}, {"numbers": list(range(500))})
        for kind, state in zip((ht.Checkpoints("").files, checkpoints.Checkpoints("")), states):
            kind.folder = self.folder / type(kind).__name__
            kind._put(1, lambda file: kind._write("older", file))  # noqa: B023
            kind._put(2, lambda file: kind._write(state, file))  # noqa: B023
            whole = kind.path(2).read_bytes()
            self.assertEqual(kind.read_newest().step, 2)
            generator = random.Random(0)
            for _ in range(60):
                place = generator.randrange(len(whole) - whole_files._SEAL_BYTES)
                flipped = bytearray(whole)
                flipped[place] ^= 1 << generator.randrange(8)
                kind.path(2).write_bytes(flipped)
                with warnings.catch_warnings(record=True) as caught:
                    warnings.simplefilter("always")
                    self.assertEqual(kind.read_newest(), (1, "older"), place)
                self.assertRegex(str(caught[0].message), "passed over: .*: its checksum is ")
            both = bytearray(whole)  # the content, and the name of the checksum
            both[400] ^= 1
            both[-50] ^= 1
            kind.path(2).write_bytes(both)
            with self.assertWarnsRegex(UserWarning, "passed over: .*: its checksum is damaged"):
                self.assertEqual(kind.read_newest().step, 1)
            for end in (whole + b"more", whole[:-9]):  # as a file of an older version
                kind.path(2).write_bytes(end)
                self.assertEqual(kind.read_newest().step, 2)
            kind.path(2).write_bytes(whole[:500] + whole[-whole_files._SEAL_BYTES :])
            with self.assertWarnsRegex(UserWarning, "passed over: .*: it has 500 bytes"):
                self.assertEqual(kind.read_newest().step, 1)

    def test_files_are_those_of_torch(self) -> None:
        files = ht.Checkpoints(self.folder).files
        state = {"model": {"w": torch.ones(3)}, "optimizer": None, "extra": {}}
        files._put(1, lambda file: files._write(state, file))
        self.assertEqual(torch.load(files.path(1))["model"]["w"].tolist(), [1.0] * 3)
        with zipfile.ZipFile(files.path(1)) as archive:
            self.assertIsNone(archive.testzip())
        torch.save({**state, "extra": "of an older version"}, files.path(2))
        self.assertEqual(files.read_newest().state["extra"], "of an older version")
        self.assertIsNone(whole_files.verify(files.path(2)))

    def test_tensors_are_written_as_they_are(self) -> None:
        files = ht.Checkpoints(self.folder).files
        weight = torch.nn.Linear(3, 2).weight
        base = torch.arange(20.0)
        state = {
            "view": base[2:7],
            "turned": base.view(4, 5).t(),
            "tied": [weight, weight],
            "empty": torch.empty(0, 3),
            "kinds": [
                torch.ones(3, dtype=kind) for kind in (torch.bool, torch.bfloat16, torch.int64)
            ],
            "plain": {"step": 3},
        }
        files._put(1, lambda file: files._write(state, file))
        found = files.read_newest().state
        self.assertEqual(found["plain"], state["plain"])
        self.assertIs(found["tied"][0], found["tied"][1])
        self.assertIs(type(found["tied"][0]), torch.nn.Parameter)
        for name in ("view", "turned", "empty"):
            self.assertTrue(torch.equal(found[name], state[name]))
            self.assertEqual(found[name].stride(), state[name].stride())
        self.assertEqual(found["view"].storage_offset(), 2)
        for one, other in zip(found["kinds"], state["kinds"]):
            self.assertTrue(torch.equal(one, other) and one.dtype == other.dtype)
        whole = files.path(1).read_bytes()
        with zipfile.ZipFile(files.path(1)) as archive:
            for entry in archive.infolist():  # may be mapped
                name, extra = struct.unpack_from("<HH", whole, entry.header_offset + 26)
                self.assertEqual((entry.header_offset + 30 + name + extra) % 64, 0, entry.filename)

    def test_exchange_with_distributed_checkpoint_of_torch(self) -> None:
        try:
            from torch.distributed.checkpoint import format_utils
        except ImportError:
            self.skipTest("this torch has no converter for torch.distributed.checkpoint")
        ht.init()
        self.addCleanup(ht.shutdown)
        model = torch.nn.Linear(3, 2)
        files = ht.Checkpoints(self.folder)
        files.save(1, model, best=0.5, shard={"m": ht.Slice(torch.arange(5.0), 0, 5)})
        format_utils.torch_save_to_dcp(files.files.path(1), self.folder / "dcp")
        format_utils.dcp_to_torch_save(self.folder / "dcp", files.files.path(2))
        other = torch.nn.Linear(3, 2)
        resumed = files.resume(other)
        self.assertEqual(resumed, (2, {"best": 0.5}))
        self.assertTrue(torch.equal(other.weight, model.weight))
        whole = {name: one.tensor for name, one in resumed.shards.slices().items()}
        torch.save(whole, self.folder / "whole")
        format_utils.torch_save_to_dcp(self.folder / "whole", self.folder / "dcp-of-slices")
        state = {"m": torch.zeros(5)}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of a single process
            torch.distributed.checkpoint.load(state, checkpoint_id=self.folder / "dcp-of-slices")
        self.assertEqual(state["m"].tolist(), [0.0, 1.0, 2.0, 3.0, 4.0])


class Decisions(unittest.TestCase):
    """They need no rank."""

    def test_cuts_are_even_and_complete(self) -> None:
        for whole, size in itertools.product((0, 1, 7, 12, 1000), (1, 2, 3, 5, 12)):
            cuts = [shards.even_cut(whole, size, rank) for rank in range(size)]
            self.assertEqual(cuts, cut_at(whole, [offset for offset, _ in cuts[1:]]))
            lengths = [length for _, length in cuts]
            self.assertLessEqual(max(lengths) - min(lengths), 1)
            parts = [list(shards.parts_of(whole, size, rank)) for rank in range(size)]
            self.assertEqual(sum(parts, []), list(range(whole)))
        self.assertEqual(
            [list(shards.parts_of(4, 4, rank)) for rank in range(4)], [[0], [1], [2], [3]]
        )

    def test_slices_are_cut_again_for_any_number_of_ranks(self) -> None:
        generator = random.Random(0)
        for whole, before, now in itertools.product((0, 1, 10, 37), (1, 2, 3, 5, 8), (1, 2, 3, 7)):
            ends = sorted(generator.choices(range(whole + 1), k=before - 1))  # some are empty
            states, parts = saved_by(cut_at(whole, ends), whole)
            self.assertIsNone(shards.mistake_in([part.rows for part in parts]))
            found = [
                shards.Shards(parts, rank, now, states.__getitem__).slices()["x.1"]
                for rank in range(now)
            ]
            self.assertEqual(sum((one.tensor.tolist() for one in found), []), list(range(whole)))
            self.assertEqual(
                {(one.whole, one.tensor.dtype) for one in found}, {(whole, torch.int32)}
            )

    def test_slices_are_cut_as_the_caller_says(self) -> None:
        states, parts = saved_by([(0, 2), (2, 0), (2, 5)], 7)
        read: list[int] = []

        def reading(rank: int) -> Any:
            read.append(rank)
            return states[rank]

        found = shards.Shards(parts, 0, 2, reading)
        self.assertEqual(
            found.slices(lambda name, whole: (3, whole - 4))["x.1"].tensor.tolist(), [3, 4, 5]
        )
        self.assertEqual(read, [2])  # no part that is not needed
        self.assertEqual(found.slices(lambda name, whole: (7, 0))["x.1"].tensor.tolist(), [])
        with self.assertRaisesRegex(ValueError, "rank 0: .*3 elements from 5 on of slice 'x.1'.*7"):
            found.slices(lambda name, whole: (5, 3))
        self.assertEqual(found[2]["x"][0], 2)
        self.assertEqual(found[2]["x"][1][1:], (2, 7))
        self.assertEqual(len(list(found)), 3)

    def test_mistakes_are_named(self) -> None:
        row = shards.Row
        for tables, words in (
            (
                [{"m": row(0, 3, 6, "f")}, {"m": row(2, 4, 6, "f")}],
                "ranks 0 and 1 both have element 2",
            ),
            (
                [{"m": row(0, 3, 6, "f")}, {"m": row(3, 2, 6, "f")}],
                "no rank has elements 5 to 5 of 6",
            ),
            (
                [{"m": row(0, 3, 6, "f")}, {"m": row(3, 3, 7, "f")}],
                "of 7 elements of f on rank 1, of 6",
            ),
            (
                [{"m": row(0, 3, 6, "f")}, {"m": row(3, 3, 6, "g")}],
                "6 elements of g on rank 1, .* f on",
            ),
            ([{"m": row(1, 5, 6, "f")}, {}], "no rank has elements 0 to 0"),
        ):
            self.assertRegex(str(shards.mistake_in(tables)), words)
        empty = [{"m": row(0, 0, 3, "f")}, {"m": row(0, 3, 3, "f")}, {}, {"m": row(3, 0, 3, "f")}]
        self.assertIsNone(shards.mistake_in(empty))
        ones = torch.ones(2)
        for shard, words in (
            (
                {"m": ht.Slice(ones.reshape(1, 2), 0, 2)},
                r"'m': shape \[1, 2\] is not .* flatten it",
            ),
            ({"m": ht.Slice(ones, 1, 2)}, "2 elements from 1 on are not within 2"),
            ({"a": {"b": ht.Slice(ones, 0, 2)}, "a.b": ht.Slice(ones, 0, 2)}, "two .* name 'a.b'"),
        ):
            with self.assertRaisesRegex(ValueError, words):
                shards.taken_apart(shard)

    def test_how_long_parts_are_waited_for(self) -> None:
        self.assertGreater(part_files.patience(["a", "a", "a"], "a", 3), 60)
        for reports in (["a", None, "a"], ["a", "b", "a"], ["a", "a"], []):
            self.assertEqual(part_files.patience(reports, "a", 3), 0)

    def test_folders_say_who_made_them(self) -> None:
        name = part_files.folder_name(Path("somewhere/run.a-0000000012"))
        owner = part_files.Owner.of("run.a", name)
        self.assertEqual((owner.step, owner.process), (12, os.getpid()))
        for other in ("run", "runxa", "run.a-0000000012"):
            self.assertIsNone(part_files.Owner.of(other, name))


if __name__ == "__main__":
    unittest.main(verbosity=2)
