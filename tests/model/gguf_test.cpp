#include "model/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>

#include "base/philox.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/temporary_path.h"

namespace winnow {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Every metadata kind and three tensors, one of them quantised.
GgufWriter SmallFile() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("answer", 42);
  writer.AddFloat32("half", 0.5f);
  writer.AddBool("yes", true);
  writer.AddStringArray("words", {"a", "", "caf\xc3\xa9"});
  writer.AddInt32Array("integers", {1, -2, 3});
  writer.AddFloat32Array("floats", {0.25f, -4.0f});
  std::vector<uint8_t> large;
  AppendBytes(&large, uint64_t{1} << 63);
  writer.AddRaw("large", uint32_t(GgufType::kUint64), large);
  writer.AddRaw("negative", uint32_t(GgufType::kInt8), {0xff});
  writer.AddFloatTensor("norm", {4}, {1, 2, 3, 4});
  writer.AddTensor("weight", DType::kQ4_1, {64, 2}, std::vector<uint8_t>(80, 7));
  writer.AddTensor("tail", DType::kF16, {3}, {1, 2, 3, 4, 5, 6});
  return writer;
}

std::string ErrorOf(const GgufWriter& writer) {
  const Result<GgufFile> file = GgufFile::FromBytes("test.gguf", writer.Build());
  if (file.ok()) return "no error";
  EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(file.status().message(), HasSubstr("test.gguf"));
  return file.status().message();
}

// Reads all there is, so that a sanitizer sees every wrong pointer.
uint64_t ReadEverything(const GgufFile& file) {
  uint64_t sum = 0;
  for (const auto& [key, value] : file.metadata()) {
    if (const auto text = file.GetString(key); text.ok()) sum += text->size() + (text->empty() ? 0 : text->back());
    if (const auto number = file.GetUint(key); number.ok()) sum += *number;
    if (const auto number = file.GetFloat(key); number.ok()) sum += *number > 0 ? 1 : 0;
    if (const auto flag = file.GetBool(key); flag.ok()) sum += *flag ? 1 : 0;
    if (const auto texts = file.GetStringArray(key); texts.ok()) {
      for (const std::string_view text : *texts) sum += text.size() + (text.empty() ? 0 : text.back());
    }
    if (const auto numbers = file.GetIntArray(key); numbers.ok()) sum += numbers->size();
  }
  for (const GgufTensor& tensor : file.gguf_tensors()) {
    for (int64_t i = 0; i < tensor.num_bytes; ++i) sum += tensor.data[i];
  }
  return sum;
}

TEST(Gguf, GivesBackWhatWasWritten) {
  const std::string path = TemporaryPath("round_trip.gguf").string();
  SmallFile().WriteTo(path);
  Result<GgufFile> opened = GgufFile::Open(path);
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  const GgufFile file = std::move(opened).value();  // moved: views must stay valid

  EXPECT_EQ(file.version(), 3u);
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("answer"), 42u);
  EXPECT_EQ(*file.GetFloat("half"), 0.5);
  EXPECT_EQ(*file.GetBool("yes"), true);
  EXPECT_THAT(*file.GetStringArray("words"), ElementsAre("a", "", "caf\xc3\xa9"));
  EXPECT_THAT(*file.GetIntArray("integers"), ElementsAre(1, -2, 3));
  EXPECT_EQ(file.metadata().at("floats").count, 2u);
  EXPECT_EQ(*file.GetUint("large"), uint64_t{1} << 63);

  ASSERT_EQ(file.gguf_tensors().size(), 3u);
  const GgufTensor* norm = file.FindTensor("norm");
  ASSERT_NE(norm, nullptr);
  EXPECT_EQ(norm->dtype, DType::kF32);
  float values[4];
  std::memcpy(values, norm->data, sizeof values);
  EXPECT_THAT(values, ElementsAre(1, 2, 3, 4));
  const GgufTensor* weight = *file.GetTensor("weight");
  EXPECT_THAT(weight->shape, ElementsAre(64, 2));
  EXPECT_EQ(weight->num_bytes, 80);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(weight->data) % 32, 0u);
  EXPECT_EQ(weight->data[79], 7);
  EXPECT_EQ(file.FindTensor("absent"), nullptr);
  std::filesystem::remove(path);
}

