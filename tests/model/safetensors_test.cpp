// The reader against every kind of wrong file, the writer against the reader. That the files are those of the format
// was checked with Python's safetensors 0.8: ReadsAFileWrittenByPython has the bytes that safetensors.numpy.save made,
// and safetensors.safe_open read files of WriteSafetensors (an empty tensor among them) to the same values.
#include "model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "base/hash.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

using testing::HasSubstr;

std::vector<uint8_t> FileOf(const std::string& header, size_t data_bytes) {
  std::vector<uint8_t> bytes(8 + header.size() + data_bytes);
  const uint64_t length = header.size();
  std::memcpy(bytes.data(), &length, 8);
  std::memcpy(bytes.data() + 8, header.data(), header.size());
  for (size_t i = 0; i < data_bytes; ++i) bytes[8 + header.size() + i] = uint8_t(i);
  return bytes;
}

Result<SafetensorsFile> Parse(const std::vector<uint8_t>& bytes) {
  return SafetensorsFile::Parse(FileBytes::FromVector(bytes), "f.safetensors");
}

// Two tensors of 8 and 4 bytes, and metadata.
const std::string kGood = R"({"__metadata__":{"who":"me"},"a":{"dtype":"F32","shape":[2,1],"data_offsets":[0,8]},)"
                          R"("b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})";

std::string Replaced(const std::string& what, const std::string& with) {
  std::string text = kGood;
  const size_t at = text.find(what);
  EXPECT_NE(at, std::string::npos) << what;
  return text.replace(at, what.size(), with);
}

void ExpectRefused(const std::vector<uint8_t>& bytes, const std::vector<std::string>& parts) {
  const auto file = Parse(bytes);
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
  EXPECT_THAT(file.status().message(), HasSubstr("f.safetensors: "));
  for (const std::string& part : parts) EXPECT_THAT(file.status().message(), HasSubstr(part));
}

void ExpectRefused(const std::string& header, const std::vector<std::string>& parts) {
  SCOPED_TRACE(header.substr(0, 200));
  ExpectRefused(FileOf(header, 12), parts);
}

