# SPDX-License-Identifier: Apache-2.0
"""pack_bench measures any list on the double of the driver: what it says is complete, not fast."""

import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

_BENCH = sys.argv.pop()


def _run(text: str) -> subprocess.CompletedProcess:
    with tempfile.TemporaryDirectory() as folder:
        shapes = pathlib.Path(folder) / "shapes.txt"
        shapes.write_text(text)
        return subprocess.run(
            [_BENCH, "--repeats", "1", "--bucket-mib", "0.25", str(shapes)],
            capture_output=True,
            text=True,
            check=False,
            timeout=50,
        )


class TestBench(unittest.TestCase):
    def test_every_format_has_a_line_with_its_buckets_and_launches(self):
        counts = [25_000] * 4 + [3] * 230
        done = _run("".join(f"{count}\n" for count in counts))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = re.findall(r"^  float32 .*\d$", done.stdout, re.MULTILINE)
        self.assertEqual(len(lines), 4, done.stdout)
        # Two of the long ones fit into a bucket, the short ones join the second: 232 tensors.
        self.assertEqual(lines[0].split()[-2:], ["2", "2"])
        self.assertEqual(lines[2].split()[-2:], ["1", "2"])

    def test_an_empty_list_is_an_error(self):
        done = _run("")
        self.assertEqual(done.returncode, 1)
        self.assertIn("no list of counts", done.stdout)


if __name__ == "__main__":
    unittest.main()