TEST(Gguf, SaysWhichKeyIsMissingOrOfAnotherKind) {
  const Result<GgufFile> file = GgufFile::FromBytes("test.gguf", SmallFile().Build());
  ASSERT_TRUE(file.ok());
  EXPECT_THAT(file->GetUint("absent").status().message(), HasSubstr("expected metadata key absent, found none"));
  EXPECT_THAT(file->GetUint("half").status().message(), HasSubstr("half: expected an integer, found float32"));
  EXPECT_THAT(file->GetUint("negative").status().message(), HasSubstr("found -1"));
  EXPECT_THAT(file->GetFloat("answer").status().message(), HasSubstr("expected a float, found uint32"));
  EXPECT_THAT(file->GetString("yes").status().message(), HasSubstr("expected a string, found bool"));
  EXPECT_THAT(file->GetBool("words").status().message(), HasSubstr("expected a bool, found array of string"));
  EXPECT_THAT(file->GetIntArray("words").status().message(), HasSubstr("found array of string"));
  EXPECT_THAT(file->GetStringArray("floats").status().message(), HasSubstr("found array of float32"));
  EXPECT_THAT(file->GetTensor("absent").status().message(), HasSubstr("expected tensor absent"));
}

TEST(Gguf, RefusesFilesThatCannotBeRead) {
  EXPECT_THAT(GgufFile::Open("/no/such/file.gguf").status().message(), HasSubstr("/no/such/file.gguf"));
  EXPECT_THAT(GgufFile::Open(testing::TempDir()).status().message(), HasSubstr("expected a regular file"));
  const std::string path = TemporaryPath("empty.gguf").string();
  fclose(fopen(path.c_str(), "w"));
  EXPECT_THAT(GgufFile::Open(path).status().message(), HasSubstr("empty"));
  std::filesystem::remove(path);
}

TEST(Gguf, RefusesAnotherMagicVersionOrByteOrder) {
  GgufWriter writer = SmallFile();
  writer.magic = 0x67676d6c;
  EXPECT_THAT(ErrorOf(writer), HasSubstr("expected magic"));
  for (const uint32_t version : {0u, 1u, 4u}) {
    GgufWriter other = SmallFile();
    other.version = version;
    EXPECT_THAT(ErrorOf(other), HasSubstr("expected GGUF version 2 or 3, found " + std::to_string(version)));
  }
  GgufWriter big_endian = SmallFile();
  big_endian.version = 0x03000000;
  EXPECT_THAT(ErrorOf(big_endian), HasSubstr("big-endian"));
  GgufWriter version2 = SmallFile();
  version2.version = 2;
  EXPECT_EQ(ErrorOf(version2), "no error");
}

TEST(Gguf, RefusesCountsThatCannotFitBeforeAllocating) {
  GgufWriter keys = SmallFile();
  keys.num_keys = uint64_t{1} << 60;
  EXPECT_THAT(ErrorOf(keys), HasSubstr("metadata keys in the bytes left"));
  GgufWriter tensors = SmallFile();
  tensors.num_tensors = uint64_t{1} << 60;
  EXPECT_THAT(ErrorOf(tensors), HasSubstr("tensors in the bytes left"));
  for (const GgufType type : {GgufType::kUint8, GgufType::kString, GgufType::kFloat64}) {
    GgufWriter array;
    std::vector<uint8_t> payload;
    AppendBytes(&payload, uint32_t(type));
    AppendBytes(&payload, ~uint64_t{0});
    array.AddRaw("array", uint32_t(GgufType::kArray), payload);
    EXPECT_THAT(ErrorOf(array), HasSubstr("truncated at array: expected 18446744073709551615 elements"));
  }
  GgufWriter text;
  std::vector<uint8_t> length;
  AppendBytes(&length, ~uint64_t{0});
  text.AddRaw("text", uint32_t(GgufType::kString), length);
  EXPECT_THAT(ErrorOf(text), HasSubstr("truncated at text"));
}

TEST(Gguf, RefusesBadMetadata) {
  GgufWriter twice = SmallFile();
  twice.AddUint32("answer", 43);
  EXPECT_THAT(ErrorOf(twice), HasSubstr("found answer twice"));
  GgufWriter type;
  type.AddRaw("strange", 13, {0});
  EXPECT_THAT(ErrorOf(type), HasSubstr("strange: expected a value type of 0 to 12, found 13"));
  GgufWriter flag;
  flag.AddRaw("flag", uint32_t(GgufType::kBool), {2});
  EXPECT_THAT(ErrorOf(flag), HasSubstr("flag: expected a bool of 0 or 1, found 2"));
  GgufWriter nested;
  std::vector<uint8_t> payload;
  AppendBytes(&payload, uint32_t(GgufType::kArray));
  AppendBytes(&payload, uint64_t{1});
  nested.AddRaw("nested", uint32_t(GgufType::kArray), payload);
  EXPECT_THAT(ErrorOf(nested), HasSubstr("array of arrays"));
  GgufWriter empty_key;
  empty_key.AddUint32("", 1);
  EXPECT_THAT(ErrorOf(empty_key), HasSubstr("expected a length of 1 to 65535, found 0"));
  GgufWriter control;
  control.AddUint32("a\nb", 1);
  EXPECT_THAT(ErrorOf(control), HasSubstr("expected printable ASCII, found byte 10"));
  for (const uint32_t alignment : {0u, 4u, 24u, 1u << 21}) {
    GgufWriter writer = SmallFile();
    writer.AddUint32("general.alignment", alignment);
    EXPECT_THAT(ErrorOf(writer), HasSubstr("general.alignment: expected a power of two"));
  }
}

