// Text to token ids and back, with the vocabulary and rules of a model file: byte-level BPE, SentencePiece's BPE, or
// unigram. It copies what it needs, so the file may be closed. Owned by whoever loads the model; immutable, so any
// thread may call it.
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
#include "model/normalizer.h"
#include "model/piece_cuts.h"
#include "model/pre_tokenizer.h"
#include "model/special_token_finder.h"
#include "model/special_tokens.h"
#include "model/text_span.h"
#include "model/tokenizer_spec.h"
#include "model/unigram.h"

namespace winnow {

struct EncodeOptions {
  // Recognise the text of control and user-defined tokens such as <|im_start|>. Off: they are text like any other, so
  // that a user's prompt cannot forge them.
  bool parse_special = false;
  // With parse_special: the bytes in which, or across whose borders, no such text counts. Ascending, not touching.
  std::span<const TextSpan> plain = {};
  // Put the begin-of-text token in front, unless the text begins with it already (as a special token). Not set: as the
  // model file says.
  std::optional<bool> add_bos = std::nullopt;
};

class Tokenizer {
 public:
  // BadFile for tokenizer models and pre-tokenizers that winnow does not know, by name, and for metadata that
  // contradicts itself.
  static Result<Tokenizer> FromGguf(const GgufFile& file);
  // Of a directory as Hugging Face has it: tokenizer.json, or else tokenizer.model, with what tokenizer_config.json and
  // special_tokens_map.json say about special tokens. BadFile as above.
  static Result<Tokenizer> FromDirectory(const std::string& directory);
  // BadFile for a specification that contradicts itself.
  static Result<Tokenizer> FromSpec(const TokenizerSpec& spec);

  // InvalidArgument with the byte offset when `text` is not UTF-8, when it is longer than 1 GiB (also once the model's
  // normalizer has written it: Normalizer::Apply), or when add_bos is asked of a model without such a token. Bytes for
  // which the vocabulary has no token, not even an unknown one, are left out, as in Hugging Face's tokenizers (some
  // small vocabularies lack a few control characters; see HasByte). A text fails for no other reason, unless a pattern
  // of the model file is made to be slow.
  Result<std::vector<int32_t>> Encode(std::string_view text, const EncodeOptions& options = {}) const;

  // The bytes of the tokens one after the other, without the space that encoding puts in front of a text where the
  // model's rules do so. Not always whole UTF-8 (see model/utf8_stream.h). InvalidArgument for an id outside the
  // vocabulary.
  Result<std::string> Decode(std::span<const int32_t> ids) const;
  // 0 <= id < vocab_size(). Control tokens give their name, e.g. "<|im_end|>".
  std::string_view TokenBytes(int32_t id) const;

  int vocab_size() const { return int(types_.size()); }
  std::optional<int32_t> bos_id() const { return special_.bos_id; }
  // Whether Encode puts bos_id in front unless told otherwise.
  bool adds_bos() const { return special_.add_bos; }
  // Generation ends with one of these; ascending.
  const std::vector<int32_t>& eos_ids() const { return special_.eos_ids; }
  // More of them, that another file of the model names: 0 <= id < vocab_size(). For whoever loads the model.
  void AddEosIds(std::span<const int32_t> ids);
  // 0 <= id < vocab_size().
  TokenType TypeOf(int32_t id) const;
  // Control tokens are not part of the text shown to a user. 0 <= id < vocab_size().
  bool IsControl(int32_t id) const { return TypeOf(id) == TokenType::kControl; }
  // The id of a control or user-defined token by its text.
  std::optional<int32_t> FindSpecial(std::string_view text) const;
  // Whether the vocabulary has a token for this single byte.
  bool HasByte(uint8_t byte) const { return byte_ids_[byte] >= 0; }

 private:
  friend class TokenizerBuilder;
  explicit Tokenizer(PreTokenizer pre_tokenizer) : pre_tokenizer_(std::move(pre_tokenizer)) {}

  // Appends the ids of bytes [begin, end) of `text`, where special tokens of passes `pass` and later are looked for.
  Status EncodeRange(std::string_view text, size_t begin, size_t end, std::span<const TextSpan> plain, size_t pass,
                     std::vector<int32_t>* ids) const;
  Status EncodeText(std::string_view text, bool at_start, std::vector<int32_t>* ids) const;
  void EncodePiece(std::string_view piece, std::vector<int32_t>* symbols, std::vector<int32_t>* ids) const;
  // The first ids of a piece, before any merge.
  void AppendBytes(std::string_view piece, std::vector<int32_t>* symbols) const;
  void AppendCharacters(std::string_view piece, std::vector<int32_t>* symbols) const;
  void AppendUnigram(std::string_view piece, std::vector<int32_t>* ids) const;
  int32_t IdOfCharacter(std::string_view character) const;  // -1: none

  TokenizerModel model_ = TokenizerModel::kByteLevelBpe;
  bool ignore_merges_ = false, byte_fallback_ = false, fuse_unknown_ = false, decode_drops_space_ = false;
  int32_t unknown_id_ = -1;
  Normalizer normalizer_;
  PreTokenizer pre_tokenizer_;
  BpeMerges merges_;
  PieceCuts cuts_;
  Unigram unigram_;
  SpecialTokens special_;
  std::array<SpecialTokenFinder, 2> finders_;               // the second finds what the first has left
  std::vector<TokenType> types_;                            // by id
  std::vector<char> bytes_;                                 // of all tokens, one after the other
  std::vector<size_t> offsets_;                             // of token i: offsets_[i] to offsets_[i + 1]
  std::array<int32_t, 256> byte_ids_{};                     // the token of a single byte, -1: none
  std::array<int32_t, 128> ascii_ids_{};                    // SentencePiece's BPE: the token of a character, -1: none
  std::unordered_map<std::string, int32_t> character_ids_;  // the same for other characters
  std::unordered_map<std::string_view, int32_t> whole_pieces_;  // only with ignore_merges_; views into bytes_
};

}  // namespace winnow
