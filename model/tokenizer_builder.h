// Builds a Tokenizer from its specification and checks that it makes sense. Internal to model/tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer.h"

namespace winnow {

class TokenizerBuilder {
 public:
  static Result<Tokenizer> Build(const TokenizerSpec& spec);

 private:
  TokenizerBuilder(const TokenizerSpec& spec, PreTokenizer pre_tokenizer)
      : spec_(spec), tokenizer_(std::move(pre_tokenizer)) {}

  Status BuildAll();
  Status CheckIds() const;
  Status AddTokens();
  // What a token stands for, from how it is spelled.
  Result<std::string> BytesOf(size_t id) const;
  Status AddBytes();
  void AddSpecials();
  Status AddModel();
  Status AddMerges();
  Status AddMergesByScore();
  void AddCharacters();
  Status AddUnigram();
  // Of a vocabulary whose cost follows the length of its tokens.
  Status CheckPiece(size_t id) const;
  void AddWholePieces();

  bool IsNormal(size_t id) const { return spec_.types[id] == TokenType::kNormal; }
  // -1: there is none, or not a normal one.
  int32_t IdOfNormal(std::string_view spelling) const;

  const TokenizerSpec& spec_;
  Tokenizer tokenizer_;
  std::unordered_map<std::string_view, int32_t> id_of_spelling_;
};

}  // namespace winnow
