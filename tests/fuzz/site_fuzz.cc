// SPDX-License-Identifier: Apache-2.0
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "base/check.h"
#include "launcher/site/condition.h"
#include "launcher/site/site_document.h"
#include "launcher/site/site_environment.h"
#include "launcher/site/site_file.h"
#include "launcher/site/site_schema.h"
#include "launcher/site/site_values.h"

namespace {

/// What is done with a file that a user wrote and that extends one of ours.
void extend(const std::string& text) {
  using namespace hvd;
  static const Json kBase = Json::parse(
      R"({"id": "base", "name": "B", "provenance": {"k": {"source": "s", "date": "2026", "mark":
          "seen"}}, "source": "k", "gres_style": "gres", "env": [], "partitions": [{"name": "p",
          "select": "partition", "gpus": {"count": 4}, "cores_per_task": 8, "source": "k",
          "qos": [{"name": "q"}]}]})");
  const auto document = parse_json(text, "x.json");
  if (!document.is_ok() || !document.value().is_object()) return;
  Json derived = document.value();
  derived["extends"] = "base";
  if (!validate_document(derived, kSiteSchema, "x.json").is_ok()) return;
  const Json extended = extend_document(kBase, derived);
  if (!validate_document(extended, kSiteSchema, "x.json").is_ok()) return;
  if (!check_site(extended, "x.json").is_ok()) return;
  HVD_CHECK(site_of(extended, "x.json").id == derived.at("id").get<std::string>());
  HVD_CHECK(!site_values(extended).empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto site = hvd::parse_site(text, "x.json");
  if (site.is_ok()) {
    hvd::SiteFacts facts;
    facts.nodes = 2;
    (void)hvd::site_environment(site.value(), facts);
  } else {
    HVD_CHECK(!site.status().message().empty());
  }
  const auto condition = hvd::parse_condition(text);
  if (condition.is_ok()) (void)hvd::evaluate(condition.value(), {});
  extend(text);
  return 0;
}
