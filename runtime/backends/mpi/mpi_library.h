// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backends/mpi/plugin/mpi_plugin.h"
#include "base/environment.h"
#include "base/result.h"
#include "bootstrap/mpi_world.h"

namespace hvd {

/// "libhvd_mpi_openmpi.so": the plugin for one ABI, which lies beside libhvd.
std::string plugin_name(MpiAbi abi);
/// Loads the plugin for `abi`; kUnsupported with the sentence why there is none.
Result<const hvd_mpi_plugin*> load_plugin(MpiAbi abi);

/// An MPI library of this process, called through the plugin of its ABI. One thread at a time.
class MpiLibrary {
 public:
  /// The one that is loaded already, preferably initialised; nothing where there is none.
  static Result<std::unique_ptr<MpiLibrary>> in_process();
  /// Opens one: that of HVD_MPI_LIBRARY, else the launcher's, else the first that is installed.
  static Result<std::unique_ptr<MpiLibrary>> open(const Environment& environment,
                                                  const std::string& given);

  MpiLibrary(const MpiLibrary&) = delete;
  MpiLibrary& operator=(const MpiLibrary&) = delete;
  ~MpiLibrary();

  const hvd_mpi_plugin& calls() const { return *plugin_; }
  hvd_mpi* mpi() const { return mpi_; }
  Result<hvd_mpi_state> state() const;
  /// Ok for MPI_SUCCESS, else kSystem: "WHAT: MPI's text".
  Status check(int code, std::string_view what) const;

 private:
  static Result<std::unique_ptr<MpiLibrary>> bind(const LoadedMpi& loaded);
  MpiLibrary(const hvd_mpi_plugin* plugin, hvd_mpi* mpi) : plugin_(plugin), mpi_(mpi) {}

  const hvd_mpi_plugin* plugin_;
  hvd_mpi* mpi_;
};

}  // namespace hvd
