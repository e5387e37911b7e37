#include "tests/support/golden_logits.h"

#include <array>
#include <cstring>
#include <fstream>
#include <string_view>

#include "base/check.h"

namespace winnow {
namespace {

class GoldenReader {
 public:
  GoldenReader(const std::string& path, std::string_view magic) : file_(path, std::ios::binary) {
    std::array<char, 8> found;
    file_.read(found.data(), found.size());
    WINNOW_CHECK(file_ && std::string_view(found.data(), found.size()) == magic);
    counts = {Read<uint32_t>(), Read<uint32_t>(), Read<uint32_t>(), Read<uint32_t>()};
  }
  template <class T>
  T Read() {
    return ReadMany<T>(1)[0];
  }
  template <class T>
  std::vector<T> ReadMany(size_t count) {
    std::vector<T> values(count);
    file_.read(reinterpret_cast<char*>(values.data()), std::streamsize(count * sizeof(T)));
    WINNOW_CHECK(file_);
    return values;
  }
  std::array<uint32_t, 4> counts{};

 private:
  std::ifstream file_;
};

}  // namespace

std::vector<std::vector<int32_t>> ReadGoldenSequences(const std::string& path) {
  GoldenReader reader(path, "WNIDSEQ1");
  std::vector<std::vector<int32_t>> sequences;
  for (uint32_t s = 0; s < reader.counts[0]; ++s) sequences.push_back(reader.ReadMany<int32_t>(reader.counts[1]));
  return sequences;
}

GoldenLogits ReadGoldenLogits(const std::string& directory) {
  GoldenLogits golden;
  golden.sequences = ReadGoldenSequences(directory + "/logits_ids.bin");
  GoldenReader top(directory + "/logits_top.bin", "WNTOPLG1");
  for (uint32_t s = 0; s < top.counts[0]; ++s) {
    auto& sequence = golden.top.emplace_back();
    for (uint32_t t = 0; t < top.counts[1]; ++t) {
      GoldenTop& record = sequence.emplace_back();
      record.log_sum_exp = top.Read<float>();
      record.ids = top.ReadMany<int32_t>(top.counts[3]);
      record.logits = top.ReadMany<float>(top.counts[3]);
    }
  }
  GoldenReader full(directory + "/logits_full.bin", "WNFULLG1");
  for (uint32_t p = 0; p < full.counts[0]; ++p) {
    GoldenFull& record = golden.full.emplace_back();
    record.sequence = full.Read<uint32_t>();
    record.token = full.Read<uint32_t>();
  }
  for (GoldenFull& record : golden.full) record.logits = full.ReadMany<float>(full.counts[2]);
  return golden;
}

}  // namespace winnow
