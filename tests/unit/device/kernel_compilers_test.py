# SPDX-License-Identifier: Apache-2.0
"""Which architectures kernels are compiled for, by what a compiler knows.

kernel_compilers_test.py FOLDER: that of compile.py.
"""

import sys
import unittest

sys.path.append(sys.argv.pop())

import compile as kernels  # noqa: E402 (the path comes first)

_NVRTC_11_8 = ["35", "37", "50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87"]
_NVRTC_11_8 += ["89", "90"]
_NVRTC_12_9 = ["50", "52", "53", "60", "61", "62", "70", "72", "75", "80", "86", "87", "89", "90"]
_NVRTC_12_9 += ["100", "101", "103", "120", "121"]
_NVRTC_13_0 = ["75", "80", "86", "87", "88", "89", "90", "100", "103", "110", "120", "121"]


class TestCompilers(unittest.TestCase):
    def test_code_is_for_the_first_of_each_family(self):
        self.assertEqual(kernels.usable("cuda", _NVRTC_11_8), ["60", "70", "80", "90"])

    def test_gpu_packages_brings_a_compiler_for_p100_to_b200_and_newer(self):
        expected = ["60", "70", "80", "90", "100", "120"]
        self.assertEqual(kernels.usable("cuda", _NVRTC_12_9), expected)

    def test_what_a_compiler_has_dropped_gives_way_to_the_next_of_its_family(self):
        expected = ["75", "80", "90", "100", "120"]
        self.assertEqual(kernels.usable("cuda", _NVRTC_13_0), expected)

    def test_amd_gpus_run_no_code_of_another(self):
        known = ["gfx908", "gfx90a", "gfx942"]
        self.assertEqual(kernels.usable("rocm", known), known)

    def test_text_serves_the_family_before_the_last(self):
        self.assertEqual(kernels.text_of(["90", "100", "120"]), "100")
        self.assertEqual(kernels.text_of(["60"]), "60")


if __name__ == "__main__":
    unittest.main()
