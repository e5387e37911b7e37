#include "model/gguf_fingerprint.h"

#include <gtest/gtest.h>

#include <functional>
#include <set>

#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

uint64_t FingerprintOf(const GgufWriter& writer) {
  return FingerprintOf(GgufFile::FromBytes("test.gguf", writer.Build()).value());
}

GgufWriter WithMetadata() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddStringArray("words", {"ab", "c"});
  return writer;
}

TEST(GgufFingerprint, TheSameFileGivesTheSameNumberFromAnyPath) {
  const auto bytes = TinyModelBytes({});
  EXPECT_EQ(FingerprintOf(GgufFile::FromBytes("a", bytes).value()),
            FingerprintOf(GgufFile::FromBytes("b", bytes).value()));
}

TEST(GgufFingerprint, EveryPartOfMetadataAndTensorTableCounts) {
  const std::function<void(GgufWriter&)> changes[] = {
      [](GgufWriter&) {},
      [](GgufWriter& w) { w.AddUint32("answer", 42); },
      [](GgufWriter& w) { w.AddUint32("answer", 43); },
      [](GgufWriter& w) { w.AddUint32("question", 42); },
      [](GgufWriter& w) {
        w.AddRaw("answer", uint32_t(GgufType::kInt32), {42, 0, 0, 0});
      },
      [](GgufWriter& w) {
        w.AddStringArray("more", {"a", "bc"});
      },
      [](GgufWriter& w) {
        w.AddStringArray("more", {"ab", "c"});
      },
      [](GgufWriter& w) { w.AddString("more", "12345678"); },
      [](GgufWriter& w) { w.AddString("more", "123456789"); },
      [](GgufWriter& w) {
        w.AddFloatTensor("t", {2, 3}, std::vector<float>(6));
      },
      [](GgufWriter& w) {
        w.AddFloatTensor("t", {3, 2}, std::vector<float>(6));
      },
      [](GgufWriter& w) { w.AddFloatTensor("t", {6}, std::vector<float>(6)); },
      [](GgufWriter& w) { w.AddFloatTensor("u", {6}, std::vector<float>(6)); },
      [](GgufWriter& w) { w.AddTensor("u", DType::kF16, {6}, std::vector<uint8_t>(12)); },
  };
  std::set<uint64_t> seen;
  for (const auto& change : changes) {
    GgufWriter writer = WithMetadata();
    change(writer);
    seen.insert(FingerprintOf(writer));
  }
  EXPECT_EQ(seen.size(), std::size(changes));
}

TEST(GgufFingerprint, ABaseModelIsNotItsFineTune) {
  GgufWriter base = WithMetadata(), tuned = WithMetadata();
  std::vector<float> weights(4096, 0.5f);
  base.AddFloatTensor("t", {64, 64}, weights);
  for (float& weight : weights) weight += 0.001f;
  tuned.AddFloatTensor("t", {64, 64}, weights);
  EXPECT_NE(FingerprintOf(base), FingerprintOf(tuned));
}

TEST(GgufFingerprint, BothEndsOfATensorAreInTheSample) {
  std::set<uint64_t> seen;
  for (size_t changed : {size_t(0), size_t(4095), size_t(5000)}) {  // and none
    std::vector<float> weights(4096, 0.5f);
    if (changed < weights.size()) weights[changed] = 1;
    GgufWriter writer = WithMetadata();
    writer.AddFloatTensor("t", {4096}, weights);
    seen.insert(FingerprintOf(writer));
  }
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace winnow
