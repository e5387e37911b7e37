// The tokenizer of a directory as Hugging Face has it: which file is read, and what the files beside it add.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>

#include "model/file_bytes.h"
#include "model/sentencepiece_model.h"
#include "model/strict_json.h"
#include "model/tokenizer.h"
#include "model/tokenizer_json.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

bool Exists(const std::string& path) {
  std::error_code ignored;
  return std::filesystem::exists(path, ignored);
}

// "bos_token": "<s>", or {"content": "<s>", ...}. None: not there, or null.
Result<std::optional<std::string>> TokenText(const JsonView& config, const char* name) {
  if (!config.Has(name)) return std::optional<std::string>();
  WINNOW_ASSIGN_OR_RETURN(JsonView token, config.Get(name));
  if (token.value().is_object()) {
    WINNOW_ASSIGN_OR_RETURN(token, token.Get("content"));
  }
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, token.Text());
  return std::optional<std::string>(text);
}

Result<std::optional<int32_t>> TokenId(const JsonView& config, const char* name, const TokenizerSpec& spec) {
  WINNOW_ASSIGN_OR_RETURN(const auto text, TokenText(config, name));
  if (!text) return std::optional<int32_t>();
  const auto token = std::find(spec.tokens.begin(), spec.tokens.end(), *text);
  if (token == spec.tokens.end()) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView view, config.Get(name));
    return view.Bad("expected a token of the vocabulary, found " + QuotedToken(*text));
  }
  return std::optional<int32_t>(int32_t(token - spec.tokens.begin()));
}

// "added_tokens_decoder": {"32000": {"content": ..., "special": ...}}: tokens that the vocabulary file may lack.
Status ReadAddedTokensDecoder(const JsonView& config, TokenizerSpec* spec) {
  if (!config.Has("added_tokens_decoder")) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView tokens, config.Get("added_tokens_decoder"));
  WINNOW_RETURN_IF_ERROR(tokens.CheckObject());
  const size_t max_tokens = spec->tokens.size() + tokens.value().size();
  for (const auto& [key, value] : tokens.value().items()) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView token, tokens.Get(key.c_str()));
    const bool is_number = !key.empty() && key.size() <= 9 && key.find_first_not_of("0123456789") == std::string::npos;
    const size_t id = is_number ? std::stoul(key) : max_tokens;
    if (id >= max_tokens) return token.Bad("expected an id that follows the others, found " + QuotedToken(key));
    WINNOW_ASSIGN_OR_RETURN(const JsonView content, token.Get("content"));
    WINNOW_ASSIGN_OR_RETURN(const std::string_view text, content.Text());
    if (id >= spec->tokens.size()) {
      spec->tokens.resize(id + 1);
      spec->types.resize(id + 1, TokenType::kNormal);
      if (!spec->scores.empty()) spec->scores.resize(id + 1, 0);
    }
    if (spec->tokens[id].empty()) spec->tokens[id] = text;
    if (spec->tokens[id] != text) {
      return content.Bad("expected " + QuotedToken(spec->tokens[id]) + " as in the vocabulary, found " +
                         QuotedToken(text));
    }
    if (spec->types[id] == TokenType::kControl || spec->types[id] == TokenType::kUserDefined) continue;
    for (const char* name : {"single_word", "lstrip", "rstrip"}) {
      WINNOW_ASSIGN_OR_RETURN(const bool set, token.BoolOr(name, false));
      if (set) return token.Bad(std::string(name) + ": expected false, found true for " + QuotedToken(text));
    }
    WINNOW_ASSIGN_OR_RETURN(const bool special, token.BoolOr("special", false));
    spec->types[id] = special ? TokenType::kControl : TokenType::kUserDefined;
  }
  return OkStatus();
}

// added_tokens.json beside a tokenizer.model: {"<pad>": 32000}, tokens that follow the model's own.
Status ReadAddedTokensFile(const JsonView& file, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(file.CheckObject());
  const size_t max_tokens = spec->tokens.size() + file.value().size();
  for (const auto& [text, value] : file.value().items()) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView view, file.Get(text.c_str()));
    WINNOW_ASSIGN_OR_RETURN(const int32_t id, view.Id());
    if (size_t(id) >= max_tokens) return view.Unexpected("an id that follows the others");
    if (size_t(id) >= spec->tokens.size()) {
      spec->tokens.resize(size_t(id) + 1);
      spec->types.resize(size_t(id) + 1, TokenType::kUserDefined);
      spec->scores.resize(size_t(id) + 1, 0);
    }
    std::string& token = spec->tokens[size_t(id)];
    if (!token.empty() && token != text) return view.Bad("expected a free id, found that of " + QuotedToken(token));
    token = text;
  }
  return OkStatus();
}

Result<bool> HasLlamaClass(const JsonView& config) {
  WINNOW_ASSIGN_OR_RETURN(const auto name, TokenText(config, "tokenizer_class"));
  return name && (name->starts_with("Llama") || name->starts_with("CodeLlama"));
}

