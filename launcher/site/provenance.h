// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "base/format.h"

namespace hvd {

/// Where a value comes from. Site advice changes and contradicts itself, so no bare numbers.
struct Provenance {
  std::string source;  ///< Page or document.
  std::string date;    ///< YYYY[-MM[-DD]] of the document or of its reading.
  std::string mark;    ///< "documented", "seen" in public scripts, or "assumed".

  bool is_assumed() const { return mark == "assumed"; }
};

/// " (SOURCE, DATE, MARK)"; empty: it is not known.
inline std::string describe_provenance(const Provenance& provenance) {
  if (provenance.source.empty()) return "";
  return format_text(" ({}, {}, {})", provenance.source, provenance.date, provenance.mark);
}

/// The provenance of one field of an object that comes from elsewhere than the others.
struct FieldProvenance {
  std::string field;  ///< "max_time", "gpus/count"
  Provenance provenance;
};

/// The provenance of `field` of `object`, a part of a SiteConfig: the field's own, else the
/// object's.
template <typename T>
const Provenance& provenance_of(const T& object, const std::string& field) {
  for (const FieldProvenance& other : object.field_provenance) {
    if (other.field == field) return other.provenance;
  }
  return object.provenance;
}

/// The fields of `object` whose values are assumed: whoever uses them says so.
template <typename T>
std::vector<std::string> assumed_fields(const T& object, const std::vector<std::string>& fields) {
  std::vector<std::string> assumed;
  for (const std::string& field : fields) {
    if (provenance_of(object, field).is_assumed()) assumed.push_back(field);
  }
  return assumed;
}

}  // namespace hvd
