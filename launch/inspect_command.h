// `winnow inspect FILE|DIRECTORY`: what a model holds and whether winnow can run it. No MPI.
#pragma once

#include <string>

#include "base/status.h"

namespace winnow {

// Prints metadata, tensors and the resolved configuration. BadFile if it is no model that winnow can run; what
// could be read has then been printed.
Status InspectFile(const std::string& path, bool json);

}  // namespace winnow
