#include "launch/version_command.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string>

#include "base/version.h"
#include "compute/backend.h"
#include "dist/communicator.h"

namespace winnow {
namespace {

// The kernels that this machine would use, and the widest instruction set that it offers.
std::string Kernels() {
  const auto backend = MakeCpuBackend(1);
  return backend.ok() ? (*backend).get()->kernels() : backend.status().message();
}

std::string MachineIsa() {
  __builtin_cpu_init();
  if (__builtin_cpu_supports("avx512vnni")) return "avx512-vnni";
  if (__builtin_cpu_supports("avx512f")) return "avx512";
  return "avx2";  // the floor: nothing older gets here
}

}  // namespace

void PrintVersion(bool json) {
  const BuildInfo& build = GetBuildInfo();
  const nlohmann::ordered_json info = {{"version", build.version},
                                       {"git_id", build.git_id},
                                       {"compiler", build.compiler},
                                       {"build_type", build.build_type},
                                       {"flags", build.flags},
                                       {"mpi", MpiLibraryVersion()},
                                       {"ucx", nullptr},  // not linked: KV pages do not travel between hosts yet
                                       {"isa", {{"machine", MachineIsa()}, {"kernels", Kernels()}}},
                                       {"numerics", {"exact", "fast"}}};
  if (json) {
    fmt::print("{}\n", info.dump());
    return;
  }
  fmt::print("winnow {} ({})\n", build.version, build.git_id);
  fmt::print("  compiler   {}, {}, {}\n", build.compiler, build.build_type, build.flags);
  fmt::print("  MPI        {}\n", MpiLibraryVersion());
  fmt::print("  UCX        not linked\n");
  fmt::print("  CPU        {}, kernels {}\n", MachineIsa(), Kernels());
  fmt::print("  numerics   exact (default), fast\n");
}

}  // namespace winnow
