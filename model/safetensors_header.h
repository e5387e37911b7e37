// The JSON header of a safetensors file as it stands there, checked for form alone. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace winnow {

struct SafetensorsEntry {
  std::string dtype;
  std::vector<uint64_t> shape;
  std::vector<uint64_t> data_offsets;  // begin, end
};

struct SafetensorsHeader {
  std::map<std::string, SafetensorsEntry> entries;
  std::map<std::string, std::string> metadata;
};

// BadFile for anything but an object of tensors with dtype, shape and data_offsets, and of text in __metadata__.
Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json);

}  // namespace winnow
