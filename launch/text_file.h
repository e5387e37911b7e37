// Text files of the user. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace winnow {

// The whole file. `what` names it in messages ("prompt file"). InvalidArgument for a folder, for what cannot be read,
// and for more than 256 MiB: a device such as /dev/zero never ends.
Result<std::string> ReadTextFile(const std::string& path, const std::string& what);

}  // namespace winnow
