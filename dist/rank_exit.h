// How a rank names itself and how it leaves. Private to dist/ but for HostName. Any thread.
#pragma once

#include <string>

#include "base/status.h"

namespace winnow {

// This machine's name up to the first dot.
std::string HostName();

// "rank R (host H): ", or nothing in a group of one rank.
std::string RankPrefix(int rank, int size);

// Prints "winnow: rank R (host H): message" to standard error, one line in one write, so that ranks do not mix.
void PrintRankLine(int rank, int size, const std::string& message);

// Prints the line and ends this process alone, with the exit code of `status`. Runs no destructors: other threads may
// be in the middle of something.
[[noreturn]] void ExitRank(int rank, int size, const Status& status);

}  // namespace winnow
