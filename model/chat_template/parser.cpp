#include "model/chat_template/parser.h"

#include <algorithm>

#include "model/chat_template/expression_parser.h"

namespace winnow::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;

class Parser {
 public:
  explicit Parser(TokenStream stream) : stream_(std::move(stream)), expressions_(stream_) {}

  Result<Block> Run() {
    WINNOW_ASSIGN_OR_RETURN(Block block, ParseBlock({}));
    return block;
  }

 private:
  static StatementPtr Make(StatementKind kind, int line) {
    return std::make_unique<Statement>(Statement{.kind = kind, .line = line});
  }

  // Up to a tag with one of these names, whose name is then current; without any, to the end of the template.
  Result<Block> ParseBlock(const std::vector<std::string_view>& ends) {
    const TokenStream::Nesting nesting(stream_);
    WINNOW_RETURN_IF_ERROR(nesting.Check());
    Block block;
    const int first_line = stream_.line();
    while (!stream_.Is(TokenKind::kEnd)) {
      const int line = stream_.line();
      if (stream_.Is(TokenKind::kText)) {
        block.push_back(Make(StatementKind::kText, line));
        block.back()->text = stream_.Take().text;
      } else if (stream_.Is(TokenKind::kOutputBegin)) {
        stream_.Take();
        StatementPtr output = Make(StatementKind::kOutput, line);
        WINNOW_ASSIGN_OR_RETURN(output->expr, expressions_.ParseTuple());
        if (!stream_.Is(TokenKind::kOutputEnd)) return stream_.Expected("}}");
        stream_.Take();
        block.push_back(std::move(output));
      } else {
        stream_.Take();  // {%
        if (std::any_of(ends.begin(), ends.end(), [&](std::string_view end) { return stream_.IsName(end); })) {
          return block;
        }
        WINNOW_ASSIGN_OR_RETURN(StatementPtr statement, ParseStatement());
        WINNOW_RETURN_IF_ERROR(stream_.ExpectBlockEnd());
        block.push_back(std::move(statement));
      }
    }
    if (ends.empty()) return block;
    return ErrorAt(first_line, "expected {% " + std::string(ends.back()) + " %}, found the end of the template");
  }

  // The rest of a tag and what follows, as ParseBlock; only the last of `ends` may close it if `drop_end`.
  Result<Block> ParseBody(const std::vector<std::string_view>& ends, bool drop_end) {
    stream_.SkipOperator(":");
    WINNOW_RETURN_IF_ERROR(stream_.ExpectBlockEnd());
    WINNOW_ASSIGN_OR_RETURN(Block block, ParseBlock(ends));
    if (drop_end) stream_.Take();
    return block;
  }

  Result<StatementPtr> ParseStatement() {
    const int line = stream_.line();
    WINNOW_ASSIGN_OR_RETURN(const std::string tag, stream_.ExpectAnyName());
    if (tag == "if") return ParseIf(line);
    if (tag == "for") return ParseFor(line);
    if (tag == "set") return ParseSet(line);
    if (tag == "macro") return ParseMacro(line);
    if (tag == "call") return ParseCallBlock(line);
    if (tag == "filter") return ParseFilterBlock(line);
    if (tag == "with") return ParseWith(line);
    if (tag == "generation") {
      StatementPtr generation = Make(StatementKind::kGeneration, line);
      WINNOW_ASSIGN_OR_RETURN(generation->body, ParseBody({"endgeneration"}, /*drop_end=*/true));
      return generation;
    }
    if (tag == "break" || tag == "continue") {
      if (num_loops_ == 0) return ErrorAt(line, tag + ": expected it in a for loop");
      return Make(tag == "break" ? StatementKind::kBreak : StatementKind::kContinue, line);
    }
    return ErrorAt(line, "tag '" + tag + "' is not supported here");
  }

  Result<StatementPtr> ParseIf(int line) {
    StatementPtr statement = Make(StatementKind::kIf, line);
    while (true) {
      Branch branch;
      WINNOW_ASSIGN_OR_RETURN(branch.condition, expressions_.ParseTuple(/*with_conditional=*/false));
      WINNOW_ASSIGN_OR_RETURN(branch.body, ParseBody({"elif", "else", "endif"}, /*drop_end=*/false));
      statement->branches.push_back(std::move(branch));
      const std::string end = stream_.Take().text;
      if (end == "elif") continue;
      if (end == "else") {
        WINNOW_ASSIGN_OR_RETURN(statement->otherwise, ParseBody({"endif"}, /*drop_end=*/true));
      }
      return statement;
    }
  }

  Result<StatementPtr> ParseFor(int line) {
    StatementPtr loop = Make(StatementKind::kFor, line);
    WINNOW_ASSIGN_OR_RETURN(loop->target, expressions_.ParseTarget(/*with_namespace=*/false, "in"));
    WINNOW_RETURN_IF_ERROR(stream_.ExpectName("in"));
    WINNOW_ASSIGN_OR_RETURN(loop->expr, expressions_.ParseTuple(/*with_conditional=*/false, "recursive"));
    if (stream_.SkipName("if")) {
      WINNOW_ASSIGN_OR_RETURN(loop->condition, expressions_.ParseExpression());
    }
    if (stream_.IsName("recursive")) return stream_.Error("recursive loops are not supported");
    ++num_loops_;
    auto body = ParseBody({"else", "endfor"}, /*drop_end=*/false);
    --num_loops_;
    if (!body.ok()) return body.status();
    loop->body = std::move(body).value();
    if (stream_.Take().text == "else") {
      WINNOW_ASSIGN_OR_RETURN(loop->otherwise, ParseBody({"endfor"}, /*drop_end=*/true));
    }
    return loop;
  }

