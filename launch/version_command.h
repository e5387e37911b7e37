// `winnow version`: what this binary is. No model, no MPI initialisation.
#pragma once

namespace winnow {

void PrintVersion(bool json);

}  // namespace winnow
