// What a tokenizer is, as plain data: what the readers of model files (GGUF, tokenizer.json, tokenizer.model) say,
// before anybody checked whether it makes sense together. Tokenizer::FromSpec checks it. Any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/status.h"
#include "model/normalizer.h"
#include "model/special_tokens.h"

namespace winnow {

enum class TokenizerModel {
  kByteLevelBpe,      // BPE over bytes, spelled in GPT-2's alphabet (model/byte_level.h)
  kSentencePieceBpe,  // BPE over code points; spaces are written as U+2581
  kUnigram,           // the most probable path over pieces (Kudo 2018, arXiv 1804.10959)
};

// U+2581, SentencePiece's space.
inline constexpr const char* kSentencePieceSpace = "\xe2\x96\x81";

struct TokenizerSpec {
  // For messages: "model.gguf", and what the two lists are called there.
  std::string source;
  std::string tokens_name, types_name, merges_name;

  TokenizerModel model = TokenizerModel::kByteLevelBpe;
  std::vector<std::string> tokens;  // by id, as spelled in the file
  std::vector<TokenType> types;     // by id
  std::vector<double> scores;       // by id; unigram's log-probabilities, or the order of BPE's merges. Else empty
  // By rank. Not set: two tokens merge whenever both together are a token, the highest score first (SentencePiece).
  std::optional<std::vector<std::pair<std::string, std::string>>> merges;
  // Control and user-defined tokens that are looked for where the others have left text (tokenizer.json: normalized).
  std::unordered_set<int32_t> second_pass;

  Normalizer normalizer;              // of every text between special tokens
  bool has_normalizer = false;        // it does more than the pre-tokenizer's part (tokenizer.json: Metaspace)
  std::vector<std::string> cuts;      // PCRE2 patterns, see PreTokenizer; empty: the text is one piece
  bool ignore_merges = false;         // a piece that is a token is that token, whatever the merges say
  bool byte_fallback = false;         // what no token covers becomes tokens of bytes, <0x00> to <0xFF>
  bool fuse_unknown = false;          // neighbours that no token covers are one unknown token
  std::optional<int32_t> unknown_id;  // for what no token covers; not set: it is left out
  bool decode_drops_space = false;    // the first space of a decoded text was put there by the normalizer
  bool has_template = false;          // tokenizer.json says itself what goes in front of a text
  SpecialTokens special;

  Status Bad(const std::string& message) const { return BadFile(source + ": " + message); }
};

}  // namespace winnow
