// SPDX-License-Identifier: Apache-2.0
// One source for every MPI ABI: compiled against the headers of each, linked with none.
#include "mpi_plugin.h"

#include <dlfcn.h>

#include <cstring>
#include <vector>

#include "predefined.h"

/// The functions in use. The types come from the header; the names of MPI's own declarations are
/// never referred to.
#define HVD_MPI_FUNCTIONS(X)   \
  X(MPI_Cancel)                \
  X(MPI_Comm_free)             \
  X(MPI_Comm_group)            \
  X(MPI_Comm_idup)             \
  X(MPI_Comm_rank)             \
  X(MPI_Comm_set_errhandler)   \
  X(MPI_Comm_size)             \
  X(MPI_Comm_test_inter)       \
  X(MPI_Error_string)          \
  X(MPI_Finalize)              \
  X(MPI_Finalized)             \
  X(MPI_Get_count)             \
  X(MPI_Get_library_version)   \
  X(MPI_Group_free)            \
  X(MPI_Group_size)            \
  X(MPI_Group_translate_ranks) \
  X(MPI_Iallgather)            \
  X(MPI_Init_thread)           \
  X(MPI_Initialized)           \
  X(MPI_Irecv)                 \
  X(MPI_Isend)                 \
  X(MPI_Query_thread)          \
  X(MPI_Test)                  \
  X(MPI_Testsome)

struct hvd_mpi {
#define HVD_FIELD(name) decltype(&::name) name = nullptr;
  HVD_MPI_FUNCTIONS(HVD_FIELD)
#undef HVD_FIELD
  hvd::Predefined predefined{};
  MPI_Comm comm{};
  MPI_Request request{};  // of begin_*
};

/// Compact: MPI looks at every entry of the array at each poll.
struct hvd_mpi_channel {
  hvd_mpi* mpi;
  std::vector<MPI_Request> requests;
  std::vector<int> slots;  // by request
  std::vector<int> indices;
  std::vector<MPI_Status> statuses;
};

namespace {

hvd_mpi* bind(void* library, const char** missing) {
  auto* mpi = new hvd_mpi;
  *missing = hvd::find_predefined(library, mpi->predefined);
  const auto take = [&](const char* name, auto& function) {
    if (*missing != nullptr) return;
    function =
        reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(library, name));
    if (function == nullptr) *missing = name;
  };
#define HVD_TAKE(name) take(#name, mpi->name);
  HVD_MPI_FUNCTIONS(HVD_TAKE)
#undef HVD_TAKE
  if (*missing == nullptr) return mpi;
  delete mpi;
  return nullptr;
}

void unbind(hvd_mpi* mpi) { delete mpi; }

const char* level_name(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  if (level == MPI_THREAD_FUNNELED) return "MPI_THREAD_FUNNELED";
  if (level == MPI_THREAD_SERIALIZED) return "MPI_THREAD_SERIALIZED";
  return "MPI_THREAD_MULTIPLE";
}

/// "Open MPI v4.1.4, package: ..." and "MPICH Version:\t4.0.2\nMPICH Release ...": the first words.
void short_version(const char* text, char* words, std::size_t size) {
  std::size_t used = 0;
  for (; *text != '\0' && *text != '\n' && *text != ',' && used + 1 < size; ++text) {
    words[used++] = *text == '\t' ? ' ' : *text;
  }
  words[used] = '\0';
}

int state(hvd_mpi* mpi, hvd_mpi_state* found) {
  *found = {};
  char version[MPI_MAX_LIBRARY_VERSION_STRING + 1] = {};
  int length = 0;
  if (mpi->MPI_Get_library_version(version, &length) == MPI_SUCCESS) {
    short_version(version, found->library, sizeof found->library);
  }
  if (const int code = mpi->MPI_Initialized(&found->initialized); code != MPI_SUCCESS) return code;
  if (const int code = mpi->MPI_Finalized(&found->finalized); code != MPI_SUCCESS) return code;
  if (found->initialized == 0 || found->finalized != 0) return MPI_SUCCESS;
  int level = 0;
  if (const int code = mpi->MPI_Query_thread(&level); code != MPI_SUCCESS) return code;
  found->is_thread_multiple = level == MPI_THREAD_MULTIPLE ? 1 : 0;
  std::strncpy(found->thread_level, level_name(level), sizeof found->thread_level - 1);
  const int code = mpi->MPI_Comm_size(mpi->predefined.world, &found->size);
  return code == MPI_SUCCESS ? mpi->MPI_Comm_rank(mpi->predefined.world, &found->rank) : code;
}

