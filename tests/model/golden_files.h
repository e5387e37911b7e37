// Where the golden files of tests/golden are. For tests of model/.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

#include "base/check.h"

namespace winnow {

inline std::string ReadGolden(const std::string& name) {
  std::ifstream file(std::string(WINNOW_GOLDEN_DIR) + "/" + name, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  WINNOW_CHECK(file.good());
  return text.str();
}

}  // namespace winnow
