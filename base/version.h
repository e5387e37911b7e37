// What this binary is: version, commit, compiler. Written by the build (cmake/winnow_version.cmake) into the small
// library winnow_version, which only programs link, so that a new commit rebuilds one file. Any thread.
#pragma once

#include <string_view>

namespace winnow {

struct BuildInfo {
  std::string_view version;     // "0.1.0", from the file VERSION
  std::string_view git_id;      // short commit id, "-dirty" after it with local changes; "unknown" outside a git tree
  std::string_view compiler;    // "GNU 12.2.0"
  std::string_view build_type;  // "Release"
  std::string_view flags;       // compiler flags, "-O3 -march=x86-64-v3 ..."
};

const BuildInfo& GetBuildInfo();

}  // namespace winnow
