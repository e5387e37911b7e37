// GGUF files made to harm: one wrong field at a time, sizes that no file holds, and what hardening must not cost.
// tests/fuzz looks for more of the kind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <ctime>
#include <functional>

#include "model/chat_prompt.h"
#include "model/gguf.h"
#include "model/model_config.h"
#include "model/tokenizer.h"
#include "tests/support/gguf_writer.h"
#include "tests/support/tiny_vocabulary.h"

namespace winnow {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Under a sanitizer memory and time are its own.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool kIsPlain = false;
#else
constexpr bool kIsPlain = true;
#endif

int64_t MostResidentBytes() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t(usage.ru_maxrss) * 1024;
}

// Some 4 KB: a tokenizer, sizes of a model, a chat template, two tensors.
std::vector<uint8_t> SmallModel() {
  GgufWriter writer;
  writer.AddString("general.architecture", "llama");
  writer.AddUint32("general.alignment", 32);
  writer.AddUint32("llama.block_count", 1);
  writer.AddUint32("llama.context_length", 64);
  writer.AddUint32("llama.embedding_length", 32);
  writer.AddUint32("llama.feed_forward_length", 64);
  writer.AddUint32("llama.attention.head_count", 1);
  writer.AddFloat32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
  TinyVocabulary().AddTo(&writer);
  writer.AddString("tokenizer.chat_template", "{% for m in messages %}{{ m.content }}{% endfor %}");
  writer.AddFloatTensor("output_norm.weight", {32}, std::vector<float>(32, 1.0f));
  writer.AddTensor("token_embd.weight", DType::kQ4_0, {32, 4}, std::vector<uint8_t>(72, 7));
  return writer.Build();
}

// Whatever the bytes are: every reader of a GGUF file says BadFile or gives something that can be used.
bool ReadAll(const std::vector<uint8_t>& bytes) {
  const Result<GgufFile> file = GgufFile::FromBytes("small.gguf", bytes);
  if (!file.ok()) {
    EXPECT_EQ(file.status().code(), StatusCode::kBadFile);
    return false;
  }
  uint64_t sum = 0;
  for (const GgufTensor& tensor : file->gguf_tensors()) sum += tensor.data[0] + tensor.data[tensor.num_bytes - 1];
  EXPECT_LT(sum, file->gguf_tensors().size() * 511 + 1);
  (void)ReadModelConfig(*file);
  (void)ReadChatTemplate(*file);
  if (const auto tokenizer = Tokenizer::FromGguf(*file); tokenizer.ok()) {
    if (const auto ids = tokenizer->Encode("hello"); ids.ok()) {
      EXPECT_TRUE(tokenizer->Decode(*ids).ok());
    }
  }
  return true;
}

// Field case 71. Every place of the file is taken for a field of 4 and of 8 bytes, and given numbers that overflow
// something: counts, lengths, types, dimensions and offsets are all among them.
TEST(StrictGguf, OneWrongFieldIsAnErrorAndCostsNoMemory) {
  const std::vector<uint8_t> whole = SmallModel();
  ASSERT_TRUE(ReadAll(whole));
  const int64_t before = MostResidentBytes();
  constexpr std::array<uint64_t, 8> kNumbers = {0,
                                                (uint64_t(1) << 31) - 1,
                                                uint64_t(1) << 32,
                                                (uint64_t(1) << 42) + 1,
                                                (uint64_t(1) << 62) + 1,
                                                uint64_t(1) << 63,
                                                ~uint64_t(31),
                                                ~uint64_t(0)};
  size_t num_refused = 0, num_read = 0;
  // The vocabulary's texts and numbers are alike, so one place in 13 of those will do; a sanitizer takes ten times as
  // long and looks at a third (tests/fuzz looks further).
  constexpr size_t kFirstBytes = 640, kLastBytes = 360, kStep = kIsPlain ? 1 : 3;
  const size_t vocabulary_end = whole.size() - kLastBytes;
  for (size_t at = 4; at + 8 <= whole.size(); at += kStep * (at > kFirstBytes && at < vocabulary_end ? 13 : 1)) {
    for (const uint64_t number : kNumbers) {
      for (const size_t width : {4, 8}) {
        std::vector<uint8_t> bytes = whole;
        std::memcpy(bytes.data() + at, &number, width);
        ++(ReadAll(bytes) ? num_read : num_refused);
      }
    }
  }
  EXPECT_GT(num_refused, num_read / 2);
  EXPECT_GT(num_read, 0u);
  if (kIsPlain) {
    EXPECT_LT(MostResidentBytes() - before, int64_t(100) << 20);
  }
}

