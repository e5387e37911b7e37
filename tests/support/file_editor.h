// A tiny model's file with numbers changed before it is opened: what a damaged or hostile file holds.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny_model.h"

namespace winnow {

// Numbers of one tensor of a model file in F32, changed before it is opened.
class FileEditor {
 public:
  explicit FileEditor(const TinyModelSpec& spec) : original_(spec), bytes_(TinyModelBytes(spec)) {}

  void Set(const std::string& name, int64_t row, int64_t column, float value) {
    const GgufTensor& tensor = *original_.file.GetTensor(name).value();
    ASSERT_EQ(tensor.dtype, DType::kF32);
    // The tensor's first numbers are random, so they stand in one place only.
    const auto at = std::search(bytes_.begin(), bytes_.end(), tensor.data, tensor.data + 64);
    const auto offset = at - bytes_.begin() + 4 * (row * tensor.shape[0] + column);
    edits_.push_back({offset, value});
  }
  // Never drawn: its logit is 0, and half of all others are larger.
  void KeepFromBeingDrawn(int32_t token) {
    for (int64_t column = 0; column < config().hidden_size; ++column) Set("output.weight", token, column, 0.0f);
  }
  GgufFile Open() {
    for (const auto& [offset, value] : edits_) std::memcpy(&bytes_[size_t(offset)], &value, sizeof value);
    return std::move(GgufFile::FromBytes("edited tiny model", bytes_)).value();
  }
  int64_t Rows(const std::string& name) const { return original_.file.GetTensor(name).value()->shape[1]; }
  const ModelConfig& config() const { return original_.config; }

 private:
  TinyModel original_;
  std::vector<uint8_t> bytes_;
  std::vector<std::pair<ptrdiff_t, float>> edits_;
};

}  // namespace winnow
