// SPDX-License-Identifier: Apache-2.0
// PMIx as the last resort. The process is a PMIx client only between Init and Finalize, in this
// one function: Slurm ends the whole step when a PMIx client dies.
#include <dlfcn.h>
#include <pmix.h>

#include <array>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>

#include "base/log.h"
#include "bootstrap/local_host.h"
#include "bootstrap/method.h"
#include "bootstrap/timed_call.h"

namespace hvd {
namespace {

constexpr const char* kKey = "hvd-ticket";
constexpr auto kFinalizeTime = std::chrono::seconds(30);
constexpr auto kFenceGrace = std::chrono::seconds(5);

/// The functions of libpmix.so.2, which is loaded here and never linked.
struct Pmix {
  decltype(&PMIx_Init) init = nullptr;
  decltype(&PMIx_Put) put = nullptr;
  decltype(&PMIx_Commit) commit = nullptr;
  decltype(&PMIx_Fence) fence = nullptr;
  decltype(&PMIx_Get) get = nullptr;
  decltype(&PMIx_Finalize) finalize = nullptr;
  decltype(&PMIx_Error_string) error_string = nullptr;
};

template <typename Function>
bool load(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(::dlsym(library, name));
  return function != nullptr;
}

Result<Pmix> load_pmix() {
  void* library = ::dlopen("libpmix.so.2", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();  // NOLINT(concurrency-mt-unsafe): glibc keeps one per thread.
    return error(Code::kUnsupported, "libpmix.so.2 cannot be loaded: {}", why);
  }
  Pmix pmix;
  if (load(library, "PMIx_Init", pmix.init) && load(library, "PMIx_Put", pmix.put) &&
      load(library, "PMIx_Commit", pmix.commit) && load(library, "PMIx_Fence", pmix.fence) &&
      load(library, "PMIx_Get", pmix.get) && load(library, "PMIx_Finalize", pmix.finalize) &&
      load(library, "PMIx_Error_string", pmix.error_string)) {
    return pmix;
  }
  return error(Code::kUnsupported, "libpmix.so.2 lacks a function that hvd needs");
}

pmix_info_t flag_info(const char* key) {
  pmix_info_t info{};
  std::strncpy(info.key, key, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_BOOL;
  info.value.data.flag = true;
  return info;
}

pmix_info_t timeout_info(Deadline deadline) {
  pmix_info_t info{};
  std::strncpy(info.key, PMIX_TIMEOUT, PMIX_MAX_KEYLEN);
  info.value.type = PMIX_INT;
  info.value.data.integer = deadline.is_forever() ? 0 : deadline.poll_timeout_ms() / 1000 + 1;
  return info;
}

/// A client between PMIx_Init and PMIx_Finalize.
class Session {
 public:
  Session(const Pmix& pmix, const pmix_proc_t& me) : pmix_(pmix), me_(me) {}
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;
  ~Session() {
    const auto ended = call_in_time<pmix_status_t>(
        "PMIx_Finalize", [finalize = pmix_.finalize] { return finalize(nullptr, 0); },
        Deadline::after(kFinalizeTime));
    if (ended.is_ok()) return;
    log(LogLevel::kWarning, "bootstrap", "rank {} on {}: {}; it is left to itself", me_.rank,
        local_host_name(), ended.status().message());
  }

  Status check(pmix_status_t status, std::string_view what) const {
    if (status == PMIX_SUCCESS) return Status::ok();
    return error(status == PMIX_ERR_TIMEOUT ? Code::kTimeout : Code::kSystem, "{}: {} ({})", what,
                 pmix_.error_string(status), status);
  }

  Status put(const std::string& text) const {
    pmix_value_t value{};
    value.type = PMIX_STRING;
    value.data.string = const_cast<char*>(text.c_str());
    HVD_TRY(check(pmix_.put(PMIX_GLOBAL, kKey, &value), "PMIx_Put"));
    return check(pmix_.commit(), "PMIx_Commit");
  }

  Status fence(Deadline deadline) const {
    const auto fenced = call_in_time<pmix_status_t>(
        "PMIx_Fence",
        [fence = pmix_.fence,
         infos = std::array<pmix_info_t, 2>{flag_info(PMIX_COLLECT_DATA), timeout_info(deadline)}] {
          return fence(nullptr, 0, infos.data(), infos.size());
        },
        // The server is to answer at the deadline; the grace is for its answer.
        Deadline::at(deadline.time() + (deadline.is_forever() ? Clock::duration() : kFenceGrace)));
    HVD_TRY(fenced.status());
    return check(fenced.value(), "PMIx_Fence");
  }

  /// Every Get is optional: asking Slurm's server for what it lacks blocks for minutes.
  Result<pmix_value_t*> get(pmix_rank_t rank, const char* key) const {
    pmix_proc_t proc = me_;
    proc.rank = rank;
    const pmix_info_t optional = flag_info(PMIX_OPTIONAL);
    pmix_value_t* value = nullptr;
    HVD_TRY(check(pmix_.get(&proc, key, &optional, 1, &value), format_text("PMIx_Get {}", key)));
    return value;
  }

 private:
  const Pmix& pmix_;
  pmix_proc_t me_;
};

Status exchange(const Session& session, const pmix_proc_t& me, const MethodInput& input) {
  // The few bytes of the two answers are never freed: their owner is the library's allocator.
  HVD_TRY_ASSIGN(const pmix_value_t* size, session.get(PMIX_RANK_WILDCARD, PMIX_JOB_SIZE));
  KeptMeeting& kept = input.kept;
  if (me.rank == 0) {
    if (kept.server == nullptr) {
      HVD_TRY(serve_kept(kept, input.settings.first_interfaces, input.deadline));
    }
    HVD_TRY(session.put(format_ticket(*kept.ticket)));
  }
  HVD_TRY(session.fence(input.deadline));
  if (me.rank != 0) {
    HVD_TRY_ASSIGN(const pmix_value_t* text, session.get(0, kKey));
    if (text->type != PMIX_STRING) return error(Code::kInternal, "PMIx: the ticket is not text");
    HVD_TRY_ASSIGN(kept.ticket, parse_ticket(text->data.string));
  }
  kept.size = static_cast<int>(size->data.uint32);
  kept.how = "pmix";
  kept.has_met = true;
  return Status::ok();
}

struct Started {
  pmix_status_t status = PMIX_ERROR;
  pmix_proc_t me = {};
};

/// PMIx_Init takes no deadline: where its server is silent the call is left to itself, for good.
Result<Started> start_pmix(const Pmix& pmix, const MethodInput& input) {
  HVD_TRY(input.kept.failure);
  auto started = call_in_time<Started>(
      "PMIx_Init",
      [init = pmix.init] {
        Started mine;
        mine.status = init(&mine.me, nullptr, 0);
        return mine;
      },
      input.deadline);
  if (started.is_ok()) return started;
  input.kept.failure =
      error(Code::kTimeout, "{}: the PMIx server of {} is silent; start the program with hvdrun",
            started.status().message(), *input.environment.get("PMIX_NAMESPACE"));
  return input.kept.failure;
}

}  // namespace

Result<MethodOffer> meet_by_pmix(const MethodInput& input) {
  if (!input.environment.has("PMIX_NAMESPACE") || !input.environment.has("PMIX_RANK")) {
    return decline("no PMIx server started this rank (PMIX_NAMESPACE is not set)");
  }
  if (!is_started_by(input.identity, "PMIx")) {
    return decline(format_text("the PMIx server of {} is another step's",
                               *input.environment.get("PMIX_NAMESPACE")));
  }
  const auto pmix = load_pmix();
  if (!pmix.is_ok()) return decline(pmix.status().message());
  HVD_TRY_ASSIGN(const Started started, start_pmix(pmix.value(), input));
  if (started.status != PMIX_SUCCESS) {
    return decline(format_text("PMIx_Init failed: {} ({})",
                               pmix.value().error_string(started.status), started.status));
  }
  {
    const Session session(pmix.value(), started.me);
    HVD_TRY(exchange(session, started.me, input));
  }
  MethodOffer offer;
  HVD_TRY_ASSIGN(offer.rendezvous, meet_again(input.kept, input.deadline));
  offer.rendezvous->size = input.kept.size;
  offer.how = input.kept.how;
  log(LogLevel::kInfo, "bootstrap",
      "PMIx was used and finalized: a program that uses MPI as well must initialise MPI before "
      "hvd");
  return offer;
}

}  // namespace hvd