// Field case 74.
TEST(StrictGguf, AFileOf200BytesCannotAskForGigabytes) {
  const std::vector<uint8_t> rest(100, 0);
  const auto file_of = [&](const std::function<void(GgufWriter*)>& add) {
    GgufWriter writer;
    add(&writer);
    std::vector<uint8_t> bytes = writer.Build();
    bytes.insert(bytes.end(), rest.begin(), rest.end());
    EXPECT_LE(bytes.size(), 220u);
    return bytes;
  };
  const auto raw = [](uint32_t element_type, uint64_t count) {
    std::vector<uint8_t> payload;
    AppendBytes(&payload, element_type);
    AppendBytes(&payload, count);
    return payload;
  };
  const uint32_t string_type = uint32_t(GgufType::kString), array_type = uint32_t(GgufType::kArray);
  std::vector<uint8_t> length;
  AppendBytes(&length, uint64_t(1) << 30);
  const int64_t before = MostResidentBytes();
  const std::vector<std::vector<uint8_t>> files = {
      file_of([&](GgufWriter* w) { w->AddRaw("text", string_type, length); }),
      file_of([&](GgufWriter* w) { w->AddRaw("texts", array_type, raw(string_type, uint64_t(1) << 30)); }),
      file_of([&](GgufWriter* w) { w->AddRaw("bytes", array_type, raw(0, uint64_t(1) << 30)); }),
      file_of([&](GgufWriter* w) { w->AddRaw("nested", array_type, raw(array_type, uint64_t(1) << 30)); }),
      file_of([&](GgufWriter* w) { w->AddUint32("general.alignment", 1u << 30); }),
      file_of([&](GgufWriter* w) { w->num_tensors = uint64_t(1) << 30; }),
      file_of([&](GgufWriter* w) { w->num_keys = uint64_t(1) << 30; }),
      file_of([&](GgufWriter* w) { w->AddRawTensor("t", 0, {uint64_t(1) << 40}, {}); }),
      file_of([&](GgufWriter* w) {
        w->AddRawTensor("t", 0, {(uint64_t(1) << 42) + 1, (uint64_t(1) << 42) + 1}, {});
      })};
  for (const std::vector<uint8_t>& bytes : files) {
    EXPECT_FALSE(GgufFile::FromBytes("small.gguf", bytes).ok());
    // Cut anywhere it is refused all the same.
    for (size_t size = 0; size < bytes.size(); ++size) {
      EXPECT_FALSE(GgufFile::FromBytes("small.gguf", {bytes.begin(), bytes.begin() + int64_t(size)}).ok());
    }
  }
  EXPECT_LT(MostResidentBytes() - before, int64_t(64) << 20);
}

// A SentencePiece vocabulary with a token for every byte, then `more` tokens of one type.
std::string ErrorOfSentencePiece(const std::vector<std::string>& more, int32_t type) {
  std::vector<std::string> tokens = {"<unk>"};
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    tokens.push_back(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">");
  }
  std::vector<int32_t> types(257, 6);
  types[0] = 2;
  for (const std::string& token : more) {
    tokens.push_back(token);
    types.push_back(type);
  }
  GgufWriter writer;
  writer.AddString("tokenizer.ggml.model", "llama");
  writer.AddStringArray("tokenizer.ggml.tokens", tokens);
  writer.AddInt32Array("tokenizer.ggml.token_type", types);
  writer.AddFloat32Array("tokenizer.ggml.scores", std::vector<float>(tokens.size(), -1.0f));
  const auto file = GgufFile::FromBytes("small.gguf", writer.Build());
  const auto tokenizer = Tokenizer::FromGguf(*file);
  return tokenizer.ok() ? "no error" : tokenizer.status().message();
}

// Field case 73.
TEST(StrictGguf, ByteTokensAreTwoHexadecimalDigitsAndNothingElse) {
  EXPECT_EQ(ErrorOfSentencePiece({"a", "b"}, 1), "no error");
  for (const char* token :
       {"<0x-1>", "<0xZZ>", "<0x0>", "<0x000>", "<0x 1>", "<0x+1>", "<0x1G>", "<0x0a>", "<0x", "a"}) {
    EXPECT_THAT(ErrorOfSentencePiece({token}, 6), AllOf(HasSubstr("tokens[257]"), HasSubstr(token))) << token;
  }
  EXPECT_THAT(ErrorOfSentencePiece({""}, 1), HasSubstr("empty token"));
  EXPECT_THAT(ErrorOfSentencePiece({"a", "a"}, 1), HasSubstr("also as token 257"));
  EXPECT_THAT(ErrorOfSentencePiece({"<0x41>"}, 6), HasSubstr("also as token"));
  // A token of a megabyte: refused or read, but quickly; as a special token it is found like any other.
  EXPECT_THAT(ErrorOfSentencePiece({std::string(1 << 20, 'a')}, 1), HasSubstr("bytes, found 1048576"));
  EXPECT_EQ(ErrorOfSentencePiece({std::string(1 << 20, 'a')}, 3), "no error");
  EXPECT_LT(ErrorOfSentencePiece({std::string(1 << 20, '\xff')}, 1).size(), 1000u);
}

// Field case 75: a vocabulary of the largest models, every other token made by a merge.
TEST(StrictGguf, ATokenizerOf256ThousandTokensLoadsInASecond) {
  TinyVocabulary vocabulary;
  const std::vector<std::string> bytes(vocabulary.tokens.begin(), vocabulary.tokens.begin() + 256);
  const auto add = [&](const std::string& left, const std::string& right) {
    vocabulary.tokens.push_back(left + right);
    vocabulary.types.push_back(1);
    vocabulary.merges.push_back(left + " " + right);
    return left + right;
  };
  std::vector<std::string> pairs;
  for (const std::string& first : bytes) {
    for (const std::string& second : bytes) {
      const std::string pair = first + second;
      if (std::find(vocabulary.merges.begin(), vocabulary.merges.begin() + 13, first + " " + second) ==
          vocabulary.merges.begin() + 13) {
        pairs.push_back(add(first, second));
      }
    }
  }
  for (size_t i = 0; vocabulary.tokens.size() < 256'000; ++i) {
    add(pairs[i % 997], pairs[i / 997 + 1000]);
  }
  GgufWriter writer;
  vocabulary.AddTo(&writer);
  const std::vector<uint8_t> file_bytes = writer.Build();
  const std::clock_t start = std::clock();  // of this process: other tests run beside it
  const auto file = GgufFile::FromBytes("large.gguf", file_bytes);
  ASSERT_TRUE(file.ok()) << file.status().message();
  const auto tokenizer = Tokenizer::FromGguf(*file);
  const double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  EXPECT_EQ(tokenizer->vocab_size(), 256'000);
  EXPECT_LT(seconds, kIsPlain ? 1.0 : 20.0);
}

}  // namespace
}  // namespace winnow
