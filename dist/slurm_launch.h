// Recognises N one-rank programs started by a bare srun: each would believe to be alone, and all would write the same
// files. Private to dist/. Any thread.
#pragma once

#include <functional>

#include "base/status.h"

namespace winnow {

// Value of an environment variable, or null. std::getenv outside of tests.
using GetEnv = std::function<const char*(const char* name)>;

// True if a process manager that MPI may speak to has announced this process (mpirun, PMIx or PMI).
bool HasProcessManager(const GetEnv& get_env);

// For a world of one rank: InvalidArgument with the hint if Slurm started more than one task. Ok if mpirun started this
// rank (it was asked for one) or if WINNOW_ALLOW_SINGLETON=1.
Status CheckSingletonUnderSlurm(const GetEnv& get_env);

}  // namespace winnow
