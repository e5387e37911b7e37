// What every communicator must do, whatever carries it: run by the thread ranks of the unit tests and by mpirun.
#pragma once

#include <string>
#include <vector>

#include "dist/communicator.h"

namespace winnow {

// All collectives in all types, counting, and agreement. Collective. Returns what was wrong on this rank, one line
// each.
std::vector<std::string> CheckCollectives(Communicator& communicator);

// Vectors that are too long for one MPI call (2^24 elements): about 200 MiB per rank.
std::vector<std::string> CheckLargeCollectives(Communicator& communicator);

}  // namespace winnow