int error_text(hvd_mpi* mpi, int code, char* text, int size) {
  char words[MPI_MAX_ERROR_STRING + 1] = {};
  int length = 0;
  const int answer = mpi->MPI_Error_string(code, words, &length);
  std::strncpy(text, words, static_cast<std::size_t>(size) - 1);
  text[size - 1] = '\0';
  return answer;
}

int init(hvd_mpi* mpi) {
  int level = 0;
  return mpi->MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
}

int finalize(hvd_mpi* mpi) { return mpi->MPI_Finalize(); }

int is_finalized(hvd_mpi* mpi) {
  int finalized = 0;
  return mpi->MPI_Finalized(&finalized) == MPI_SUCCESS && finalized == 0 ? 0 : 1;
}

int begin_duplicate(hvd_mpi* mpi) {
  return mpi->MPI_Comm_idup(mpi->predefined.world, &mpi->comm, &mpi->request);
}

int begin_allgather(hvd_mpi* mpi, int mine, int* all) {
  // The duplicate has come with the handler of the world, which ends the program at an error.
  const int code = mpi->MPI_Comm_set_errhandler(mpi->comm, mpi->predefined.errors_return);
  if (code != MPI_SUCCESS) return code;
  // The value must stay until the end: it goes into its own place of the result first.
  int rank = 0;
  if (const int found = mpi->MPI_Comm_rank(mpi->comm, &rank); found != MPI_SUCCESS) return found;
  all[rank] = mine;
  return mpi->MPI_Iallgather(MPI_IN_PLACE, 1, mpi->predefined.integer, all, 1,
                             mpi->predefined.integer, mpi->comm, &mpi->request);
}

int test(hvd_mpi* mpi, int* done) {
  MPI_Status status;
  return mpi->MPI_Test(&mpi->request, done, &status);
}

int free_duplicate(hvd_mpi* mpi) { return mpi->MPI_Comm_free(&mpi->comm); }

hvd_mpi_channel* open_channel(hvd_mpi* mpi, int slots) {
  auto* channel =
      new hvd_mpi_channel{.mpi = mpi, .requests = {}, .slots = {}, .indices = {}, .statuses = {}};
  const auto room = static_cast<std::size_t>(slots);
  channel->requests.reserve(room);
  channel->slots.reserve(room);
  channel->indices.resize(room);
  channel->statuses.resize(room);
  return channel;
}

void close_channel(hvd_mpi_channel* channel) { delete channel; }

int begun(hvd_mpi_channel* channel, int slot, int code, MPI_Request request) {
  if (code != MPI_SUCCESS) return code;
  channel->requests.push_back(request);
  channel->slots.push_back(slot);
  return code;
}

int send(hvd_mpi_channel* channel, int slot, const void* bytes, int count, int rank, int tag) {
  hvd_mpi* const mpi = channel->mpi;
  MPI_Request request{};
  const int code =
      mpi->MPI_Isend(bytes, count, mpi->predefined.byte, rank, tag, mpi->comm, &request);
  return begun(channel, slot, code, request);
}

int receive(hvd_mpi_channel* channel, int slot, void* bytes, int count, int rank, int tag) {
  hvd_mpi* const mpi = channel->mpi;
  MPI_Request request{};
  const int code =
      mpi->MPI_Irecv(bytes, count, mpi->predefined.byte, rank, tag, mpi->comm, &request);
  return begun(channel, slot, code, request);
}

