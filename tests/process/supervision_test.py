# SPDX-License-Identifier: Apache-2.0
"""Drives the built hvdrun: exit codes, output, and that nothing is left behind.

Usage: supervision_test.py HVDRUN [unittest arguments]
"""

import os
import re
import resource
import select
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

from jobs import without_launchers

HVDRUN = ""
LIMIT_S = 30

# A shell wrapper around python around a worker that ignores SIGTERM and leaves its session: what a
# data loader can be at its worst. Each of the three prints its pid.
TREE = """
echo pid $$
/usr/bin/python3 -c '
import os, signal, subprocess, sys
print("pid", os.getpid(), flush=True)
subprocess.Popen(["/bin/sh", "-c", "trap \\"\\" TERM INT HUP; echo pid $$; exec sleep 300"],
                 start_new_session=True, env={} if os.environ["HVD_RANK"] == "0" else None)
signal.pause()
'
true
"""


def hvdrun(*arguments, stdin=subprocess.DEVNULL, **options):
    return subprocess.run(
        [HVDRUN, *arguments],
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
        env=without_launchers(),
        check=False,
        **({"stdin": stdin} if "input" not in options else {}),
        **options,
    )


class ExitCodes(unittest.TestCase):
    def test_explain_warns_of_a_program_that_is_not_there(self):
        done = hvdrun("explain", "-np", "2", "no-such-program")
        self.assertEqual(done.returncode, 0)
        self.assertIn("hvdrun: warning: no-such-program: no such program", done.stderr)
        self.assertEqual(hvdrun("explain", "-np", "2", "true").stderr, "")

    def test_explain_hides_what_looks_like_a_secret(self):
        typed = ("-x", "WANDB_API_KEY=hush", "-x", "NCCL_DEBUG=INFO")
        done = hvdrun("explain", *typed, "-np", "2", "true")
        self.assertIn("WANDB_API_KEY=(redacted)", done.stdout)
        self.assertIn("NCCL_DEBUG=INFO", done.stdout)
        self.assertNotIn("hush", done.stdout)
        ranks = hvdrun(*typed, "-np", "2", "sh", "-c", "echo $WANDB_API_KEY")
        self.assertEqual(ranks.stdout.count("hush"), 2)

    def test_success_is_zero(self):
        self.assertEqual(hvdrun("-np", "3", "true").returncode, 0)

    def test_the_first_failing_rank_is_named_and_its_code_returned(self):
        script = "if [ $HVD_RANK = 1 ]; then echo why it failed >&2; exit 7; fi; exec sleep 300"
        done = hvdrun("-np", "3", "--grace", "0.1", "sh", "-c", script)
        self.assertEqual(done.returncode, 7)
        host = re.escape(os.uname().nodename)
        self.assertRegex(done.stderr, f"hvdrun: rank 1 on host {host} failed first: exit code 7\n")
        self.assertEqual(done.stderr.count("why it failed"), 1, "what was just shown")
        self.assertEqual(done.stderr.count("failed first"), 1)

    def test_the_cause_is_the_last_line_where_others_write_on(self):
        script = "[ $HVD_RANK = 1 ] && exit 7; read line <$0; echo $line >&2; exit 1"
        with tempfile.TemporaryDirectory() as folder:
            gate = os.path.join(folder, "gate")
            os.mkfifo(gate)
            command = [HVDRUN, "-np", "2", "sh", "-c", script, gate]
            pipe = subprocess.PIPE
            lines = []
            with subprocess.Popen(command, stderr=pipe, text=True, env=without_launchers()) as job:
                for line in job.stderr:
                    lines.append(line)
                    if "have 10 s to end" in line:
                        Path(gate).write_text("lost rank 1\n", encoding="utf-8")
            self.assertEqual(job.returncode, 7)
        host = re.escape(os.uname().nodename)
        self.assertEqual(lines[-2], "[0] lost rank 1\n")
        self.assertRegex(
            lines[-1], f"^hvdrun: the cause, as said above: rank 1 on host {host}, exit code 7$"
        )

    def test_a_signal_gives_128_plus_its_number(self):
        done = hvdrun("-np", "2", "sh", "-c", "ulimit -c 0; [ $HVD_RANK = 0 ] || kill -SEGV $$")
        self.assertEqual(done.returncode, 139)
        self.assertIn("failed first: signal 11 (Segmentation fault)", done.stderr)

    def test_a_rank_that_ignores_sigterm_is_killed(self):
        script = "if [ $HVD_RANK = 1 ]; then exit 3; fi; trap '' TERM; while :; do sleep 300; done"
        start = time.monotonic()
        done = hvdrun("-np", "2", "--grace", "0.1", "sh", "-c", script)
        self.assertEqual(done.returncode, 3)
        self.assertLess(time.monotonic() - start, 20)

    def test_a_program_that_is_not_there_is_127(self):
        done = hvdrun("-np", "2", "no-such-program")
        self.assertEqual(done.returncode, 127)
        self.assertIn("no-such-program: no such program in PATH", done.stderr)
        self.assertEqual(hvdrun("./no-such-program").returncode, 127)

    def test_a_program_that_cannot_run_is_126(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "train.py")
            with open(path, "w", encoding="ascii") as script:
                script.write("print(1)\n")
            done = hvdrun("-np", "2", path)
        self.assertEqual(done.returncode, 126)
        self.assertIn(f"hvdrun python3 {path}", done.stderr)
        self.assertEqual(hvdrun("/").returncode, 126)

    def test_many_ranks_raise_the_limit_of_open_files_or_name_it(self):
        def limited(soft, hard):
            return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

        ranks = ["-np", "24", "true"]
        most = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        result = hvdrun(*ranks, preexec_fn=limited(64, most))
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        result = hvdrun(*ranks, preexec_fn=limited(64, 64))
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stderr, r"24 ranks on this host: \d+ files must be open at once")
        self.assertIn("ulimit -n", result.stderr)

    def test_help_that_cannot_be_written_is_1(self):
        with open("/dev/full", "wb") as full:
            done = subprocess.run([HVDRUN, "--help"], stdout=full, check=False, timeout=60)
        self.assertEqual(done.returncode, 1)

    def test_bad_usage_is_2_and_one_sentence(self):
        cases = {
            ("--frobnicate", "true"): "unknown option '--frobnicate'",
            ("-np", "2", "-hostfile", "f", "true"): "unknown option '-hostfile'",
            ("header", "--site", "jean-zay", "-host"): "unknown option '-host'",
            ("-np=2", "true"): "hint: write -np 2",
            ("-np", "0", "true"): "0",
            ("-np", "x", "true"): "x",
            ("-np", "2"): "no program to run",
            (): "no program to run",
            ("-np", "2", "--nodes", "3", "true"): "--nodes 3 is more than -np 2",
            ("--bind", "elbows", "true"): "elbows",
            ("-x", "=1", "true"): "names no variable",
            ("-x", "-np", "2", "true"): "names no variable",
        }
        for arguments, text in cases.items():
            with self.subTest(arguments):
                done = hvdrun(*arguments)
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn(text, done.stderr)
                self.assertRegex(done.stderr, r"\Ahvdrun: .*\n(hint: .*\n)?\Z")
                self.assertEqual(done.stdout, "")

    def test_a_variable_that_is_not_set_is_a_warning_as_with_mpirun(self):
        script = 'test -z "${NOT_SET_HERE+set}" && test "$ALSO" = here'
        for command in ("run", "explain"):
            with self.subTest(command):
                done = hvdrun(
                    *(command, "-np", "2", "-x", "NOT_SET_HERE", "-x", "ALSO=here"),
                    *("sh", "-c", script),
                )
                self.assertEqual(done.returncode, 0, done.stderr)
                warning = (
                    "hvdrun: warning: -x NOT_SET_HERE: NOT_SET_HERE is not set here, the ranks do "
                    "not get it\nhint: type -x NOT_SET_HERE=value\n"
                )
                self.assertEqual(done.stderr.count(warning), 1, done.stderr)
                self.assertEqual(done.stderr.count("NOT_SET_HERE"), 3, done.stderr)


