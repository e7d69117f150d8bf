# SPDX-License-Identifier: Apache-2.0
"""lint reads #SBATCH lines as the sbatch that is installed here does.

Usage: real_sbatch_test.py HVDRUN

sbatch reads the script before it asks a controller, so that none is needed: it either complains or
prints, with -v, the options it has read. Without sbatch the test is skipped.
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

CONFIG = """ClusterName=lint
SlurmctldHost=localhost(127.0.0.1)
SlurmctldPort=1
AuthType=auth/none
MessageTimeout=1
NodeName=n1 CPUs=1
PartitionName=p Nodes=n1 Default=YES
"""

# Lines of a header, and what sbatch makes of them: the option it has read, or None: it refuses.
CASES = (
    ("#SBATCH --nodes=2", ("nodes", "2")),
    ("#SBATCH -N2", ("nodes", "2")),
    ("#SBATCH -N 2 # of --ntasks=9", ("nodes", "2")),
    ("#SBATCH\t--nodes 3", ("nodes", "3")),
    ("#SBATCH --job-name='a b'", ("job-name", "a b")),
    ('#SBATCH -J "a b" -N 2', ("job-name", "a b")),
    ('#SBATCH --comment="a\\"b"', ("comment", 'a"b')),
    ("#SBATCH --comment=a\\#b#c", ("comment", "a#b")),
    ("#SBATCH --cpus-per-ta=4", ("cpus-per-task", "4")),
    ("#SBATCH --nodes=2 --nodes=4", ("nodes", "4")),
    ("#SBATCH -C gpu&hbm80g", ("constraint", "gpu&hbm80g")),
    ("#SBATCH --time=1:00:00", ("time", "01:00:00")),
    ("#SBATCH --mem=0 --mem-per-cpu=3G", None),
    ("#SBATCH -C gpu & hbm80g", None),
    ("#SBATCH --ntask-per-node=4", None),
    ("#SBATCH --ntask=4", None),
    ("#SBATCH --time=1h", None),
    ("#SBATCH nodes=2", None),
    ("#SBATCH --time", None),
    ("#SBATCH --comment=a\\ b", None),
    ('#SBATCH --comment="a b', None),
)
# Lines that are comments to sbatch.
COMMENTS = (" #SBATCH --nodes=7", "#sbatch --nodes=7", "##SBATCH --nodes=7", "# SBATCH --nodes=7")
# Files that sbatch refuses as a whole, and lint's rule.
REFUSED = (
    ("#SBATCH --nodes=1\necho\n", "no-batch-script"),
    ("#!/bin/bash\r\n#SBATCH --nodes=1\r\necho\r\n", "no-batch-script"),
    ("", "no-script"),
    ("#!/bin/bash\n#SBATCH --nodes=1\necho \0\n", "no-script"),
)


def run(words: list[str], **variables: str) -> subprocess.CompletedProcess:
    """Run a command."""
    return subprocess.run(
        words,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def main() -> None:
    """Compare the two readers."""
    if shutil.which("sbatch") is None:
        print("skipped: sbatch is not installed")
        sys.exit(77)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        config = folder / "slurm.conf"
        config.write_text(CONFIG)
        job = folder / "job.sbatch"

        def read_by_sbatch(text: str) -> str:
            job.write_bytes(text.encode())
            return run(["sbatch", "--test-only", "-v", str(job)], SLURM_CONF=str(config)).stderr

        def errors_of_lint(text: str) -> list[str]:
            job.write_bytes(text.encode())
            done = run([sys.argv[1], "lint", "--site", "generic", "--format", "json", str(job)])
            findings = json.loads(done.stdout)["files"][0]["findings"]
            return [one["rule"] for one in findings if one["severity"] == "error"]

        if "defined options" not in read_by_sbatch("#!/bin/bash\n#SBATCH --nodes=1\necho\n"):
            print("skipped: this sbatch reads no script without a controller")
            sys.exit(77)
        for line, option in CASES:
            text = f"#!/bin/bash\n{line}\necho\n"
            said, errors = read_by_sbatch(text), errors_of_lint(text)
            if option is None:
                assert "defined options" not in said, f"sbatch takes {line!r}"
                assert errors, f"lint finds nothing wrong with {line!r}"
            else:
                wanted = f"{option[0]:<20}: {option[1]}\n"
                assert wanted in said, f"sbatch does not read {wanted!r} in {line!r}: {said}"
                assert not errors, f"lint finds {errors} in {line!r}"
        for text, rule in REFUSED:
            assert "defined options" not in read_by_sbatch(text), f"sbatch takes {text!r}"
            assert rule in errors_of_lint(text), f"lint takes {text!r}"
        for line in COMMENTS:
            said = read_by_sbatch(f"#!/bin/bash\n#SBATCH --ntasks=1\n{line}\necho\n")
            assert "defined options" in said and ": 7\n" not in said, f"sbatch reads {line!r}"
        said = read_by_sbatch("#!/bin/bash\n#SBATCH --ntasks=1\necho\n#SBATCH --nodes=7\n")
        assert "defined options" in said and ": 7\n" not in said, "sbatch reads behind a command"


main()
