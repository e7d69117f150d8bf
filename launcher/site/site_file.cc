// SPDX-License-Identifier: Apache-2.0
#include "launcher/site/site_file.h"

#include <nlohmann/json.hpp>

#include "launcher/site/site_schema.h"

namespace hvd {
namespace {

std::string text_of(const Json& object, const char* key, const std::string& fallback = "") {
  return object.value(key, fallback);
}

std::vector<std::string> words_of(const Json& object, const char* key) {
  return object.value(key, std::vector<std::string>());
}

std::optional<int> count_of(const Json& object, const char* key) {
  if (!object.contains(key)) return std::nullopt;
  return object.at(key).get<int>();
}

/// The object at `key`, or an empty one.
const Json& object_at(const Json& object, const char* key) {
  static const Json empty = Json::object();
  const auto found = object.find(key);
  return found == object.end() ? empty : *found;
}

const Json& list_at(const Json& object, const char* key) {
  static const Json empty = Json::array();
  const auto found = object.find(key);
  return found == object.end() ? empty : *found;
}

/// Reads the objects of one document, with the provenance table at hand.
class SiteReader {
 public:
  explicit SiteReader(const Json& document) : document_(document) {}

  SiteConfig read() const;

 private:
  Provenance entry(const std::string& key) const {
    const Json& found = document_.at("provenance").at(key);
    return {text_of(found, "source"), text_of(found, "date"), text_of(found, "mark")};
  }
  /// Of an object, which takes its parent's where it has none.
  Provenance provenance(const Json& object, const std::string& inherited = "") const {
    const std::string key = object.value("source", inherited);
    return entry(key.empty() ? text_of(document_, "source") : key);
  }
  /// Appends the fields of `object` that come from elsewhere, each behind `prefix`.
  void add_fields(const Json& object, const std::string& prefix,
                  std::vector<FieldProvenance>& fields) const {
    for (const auto& [field, key] : object_at(object, "sources").items()) {
      fields.push_back({prefix + field, entry(key.get<std::string>())});
    }
  }
  /// The same for an object within one that is flattened: its own source counts for each field.
  void add_part(const Json& object, const std::string& name,
                std::vector<FieldProvenance>& fields) const {
    const Json& part = object_at(object, name.c_str());
    const Json& sources = object_at(object, "sources");
    const std::string outer = sources.value(name, "");
    add_fields(part, name + "/", fields);
    const std::string key = part.value("source", outer);
    if (key.empty()) return;
    for (const auto& [field, value] : part.items()) {
      if (field == "source" || field == "sources") continue;
      if (!object_at(part, "sources").contains(field)) {
        fields.push_back({format_text("{}/{}", name, field), entry(key)});
      }
    }
  }

  SiteQos qos(const Json& json, const std::string& inherited) const;
  SitePartition partition(const Json& json) const;
  void read_requests(SiteConfig& site) const;
  void read_machine(SiteConfig& site) const;

