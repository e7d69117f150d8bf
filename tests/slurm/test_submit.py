# SPDX-License-Identifier: Apache-2.0
"""`hvdrun script` in each shape and `hvdrun submit`, as a real sbatch takes and runs them."""

import unittest

import cluster
import slurm_test

_PATH = f"{slurm_test.HVDRUN.parent}:/usr/bin:/bin"
_SAY = 'echo "$SLURM_PROCID ${HVD_LOCAL_DEVICE:-none} $1"'


@unittest.skipUnless(slurm_test.HVDRUN.exists(), "hvdrun is not built")
class JobTest(slurm_test.SlurmTest):
    """What the tests of both clusters share."""

    site = "jean-zay"

    def run_script(self, *options, **env) -> list[str]:
        """Runs a script whose ranks each say a line; those lines in order, behind 'it's'."""
        program = ["bash", "-c", _SAY, "x", "it's a & b"]
        command = [slurm_test.HVDRUN, "script", "--site", self.site, *options, "--", *program]
        script = self.run_ok(command)
        path = self.write_script("shape.sh", script)
        state, output = self.run_batch(path, PATH=f"{self.cluster.root}:{_PATH}", **env)
        self.assertEqual(state, "COMPLETED", script + output)
        lines = [line for line in output.splitlines() if line.endswith("it's a & b")]
        return sorted(lines, key=lambda line: int(line.split()[0]))

    def lines(self, count: int, gpus: int) -> list[str]:
        if not gpus:
            return [f"{rank} none it's a & b" for rank in range(count)]
        return [f"{rank} {rank % gpus} it's a & b" for rank in range(count)]