class Output(unittest.TestCase):
    def test_lines_are_whole_prefixed_and_streams_stay_apart(self):
        script = (
            'import os, sys\nfor i in range(200):\n print("x" * 3000, os.environ["HVD_RANK"])\n'
            ' print("e" * 50, os.environ["HVD_RANK"], file=sys.stderr)\n'
        )
        done = hvdrun("-np", "4", "/usr/bin/python3", "-c", script)
        self.assertEqual(done.returncode, 0)
        for text, letter, length in ((done.stdout, "x", 3000), (done.stderr, "e", 50)):
            lines = text.splitlines()
            self.assertEqual(len(lines), 800)
            for line in lines:
                self.assertRegex(line, rf"^\[(\d)\] {letter}{{{length}}} \1$")

    def test_one_rank_is_passed_on_byte_by_byte(self):
        done = hvdrun("-np", "1", "printf", "a\\tb")
        self.assertEqual(done.stdout, "a\tb")
        self.assertEqual(hvdrun("-np", "1", "--prefix", "echo", "a").stdout, "[0] a\n")
        self.assertEqual(hvdrun("-np", "2", "--no-prefix", "echo", "a").stdout, "a\na\n")

    def test_the_last_line_needs_no_end(self):
        lines = hvdrun("-np", "2", "printf", "a").stdout.splitlines()
        self.assertEqual(sorted(lines), ["[0] a", "[1] a"])

    def test_timestamps(self):
        done = hvdrun("-np", "1", "--timestamp", "--prefix", "echo", "a")
        self.assertRegex(done.stdout, r"^\d\d:\d\d:\d\d\.\d{3} \[0\] a\n$")

    def test_output_dir_holds_what_each_rank_wrote(self):
        with tempfile.TemporaryDirectory() as folder:
            out = os.path.join(folder, "logs")
            hvdrun("-np", "2", "--output-dir", out, "sh", "-c", "echo o$HVD_RANK; echo e >&2")
            latest = os.path.join(out, "latest")
            self.assertEqual(
                sorted(os.listdir(latest)),
                ["rank-0.err", "rank-0.out", "rank-1.err", "rank-1.out"],
            )
            with open(os.path.join(latest, "rank-1.out"), encoding="ascii") as text:
                self.assertEqual(text.read(), "o1\n")

    def test_standard_streams_that_are_closed_are_no_place_for_others(self):
        with tempfile.TemporaryDirectory() as folder:
            line = f"exec {HVDRUN} -np 2 --output-dir {folder} sh -c 'cat; echo o; echo e >&2'"
            for closed in ">&-", "<&- >&- 2>&-":
                done = subprocess.run(
                    ["sh", "-c", f"{line} {closed}"],
                    env=without_launchers(),
                    stdin=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    timeout=LIMIT_S,
                    check=False,
                )
                self.assertEqual(done.returncode, 0, closed)
                for stream, text in (("out", "o\n"), ("err", "e\n")):
                    path = os.path.join(folder, "latest", f"rank-1.{stream}")
                    with open(path, encoding="ascii") as kept:
                        self.assertEqual(kept.read(), text, closed)

    def test_a_second_run_keeps_what_the_first_wrote(self):
        with tempfile.TemporaryDirectory() as folder:
            os.mkdir(os.path.join(folder, "7"))
            for ranks in "3", "1":
                hvdrun("-np", ranks, "--output-dir", folder, "sh", "-c", "echo of $HVD_SIZE")
            self.assertEqual(sorted(os.listdir(folder)), ["7", "8", "9", "latest"])
            self.assertEqual(os.readlink(os.path.join(folder, "latest")), "9")
            files = sorted(os.listdir(os.path.join(folder, "9")))
            self.assertEqual(files, ["rank-0.err", "rank-0.out"])
            with open(os.path.join(folder, "8", "rank-2.out"), encoding="ascii") as text:
                self.assertEqual(text.read(), "of 3\n")

    def test_runs_into_one_folder_at_once_stay_apart(self):
        with tempfile.TemporaryDirectory() as folder:
            command = [HVDRUN, "-np", "1", "--output-dir", folder, "sh", "-c", "echo $$"]
            jobs = [
                subprocess.Popen(command, stdout=subprocess.PIPE, env=without_launchers())
                for _ in range(6)
            ]
            said = sorted(job.communicate(timeout=LIMIT_S)[0].decode() for job in jobs)
            kept = []
            for number in range(1, 7):
                with open(os.path.join(folder, f"{number}", "rank-0.out"), encoding="ascii") as out:
                    kept.append(out.read())
            self.assertEqual(sorted(kept), said)

    def test_stdin_goes_to_rank_0_only(self):
        script = 'echo "$HVD_RANK:$(cat)"'
        done = hvdrun("-np", "3", "--no-prefix", "sh", "-c", script, input="hello")
        self.assertEqual(sorted(done.stdout.splitlines()), ["0:hello", "1:", "2:"])

    def test_a_reader_that_leaves_ends_the_job(self):
        job = subprocess.Popen(
            [HVDRUN, "-np", "2", "yes"], stdout=subprocess.PIPE, env=without_launchers()
        )
        job.stdout.readline()
        job.stdout.close()
        self.assertNotEqual(job.wait(LIMIT_S), 0)