TEST(Gguf, HonoursAnotherAlignment) {
  GgufWriter writer = SmallFile();
  writer.AddUint32("general.alignment", 8);
  writer.alignment = 8;
  const Result<GgufFile> file = GgufFile::FromBytes("test.gguf", writer.Build());
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->FindTensor("weight")->data[0], 7);
}

TEST(Gguf, RefusesBadTensors) {
  const std::vector<uint8_t> bytes(64, 0);
  const auto error = [&](const std::function<void(GgufWriter*)>& add) {
    GgufWriter writer = SmallFile();
    add(&writer);
    return ErrorOf(writer);
  };
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("norm", 0, {16}, bytes); }), HasSubstr("found norm twice"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("odd", 16, {256}, bytes); }),
              HasSubstr("tensor odd: type 16 (IQ2_XXS) is not supported; supported: F32, F16, Q4_0, "));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("odd", 250, {256}, bytes); }),
              HasSubstr("tensor odd: type 250 is not supported; supported: "));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {}, bytes); }),
              HasSubstr("expected 1 to 4 dimension"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {1, 1, 1, 1, 1}, bytes); }), HasSubstr("found 5"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {4, 0}, bytes); }), HasSubstr("dimension 1 = 0"));
  const uint64_t big = uint64_t{1} << 32;
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {big, big}, bytes); }), HasSubstr("below 2^63"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {~uint64_t{0}}, bytes); }), HasSubstr("below 2^63"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {big, big / 4}, bytes); }), HasSubstr("2^63 bytes"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 2, {40}, bytes); }),
              HasSubstr("multiple of 32 for Q4_0"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {16}, bytes, 8); }),
              HasSubstr("multiple of 32, found 8"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {16}, bytes, 0); }),
              HasSubstr("found an overlap with"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {17}, bytes); }),
              HasSubstr("found a data section of"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor("t", 0, {16}, bytes, ~uint64_t{31}); }),
              HasSubstr("tensor t: expected 64 bytes at data offset"));
  EXPECT_THAT(error([&](GgufWriter* w) { w->AddRawTensor(std::string(65, 'x'), 0, {16}, bytes); }),
              HasSubstr("expected a length of 1 to 64, found 65"));
}

TEST(Gguf, RefusesEveryTruncation) {
  const std::vector<uint8_t> whole = SmallFile().Build();
  ASSERT_TRUE(GgufFile::FromBytes("test.gguf", whole).ok());
  for (size_t size = 0; size < whole.size(); ++size) {
    const Result<GgufFile> file = GgufFile::FromBytes("test.gguf", {whole.begin(), whole.begin() + long(size)});
    ASSERT_FALSE(file.ok()) << size << " bytes of " << whole.size();
    EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
  }
}

TEST(Gguf, SurvivesFlippedBytes) {
  const std::vector<uint8_t> whole = SmallFile().Build();
  int num_valid = 0;
  constexpr int kNumTrials = 20000;
  for (uint32_t trial = 0; trial < kNumTrials; ++trial) {
    std::vector<uint8_t> bytes = whole;
    const uint32_t num_flips = 1 + Philox(1, {trial, 0, 0, 0})[0] % 4;
    for (uint32_t flip = 1; flip <= num_flips; ++flip) {
      const PhiloxBlock random = Philox(1, {trial, flip, 0, 0});
      bytes[random[0] % bytes.size()] = uint8_t(random[1]);
    }
    const Result<GgufFile> file = GgufFile::FromBytes("test.gguf", bytes);
    if (!file.ok()) {
      EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
      continue;
    }
    ++num_valid;
    ReadEverything(*file);
  }
  // Both outcomes must occur, or the test looks at one side only.
  EXPECT_GT(num_valid, kNumTrials / 20);
  EXPECT_LT(num_valid, kNumTrials);
}

TEST(Gguf, OpensTheRealModel) {
  const char* path = std::getenv("WINNOW_MODEL");
  if (path == nullptr) GTEST_SKIP() << "WINNOW_MODEL is not set";
  const Result<GgufFile> file = GgufFile::Open(path);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_TRUE(file->Has("general.architecture"));
  EXPECT_NE(file->FindTensor("token_embd.weight"), nullptr);
  EXPECT_GT(ReadEverything(*file), 0u);
}

}  // namespace
}  // namespace winnow