class TestShapes(JobTest):
    """One cluster for all shapes, and for submit."""

    def test_an_even_split(self):
        self.assertEqual(self.run_script("--gpus", "6"), self.lines(6, 3))

    def test_three_gpus_on_each_of_four_exclusive_nodes(self):
        options = ["--nodes", "4", "--gpus-per-node", "3", "--exclusive", "--switches", "2@00:01"]
        self.assertEqual(self.run_script(*options), self.lines(12, 3))

    def test_a_container(self):
        fake = self.write_script("apptainer", '#!/bin/bash\n[ "$*" != "${*/my.sif/}" ] || exit 9\n')
        with fake.open("a") as file:
            file.write('while [ "$1" != my.sif ]; do shift; done\nshift\nexec "$@"\n')
        self.write_script("singularity", fake.read_text())
        self.assertEqual(self.run_script("--gpus", "2", "--container", "my.sif"), self.lines(2, 2))

    def test_ranks_without_gpus(self):
        self.site = "generic"
        lines = self.run_script("--nodes", "2", "--ntasks-per-node", "2", "--mem", "100M")
        self.assertEqual([line.split()[0] for line in lines], ["0", "1", "2", "3"])

    def start_requeue(self, name: str) -> str:
        """A job that runs until it is told to stop, and after a restart ends at once; its id."""
        program = (
            'trap "echo checkpoint; exit 3" USR2; echo "start $SLURM_RESTART_COUNT"; '
            '[ -z "$SLURM_RESTART_COUNT" ] || exit 0; touch up; sleep 300 & wait'
        )
        options = ["--site", "jz", "--gpus", "1", "--requeue", "--signal", "B:USR2@20"]
        command = [slurm_test.HVDRUN, "script", *options, "--", "bash", "-c", program]
        script = self.write_script(f"{name}.sh", self.run_ok(command))
        up = self.cluster.root / "up"
        up.unlink(missing_ok=True)
        job = self.cluster.submit("-o", self.cluster.root / f"{name}.out", script, PATH=_PATH)
        cluster.await_true(up.exists, 30, "start of the job")
        return job

    def test_a_signal_sends_a_job_back_to_the_queue(self):
        job = self.start_requeue("again")
        self.cluster.login(["scancel", "--batch", "--signal=USR2", job])
        self.assertEqual(self.cluster.await_job(job, 90), "COMPLETED")
        output = (self.cluster.root / "again.out").read_text()
        told = ["restarts so far: 0", "checkpoint", "USR2 came", "restarts so far: 1", "start 1"]
        places = [output.find(text) for text in told]
        self.assertNotIn(-1, places, output)
        self.assertEqual(places, sorted(places), output)

    def test_scancel_ends_such_a_job(self):
        job = self.start_requeue("cancelled")
        self.cluster.login(["scancel", job])
        self.assertEqual(self.cluster.await_job(job, 60), "CANCELLED")
        self.assertNotIn("TERM came", (self.cluster.root / "cancelled.out").read_text())

    def submit(self, *options, program=("true",), env=None):
        command = [slurm_test.HVDRUN, "submit", "--site", "jz", "--gpus", "2", *options]
        return self.cluster.login([*command, "--", *program], **(env or {}))

    def test_follow_shows_the_output_and_gives_the_exit_code(self):
        self.write_script("relative.sh", '#!/bin/bash\necho "rank $SLURM_PROCID"\nexit 7\n')
        result = self.submit("--follow", program=["./relative.sh"])
        self.assertEqual(result.returncode, 7, result.stdout + result.stderr)
        self.assertIn("rank 0\n", result.stdout)
        self.assertIn("rank 1\n", result.stdout)
        self.assertRegex(result.stderr, r"hvdrun: job \d+ ended: failed, exit code 7\n")

    def test_follow_says_why_a_job_waits(self):
        blocker = self.cluster.submit("--exclusive", "-N4", "--wrap", "sleep 300")
        command = [slurm_test.HVDRUN, "submit", "--site", "jz", "--gpus", "2", "--follow", "--"]
        process = self.cluster.start([*command, "true"])
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait, 30)
        said = ""
        while "is pending (" not in said:
            line = process.stdout.readline()
            self.assertTrue(line, said)
            said += line
        self.assertRegex(said, r"\d of \d in partition gpu_p13")
        self.cluster.login(["scancel", blocker])
        rest, _ = process.communicate(timeout=60)
        self.assertIn("ended: completed", rest)
        self.assertEqual(process.returncode, 0, rest)

    def test_an_interrupt_ends_the_following_and_not_the_job(self):
        command = f"{slurm_test.HVDRUN} submit --site jz --gpus 1 --follow -- sleep 300"
        process = self.cluster.start(["bash", "-c", f"{command}; echo code $?"])
        self.addCleanup(process.stdout.close)
        said = ""
        while "is running" not in said:
            line = process.stdout.readline()
            self.assertTrue(line, said)
            said += line
        pid = self.cluster.login(["pgrep", "-x", "hvdrun"]).stdout.split()[0]
        self.cluster.login(["kill", "-INT", pid])
        rest, _ = process.communicate(timeout=30)
        self.assertIn("goes on", rest)
        self.assertIn("code 130\n", rest)
        self.assertEqual(self.cluster.login(["squeue", "-h", "-o", "%T"]).stdout, "RUNNING\n")

    def test_parsable_prints_the_id_and_the_folder_keeps_what_ran(self):
        options = ["--parsable", "--launch-dir", "kept", "-J", "keeper"]
        secret = {"MY_TOKEN": "hidden", "PLAIN": "shown"}
        result = self.submit(*options, env=secret)
        self.assertRegex(result.stdout, r"^\d+\n$", result.stderr)
        job = result.stdout.strip()
        self.assertEqual(self.cluster.await_job(job), "COMPLETED")
        folder = self.cluster.root / "kept"
        self.assertIn("#SBATCH --job-name=keeper\n", (folder / "job.sh").read_text())
        environment = (folder / "environment").read_text()
        self.assertIn("MY_TOKEN=(redacted)\n", environment)
        self.assertIn("PLAIN=shown\n", environment)
        self.assertEqual((folder / "environment").stat().st_mode & 0o777, 0o600)
        for script in "job.sh", "command.sh":  # with the program's arguments
            self.assertEqual((folder / script).stat().st_mode & 0o777, 0o700)
        site = (folder / "site.txt").read_text()
        self.assertIn("site: jean-zay", site)
        self.assertIn("partition: gpu_p13, 4 x V100 per node, 10 cores per task (http", site)
        self.assertIn("sbatch --parsable --chdir=", (folder / "command.sh").read_text())
        self.assertTrue((folder / f"{job}.out").exists())
        again = self.submit(*options)
        self.assertEqual(again.returncode, 2)
        self.assertIn("holds a job already", again.stderr)

    def test_follow_shows_the_entries_of_an_array(self):
        program = ["bash", "-c", "echo entry $SLURM_ARRAY_TASK_ID; exit $SLURM_ARRAY_TASK_ID"]
        result = self.submit("--array", "0,4", "--follow", program=program)
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertIn("[0] entry 0\n", result.stdout)
        self.assertIn("[4] entry 4\n", result.stdout)

    def test_a_dry_run_submits_nothing(self):
        result = self.submit("--dry-run")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("#SBATCH --gres=gpu:2\n", result.stdout)
        self.assertIn("sbatch --parsable", result.stderr)
        self.assertFalse(list(self.cluster.root.glob("hvdrun-jobs/true-*")))

    def test_interactive_runs_in_an_allocation(self):
        result = self.submit("--interactive", program=["bash", "-c", "echo in $SLURM_JOB_ID"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.count("in "), 2, result.stdout)

    def test_without_sbatch_there_is_one_sentence(self):
        command = ["env", "PATH=/no/such", slurm_test.HVDRUN, "submit", "--site", "jz"]
        result = self.cluster.login([*command, "--gpus", "1", "--", "true"])
        self.assertEqual(result.returncode, 127)
        self.assertIn("no sbatch in PATH", result.stderr)

    def test_what_sbatch_refuses_is_told_in_its_words(self):
        result = self.submit("-C", "nosuch")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("Invalid feature specification", result.stderr)


class TestPizDaint(JobTest):
    profile_name = "daint"
    site = "piz-daint"

    def test_a_script_with_modules_and_environment(self):
        # The site's scripts run in a login shell, whose profile makes PATH.
        profile = self.cluster.root / "home" / ".bash_profile"
        profile.write_text(f"PATH={_PATH}\n")
        module = {"BASH_FUNC_module%%": '() { echo "module $*"; }'}
        lines = self.run_script("--nodes", "2", **module)
        self.assertEqual(len(lines), 2, lines)


if __name__ == "__main__":
    slurm_test.main()