void remove_done(hvd_mpi_channel* channel, MPI_Request no_request) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < channel->requests.size(); ++i) {
    if (channel->requests[i] == no_request) continue;
    channel->requests[kept] = channel->requests[i];
    channel->slots[kept++] = channel->slots[i];
  }
  channel->requests.resize(kept);
  channel->slots.resize(kept);
}

int poll(hvd_mpi_channel* channel, hvd_mpi_done* done, int* count) {
  hvd_mpi* const mpi = channel->mpi;
  *count = 0;
  if (channel->requests.empty()) return MPI_SUCCESS;
  int completed = 0;
  const int code =
      mpi->MPI_Testsome(static_cast<int>(channel->requests.size()), channel->requests.data(),
                        &completed, channel->indices.data(), channel->statuses.data());
  if (code != MPI_SUCCESS) return code;
  if (completed == MPI_UNDEFINED || completed == 0) return MPI_SUCCESS;
  for (int i = 0; i < completed; ++i) {
    const int index = channel->indices[static_cast<std::size_t>(i)];
    done[i].slot = channel->slots[static_cast<std::size_t>(index)];
    int bytes = 0;
    mpi->MPI_Get_count(&channel->statuses[static_cast<std::size_t>(i)], mpi->predefined.byte,
                       &bytes);
    done[i].bytes = bytes;
  }
  *count = completed;
  remove_done(channel, mpi->predefined.no_request);
  return MPI_SUCCESS;
}

int cancel(hvd_mpi_channel* channel, int slot) {
  for (std::size_t i = 0; i < channel->slots.size(); ++i) {
    if (channel->slots[i] == slot) return channel->mpi->MPI_Cancel(&channel->requests[i]);
  }
  return MPI_SUCCESS;
}

int translate(hvd_mpi* mpi, MPI_Group group, int* ranks, int room, int* size) {
  MPI_Group world{};
  int code = mpi->MPI_Group_size(group, size);
  if (code == MPI_SUCCESS) code = mpi->MPI_Comm_group(mpi->predefined.world, &world);
  if (code != MPI_SUCCESS) return code;
  const int count = *size < room ? *size : room;
  std::vector<int> places(static_cast<std::size_t>(count));
  for (int i = 0; i < count; ++i) places[static_cast<std::size_t>(i)] = i;
  code = mpi->MPI_Group_translate_ranks(group, count, places.data(), world, ranks);
  for (int i = 0; i < count; ++i) {
    if (ranks[i] == MPI_UNDEFINED) ranks[i] = -1;
  }
  mpi->MPI_Group_free(&world);
  return code;
}

int members(hvd_mpi* mpi, const void* handle, int* ranks, int room, int* size) {
  const MPI_Comm comm = *static_cast<const MPI_Comm*>(handle);
  *size = 0;
  if (comm == mpi->predefined.no_communicator) return MPI_SUCCESS;
  int is_inter = 0;
  if (const int code = mpi->MPI_Comm_test_inter(comm, &is_inter); code != MPI_SUCCESS) return code;
  if (is_inter != 0) {
    *size = HVD_MPI_INTERCOMMUNICATOR;
    return MPI_SUCCESS;
  }
  MPI_Group group{};
  if (const int code = mpi->MPI_Comm_group(comm, &group); code != MPI_SUCCESS) return code;
  const int code = translate(mpi, group, ranks, room, size);
  mpi->MPI_Group_free(&group);
  return code;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const hvd_mpi_plugin* hvd_mpi_plugin_table() {
  static const hvd_mpi_plugin table = {
      .version = HVD_MPI_PLUGIN_VERSION,
      .abi = hvd::kAbiName,
      .handle_bytes = sizeof(MPI_Comm),
      .bind = bind,
      .unbind = unbind,
      .state = state,
      .error_text = error_text,
      .init = init,
      .finalize = finalize,
      .is_finalized = is_finalized,
      .begin_duplicate = begin_duplicate,
      .begin_allgather = begin_allgather,
      .test = test,
      .free_duplicate = free_duplicate,
      .open_channel = open_channel,
      .close_channel = close_channel,
      .send = send,
      .receive = receive,
      .poll = poll,
      .cancel = cancel,
      .members = members,
  };
  return &table;
}
