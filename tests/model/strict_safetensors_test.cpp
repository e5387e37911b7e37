// Safetensors files made to harm, beside those of safetensors_test.cpp. tests/fuzz looks for more of the kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstring>

#include "model/safetensors.h"

namespace winnow {
namespace {

using ::testing::HasSubstr;

std::vector<uint8_t> FileOf(const std::string& header, size_t data_bytes, uint64_t length) {
  std::vector<uint8_t> bytes(8 + header.size() + data_bytes);
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  return bytes;
}
std::vector<uint8_t> FileOf(const std::string& header, size_t data_bytes) {
  return FileOf(header, data_bytes, header.size());
}

Status Parse(const std::vector<uint8_t>& bytes) {
  return SafetensorsFile::Parse(FileBytes::FromVector(bytes), "f.safetensors").status();
}

int64_t MostResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

// Field case 78.
TEST(StrictSafetensors, AHeaderLengthIsComparedWithTheFileWithoutAddingToIt) {
  const std::string header = R"({"a":{"dtype":"U8","shape":[16],"data_offsets":[0,16]}})";
  ASSERT_TRUE(Parse(FileOf(header, 16)).ok());
  const uint64_t size = 8 + header.size() + 16;
  const int64_t before = MostResidentBytes();
  for (const uint64_t length : {uint64_t(0), uint64_t(7), size - 8, size - 7, size, uint64_t(200'000'000),
                                uint64_t(1) << 63, ~uint64_t(0) - 7, ~uint64_t(0)}) {
    const Status status = Parse(FileOf(header, 16, length));
    EXPECT_EQ(status.code(), StatusCode::kBadFile) << length;
    if (length > size - 8) {
      EXPECT_THAT(status.message(), HasSubstr("found " + std::to_string(length)));
    }
  }
  for (size_t num_bytes = 0; num_bytes <= 9; ++num_bytes) {
    EXPECT_EQ(Parse(std::vector<uint8_t>(num_bytes, 0)).code(), StatusCode::kBadFile) << num_bytes;
    EXPECT_EQ(Parse(std::vector<uint8_t>(num_bytes, 0xff)).code(), StatusCode::kBadFile) << num_bytes;
  }
  EXPECT_LT(MostResidentBytes() - before, int64_t(16) << 20);
}

TEST(StrictSafetensors, AHeaderAboveTheFormatsCapIsRefusedWithTheCap) {
  constexpr uint64_t kTooLong = 100'000'001;
  std::vector<uint8_t> bytes(8 + kTooLong, ' ');
  std::memcpy(bytes.data(), &kTooLong, 8);
  EXPECT_THAT(Parse(bytes).message(), HasSubstr("at most 100000000 bytes, found 100000001"));
}

// Field case 80: a header of many names costs in proportion to its length, and one of them twice is still found.
TEST(StrictSafetensors, ThirtyThousandNamesAreReadAndOneTwiceIsNamed) {
  std::string header = "{";
  for (int i = 0; i < 30'000; ++i) {
    header += "\"t" + std::to_string(i) + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  }
  const std::string last = R"("t77":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})";
  EXPECT_THAT(Parse(FileOf(header + last, 0)).message(), HasSubstr("'t77': given twice"));
  header.back() = '}';
  EXPECT_TRUE(Parse(FileOf(header, 0)).ok());
}

}  // namespace
}  // namespace winnow
