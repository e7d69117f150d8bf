// SPDX-License-Identifier: Apache-2.0
// The kernels as this build embeds them: every kernel is in the code for every architecture, and
// takes the argument that the host gives it.
#include "device/kernels/kernel_image.h"

#include <elf.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include "device/kernels/kernel_names.h"
#include "host_kernel.h"

namespace hvd {
namespace {

/// Sections of an ELF file by name, and the functions that it defines.
struct Elf {
  std::map<std::string, std::span<const std::byte>> sections;
  std::map<std::string, unsigned char> symbols;  ///< Name to st_info.

  explicit Elf(std::span<const std::byte> image) {
    Elf64_Ehdr header;
    std::memcpy(&header, image.data(), sizeof(header));
    EXPECT_EQ(std::memcmp(header.e_ident, ELFMAG, SELFMAG), 0);
    std::vector<Elf64_Shdr> headers(header.e_shnum);
    std::memcpy(headers.data(), image.data() + header.e_shoff, headers.size() * sizeof(Elf64_Shdr));
    const auto contents = [&](const Elf64_Shdr& section) {
      return image.subspan(section.sh_offset, section.sh_type == SHT_NOBITS ? 0 : section.sh_size);
    };
    const auto names = contents(headers[header.e_shstrndx]);
    for (const Elf64_Shdr& section : headers) {
      sections[text_at(names, section.sh_name)] = contents(section);
      if (section.sh_type != SHT_SYMTAB) continue;
      const auto table = contents(section);
      const auto symbol_names = contents(headers[section.sh_link]);
      for (std::size_t at = 0; at + sizeof(Elf64_Sym) <= table.size(); at += sizeof(Elf64_Sym)) {
        Elf64_Sym symbol;
        std::memcpy(&symbol, table.data() + at, sizeof(symbol));
        symbols[text_at(symbol_names, symbol.st_name)] = symbol.st_info;
      }
    }
  }

  static std::string text_at(std::span<const std::byte> strings, std::size_t at) {
    return reinterpret_cast<const char*>(strings.data()) + at;
  }

  /// Bytes of a kernel's arguments, as the compiler notes them for the driver: -1 if it does not.
  int argument_bytes(const std::string& kernel) const {
    constexpr auto kFollowed = std::byte{4};    // a size, and so many bytes
    constexpr auto kValue = std::byte{3};       // 16 bits
    constexpr auto kArguments = std::byte{25};  // EIATTR_CBANK_PARAM_SIZE
    const auto found = sections.find(".nv.info." + kernel);
    if (found == sections.end()) return -1;
    const auto notes = found->second;
    for (std::size_t at = 0; at + 4 <= notes.size();) {
      std::uint16_t value = 0;
      std::memcpy(&value, notes.data() + at + 2, sizeof(value));
      if (notes[at] == kValue && notes[at + 1] == kArguments) return value;
      at += 4 + (notes[at] == kFollowed ? value : 0U);
    }
    return -1;
  }
};

std::vector<int> architectures_of_build() {
  std::vector<int> found;
  std::string_view text = HVD_KERNEL_ARCHITECTURES;
  while (!text.empty()) {
    found.push_back(std::atoi(std::string(text.substr(0, text.find(','))).c_str()));
    text.remove_prefix(
        std::min(text.size(), text.find(',') == text.npos ? text.size() : text.find(',') + 1));
  }
  return found;
}

TEST(KernelImage, HasWhatTheBuildSays) {
  EXPECT_FALSE(architectures_of_build().empty());
  EXPECT_EQ(kernel_architectures(), architectures_of_build());
}

TEST(KernelImage, HasEveryKernelForEveryArchitecture) {
  const std::vector<doubles::HostKernel> kernels = doubles::all_host_kernels();
  ASSERT_GT(kernels.size(), 30U);
  for (const int architecture : kernel_architectures()) {
    const Elf elf(kernel_image(architecture));
    for (const doubles::HostKernel& kernel : kernels) {
      const auto symbol = elf.symbols.find(kernel.name);
      ASSERT_NE(symbol, elf.symbols.end()) << kernel.name << " for sm_" << architecture;
      EXPECT_EQ(ELF64_ST_TYPE(symbol->second), STT_FUNC) << kernel.name;
      EXPECT_EQ(ELF64_ST_BIND(symbol->second), STB_GLOBAL) << kernel.name;
    }
  }
}

TEST(KernelImage, NamesEveryKernel) {
  std::set<std::string_view> names;
  for (const doubles::HostKernel& kernel : doubles::all_host_kernels()) names.insert(kernel.name);
  EXPECT_EQ(std::set<std::string_view>(std::begin(kKernelNames), std::end(kKernelNames)), names);
}

TEST(KernelImage, TakesTheArgumentsOfTheHost) {
  for (const int architecture : kernel_architectures()) {
    const Elf elf(kernel_image(architecture));
    for (const doubles::HostKernel& kernel : doubles::all_host_kernels()) {
      EXPECT_EQ(elf.argument_bytes(kernel.name), static_cast<int>(kernel.argument_bytes))
          << kernel.name << " for sm_" << architecture;
    }
  }
}

TEST(KernelImage, ServesNewerGpusOfAFamilyByItsCode) {
  for (const int architecture : kernel_architectures()) {
    EXPECT_EQ(kernel_image(architecture + 1).data(), kernel_image(architecture).data());
  }
}

TEST(KernelImage, ServesNewFamiliesByText) {
  const auto text = kernel_image(990);
  ASSERT_FALSE(text.empty());
  EXPECT_EQ(text.back(), std::byte{0});
  const std::string_view words(reinterpret_cast<const char*>(text.data()), text.size() - 1);
  for (const doubles::HostKernel& kernel : doubles::all_host_kernels()) {
    EXPECT_NE(words.find(".entry " + std::string(kernel.name) + "("), words.npos) << kernel.name;
  }
}

TEST(KernelImage, ServesFamiliesBetweenTwoOfItsOwnByText) {
  const std::vector<int> own = kernel_architectures();
  ASSERT_GE(own.size(), 2U);
  const int between = (own[own.size() - 2] / 10 + 1) * 10;  // sm_110 of 100 and 120
  if (between == own.back()) GTEST_SKIP() << "this compiler knows no family with a gap before it";
  EXPECT_EQ(kernel_image(between).data(), kernel_image(990).data());
}

TEST(KernelImage, HasNothingForOlderGpus) {
  EXPECT_TRUE(kernel_image(30).empty());
  EXPECT_TRUE(kernel_image(architectures_of_build().front() - 1).empty());
}

}  // namespace
}  // namespace hvd
