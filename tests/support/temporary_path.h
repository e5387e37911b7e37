// Where a test may write: a path of this process alone, since ctest runs the same test of several builds at a time.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace winnow {

inline std::filesystem::path TemporaryPath(const std::string& name) {
  return std::filesystem::path(testing::TempDir()) / ("winnow_" + std::to_string(getpid()) + "_" + name);
}

}  // namespace winnow
