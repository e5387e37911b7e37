// The tokens of a template in turn, and what the parsers of expressions and statements both need. One parse.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/chat_template/lexer.h"
#include "model/chat_template/limits.h"

namespace winnow::jinja {

class TokenStream {
 public:
  TokenStream(std::vector<Token> tokens, const TemplateLimits& limits) : tokens_(std::move(tokens)), limits_(limits) {}

  const TemplateLimits& limits() const { return limits_; }
  const Token& current() const { return tokens_[at_]; }
  const Token& next() const { return tokens_[std::min(at_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }
  // The current token, and on to the next one; the last one stays.
  const Token& Take() {
    const Token& token = current();
    if (token.kind != TokenKind::kEnd) ++at_;
    return token;
  }

  bool Is(TokenKind kind) const { return current().kind == kind; }
  bool IsName(std::string_view name) const { return Is(TokenKind::kName) && current().text == name; }
  bool IsOperator(std::string_view op) const { return Is(TokenKind::kOperator) && current().text == op; }
  bool SkipName(std::string_view name) { return IsName(name) && (Take(), true); }
  bool SkipOperator(std::string_view op) { return IsOperator(op) && (Take(), true); }

  Status ExpectName(std::string_view name) { return SkipName(name) ? OkStatus() : Expected(name); }
  Status ExpectOperator(std::string_view op) { return SkipOperator(op) ? OkStatus() : Expected(op); }
  Status ExpectBlockEnd() {
    if (!Is(TokenKind::kBlockEnd)) return Expected("%}");
    Take();
    return OkStatus();
  }
  Result<std::string> ExpectAnyName() {
    if (!Is(TokenKind::kName)) return Expected("a name");
    return Take().text;
  }

  Status Error(const std::string& message) const { return ErrorAt(line(), message); }
  Status Expected(std::string_view what) const {
    return Error("expected " + std::string(what) + ", found " + Describe(current()));
  }

  // Counts how deep statements or parentheses are inside each other, while it lives.
  class Nesting {
   public:
    explicit Nesting(TokenStream& stream) : stream_(stream) { ++stream_.nesting_; }
    ~Nesting() { --stream_.nesting_; }
    Nesting(const Nesting&) = delete;
    Nesting& operator=(const Nesting&) = delete;
    Status Check() const {
      if (stream_.nesting_ <= stream_.limits_.max_nesting) return OkStatus();
      return stream_.Error("statements or parentheses nested deeper than " +
                           std::to_string(stream_.limits_.max_nesting));
    }

   private:
    TokenStream& stream_;
  };

 private:
  static std::string Describe(const Token& token) {
    switch (token.kind) {
      case TokenKind::kText:
      case TokenKind::kEnd:
        return "the end of the template";
      case TokenKind::kOutputBegin:
        return "{{";
      case TokenKind::kOutputEnd:
        return "}}";
      case TokenKind::kBlockBegin:
        return "{%";
      case TokenKind::kBlockEnd:
        return "%}";
      case TokenKind::kString:
        return "a text in quotes";
      default:
        return "'" + token.text.substr(0, 40) + "'";
    }
  }

  std::vector<Token> tokens_;
  size_t at_ = 0;
  int nesting_ = 0;
  TemplateLimits limits_;
};

}  // namespace winnow::jinja
