// The two streams of a sub-command: results on standard output, everything else on standard error. Rank 0; any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace winnow {

// A line on standard error; what it quotes may come from outside.
void Note(const std::string& line);

// To standard output at once; CheckOutput says whether all of it went through.
void PrintOut(const std::string& text);

// Internal if anything printed could not be written: a full disk must not pass for a finished run.
Status CheckOutput();

}  // namespace winnow
