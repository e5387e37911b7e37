// Cuts a chat template into tokens, with the whitespace rules that Hugging Face's transformers sets: trim_blocks (a
// newline after a block is dropped) and lstrip_blocks (so is white space before a block that begins a line). One call.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace winnow::jinja {

enum class TokenKind {
  kText,  // outside of tags; `text` is what is left of it
  kOutputBegin,
  kOutputEnd,
  kBlockBegin,
  kBlockEnd,
  kName,
  kString,   // `text` is what it means, escapes replaced
  kInteger,  // `text` is decimal
  kFloat,
  kOperator,
  kEnd,
};

struct Token {
  TokenKind kind;
  int line;
  std::string text;
};

// "line 3: ..." in a message of this or of the parser.
Status ErrorAt(int line, const std::string& message);

// The last token is kEnd. BadFile naming line and cause. `source` is UTF-8.
Result<std::vector<Token>> Tokenize(std::string_view source);

}  // namespace winnow::jinja
