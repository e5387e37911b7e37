#include "dist/rank_exit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "base/printable_text.h"

namespace winnow {

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  const std::string full = name;
  return full.substr(0, full.find('.'));
}

std::string RankPrefix(int rank, int size) {
  if (size == 1) return {};
  return "rank " + std::to_string(rank) + " (host " + HostName() + "): ";
}

void PrintRankLine(int rank, int size, const std::string& message) {
  const std::string line = "winnow: " + RankPrefix(rank, size) + Printable(message) + "\n";
  std::fwrite(line.data(), 1, line.size(), stderr);
}

void ExitRank(int rank, int size, const Status& status) {
  std::fflush(stdout);  // text that was already streamed stays visible
  PrintRankLine(rank, size, status.message());
  std::_Exit(int(status.code()));
}

}  // namespace winnow
