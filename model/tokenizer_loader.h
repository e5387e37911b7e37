// Builds a Tokenizer from a GGUF file's metadata and checks that it makes sense. Internal to model/tokenizer.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "model/tokenizer.h"

namespace winnow {

class TokenizerLoader {
 public:
  static Result<Tokenizer> Load(const GgufFile& file);

 private:
  TokenizerLoader(const GgufFile& file, const PreTokenizerRule& rule) : file_(file), tokenizer_(rule) {}

  Status LoadAll();
  Status LoadTypes();
  Status LoadTokens();
  Status LoadMerges();
  void IndexBytes();
  void IndexSpecials();
  void IndexWholePieces();

  const GgufFile& file_;
  Tokenizer tokenizer_;
  std::vector<std::string_view> spellings_;  // of the tokens, as in the file
  std::unordered_map<std::string_view, int32_t> id_of_spelling_;
};

}  // namespace winnow