  Result<StatementPtr> ParseSet(int line) {
    StatementPtr set = Make(StatementKind::kSet, line);
    WINNOW_ASSIGN_OR_RETURN(set->target, expressions_.ParseTarget(/*with_namespace=*/true));
    if (stream_.SkipOperator("=")) {
      WINNOW_ASSIGN_OR_RETURN(set->expr, expressions_.ParseTuple());
      return set;
    }
    set->kind = StatementKind::kSetBlock;
    WINNOW_ASSIGN_OR_RETURN(set->expr, expressions_.ParseBlockFilters(/*is_inline=*/false));
    WINNOW_ASSIGN_OR_RETURN(set->body, ParseBody({"endset"}, /*drop_end=*/true));
    return set;
  }

  Status ParseParameters(Statement* macro) {
    WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator("("));
    while (!stream_.IsOperator(")")) {
      if (!macro->parameters.empty()) WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      Parameter parameter;
      WINNOW_ASSIGN_OR_RETURN(parameter.name, stream_.ExpectAnyName());
      for (const Parameter& other : macro->parameters) {
        if (other.name == parameter.name) return stream_.Error("parameter '" + other.name + "' is there twice");
      }
      if (stream_.SkipOperator("=")) {
        WINNOW_ASSIGN_OR_RETURN(parameter.default_value, expressions_.ParseExpression());
      } else if (!macro->parameters.empty() && macro->parameters.back().default_value) {
        return stream_.Error("parameter '" + parameter.name + "' without a default behind one with a default");
      }
      macro->parameters.push_back(std::move(parameter));
    }
    return stream_.ExpectOperator(")");
  }

  // The body of a macro or call block: loops outside of it do not reach into it.
  Status ParseMacroBody(std::string_view end, Statement* macro) {
    const auto outer_names = expressions_.TakeSpecialNames();
    const int outer_loops = std::exchange(num_loops_, 0);
    auto body = ParseBody({end}, /*drop_end=*/true);
    num_loops_ = outer_loops;
    const auto names = expressions_.TakeSpecialNames();
    macro->uses_varargs = names.varargs;
    macro->uses_kwargs = names.kwargs;
    macro->uses_caller = names.caller;
    expressions_.AddSpecialNames(outer_names);
    expressions_.AddSpecialNames(names);
    if (!body.ok()) return body.status();
    macro->body = std::move(body).value();
    return OkStatus();
  }

  Result<StatementPtr> ParseMacro(int line) {
    StatementPtr macro = Make(StatementKind::kMacro, line);
    WINNOW_ASSIGN_OR_RETURN(macro->name, stream_.ExpectAnyName());
    WINNOW_RETURN_IF_ERROR(ParseParameters(macro.get()));
    WINNOW_RETURN_IF_ERROR(ParseMacroBody("endmacro", macro.get()));
    return macro;
  }

  Result<StatementPtr> ParseCallBlock(int line) {
    StatementPtr block = Make(StatementKind::kCallBlock, line);
    block->name = "caller";
    if (stream_.IsOperator("(")) WINNOW_RETURN_IF_ERROR(ParseParameters(block.get()));
    WINNOW_ASSIGN_OR_RETURN(block->expr, expressions_.ParseExpression());
    if (block->expr->kind != ExprKind::kCall) return ErrorAt(line, "call: expected the call of a macro");
    WINNOW_RETURN_IF_ERROR(ParseMacroBody("endcall", block.get()));
    return block;
  }

  Result<StatementPtr> ParseFilterBlock(int line) {
    StatementPtr block = Make(StatementKind::kFilterBlock, line);
    WINNOW_ASSIGN_OR_RETURN(block->expr, expressions_.ParseBlockFilters(/*is_inline=*/true));
    WINNOW_ASSIGN_OR_RETURN(block->body, ParseBody({"endfilter"}, /*drop_end=*/true));
    return block;
  }

  Result<StatementPtr> ParseWith(int line) {
    StatementPtr with = Make(StatementKind::kWith, line);
    while (!stream_.Is(TokenKind::kBlockEnd)) {
      if (!with->parameters.empty()) WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator(","));
      Parameter parameter;
      WINNOW_ASSIGN_OR_RETURN(parameter.name, stream_.ExpectAnyName());
      WINNOW_RETURN_IF_ERROR(stream_.ExpectOperator("="));
      WINNOW_ASSIGN_OR_RETURN(parameter.default_value, expressions_.ParseExpression());
      with->parameters.push_back(std::move(parameter));
    }
    WINNOW_ASSIGN_OR_RETURN(with->body, ParseBody({"endwith"}, /*drop_end=*/true));
    return with;
  }

  TokenStream stream_;
  ExpressionParser expressions_;
  int num_loops_ = 0;  // around the current statement
};

}  // namespace

Result<Block> ParseTemplate(std::string_view source, const TemplateLimits& limits) {
  WINNOW_ASSIGN_OR_RETURN(std::vector<Token> tokens, Tokenize(source));
  return Parser(TokenStream(std::move(tokens), limits)).Run();
}

}  // namespace winnow::jinja
