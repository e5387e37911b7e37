// Writes a file that is either whole or not there: under another name first, then flushed to the disk and renamed. One
// process a path at a time; any thread.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "base/status.h"

namespace winnow {

// The pieces one after the other. What was at `path` (a regular file, or a link to one) is replaced at the very end.
// BadFile naming the path and the reason, a full disk among them: nothing is left behind then.
Status WriteWholeFile(const std::string& path, std::span<const std::span<const uint8_t>> pieces);

// Whether WriteWholeFile could begin now: makes an empty file beside `path` and removes it. BadFile as above.
Status CheckCanWrite(const std::string& path);

}  // namespace winnow