TEST(Safetensors, ReadsTensorsAndMetadata) {
  const auto file = Parse(FileOf(kGood + "   ", 12));
  ASSERT_TRUE(file.ok()) << file.status().message();
  ASSERT_EQ(file->tensors().size(), 2u);
  const SafetensorsTensor& a = file->tensors().at("a");
  EXPECT_EQ(a.type, SafetensorsType::kF32);
  EXPECT_EQ(a.shape, (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(a.num_elements(), 2);
  EXPECT_EQ(std::vector<uint8_t>(a.bytes.begin(), a.bytes.end()), (std::vector<uint8_t>{0, 1, 2, 3, 4, 5, 6, 7}));
  EXPECT_EQ(file->tensors().at("b").bytes[0], 8);
  EXPECT_EQ(file->GetMetadata("who").value(), "me");
  EXPECT_THAT(file->GetMetadata("why").status().message(), HasSubstr("'why'"));
}

TEST(Safetensors, GetNamesWhatItExpectedAndFound) {
  const auto file = Parse(FileOf(kGood, 12)).value();
  EXPECT_TRUE(file.Get("a", SafetensorsType::kF32, std::vector<int64_t>{2, -1}).ok());
  EXPECT_THAT(file.Get("c", SafetensorsType::kF32, std::vector<int64_t>{2}).status().message(),
              HasSubstr("found none"));
  for (const auto& [type, shape] : std::vector<std::pair<SafetensorsType, std::vector<int64_t>>>{
           {SafetensorsType::kI32, {2, 1}}, {SafetensorsType::kF32, {2}}, {SafetensorsType::kF32, {1, 2}}}) {
    const Status status = file.Get("a", type, shape).status();
    EXPECT_EQ(status.code(), StatusCode::kBadFile);
    EXPECT_THAT(status.message(), HasSubstr("tensor a: expected " + std::string(Name(type)) + " " + ShapeText(shape)));
    EXPECT_THAT(status.message(), HasSubstr("found F32 [2, 1]"));
  }
}

// safetensors.numpy.save({"x": int64 [[1, -2]], "s": float16 scalar 1.5, "e": uint8 [0]}, {"k": "v"})
TEST(Safetensors, ReadsAFileWrittenByPython) {
  const std::string header =
      R"({"__metadata__":{"k":"v"},"x":{"dtype":"I64","shape":[1,2],"data_offsets":[0,16]},)"
      R"("s":{"dtype":"F16","shape":[],"data_offsets":[16,18]},"e":{"dtype":"U8","shape":[0],"data_offsets":[18,18]}}  )";
  const int64_t x[2] = {1, -2};
  const uint16_t one_and_a_half = 0x3e00;
  std::vector<uint8_t> bytes = FileOf(header, 18);
  std::memcpy(bytes.data() + bytes.size() - 18, x, 16);
  std::memcpy(bytes.data() + bytes.size() - 2, &one_and_a_half, 2);
  const auto file = Parse(bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(std::memcmp(file->Get("x", SafetensorsType::kI64, std::vector<int64_t>{1, 2})->bytes.data(), x, 16), 0);
  EXPECT_EQ(file->Get("s", SafetensorsType::kF16, {})->num_elements(), 1);
  EXPECT_EQ(file->Get("e", SafetensorsType::kU8, std::vector<int64_t>{0})->num_elements(), 0);
}

TEST(Safetensors, RefusesHeadersThatAreNotOfTheFormat) {
  ExpectRefused(std::string(), {"JSON object"});
  ExpectRefused("[]", {"JSON object"});
  ExpectRefused(" " + kGood, {"JSON object"});
  ExpectRefused("\xef\xbb\xbf" + kGood, {"JSON object"});
  ExpectRefused("{", {"JSON"});
  ExpectRefused(kGood + "x", {"JSON"});
  ExpectRefused(Replaced("\"a\"", "\"\xff\""), {"JSON"});
  ExpectRefused(R"({"a":3})", {"'a'", "an object", "3"});
  ExpectRefused(R"({"a":[]})", {"'a'", "an object", "an array"});
  ExpectRefused(R"({"a":{}})", {"'a'", "dtype, shape and data_offsets"});
  ExpectRefused(Replaced(R"({"who":"me"})", "null"), {"__metadata__", "an object", "null"});
  ExpectRefused(Replaced(R"("me")", "3"), {"'who'", "text", "3"});
  ExpectRefused(Replaced(R"("me")", "{}"), {"'who'", "text", "an object"});
  ExpectRefused(Replaced(R"("me")", "[]"), {"'who'", "text", "an array"});
  ExpectRefused(Replaced(R"("F32")", "32"), {"'a'", "'dtype'", "32"});
  ExpectRefused(Replaced(R"("F32")", "[]"), {"'dtype'", "an array"});
  ExpectRefused(Replaced("[2,1]", "2"), {"'shape'", "2"});
  ExpectRefused(Replaced("[2,1]", "[2,-1]"), {"'shape'", "whole numbers", "-1"});
  ExpectRefused(Replaced("[2,1]", "[2,1.0]"), {"'shape'", "whole numbers", "1.0"});
  ExpectRefused(Replaced("[2,1]", "[2,\"1\"]"), {"'shape'", "whole numbers", "text"});
  ExpectRefused(Replaced("[2,1]", "[2,[1]]"), {"'shape'", "an array"});
  ExpectRefused(Replaced("[2,1]", "[2,true]"), {"'shape'", "true"});
  ExpectRefused(Replaced("[2,1]", "[2,99999999999999999999]"), {"'shape'"});
  ExpectRefused(Replaced("[0,8]", "[0]"), {"'data_offsets'", "two numbers", "1"});
  ExpectRefused(Replaced("[0,8]", "[0,8,8]"), {"'data_offsets'", "two numbers", "3"});
  ExpectRefused(Replaced(R"("shape":[2,1])", R"("shape":[2,1],"more":1)"), {"'more'"});
  ExpectRefused(Replaced(R"("dtype":"F32",)", ""), {"'a'", "dtype, shape and data_offsets"});
}

TEST(Safetensors, RefusesNamesAndFieldsGivenTwice) {
  ExpectRefused(Replaced(R"("b")", R"("a")"), {"'a'", "twice"});
  ExpectRefused(Replaced(R"("b")", R"("\u0061")"), {"'a'", "twice"});
  ExpectRefused(Replaced(R"("shape":[2,1])", R"("shape":[2,1],"shape":[2,1])"), {"'shape'", "twice"});
  ExpectRefused(Replaced(R"("who":"me")", R"("who":"me","who":"you")"), {"'who'", "twice"});
  ExpectRefused(Replaced(R"("b":{)", R"("__metadata__":{"x":"y"},"b":{)"), {"'__metadata__'", "twice"});
}

TEST(Safetensors, DepthAndLengthOfNamesCanDoNothing) {
  ExpectRefused("{\"a\":" + std::string(1000000, '['), {"an array"});
  std::string deep = "{\"a\":";
  for (int i = 0; i < 300000; ++i) deep += "{\"a\":";
  ExpectRefused(deep, {"'a'"});
  const auto file = Parse(FileOf("{\"" + std::string(1000000, 'n') + "\":1}", 0));
  ASSERT_FALSE(file.ok());
  EXPECT_LT(file.status().message().size(), 300u);
}

TEST(Safetensors, RefusesTypesShapesAndOffsetsThatDoNotFit) {
  ExpectRefused(Replaced("F32", "F31"), {"tensor a", "F31"});
  ExpectRefused(Replaced("F32", "F64"), {"tensor a", "F64 [2, 1]", "16", "8"});
  ExpectRefused(Replaced("[2,1]", "[2,2]"), {"tensor a", "16", "8"});
  ExpectRefused(Replaced("[2,1]", "[2,0]"), {"tensor a", "needs 0", "8"});
  // Products that overflow, to 0 and to the right size among them.
  ExpectRefused(Replaced("[2,1]", "[4294967296,4294967296]"), {"tensor a", "64 bits"});
  ExpectRefused(Replaced("[2,1]", "[4611686018427387904,4]"), {"tensor a", "64 bits"});
  ExpectRefused(Replaced("[2,1]", "[2305843009213693953,2]"), {"tensor a"});
  ExpectRefused(Replaced("[2,1]", "[18446744073709551615]"), {"tensor a", "64 bits"});
  ExpectRefused(Replaced("[0,8]", "[8,0]"), {"tensor a", "8 to 0"});
  ExpectRefused(Replaced("[8,12]", "[12,16]"), {"tensor b", "12 to 16", "12 of the data"});
  ExpectRefused(Replaced("[8,12]", "[18446744073709551612,18446744073709551615]"), {"tensor b"});
  ExpectRefused(Replaced("[8,12]", "[4,8]"), {"tensor b", "overlaps"});
  ExpectRefused(Replaced("[0,8]", "[4,12]"), {"hole"});
  ExpectRefused(R"({"b":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})", {"tensor b", "hole"});
  ExpectRefused(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})", {"expected 8 bytes of data, found 12"});
}

TEST(Safetensors, RefusesEveryTruncationAndTrailingBytes) {
  const std::vector<uint8_t> whole = FileOf(kGood, 12);
  for (size_t size = 0; size < whole.size(); ++size) {
    EXPECT_FALSE(Parse({whole.begin(), whole.begin() + int64_t(size)}).ok()) << size;
  }
  std::vector<uint8_t> longer = whole;
  longer.push_back(0);
  EXPECT_FALSE(Parse(longer).ok());
}

TEST(Safetensors, AHeaderLengthCannotMakeItReadOrTakeMore) {
  for (uint64_t length : {uint64_t(kGood.size()) + 13, uint64_t(1) << 32, uint64_t(1) << 63, ~uint64_t(0)}) {
    std::vector<uint8_t> bytes = FileOf(kGood, 12);
    std::memcpy(bytes.data(), &length, 8);
    ExpectRefused(bytes, {"header of at most", std::to_string(length)});
  }
}

TEST(Safetensors, SurvivesFlippedBytes) {
  const std::vector<uint8_t> whole = FileOf(kGood, 12);
  for (uint64_t i = 0; i < 20000; ++i) {
    std::vector<uint8_t> bytes = whole;
    for (uint64_t flip = 0; flip <= i % 3; ++flip) {
      bytes[Mix64(2 * i + flip) % bytes.size()] = uint8_t(Mix64(~(i * 4 + flip)));
    }
    const auto file = Parse(bytes);
    if (!file.ok()) continue;
    for (const auto& [name, tensor] : file->tensors()) {
      ASSERT_EQ(int64_t(tensor.bytes.size()) % ElementBytes(tensor.type), 0);
    }
  }
}

class SafetensorsWriter : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / ("winnow_safetensors_" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }
  std::string Path(const std::string& name) const { return (folder_ / name).string(); }
  size_t NumFiles() const {
    return size_t(std::distance(std::filesystem::directory_iterator(folder_), std::filesystem::directory_iterator()));
  }
  Status Write(const std::string& path) const {
    return WriteSafetensors(path, {{"k\n\"", "v\xc3\xa4"}},
                            {{"bytes", {SafetensorsType::kU8, {3}, std::span(data_).first(3)}},
                             {"wide", {SafetensorsType::kI64, {2, 1}, std::span(data_).subspan(3, 16)}},
                             {"none", {SafetensorsType::kBF16, {0, 7}, {}}},
                             {"one", {SafetensorsType::kF32, {}, std::span(data_).subspan(30, 4)}}});
  }

  std::filesystem::path folder_;
  std::vector<uint8_t> data_ = std::vector<uint8_t>(64, 9);
};

TEST_F(SafetensorsWriter, WhatIsWrittenIsReadAndAligned) {
  data_[5] = 77;
  ASSERT_TRUE(Write(Path("f")).ok());
  EXPECT_EQ(NumFiles(), 1u);
  const auto file = SafetensorsFile::Open(Path("f"));
  ASSERT_TRUE(file.ok()) << file.status().message();
  EXPECT_EQ(file->GetMetadata("k\n\"").value(), "v\xc3\xa4");
  EXPECT_EQ(file->tensors().size(), 4u);
  const auto wide = file->Get("wide", SafetensorsType::kI64, std::vector<int64_t>{2, 1}).value();
  EXPECT_EQ(wide.bytes[2], 77);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(wide.bytes.data()) % 8, 0u);
  const auto one = file->Get("one", SafetensorsType::kF32, {}).value();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(one.bytes.data()) % 4, 0u);
  EXPECT_EQ(file->Get("none", SafetensorsType::kBF16, std::vector<int64_t>{0, 7})->num_elements(), 0);
  EXPECT_TRUE(file->Get("bytes", SafetensorsType::kU8, std::vector<int64_t>{3}).ok());
}

