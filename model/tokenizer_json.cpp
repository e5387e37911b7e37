#include "model/tokenizer_json.h"

#include <utility>
#include <vector>

#include "model/tokenizer_text.h"

namespace winnow {
namespace {

constexpr const char* kHole = "";

// "" and null mean the same for what winnow does not know.
Status CheckUnset(const JsonView& object, const char* name) {
  if (!object.Has(name)) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView member, object.Get(name));
  if (member.value().is_string() && member.value().get_ref<const std::string&>().empty()) return OkStatus();
  if (member.value().is_number() && member.value().get<double>() == 0) return OkStatus();
  return member.Unexpected("null");
}

Status CheckFalse(const JsonView& object, const char* name) {
  WINNOW_ASSIGN_OR_RETURN(const bool value, object.BoolOr(name, false));
  if (!value) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView member, object.Get(name));
  return member.Unexpected("false");
}

// Puts a token at its id. The ids of a file are 0, 1, 2 and so on; a file of a few bytes that names a huge one is
// refused before room is made for it.
Status PutToken(const JsonView& where, int32_t id, std::string_view text, size_t max_tokens, TokenizerSpec* spec) {
  if (size_t(id) >= max_tokens) {
    return where.Bad("expected ids without holes, found " + std::to_string(id) + " in a file of " +
                     std::to_string(max_tokens) + " tokens");
  }
  if (size_t(id) >= spec->tokens.size()) spec->tokens.resize(size_t(id) + 1, kHole);
  std::string& token = spec->tokens[size_t(id)];
  if (text.empty()) return where.Bad("expected text, found an empty token (id " + std::to_string(id) + ")");
  if (!token.empty() && token != text) {
    return where.Bad("expected every id once, found " + std::to_string(id) + " for " + QuotedToken(token) + " and " +
                     QuotedToken(text));
  }
  token = text;
  return OkStatus();
}

Status ReadBpeVocabulary(const JsonView& vocabulary, size_t max_tokens, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(vocabulary.CheckObject());
  for (const auto& [text, value] : vocabulary.value().items()) {
    const auto id = JsonView(value, vocabulary.source()).Id();
    if (!id.ok()) return vocabulary.Bad(QuotedToken(text) + ": expected a token id, 0 to 2^31 - 1");
    if (size_t(*id) < spec->tokens.size() && !spec->tokens[size_t(*id)].empty()) {
      return vocabulary.Bad("expected every id once, found " + std::to_string(*id) + " for " +
                            QuotedToken(spec->tokens[size_t(*id)]) + " and " + QuotedToken(text));
    }
    WINNOW_RETURN_IF_ERROR(PutToken(vocabulary, *id, text, max_tokens, spec));
  }
  return OkStatus();
}

Status ReadMerges(const JsonView& merges, TokenizerSpec* spec) {
  WINNOW_ASSIGN_OR_RETURN(const size_t size, merges.ArraySize());
  spec->merges.emplace();
  spec->merges->reserve(size);
  for (size_t rank = 0; rank < size; ++rank) {
    const nlohmann::json& merge = merges.value()[rank];
    if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string()) {
      spec->merges->emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      continue;
    }
    const JsonView view = merges.At(rank);
    WINNOW_ASSIGN_OR_RETURN(const std::string_view text, view.Text());
    const size_t space = text.find(' ');
    if (space == std::string_view::npos || text.find(' ', space + 1) != std::string_view::npos) {
      return view.Unexpected("two tokens with a space between");
    }
    spec->merges->emplace_back(text.substr(0, space), text.substr(space + 1));
  }
  return OkStatus();
}

Status ReadBpe(const JsonView& model, size_t num_added, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(
      model.OnlyMembers({"type", "dropout", "unk_token", "continuing_subword_prefix", "end_of_word_suffix", "fuse_unk",
                         "byte_fallback", "ignore_merges", "vocab", "merges"}));
  for (const char* name : {"dropout", "continuing_subword_prefix", "end_of_word_suffix"}) {
    WINNOW_RETURN_IF_ERROR(CheckUnset(model, name));
  }
  WINNOW_ASSIGN_OR_RETURN(spec->fuse_unknown, model.BoolOr("fuse_unk", false));
  WINNOW_ASSIGN_OR_RETURN(spec->byte_fallback, model.BoolOr("byte_fallback", false));
  WINNOW_ASSIGN_OR_RETURN(spec->ignore_merges, model.BoolOr("ignore_merges", false));
  WINNOW_ASSIGN_OR_RETURN(const JsonView vocabulary, model.Get("vocab"));
  WINNOW_RETURN_IF_ERROR(ReadBpeVocabulary(vocabulary, vocabulary.value().size() + num_added, spec));
  WINNOW_ASSIGN_OR_RETURN(const JsonView merges, model.Get("merges"));
  WINNOW_RETURN_IF_ERROR(ReadMerges(merges, spec));
  if (!model.Has("unk_token")) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView unknown, model.Get("unk_token"));
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, unknown.Text());
  const auto id = vocabulary.value().find(std::string(text));
  if (id == vocabulary.value().end()) return unknown.Unexpected("a token of the vocabulary");
  spec->unknown_id = id->get<int32_t>();
  return OkStatus();
}