class Environment(unittest.TestCase):
    def test_ranks_know_who_they_are(self):
        names = "HVD_RANK HVD_SIZE HVD_LOCAL_RANK HVD_LOCAL_SIZE HVD_NODE HVD_VIRTUAL_NODE"
        script = "echo " + " ".join("$" + name for name in names.split())
        done = hvdrun("-np", "3", "--nodes", "2", "--no-prefix", "sh", "-c", script)
        self.assertEqual(
            sorted(done.stdout.splitlines()), ["0 3 0 2 0 0", "1 3 1 2 0 0", "2 3 0 1 1 1"]
        )

    def test_defaults_and_x(self):
        script = "echo $PYTHONUNBUFFERED $A $HOME"
        done = hvdrun("-np", "1", "-x", "A=b", "sh", "-c", script)
        self.assertEqual(done.stdout.split()[:2], ["1", "b"])

    def test_ranks_know_who_they_are_by_the_names_of_torchrun(self):
        names = "RANK WORLD_SIZE LOCAL_RANK LOCAL_WORLD_SIZE MASTER_ADDR MASTER_PORT"
        script = "echo " + " ".join("$" + name for name in names.split())
        show = ("--no-prefix", "sh", "-c", script)
        lines = sorted(hvdrun("-np", "3", "--nodes", "2", *show).stdout.splitlines())
        told = [line.split() for line in lines]
        self.assertEqual(
            [line[:5] for line in told],
            [
                ["0", "3", "0", "2", "127.0.0.1"],
                ["1", "3", "1", "2", "127.0.0.1"],
                ["2", "3", "0", "1", "127.0.0.1"],
            ],
        )
        self.assertEqual(len({line[5] for line in told}), 1)
        # What the user says stands; what an outer launcher said of its own ranks does not.
        mine = hvdrun("-np", "1", "-x", "MASTER_PORT=7", "-x", "LOCAL_RANK=5", *show)
        self.assertEqual(mine.stdout, "0 1 5 1 127.0.0.1 7\n")
        # A prepared rank is of the same job; the ranks of a job in a rank are not.
        again = hvdrun("-np", "2", "--no-prefix", HVDRUN, *show[1:]).stdout.splitlines()
        self.assertEqual(len({line.split()[5] for line in again}), 1, again)
        nested = (HVDRUN, "-np", "1", "--nested", *show)
        inside = hvdrun("-np", "2", "--no-prefix", *nested).stdout.splitlines()
        self.assertEqual([line.split()[:2] for line in inside], [["0", "1"]] * 2)
        self.assertEqual(len({line.split()[5] for line in inside}), 2, inside)

    def test_np_in_a_rank_is_refused_unless_it_is_meant(self):
        inner = [HVDRUN, "-np", "2", "sh", "-c", "echo $HVD_RANK of $HVD_SIZE"]
        refused = hvdrun("-np", "2", "--grace", "5", *inner)
        self.assertEqual(refused.returncode, 2, refused.stderr)
        self.assertRegex(
            refused.stderr, r"-np 2: this process is rank \d of 2 already \(by hvdrun\)"
        )
        meant = hvdrun("-np", "2", "--no-prefix", *inner[:1], "--nested", "--no-prefix", *inner[1:])
        self.assertEqual(meant.stdout.split("\n").count("1 of 2"), 2, meant.stderr)
        self.assertEqual(hvdrun("-np", "1", *inner).returncode, 0)

    def test_variables_of_an_outer_step_are_cleared(self):
        outer = {"SLURM_JOB_ID": "1", "SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1"}
        outer.update({"SLURM_PROCID": "0", "PMIX_RANK": "0", "OMPI_COMM_WORLD_RANK": "0"})
        done = subprocess.run(
            [HVDRUN, "-np", "2", "--no-prefix", "env"],
            capture_output=True,
            text=True,
            timeout=LIMIT_S,
            env=without_launchers(**outer),
            check=True,
        )
        for name in outer:
            if name != "SLURM_JOB_ID":
                self.assertNotIn(name + "=", done.stdout)

    def test_dry_run_starts_nothing_and_hides_the_key(self):
        done = hvdrun("--dry-run", "-np", "2", "--nodes", "2", "no-such-program", "a b")
        self.assertEqual(done.returncode, 0)
        self.assertIn("placement: 2 ranks on 2 virtual nodes", done.stdout)
        self.assertIn("HVD_JOB_KEY=(redacted)", done.stdout)
        self.assertIn("  no-such-program 'a b'\n", done.stdout)
        self.assertTrue(done.stdout.endswith("nothing was started\n"))


