// The tokenizer of a GGUF file: its metadata as a TokenizerSpec.
#include <array>
#include <cstring>
#include <optional>
#include <string>

#include "model/pre_tokenizer.h"
#include "model/tokenizer.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kScoresKey = "tokenizer.ggml.scores";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

constexpr std::array<const char*, 3> kEndKeys = {"tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id",
                                                 "tokenizer.ggml.eom_token_id"};

Result<int32_t> ReadId(const GgufFile& file, std::string_view key, size_t vocab_size) {
  WINNOW_ASSIGN_OR_RETURN(const uint64_t id, file.GetUint(key));
  if (id >= vocab_size) {
    return file.Bad(std::string(key) + ": expected an id below the vocabulary's " + std::to_string(vocab_size) +
                    ", found " + std::to_string(id));
  }
  return int32_t(id);
}

Result<bool> BoolOr(const GgufFile& file, std::string_view key, bool otherwise) {
  if (!file.Has(key)) return otherwise;
  return file.GetBool(key);
}

Status ReadTypes(const GgufFile& file, TokenizerSpec* spec) {
  spec->types.assign(spec->tokens.size(), TokenType::kNormal);
  if (!file.Has(kTypesKey)) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file.GetIntArray(kTypesKey));
  if (types.size() != spec->tokens.size()) {
    return file.Bad(std::string(kTypesKey) + ": expected one for each of the " + std::to_string(spec->tokens.size()) +
                    " tokens, found " + std::to_string(types.size()));
  }
  // Only SentencePiece has tokens of bytes.
  const auto last = spec->model == TokenizerModel::kByteLevelBpe ? TokenType::kUnused : TokenType::kByte;
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < int64_t(TokenType::kNormal) || types[id] > int64_t(last)) {
      return file.Bad(ElementName(kTypesKey, id) + ": expected a token type of 1 to " + std::to_string(int64_t(last)) +
                      ", found " + std::to_string(types[id]));
    }
    spec->types[id] = TokenType(types[id]);
  }
  return OkStatus();
}

Status ReadByteLevel(const GgufFile& file, TokenizerSpec* spec) {
  constexpr const char* kHelp =
      "; a wrong one gives other tokens and worse texts, silently: if you know the right one, write it into the file "
      "(gguf-new-metadata --pre-tokenizer NAME IN OUT, of the Python package gguf)";
  std::string name = "none";
  if (file.Has("tokenizer.ggml.pre")) {
    WINNOW_ASSIGN_OR_RETURN(const std::string_view found, file.GetString("tokenizer.ggml.pre"));
    name = QuotedToken(found);
    if (const PreTokenizerRule* rule = FindPreTokenizerRule(found)) {
      spec->cuts = rule->patterns;
      spec->ignore_merges = rule->ignore_merges;
      if (rule->form_c) spec->normalizer = Normalizer({{NormalizerStep::Kind::kFormC, "", ""}});
    }
  }
  if (spec->cuts.empty()) {
    return file.Bad("tokenizer.ggml.pre: expected one of " + KnownPreTokenizerNames() + "; found " + name + kHelp);
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file.GetStringArray(kMergesKey));
  spec->merges.emplace();
  spec->merges->reserve(merges.size());
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size()) {
      return file.Bad(ElementName(kMergesKey, rank) + ": expected two tokens with a space between, found " +
                      QuotedToken(merge));
    }
    spec->merges->emplace_back(merge.substr(0, space), merge.substr(space + 1));
  }
  return OkStatus();
}

Status ReadScores(const GgufFile& file, TokenizerSpec* spec) {
  const auto entry = file.metadata().find(kScoresKey);
  if (entry == file.metadata().end() || entry->second.type != GgufType::kArray ||
      entry->second.element_type != GgufType::kFloat32) {
    return file.Bad(std::string(kScoresKey) + ": expected an array of float32, found " +
                    (entry == file.metadata().end() ? "none" : "something else"));
  }
  const GgufValue& value = entry->second;
  for (uint64_t i = 0; i < value.count; ++i) {
    float score = 0;
    std::memcpy(&score, value.payload.data() + i * sizeof score, sizeof score);
    spec->scores.push_back(double(score));
  }
  return OkStatus();
}