Status ReadUnigram(const JsonView& model, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(model.OnlyMembers({"type", "unk_id", "vocab", "byte_fallback"}));
  WINNOW_ASSIGN_OR_RETURN(spec->byte_fallback, model.BoolOr("byte_fallback", false));
  spec->fuse_unknown = true;
  WINNOW_ASSIGN_OR_RETURN(const JsonView vocabulary, model.Get("vocab"));
  WINNOW_ASSIGN_OR_RETURN(const size_t size, vocabulary.ArraySize());
  for (size_t id = 0; id < size; ++id) {
    const nlohmann::json& entry = vocabulary.value()[id];
    if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number()) {
      return vocabulary.At(id).Unexpected("a token and its score");
    }
    spec->tokens.push_back(entry[0].get<std::string>());
    spec->scores.push_back(entry[1].get<double>());
  }
  if (!model.Has("unk_id")) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView unknown, model.Get("unk_id"));
  WINNOW_ASSIGN_OR_RETURN(spec->unknown_id, unknown.Id());
  return OkStatus();
}

// What winnow does with tokens of these kinds would lose the spaces around them, or depend on what stands there.
Status ReadAddedToken(const JsonView& token, size_t max_tokens, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(
      token.OnlyMembers({"id", "content", "single_word", "lstrip", "rstrip", "normalized", "special"}));
  for (const char* name : {"single_word", "lstrip", "rstrip"}) WINNOW_RETURN_IF_ERROR(CheckFalse(token, name));
  WINNOW_ASSIGN_OR_RETURN(const JsonView id_view, token.Get("id"));
  WINNOW_ASSIGN_OR_RETURN(const JsonView content, token.Get("content"));
  WINNOW_ASSIGN_OR_RETURN(const int32_t id, id_view.Id());
  WINNOW_ASSIGN_OR_RETURN(const std::string_view text, content.Text());
  WINNOW_RETURN_IF_ERROR(PutToken(token, id, text, max_tokens, spec));
  WINNOW_ASSIGN_OR_RETURN(const bool special, token.BoolOr("special", false));
  WINNOW_ASSIGN_OR_RETURN(const bool normalized, token.BoolOr("normalized", !special));
  if (normalized && spec->has_normalizer) {
    return token.Bad("expected \"normalized\": false in a file with a normalizer, found true for " + QuotedToken(text));
  }
  if (spec->types.size() < spec->tokens.size()) spec->types.resize(spec->tokens.size(), TokenType::kNormal);
  TokenType& type = spec->types[size_t(id)];
  if (type != TokenType::kNormal)
    return token.Bad("expected every added token once, found " + QuotedToken(text) + " twice");
  type = special ? TokenType::kControl : TokenType::kUserDefined;
  if (normalized) spec->second_pass.insert(id);
  return OkStatus();
}

Status ReadAddedTokens(const JsonView& file, TokenizerSpec* spec) {
  if (!file.Has("added_tokens")) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const JsonView tokens, file.Get("added_tokens"));
  WINNOW_ASSIGN_OR_RETURN(const size_t size, tokens.ArraySize());
  const size_t max_tokens = spec->tokens.size() + size;
  for (size_t i = 0; i < size; ++i) WINNOW_RETURN_IF_ERROR(ReadAddedToken(tokens.At(i), max_tokens, spec));
  return OkStatus();
}

bool LooksLikeByte(std::string_view token) {
  return token.size() == 6 && token.starts_with("<0x") && token.ends_with(">");
}

}  // namespace

Status ReadTokenizerJson(const JsonView& file, TokenizerSpec* spec) {
  spec->tokens_name = "vocabulary";
  spec->merges_name = "model.merges";
  WINNOW_RETURN_IF_ERROR(file.OnlyMembers({"version", "truncation", "padding", "added_tokens", "normalizer",
                                           "pre_tokenizer", "post_processor", "decoder", "model"}));
  WINNOW_ASSIGN_OR_RETURN(const JsonView model, file.Get("model"));
  WINNOW_RETURN_IF_ERROR(model.CheckObject());
  std::string_view type = "BPE";  // very old files do not say
  if (model.Has("type")) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView type_view, model.Get("type"));
    WINNOW_ASSIGN_OR_RETURN(type, type_view.Text());
    if (type != "BPE" && type != "Unigram") return type_view.Unexpected("BPE or Unigram");
  }
  spec->model = type == "Unigram" ? TokenizerModel::kUnigram : TokenizerModel::kSentencePieceBpe;
  WINNOW_RETURN_IF_ERROR(ReadTextRules(file, spec));  // a ByteLevel there makes it byte-level
  size_t num_added = 0;
  if (file.Has("added_tokens")) num_added = file.value()["added_tokens"].size();
  WINNOW_RETURN_IF_ERROR(type == "Unigram" ? ReadUnigram(model, spec) : ReadBpe(model, num_added, spec));
  spec->types.assign(spec->tokens.size(), TokenType::kNormal);
  WINNOW_RETURN_IF_ERROR(ReadAddedTokens(file, spec));
  spec->types.resize(spec->tokens.size(), TokenType::kNormal);
  if (spec->model != TokenizerModel::kUnigram) spec->scores.clear();
  // Added tokens of a unigram vocabulary have no place in its sums.
  if (spec->model == TokenizerModel::kUnigram) spec->scores.resize(spec->tokens.size(), 0);
  for (size_t id = 0; id < spec->tokens.size(); ++id) {
    if (spec->tokens[id].empty()) {
      return file.Bad("expected ids without holes and tokens that are not empty, found none for id " +
                      std::to_string(id));
    }
    if (spec->types[id] == TokenType::kNormal && spec->byte_fallback && LooksLikeByte(spec->tokens[id])) {
      spec->types[id] = TokenType::kByte;
    }
  }
  if (spec->unknown_id && size_t(*spec->unknown_id) < spec->types.size() &&
      spec->types[size_t(*spec->unknown_id)] == TokenType::kNormal) {
    spec->types[size_t(*spec->unknown_id)] = TokenType::kUnknown;
  }
  return ReadOutputRules(file, spec);
}

}  // namespace winnow
