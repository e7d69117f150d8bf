// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace hvd {

/// What a variable takes. The readers differ: NCCL takes whole numbers, libfabric and UCX words.
enum class ValueKind {
  kAny,
  kSwitch,   ///< A whole number; 0 is off.
  kFlag,     ///< 0/1, on/off, yes/no, true/false, y/n, try.
  kInteger,  ///< A whole number, in [lowest, highest] where these differ.
  kOneOf,    ///< One of the values.
  kLevel,    ///< One of the values, or an old number.
  kList,     ///< Values with , ; : between them and perhaps a ^ before them.
};

/// One environment variable that a library of the field reads, or once read.
/// A row of variables.json, or of our own tables (base/settings.h, topology/launch_table.h); empty
/// fields are unknown
/// or do not apply.
struct KnownVariable {
  std::string_view name;  ///< Ends in '*' where all names with that beginning are known.
  ValueKind kind;
  long long lowest;
  long long highest;
  bool case_sensitive;
  bool fails_start;  ///< A wrong number (or none: "") fails hvd.init(); else the default is used.
  std::string_view values;  ///< Separated by spaces.
  std::string_view since;
  std::string_view deprecated;
  std::string_view removed;  ///< The version that no longer reads it.
  std::string_view renamed_in;
  std::string_view renamed_to;
  std::string_view replacement;
  std::string_view note;
  std::string_view source;
  std::string_view date;
};

struct VariableFamily {
  std::string_view name;
  std::string_view prefix;
  bool is_complete;  ///< Every name is in the table: another one is a mistake.
};

/// Sorted by name. Cut from variable_rows() at the first call: hvdrun starts as fast without lint.
std::span<const KnownVariable> known_variables();

/// Generated from variables.json at build time: the fields of a variable per line, with tabs
/// between them, as text that no loader has to relocate.
std::span<const std::string_view> variable_rows();

/// The first that fits a name is its family.
std::span<const VariableFamily> variable_families();

/// Null: not known.
const KnownVariable* find_variable(std::string_view name);

/// Null: of no family that the table covers.
const VariableFamily* family_of(std::string_view name);

/// The known name of the same family that `name` is most likely a slip of; empty: none is near.
std::string_view nearest_variable(std::string_view name);

/// "SOURCE, DATE"
std::string source_of(const KnownVariable& variable);

}  // namespace hvd
