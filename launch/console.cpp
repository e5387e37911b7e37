#include "launch/console.h"

#include <fmt/format.h>

#include <cstdio>

#include "base/printable_text.h"

namespace winnow {

void Note(const std::string& line) {
  fmt::print(stderr, "winnow: {}\n", Printable(line));
}

void PrintOut(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

Status CheckOutput() {
  return std::ferror(stdout) == 0 ? OkStatus() : InternalError("standard output could not be written");
}

}  // namespace winnow
