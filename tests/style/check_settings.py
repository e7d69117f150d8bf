# SPDX-License-Identifier: Apache-2.0
"""The environment is read at the edges only, and every HVD_ variable of users is in the table of settings."""

import re
import unittest

import sources

# Where the environment of the process is taken, and why there.
_EDGES = {
    "runtime/base/environment.cc": "the reader itself",
    "runtime/base/log.cc": "lines are logged before anything else is there",
    "runtime/c/hvd.cc": "hvd_init()",
    "runtime/c/process.cc": "hvd_init(): how the ranks meet",
    "runtime/c/build_info.cc": "hvd_build_info(), which is asked without a job",
    "launcher/check/check_command.cc": "a command of hvdrun",
    "launcher/check/check_library.cc": "a command of hvdrun",
    "launcher/console/message.cc": "colours of the terminal",
    "launcher/describe/describe_command.cc": "a command of hvdrun",
    "launcher/env/env_command.cc": "a command of hvdrun",
    "launcher/env/sites_command.cc": "a command of hvdrun",
    "launcher/job/job_command.cc": "a command of hvdrun",
    "launcher/lint/lint_command.cc": "a command of hvdrun",
    "launcher/node/topo_command.cc": "a command of hvdrun",
    "launcher/options/app.cc": "the width of --help",
    "launcher/run/run_command.cc": "a command of hvdrun",
}
_READ = re.compile(r"\b(?:getenv|secure_getenv)\s*\(|Environment::of_process\(")
_NAME = re.compile(r'"(HVD_[A-Z_]*[A-Z])"')
_LAUNCH_ENV = "runtime/topology/launch_env.h"
# Not of users: macros of the C interface that errors name, and the example of a docstring.
_OTHERS = {"HVD_EXAMPLE", "HVD_GRADIENTS_OPTIONS_INITIALIZER", "HVD_VERSION"}


def reads(path: str, text: str) -> bool:
    return _READ.search(text) is not None and path not in _EDGES


def names_in_table() -> set[str]:
    table = (sources.ROOT / "runtime/base/settings.cc").read_text()
    written = (sources.ROOT / _LAUNCH_ENV).read_text()
    return set(_NAME.findall(table)) | set(_NAME.findall(written))


class TestSettings(unittest.TestCase):
    def test_only_edges_read_the_environment(self):
        found = []
        for path in sources.tracked("runtime/*.cc", "runtime/*.h", "launcher/*.cc", "launcher/*.h"):
            name = path.as_posix()
            if name.startswith("runtime/include") or name.startswith("launcher/lint/python"):
                continue  # headers of users; words of Python programs
            if reads(name, (sources.ROOT / path).read_text()):
                found.append(f"{name} reads the environment: take what it needs as an argument")
        self.assertEqual(found, [], "\n".join(found))

    def test_every_edge_is_one(self):
        for name in _EDGES:
            if name == "runtime/base/environment.cc":
                continue
            self.assertRegex((sources.ROOT / name).read_text(), _READ, name)

    def test_every_variable_is_in_the_table(self):
        known = names_in_table()
        self.assertGreater(len(known), 40)
        for path in sources.tracked("runtime/*.cc", "runtime/*.h", "launcher/*.cc", "runtime/*.py"):
            used = set(_NAME.findall((sources.ROOT / path).read_text()))
            self.assertEqual(used - known - _OTHERS, set(), path)

    def test_a_planted_reader_is_found(self):
        self.assertTrue(reads("runtime/engine/engine.cc", 'std::getenv("HVD_LOG")'))
        self.assertTrue(reads("launcher/plan/placement.cc", "Environment::of_process()"))
        self.assertFalse(reads("runtime/c/hvd.cc", "hvd::Environment::of_process()"))


if __name__ == "__main__":
    unittest.main()