  const Json& document_;
};

SiteQos SiteReader::qos(const Json& json, const std::string& inherited) const {
  SiteQos qos;
  qos.name = text_of(json, "name");
  qos.max_time = text_of(json, "max_time");
  qos.max_gpus = count_of(json, "max_gpus");
  qos.max_nodes = count_of(json, "max_nodes");
  qos.max_jobs = count_of(json, "max_jobs");
  qos.min_nodes = count_of(json, "min_nodes");
  qos.min_gpus = count_of(json, "min_gpus");
  qos.shares_nodes = json.value("shares_nodes", false);
  qos.is_default = json.value("default", false);
  qos.provenance = provenance(json, inherited);
  add_fields(json, "", qos.field_provenance);
  return qos;
}

SitePartition SiteReader::partition(const Json& json) const {
  SitePartition partition;
  partition.name = text_of(json, "name");
  partition.aliases = words_of(json, "aliases");
  const std::string select = text_of(json, "select");
  if (select == "partition") partition.select = PartitionSelect::kPartition;
  if (select == "constraint") partition.select = PartitionSelect::kConstraint;
  partition.constraint = text_of(json, "constraint");
  const Json& gpus = json.at("gpus");
  partition.gpu_model = text_of(gpus, "model");
  partition.gpu_type = text_of(gpus, "type");
  partition.gpu_memory_gb = count_of(gpus, "memory_gb");
  partition.gpus_per_node = gpus.at("count").get<int>();
  partition.cores_per_task = json.at("cores_per_task").get<int>();
  partition.cores_per_node = count_of(json, "cores_per_node");
  partition.cores_reserved = text_of(json, "cores_reserved");
  partition.smt = count_of(json, "smt");
  partition.numa = count_of(json, "numa");
  partition.memory_gb = count_of(json, "memory_gb");
  partition.exclusive = json.value("exclusive", false);
  partition.max_nodes = count_of(json, "max_nodes");
  partition.default_time = text_of(json, "default_time");
  partition.max_time = text_of(json, "max_time");
  for (const Json& limit : list_at(json, "max_time_by_nodes")) {
    partition.max_time_by_nodes.push_back(
        {limit.at("nodes").get<int>(), text_of(limit, "max_time")});
  }
  const std::string inherited = object_at(json, "sources").value("qos", text_of(json, "source"));
  for (const Json& item : list_at(json, "qos")) partition.qos.push_back(qos(item, inherited));
  partition.account_suffix = text_of(json, "account_suffix");
  partition.modules = words_of(json, "modules");
  partition.fabric = text_of(json, "fabric");
  partition.fabric_kind = text_of(json, "fabric_kind");
  for (const Json& nic : list_at(json, "nics")) {
    partition.nics.push_back({text_of(nic, "name"), nic.value("near_gpus", std::vector<int>())});
  }
  partition.bootstrap_if = text_of(json, "bootstrap_if", text_of(document_, "bootstrap_if"));
  partition.cpu_map = words_of(json, "cpu_map");
  partition.provenance = provenance(json);
  add_fields(json, "", partition.field_provenance);
  add_part(json, "gpus", partition.field_provenance);
  return partition;
}

SiteDetect detect_of(const Json& json) {
  SiteDetect detect;
  for (const auto& [name, value] : object_at(json, "variables").items()) {
    detect.variables.push_back({name, value.get<std::string>()});
  }
  detect.cluster_names = words_of(json, "cluster_names");
  detect.system_names = words_of(json, "system_names");
  detect.hostname = text_of(json, "hostname");
  detect.domains = words_of(json, "domains");
  return detect;
}

GresStyle gres_style_of(const std::string& text) {
  if (text == "gpus-per-node") return GresStyle::kGpusPerNode;
  if (text == "gpus") return GresStyle::kGpus;
  if (text == "none") return GresStyle::kNone;
  return GresStyle::kGres;
}

/// How a job asks for what it needs.
void SiteReader::read_requests(SiteConfig& site) const {
  const Json& account = object_at(document_, "account");
  site.account_flag = text_of(account, "flag", site.account_flag);
  site.account_required = account.value("required", false);
  site.account_pattern = text_of(account, "pattern");
  site.account_example = text_of(account, "example");
  site.gres_style = gres_style_of(text_of(document_, "gres_style"));
  site.typed = document_.value("typed", false);
  site.gpu_bind = text_of(document_, "gpu_bind");
  site.hint = text_of(document_, "hint");
  site.time = text_of(document_, "time");
  site.time_required = document_.value("time_required", false);
  for (const Json& item : list_at(document_, "directives")) {
    site.directives.push_back(
        {text_of(item, "option"), text_of(item, "value"), text_of(item, "why"), provenance(item)});
  }
  for (const Json& item : list_at(document_, "forbidden")) {
    SiteForbidden forbidden{text_of(item, "option"), text_of(item, "why")};
    forbidden.value = text_of(item, "value");
    if (item.contains("over")) forbidden.over = item.at("over").get<std::int64_t>();
    forbidden.provenance = provenance(item);
    site.forbidden.push_back(std::move(forbidden));
  }
  site.srun_flags = words_of(document_, "srun_flags");
  site.multi_node_srun_flags = words_of(object_at(document_, "network_flags"), "multi_node");
}

/// What the machine is and needs.
void SiteReader::read_machine(SiteConfig& site) const {
  const Json& scheduler = object_at(document_, "scheduler");
  site.scheduler.kind = text_of(scheduler, "kind", site.scheduler.kind);
  site.scheduler.version_min = text_of(scheduler, "version_min");
  site.scheduler.psslurm = scheduler.value("psslurm", false);
  site.scheduler.launcher = text_of(scheduler, "launcher", site.scheduler.launcher);
  site.bootstrap_if = text_of(document_, "bootstrap_if");
  site.mpi_type = text_of(object_at(document_, "mpi"), "type");
  site.mpi_module = text_of(object_at(document_, "mpi"), "module");
  const Json& container = object_at(document_, "container");
  site.container = {text_of(container, "runtime"), words_of(container, "flags"),
                    text_of(container, "module")};
  for (const Json& item : document_.at("env")) {
    site.env.push_back({text_of(item, "name"), text_of(item, "value"), text_of(item, "when"),
                        text_of(item, "why"), provenance(item)});
  }
  site.modules = words_of(document_, "modules");
  site.module_purge = document_.value("module_purge", false);
  if (document_.contains("internet_on_nodes")) {
    site.internet_on_nodes = document_.at("internet_on_nodes").get<bool>();
  }
  site.scratch_local = text_of(document_, "scratch_local");
  site.master_addr_suffix = text_of(document_, "master_addr_suffix");
  for (const Json& item : list_at(document_, "reference")) {
    site.reference.push_back({text_of(item, "name"), item.at("gpus").get<int>(),
                              item.at("nodes").get<int>(), item.at("bytes").get<std::int64_t>(),
                              item.at("busbw_gb_per_s").get<double>(), provenance(item)});
  }
}

SiteConfig SiteReader::read() const {
  SiteConfig site;
  site.id = text_of(document_, "id");
  site.name = text_of(document_, "name");
  site.aliases = words_of(document_, "aliases");
  site.retired = text_of(document_, "retired");
  site.detect = detect_of(object_at(document_, "detect"));
  site.shell = text_of(document_, "shell", site.shell);
  for (const Json& item : document_.at("partitions")) site.partitions.push_back(partition(item));
  read_requests(site);
  read_machine(site);
  site.notes = words_of(document_, "notes");
  site.provenance = provenance(document_);
  add_fields(document_, "", site.field_provenance);
  for (const char* part : {"detect", "scheduler", "account", "network_flags", "mpi", "container"}) {
    add_part(document_, part, site.field_provenance);
  }
  return site;
}

}  // namespace

SiteConfig site_of(const Json& document, const std::string& origin) {
  SiteConfig site = SiteReader(document).read();
  site.origin = origin;
  return site;
}

Result<SiteConfig> parse_site(std::string_view text, const std::string& origin) {
  HVD_TRY_ASSIGN(const Json document, parse_json(text, origin));
  HVD_TRY(validate_document(document, kSiteSchema, origin));
  if (document.contains("extends")) {
    return error(Code::kInvalidArgument, "{}: at /extends: this text stands alone: it has no '{}'",
                 origin, document.at("extends").get<std::string>());
  }
  HVD_TRY(check_site(document, origin));
  return site_of(document, origin);
}

}  // namespace hvd
