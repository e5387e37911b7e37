// CHECK and DCHECK: programmer mistakes end the program with file, line and condition. Never used on outside input.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace winnow {

[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "winnow: internal error at %s:%d: check failed: %s\n", file, line, condition);
  std::abort();
}

}  // namespace winnow

#define WINNOW_CHECK(condition) \
  (static_cast<bool>(condition) ? void(0) : ::winnow::CheckFailed(__FILE__, __LINE__, #condition))

// For hot loops: compiled out of release builds, the condition still has to compile.
#ifdef NDEBUG
#define WINNOW_DCHECK(condition) void(sizeof(static_cast<bool>(condition)))
#else
#define WINNOW_DCHECK(condition) WINNOW_CHECK(condition)
#endif