TEST_F(SafetensorsWriter, ReplacesAFileAndWritesThroughALink) {
  std::ofstream(Path("real")) << "old";
  std::filesystem::create_symlink(Path("real"), Path("link"));
  ASSERT_TRUE(Write(Path("link")).ok());
  EXPECT_TRUE(std::filesystem::is_symlink(Path("link")));
  EXPECT_TRUE(SafetensorsFile::Open(Path("real")).ok());
  EXPECT_EQ(NumFiles(), 2u);
}

TEST_F(SafetensorsWriter, SaysWhyAFileCannotBeWritten) {
  for (const auto& [path, part] :
       std::vector<std::pair<std::string, std::string>>{{Path("no/such/folder"), "No such file"},
                                                        {folder_.string(), "regular file"},
                                                        {"/dev/null", "regular file"}}) {
    for (const Status& status : {Write(path), CheckCanWrite(path)}) {
      EXPECT_EQ(status.code(), StatusCode::kBadFile);
      EXPECT_THAT(status.message(), HasSubstr(path + ": cannot write: "));
      EXPECT_THAT(status.message(), HasSubstr(part));
    }
  }
  EXPECT_TRUE(CheckCanWrite(Path("new")).ok());
  EXPECT_EQ(NumFiles(), 0u);
}

// A limit on the size of files stands for a disk that is full.
TEST_F(SafetensorsWriter, AFullDiskLeavesWhatWasThere) {
  std::ofstream(Path("f")) << "old";
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{100, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const Status status = Write(Path("f"));
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  EXPECT_EQ(status.code(), StatusCode::kBadFile);
  EXPECT_THAT(status.message(), HasSubstr("cannot write"));
  EXPECT_EQ(NumFiles(), 1u);
  EXPECT_EQ(std::filesystem::file_size(Path("f")), 3u);
}

}  // namespace
}  // namespace winnow
