// Models in several GGUF files: any part opens all of them, and whatever does not fit is refused by name (field case
// 77).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>

#include "model/gguf.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

constexpr int kParts = 3;

void AddUint16(GgufWriter* writer, std::string_view key, uint16_t value) {
  writer->AddRaw(key, 2, {uint8_t(value & 255), uint8_t(value >> 8)});
}

class GgufSplitTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directories(folder_);
    WriteAll();
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string Path(int part) const { return folder_ + "/m-0000" + std::to_string(part + 1) + "-of-00003.gguf"; }
  // Tensor "t<part>" of four numbers, the first of which is the part.
  void Write(int part, const std::function<void(GgufWriter*)>& change = nullptr, int index = -1, int count = kParts,
             const std::string& name = "") const {
    GgufWriter writer;
    if (part == 0) writer.AddString("general.architecture", "llama");
    AddUint16(&writer, "split.no", uint16_t(index < 0 ? part : index));
    AddUint16(&writer, "split.count", uint16_t(count));
    writer.AddUint32("split.tensors.count", kParts);
    writer.AddFloatTensor(name.empty() ? "t" + std::to_string(part) : name, {4}, {float(part), 1, 2, 3});
    if (change) change(&writer);
    writer.WriteTo(Path(part));
  }
  void WriteAll() const {
    for (int part = 0; part < kParts; ++part) Write(part);
  }
  void ExpectRefused(const std::string& path, const std::vector<std::string>& parts) const {
    const auto file = GgufFile::Open(path);
    ASSERT_FALSE(file.ok());
    EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
    for (const std::string& part : parts) EXPECT_THAT(file.status().message(), HasSubstr(part));
  }

  const std::string folder_ = TemporaryPath("split").string();
};

TEST_F(GgufSplitTest, AnyPartOpensAllOfThem) {
  for (int given = 0; given < kParts; ++given) {
    const auto file = GgufFile::Open(Path(given));
    ASSERT_TRUE(file.ok()) << file.status().message();
    EXPECT_EQ(file->path(), Path(0));
    EXPECT_EQ(file->GetString("general.architecture").value(), "llama");
    ASSERT_EQ(file->tensors().size(), size_t(kParts));
    uint64_t bytes = 0;
    for (int part = 0; part < kParts; ++part) {
      const GgufTensor* tensor = file->FindTensor("t" + std::to_string(part));
      ASSERT_NE(tensor, nullptr);
      file->Release(*tensor);
      const TensorRows rows = file->Rows(*tensor, {0}).value();
      EXPECT_EQ(reinterpret_cast<const float*>(rows.data.data())[0], float(part));
      bytes += fs::file_size(Path(part));
    }
    EXPECT_EQ(file->num_file_bytes(), bytes);
  }
}

TEST_F(GgufSplitTest, MissingPartsAreListed) {
  fs::remove(Path(0));
  ExpectRefused(Path(1), {"3 parts", "missing m-00001-of-00003.gguf"});
  fs::remove(Path(2));
  ExpectRefused(Path(1), {"m-00001-of-00003.gguf, m-00003-of-00003.gguf"});
}

TEST_F(GgufSplitTest, PartsThatContradictEachOtherAreRefused) {
  Write(1, nullptr, /*index=*/2);
  ExpectRefused(Path(0), {Path(1), "part 2 of 3", "found 3 of 3"});
  Write(1, nullptr, 1, /*count=*/4);
  ExpectRefused(Path(0), {Path(1), "found 2 of 4"});
  Write(1, nullptr, 1, kParts, "t0");
  ExpectRefused(Path(0), {Path(1), "t0", "earlier"});
  Write(1, [](GgufWriter* writer) { writer->AddFloatTensor("more", {4}, {0, 0, 0, 0}); });
  ExpectRefused(Path(2), {"split.tensors.count", "4 tensors", "found 3"});
  Write(1, [](GgufWriter* writer) { writer->AddUint32("llama.block_count", 2); });
  ExpectRefused(Path(0), {Path(1), "llama.block_count"});
  Write(1, nullptr, 1, /*count=*/0);
  ExpectRefused(Path(1), {"split.count", "found 1 of 0"});
  Write(1, nullptr, 9);
  ExpectRefused(Path(1), {"found 9 of 3"});
  Write(1);
  fs::resize_file(Path(2), fs::file_size(Path(2)) - 8);
  ExpectRefused(Path(0), {Path(2), "t2"});
}

TEST_F(GgufSplitTest, APartUnderAnotherNameIsRefused) {
  fs::rename(Path(1), folder_ + "/other.gguf");
  ExpectRefused(folder_ + "/other.gguf", {"part 2 of 3", "-00002-of-00003.gguf"});
}

}  // namespace
}  // namespace winnow
