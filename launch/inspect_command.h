// `winnow inspect`: what a model, a config.json or an adapter holds, and whether winnow can run it. No MPI.
#pragma once

#include <optional>
#include <string>

#include "base/status.h"

namespace winnow {

// Prints metadata, tensors and the resolved configuration. `model_path`: of an adapter, the model that it is to fit;
// InvalidArgument for other files. BadFile if it is nothing that winnow can run; what could be read has then been
// printed.
Status InspectFile(const std::string& path, const std::optional<std::string>& model_path, bool json);

}  // namespace winnow
