#include "dist/slurm_launch.h"

#include <cstdlib>
#include <string>

namespace winnow {

bool HasProcessManager(const GetEnv& get_env) {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"}) {
    if (get_env(name) != nullptr) return true;
  }
  return false;
}

Status CheckSingletonUnderSlurm(const GetEnv& get_env) {
  const char* allowed = get_env("WINNOW_ALLOW_SINGLETON");
  if (allowed != nullptr && std::string(allowed) == "1") return OkStatus();
  if (get_env("OMPI_COMM_WORLD_SIZE") != nullptr) return OkStatus();
  for (const char* name : {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"}) {
    const char* value = get_env(name);
    const long num_tasks = value == nullptr ? 0 : std::strtol(value, nullptr, 10);
    if (num_tasks <= 1) continue;
    return InvalidArgument("expected " + std::to_string(num_tasks) + " MPI ranks (" + name +
                           "), found a group of one: Slurm started separate programs. Start with `srun --mpi=pmix` or "
                           "mpirun; if one rank is meant, set WINNOW_ALLOW_SINGLETON=1");
  }
  return OkStatus();
}

}  // namespace winnow
