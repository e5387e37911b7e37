#include "launch/tokenize_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <vector>

#include "launch/console.h"
#include "launch/text_file.h"
#include "model/tokenizer.h"
#include "model/utf8.h"

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

Result<Tokenizer> OpenTokenizer(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return Tokenizer::FromDirectory(path);
  WINNOW_ASSIGN_OR_RETURN(const GgufFile file, GgufFile::Open(path));
  return Tokenizer::FromGguf(file);
}

Result<std::string> ReadText(const TokenizeOptions& options) {
  if (options.text && options.file) {
    return InvalidArgument("expected a text from one place, found both --text and a file");
  }
  if (options.text) return *options.text;
  return ReadTextFile(options.file.value_or("/dev/stdin"), "text file");
}

// Fit for a line of a terminal, between quotes: bytes that are no text, and control characters, as \xNN.
std::string Escaped(std::string_view bytes) {
  std::string text;
  while (!bytes.empty()) {
    const Utf8Unit unit = FirstUtf8Unit(bytes);
    const std::string_view character = bytes.substr(0, unit.num_bytes);
    const auto first = uint8_t(character[0]);
    const bool control =
        first < 0x20 || first == 0x7f || (first == 0xc2 && character.size() > 1 && uint8_t(character[1]) < 0xa0);
    if (first == '\n') {
      text += "\\n";
    } else if (first == '\\' || first == '"') {
      text += std::string("\\") + char(first);
    } else if (unit.kind != Utf8Kind::kValid || control) {
      for (const char byte : character) text += fmt::format("\\x{:02x}", uint8_t(byte));
    } else {
      text += character;
    }
    bytes.remove_prefix(unit.num_bytes);
  }
  return text;
}

std::string Hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", uint8_t(byte));
  return text;
}

struct Row {
  int32_t id;
  std::string_view bytes;
  const char* origin;
  size_t begin, end;  // bytes of the text as the model's rules have it, a space in front included
};

// Special tokens come from what the text spells only when that was asked for; otherwise the one in front was put there.
std::vector<Row> Rows(const Tokenizer& tokenizer, const std::vector<int32_t>& ids, bool bos_was_put) {
  std::vector<Row> rows;
  size_t offset = 0;
  for (size_t i = 0; i < ids.size(); ++i) {
    const std::string_view bytes = tokenizer.TokenBytes(ids[i]);
    const TokenType type = tokenizer.TypeOf(ids[i]);
    const bool is_bos = i == 0 && bos_was_put;
    const char* origin = is_bos                            ? "bos"
                         : type == TokenType::kControl     ? "special"
                         : type == TokenType::kUserDefined ? "special"
                         : type == TokenType::kByte        ? "byte"
                         : type == TokenType::kUnknown     ? "unknown"
                                                           : "text";
    const size_t end = is_bos ? offset : offset + bytes.size();
    rows.push_back({ids[i], bytes, origin, offset, end});
    offset = end;
  }
  return rows;
}

}  // namespace

void AddTokenizeFlags(CLI::App& command, TokenizeOptions* o) {
  command.add_option("-m,--model", o->model_path, "a GGUF file or a directory of Hugging Face")->required();
  command.add_option("--text", o->text, "the text itself");
  command.add_option("file", o->file, "a file with the text; neither: standard input");
  command.add_flag("--special", o->special,
                   "what looks like a special token is one; default: it is text, as in what users write");
  auto* bos = command.add_flag_callback(
      "--bos", [o] { o->add_bos = true; }, "the begin-of-text token in front; default: as the model says");
  command
      .add_flag_callback(
          "--no-bos", [o] { o->add_bos = false; }, "never in front")
      ->excludes(bos);
  command.add_flag("--json", o->json, "one JSON object a token");
}

Status RunTokenize(const TokenizeOptions& options) {
  WINNOW_ASSIGN_OR_RETURN(const Tokenizer tokenizer, OpenTokenizer(options.model_path));
  WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadText(options));
  WINNOW_ASSIGN_OR_RETURN(const std::vector<int32_t> ids,
                          tokenizer.Encode(text, {.parse_special = options.special, .add_bos = options.add_bos}));
  const bool asked = options.add_bos.value_or(tokenizer.adds_bos());
  const bool spelled = asked && options.special && text.starts_with(tokenizer.TokenBytes(*tokenizer.bos_id()));
  if (spelled) Note("the text begins with the begin-of-text token: none was put in front of it");
  std::string lines;
  for (const Row& row : Rows(tokenizer, ids, asked && !spelled)) {
    if (options.json) {
      lines += Json{{"id", row.id},         {"text", row.bytes},  {"bytes", Hex(row.bytes)},
                    {"origin", row.origin}, {"begin", row.begin}, {"end", row.end}}
                   // A token may be part of a character: U+FFFD in "text"; "bytes" are exact.
                   .dump(-1, ' ', false, Json::error_handler_t::replace) +
               "\n";
    } else {
      lines +=
          fmt::format("{:>7}  {:<7} {:>8}..{:<8} \"{}\"\n", row.id, row.origin, row.begin, row.end, Escaped(row.bytes));
    }
  }
  PrintOut(lines);
  if (!options.json) Note(fmt::format("{} tokens, {} bytes", ids.size(), text.size()));
  return CheckOutput();
}

}  // namespace winnow