// Whether bos_id goes in front. transformers' Llama classes follow this file, by default with yes; others have it from
// tokenizer.json. Where a Llama class says nothing, what tokenizer.json says counts here.
Status ReadAddBos(const JsonView& config, bool has_tokenizer_json, TokenizerSpec* spec) {
  WINNOW_ASSIGN_OR_RETURN(const bool is_llama, HasLlamaClass(config));
  if (has_tokenizer_json && !is_llama) return OkStatus();
  SpecialTokens& special = spec->special;
  const bool says_nothing = has_tokenizer_json && !spec->has_template && !config.Has("add_bos_token");
  if (says_nothing && !special.bos_id) {  // the default of these classes, where the vocabulary has it
    const auto token = std::find(spec->tokens.begin(), spec->tokens.end(), "<s>");
    if (token != spec->tokens.end()) special.bos_id = int32_t(token - spec->tokens.begin());
  }
  const bool by_default = says_nothing ? special.bos_id.has_value() : special.add_bos;
  WINNOW_ASSIGN_OR_RETURN(special.add_bos, config.BoolOr("add_bos_token", by_default));
  WINNOW_ASSIGN_OR_RETURN(const bool add_eos, config.BoolOr("add_eos_token", false));
  if (!add_eos) return OkStatus();
  return config.Bad("add_eos_token: expected false (a text that has ended is not continued), found true");
}

// "legacy": false beside a tokenizer.model: a space is put in front of the whole text only, not after special tokens,
// and whatever the model file says (transformers 4.38.2, LlamaTokenizer.tokenize). tokenizer.json has it in its rules.
Status ReadLegacy(const JsonView& config, TokenizerSpec* spec) {
  WINNOW_ASSIGN_OR_RETURN(const bool legacy, config.BoolOr("legacy", true));
  if (legacy) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const auto name, TokenText(config, "tokenizer_class"));
  if (name && !name->starts_with("LlamaTokenizer")) {
    return config.Bad("legacy: expected true beside a tokenizer.model of " + QuotedToken(*name) + ", found false");
  }
  using Kind = NormalizerStep::Kind;
  spec->normalizer = Normalizer({{Kind::kPrependAtStart, "", " "}, {Kind::kReplace, " ", kSentencePieceSpace}});
  spec->decode_drops_space = true;
  return OkStatus();
}

Status ReadConfig(const JsonView& config, bool has_tokenizer_json, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(config.CheckObject());
  WINNOW_RETURN_IF_ERROR(ReadAddedTokensDecoder(config, spec));
  WINNOW_ASSIGN_OR_RETURN(const auto bos, TokenId(config, "bos_token", *spec));
  if (bos) {
    // With tokenizer.json, the token in front is the one that its template names.
    if (!spec->special.add_bos || !has_tokenizer_json) spec->special.bos_id = bos;
  }
  WINNOW_ASSIGN_OR_RETURN(const auto eos, TokenId(config, "eos_token", *spec));
  if (eos) spec->special.eos_ids.push_back(*eos);
  if (!has_tokenizer_json) WINNOW_RETURN_IF_ERROR(ReadLegacy(config, spec));
  return ReadAddBos(config, has_tokenizer_json, spec);
}

}  // namespace

Result<Tokenizer> Tokenizer::FromDirectory(const std::string& directory) {
  TokenizerSpec spec;
  const std::string json_path = directory + "/tokenizer.json", model_path = directory + "/tokenizer.model";
  const bool has_tokenizer_json = Exists(json_path);
  if (has_tokenizer_json) {
    spec.source = json_path;
    WINNOW_ASSIGN_OR_RETURN(const nlohmann::json document, ReadStrictJson(json_path));
    WINNOW_RETURN_IF_ERROR(ReadTokenizerJson(JsonView(document, json_path), &spec));
  } else if (Exists(model_path)) {
    spec.source = model_path;
    WINNOW_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Map(model_path));
    WINNOW_RETURN_IF_ERROR(ReadSentencePieceModel(file.bytes(), &spec));
    if (const std::string path = directory + "/added_tokens.json"; Exists(path)) {
      WINNOW_ASSIGN_OR_RETURN(const nlohmann::json document, ReadStrictJson(path));
      WINNOW_RETURN_IF_ERROR(ReadAddedTokensFile(JsonView(document, path), &spec));
    }
  } else {
    return BadFile(directory + ": expected a tokenizer.json or a tokenizer.model, found neither");
  }
  for (const char* name : {"/special_tokens_map.json", "/tokenizer_config.json"}) {
    const std::string path = directory + name;
    if (!Exists(path)) continue;
    WINNOW_ASSIGN_OR_RETURN(const nlohmann::json document, ReadStrictJson(path));
    WINNOW_RETURN_IF_ERROR(ReadConfig(JsonView(document, path), has_tokenizer_json, &spec));
  }
  AddWellKnownEnds(spec.tokens, spec.types, &spec.special);
  return FromSpec(spec);
}

}  // namespace winnow
