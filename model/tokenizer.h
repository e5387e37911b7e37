// Text to token ids and back: byte-level BPE with the vocabulary, merges and pre-tokenizer of a GGUF file. It copies
// what it needs, so the file may be closed. Owned by whoever loads the model; immutable, so any thread may call it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/status.h"
#include "model/bpe.h"
#include "model/gguf.h"
#include "model/pre_tokenizer.h"
#include "model/special_tokens.h"
#include "model/text_span.h"

namespace winnow {

struct EncodeOptions {
  // Recognise the text of control and user-defined tokens such as <|im_start|>. Off: they are text like any other, so
  // that a user's prompt cannot forge them.
  bool parse_special = false;
  // With parse_special: the bytes in which, or across whose borders, no such text counts. Ascending, not touching.
  std::span<const TextSpan> plain = {};
  // Put the begin-of-text token in front. Not set: as the model file says.
  std::optional<bool> add_bos = std::nullopt;
};

class Tokenizer {
 public:
  // BadFile for tokenizer models and pre-tokenizers that winnow does not know, by name, and for metadata that
  // contradicts itself.
  static Result<Tokenizer> FromGguf(const GgufFile& file);

  // InvalidArgument with the byte offset when `text` is not UTF-8, or when add_bos is asked of a model without such a
  // token. Bytes for which the vocabulary has no token are left out, as in Hugging Face's tokenizers (some small
  // vocabularies lack a few control characters; see HasByte). A text never fails for another reason.
  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens one after the other: not always whole UTF-8 (see model/utf8_stream.h). InvalidArgument for
  // an id outside the vocabulary.
  Result<std::string> Decode(std::span<const int32_t> ids) const;
  // 0 <= id < vocab_size(). Control tokens give their name, e.g. "<|im_end|>".
  std::string_view TokenBytes(int32_t id) const;

  int vocab_size() const { return int(types_.size()); }
  std::optional<int32_t> bos_id() const { return special_.bos_id; }
  // Generation ends with one of these; ascending.
  const std::vector<int32_t>& eos_ids() const { return special_.eos_ids; }
  // Control tokens are not part of the text shown to a user. 0 <= id < vocab_size().
  bool IsControl(int32_t id) const;
  // The id of a control or user-defined token by its text.
  std::optional<int32_t> FindSpecial(std::string_view text) const;
  // Whether the vocabulary has a token for this single byte.
  bool HasByte(uint8_t byte) const { return byte_ids_[byte] >= 0; }

 private:
  friend class TokenizerLoader;
  explicit Tokenizer(const PreTokenizerRule& rule) : ignore_merges_(rule.ignore_merges), pre_tokenizer_(rule) {}

  struct SpecialMatch {
    size_t begin, num_bytes;
    int32_t id;
  };
  // The leftmost special token at or after `begin` outside of `plain`, the longest one where several start there.
  std::optional<SpecialMatch> FindNextSpecial(std::string_view text, size_t begin,
                                              std::span<const TextSpan> plain) const;
  Status EncodeText(std::string_view text, std::vector<int32_t>* ids) const;
  void EncodePiece(std::string_view piece, std::vector<int32_t>* symbols, std::vector<int32_t>* ids) const;

  bool ignore_merges_;
  PreTokenizer pre_tokenizer_;
  BpeMerges merges_;
  SpecialTokens special_;
  std::vector<TokenType> types_;                                    // by id
  std::vector<char> bytes_;                                         // of all tokens, one after the other
  std::vector<size_t> offsets_;                                     // of token i: offsets_[i] to offsets_[i + 1]
  std::array<int32_t, 256> byte_ids_{};                             // the token of a single byte, -1: none
  std::unordered_map<std::string_view, int32_t> whole_pieces_;      // only with ignore_merges_; views into bytes_
  std::array<std::vector<int32_t>, 256> specials_by_first_byte_{};  // control and user-defined tokens, longest first
};

}  // namespace winnow
