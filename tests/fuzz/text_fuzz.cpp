// Any text through the tokenizers and the stream of bytes that becomes text again: a byte-level BPE, a SentencePiece
// BPE and a unigram model of a few tokens each.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "model/byte_level.h"
#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"
#include "model/utf8.h"
#include "model/utf8_stream.h"
#include "tests/fuzz/fuzz_input.h"
#include "tests/fuzz/memory_limit.h"

namespace winnow {
namespace {

void Add(const std::string& token, TokenType type, TokenizerSpec* spec) {
  spec->tokens.push_back(token);
  spec->types.push_back(type);
}

TokenizerSpec EmptySpec(TokenizerModel model) {
  TokenizerSpec spec;
  spec.source = "fuzz";
  spec.tokens_name = "tokens";
  spec.types_name = "types";
  spec.merges_name = "merges";
  spec.model = model;
  Add("<|im_start|>", TokenType::kControl, &spec);
  Add("<|im_end|>", TokenType::kControl, &spec);
  Add("<tool", TokenType::kUserDefined, &spec);
  return spec;
}

Tokenizer ByteLevel() {
  TokenizerSpec spec = EmptySpec(TokenizerModel::kByteLevelBpe);
  for (int byte = 0; byte < 256; ++byte) Add(ByteLevelCharacter(uint8_t(byte)), TokenType::kNormal, &spec);
  spec.merges = {{{"h", "e"}, {"l", "l"}, {"he", "ll"}, {"hell", "o"}, {"a", "a"}, {"aa", "aa"}, {"1", "2"}}};
  for (const auto& [left, right] : *spec.merges) Add(left + right, TokenType::kNormal, &spec);
  spec.cuts = FindPreTokenizerRule("qwen2")->patterns;
  return Tokenizer::FromSpec(spec).value();
}

void AddSentencePieces(TokenizerSpec* spec) {
  Add("<unk>", TokenType::kUnknown, spec);
  spec->unknown_id = int32_t(spec->tokens.size()) - 1;
  for (int byte = 0; byte < 256; ++byte) {
    constexpr const char* kDigits = "0123456789ABCDEF";
    Add(std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">", TokenType::kByte, spec);
  }
  for (const char* piece : {"h", "e", "he", "l", "ll", "hell", "o", "a", "aa", "aaaa", "\xe2\x96\x81", "\xe2\x96\x81he",
                            "\xc3\xa9", "\xe6\xbc\xa2", "1", "12"}) {
    Add(piece, TokenType::kNormal, spec);
  }
  for (size_t id = 0; id < spec->tokens.size(); ++id) spec->scores.push_back(-0.25 * double(id % 41));
  spec->byte_fallback = true;
  spec->normalizer = Normalizer({{NormalizerStep::Kind::kReplace, " ", kSentencePieceSpace}});
}

Tokenizer SentencePiece(TokenizerModel model) {
  TokenizerSpec spec = EmptySpec(model);
  AddSentencePieces(&spec);
  return Tokenizer::FromSpec(spec).value();
}

// What the stream gives is UTF-8, and the same however the bytes are cut.
void CheckStream(std::string_view bytes) {
  Utf8Stream whole, single;
  std::string at_once = whole.Push(bytes);
  at_once += whole.Finish();
  std::string one_by_one;
  for (const char byte : bytes) one_by_one += single.Push({&byte, 1});
  one_by_one += single.Finish();
  WINNOW_CHECK(at_once == one_by_one && !FindInvalidUtf8(at_once));
  WINNOW_CHECK(FindInvalidUtf8(bytes) || at_once == bytes);
}

}  // namespace
}  // namespace winnow

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace winnow;
  static const Tokenizer byte_level = ByteLevel(), pieces = SentencePiece(TokenizerModel::kSentencePieceBpe),
                         unigram = SentencePiece(TokenizerModel::kUnigram);
  const MemoryLimit limit(size_t(1) << 20, 256, size);
  const std::string_view text = TextOf(data, size);
  CheckStream(text);
  const bool is_utf8 = !FindInvalidUtf8(text);
  for (const Tokenizer* tokenizer : {&byte_level, &pieces, &unigram}) {
    WINNOW_CHECK(tokenizer->Encode(text).ok() == is_utf8);
    if (!is_utf8) continue;
    // SentencePiece writes spaces as U+2581: a text that has one comes back with a space.
    const bool is_exact = tokenizer == &byte_level || text.find(kSentencePieceSpace) == std::string_view::npos;
    WINNOW_CHECK(RoundTrip(*tokenizer, text) || !is_exact);
    WINNOW_CHECK(RoundTrip(*tokenizer, text, {.parse_special = true}) || !is_exact);
    const std::vector<int32_t> ids = tokenizer->Encode(text).value();
    for (const int32_t id : ids) WINNOW_CHECK(!tokenizer->IsControl(id));
  }
  return 0;
}