Status ReadSentencePiece(const GgufFile& file, TokenizerSpec* spec) {
  WINNOW_RETURN_IF_ERROR(ReadScores(file, spec));
  // What llama.cpp takes when the file does not say.
  WINNOW_ASSIGN_OR_RETURN(const bool prefix, BoolOr(file, "tokenizer.ggml.add_space_prefix", true));
  WINNOW_ASSIGN_OR_RETURN(const bool collapse, BoolOr(file, "tokenizer.ggml.remove_extra_whitespaces", false));
  if (collapse) return file.Bad("tokenizer.ggml.remove_extra_whitespaces: expected false, found true");
  std::vector<NormalizerStep> steps;
  if (prefix) steps.push_back({NormalizerStep::Kind::kPrepend, "", " "});
  steps.push_back({NormalizerStep::Kind::kReplace, " ", kSentencePieceSpace});
  spec->normalizer = Normalizer(std::move(steps));
  spec->decode_drops_space = prefix;
  spec->byte_fallback = true;
  return OkStatus();
}

Result<SpecialTokens> ReadSpecialTokens(const GgufFile& file, const TokenizerSpec& spec) {
  SpecialTokens special;
  for (const char* key : kEndKeys) {
    if (!file.Has(key)) continue;
    WINNOW_ASSIGN_OR_RETURN(const int32_t id, ReadId(file, key, spec.tokens.size()));
    special.eos_ids.push_back(id);
  }
  AddWellKnownEnds(spec.tokens, spec.types, &special);
  if (file.Has("tokenizer.ggml.bos_token_id")) {
    WINNOW_ASSIGN_OR_RETURN(special.bos_id, ReadId(file, "tokenizer.ggml.bos_token_id", spec.tokens.size()));
  }
  if (file.Has("tokenizer.ggml.add_bos_token")) {
    WINNOW_ASSIGN_OR_RETURN(special.add_bos, file.GetBool("tokenizer.ggml.add_bos_token"));
  } else if (spec.model != TokenizerModel::kByteLevelBpe) {
    special.add_bos = special.bos_id.has_value();
  } else if (file.Has("tokenizer.ggml.pre")) {
    WINNOW_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("tokenizer.ggml.pre"));
    const PreTokenizerRule* rule = FindPreTokenizerRule(name);
    special.add_bos = rule != nullptr && rule->adds_bos && special.bos_id.has_value();
  }
  if (special.add_bos && !special.bos_id) {
    return file.Bad("tokenizer.ggml.add_bos_token is true: expected tokenizer.ggml.bos_token_id, found none");
  }
  return special;
}

}  // namespace

Result<Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  TokenizerSpec spec;
  spec.source = file.path();
  spec.tokens_name = kTokensKey;
  spec.merges_name = kMergesKey;
  WINNOW_ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model != "gpt2" && model != "llama") {
    return file.Bad("tokenizer.ggml.model: expected gpt2 (byte-level BPE) or llama (SentencePiece BPE), found " +
                    QuotedToken(model));
  }
  spec.model = model == "gpt2" ? TokenizerModel::kByteLevelBpe : TokenizerModel::kSentencePieceBpe;
  WINNOW_ASSIGN_OR_RETURN(const std::vector<std::string_view> tokens, file.GetStringArray(kTokensKey));
  spec.tokens.assign(tokens.begin(), tokens.end());
  if (spec.tokens.empty()) return file.Bad(std::string(kTokensKey) + ": expected tokens, found 0 of them");
  WINNOW_RETURN_IF_ERROR(ReadTypes(file, &spec));
  WINNOW_RETURN_IF_ERROR(spec.model == TokenizerModel::kByteLevelBpe ? ReadByteLevel(file, &spec)
                                                                     : ReadSentencePiece(file, &spec));
  WINNOW_ASSIGN_OR_RETURN(spec.special, ReadSpecialTokens(file, spec));
  WINNOW_ASSIGN_OR_RETURN(const bool add_eos, BoolOr(file, "tokenizer.ggml.add_eos_token", false));
  if (add_eos) {
    return file.Bad(
        "tokenizer.ggml.add_eos_token: expected false (a text that has ended is not continued), found true");
  }
  return FromSpec(spec);
}

}  // namespace winnow
