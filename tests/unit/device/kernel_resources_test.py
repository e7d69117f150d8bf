# SPDX-License-Identifier: Apache-2.0
"""Kernels that copy keep a GPU full: few registers, and none of them in memory.

kernel_resources_test.py kernel_resources.json, as the build writes it from what the compiler says.
"""

import json
import sys
import unittest

# 48 registers leave room for five blocks of 256 threads on a multiprocessor: 80 KiB in flight.
_MOST_REGISTERS = 56
_RESOURCES = json.load(open(sys.argv.pop(), encoding="utf-8"))


class TestResources(unittest.TestCase):
    def test_the_compiler_tells_of_every_kernel(self):
        self.assertTrue(_RESOURCES)
        for architecture, kernels in _RESOURCES.items():
            self.assertGreater(len(kernels), 30, architecture)

    def test_nothing_is_spilled_and_registers_are_few(self):
        for architecture, kernels in _RESOURCES.items():
            for name, used in kernels.items():
                with self.subTest(architecture=architecture, kernel=name):
                    self.assertEqual(used["spilled_bytes"], 0)
                    self.assertLessEqual(used["registers"], _MOST_REGISTERS)


if __name__ == "__main__":
    unittest.main()