class NothingLeftBehind(unittest.TestCase):
    """Two ranks, each a shell, a python and a worker; then something dies."""

    def setUp(self):
        self.job = subprocess.Popen(
            [HVDRUN, "-np", "2", "--grace", "1", "bash", "-c", TREE],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=without_launchers(),
        )
        self.pids = []
        self.rank_pids = {}
        while len(self.pids) < 6:
            rank, pid = re.match(r"\[(\d)\] pid (\d+)", self.job.stdout.readline()).groups()
            self.pids.append(int(pid))
            self.rank_pids.setdefault(int(rank), int(pid))
        self.watches = [os.pidfd_open(pid) for pid in self.pids]

    def tearDown(self):
        self.job.kill()
        self.job.communicate()
        for watch in self.watches:
            os.close(watch)

    def keeper(self):
        with open(f"/proc/{self.rank_pids[0]}/stat", encoding="ascii") as stat:
            return int(stat.read().rsplit(")", 1)[1].split()[1])

    def assert_all_gone(self):
        deadline = time.monotonic() + LIMIT_S
        for pid, watch in zip(self.pids, self.watches):
            left = max(0, deadline - time.monotonic())
            self.assertTrue(select.select([watch], [], [], left)[0], f"process {pid} lives on")

    def end(self, act, code):
        act()
        self.assertEqual(self.job.wait(LIMIT_S), code)
        self.assert_all_gone()

    def test_after_sigint(self):
        # python ends at SIGINT and its shell with it; the worker does not.
        self.end(lambda: self.job.send_signal(signal.SIGINT), 130)

    def test_after_sigterm(self):
        self.end(lambda: self.job.send_signal(signal.SIGTERM), 143)

    def test_after_sigkill_of_hvdrun(self):
        self.end(self.job.kill, -signal.SIGKILL)

    def test_after_sigkill_of_the_keeper(self):
        keeper = self.keeper()
        self.assertNotEqual(keeper, self.job.pid)
        self.end(lambda: os.kill(keeper, signal.SIGKILL), 137)

    def test_after_sigkill_of_a_rank(self):
        self.end(lambda: os.kill(self.rank_pids[1], signal.SIGKILL), 137)


class AfterSuccess(unittest.TestCase):
    def test_a_daemon_does_not_outlive_its_rank(self):
        script = "setsid sleep 300 >/dev/null 2>&1 & echo $!"
        done = hvdrun("-np", "1", "sh", "-c", script)
        self.assertEqual(done.returncode, 0)
        with self.assertRaises(ProcessLookupError):
            os.kill(int(done.stdout), 0)


if __name__ == "__main__":
    HVDRUN = sys.argv.pop(1)
    unittest.main(verbosity=1)
