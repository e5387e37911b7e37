#include "model/tokenizer_builder.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "model/byte_level.h"
#include "model/tokenizer_text.h"
#include "model/utf8.h"

namespace winnow {
namespace {

constexpr double kUnknownPenalty = 10;  // SentencePiece's: below the least probable token
// Finding all merges of a SentencePiece vocabulary takes time that is quadratic in a token's length; unigram's memory
// follows the bytes of all tokens, and its time for a text the longest one. That of the models at hand is 48 bytes.
constexpr size_t kMaxPieceBytes = 1024;
constexpr std::string_view kSpace = kSentencePieceSpace;

bool IsSpecial(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

// "<0x0A>": exactly two upper-case hexadecimal digits, as SentencePiece writes them.
std::optional<uint8_t> ByteOfSpelling(std::string_view spelling) {
  if (spelling.size() != 6 || !spelling.starts_with("<0x") || spelling[5] != '>') return std::nullopt;
  int byte = 0;
  for (const char digit : spelling.substr(3, 2)) {
    constexpr std::string_view kDigits = "0123456789ABCDEF";
    const size_t value = kDigits.find(digit);
    if (value == std::string_view::npos) return std::nullopt;
    byte = byte * 16 + int(value);
  }
  return uint8_t(byte);
}

std::string ByteSpelling(size_t byte) {
  constexpr const char* kDigits = "0123456789ABCDEF";
  return std::string("<0x") + kDigits[byte / 16] + kDigits[byte % 16] + ">";
}

std::string SpacesOf(std::string_view spelling) {
  std::string bytes;
  for (size_t i = 0; i < spelling.size();) {
    const bool is_space = spelling.substr(i, kSpace.size()) == kSpace;
    bytes += is_space ? ' ' : spelling[i];
    i += is_space ? kSpace.size() : 1;
  }
  return bytes;
}

}  // namespace

Result<Tokenizer> Tokenizer::FromSpec(const TokenizerSpec& spec) {
  return TokenizerBuilder::Build(spec);
}

Result<Tokenizer> TokenizerBuilder::Build(const TokenizerSpec& spec) {
  auto pre_tokenizer = PreTokenizer::Compile(spec.cuts);
  if (!pre_tokenizer.ok()) return spec.Bad("pre-tokenizer: " + pre_tokenizer.status().message());
  TokenizerBuilder builder(spec, std::move(pre_tokenizer).value());
  WINNOW_RETURN_IF_ERROR(builder.BuildAll());
  return std::move(builder.tokenizer_);
}

Status TokenizerBuilder::BuildAll() {
  WINNOW_CHECK(spec_.types.size() == spec_.tokens.size());
  if (spec_.tokens.empty() || spec_.tokens.size() > size_t(std::numeric_limits<int32_t>::max())) {
    return spec_.Bad(spec_.tokens_name + ": expected 1 to 2^31 - 1 tokens, found " +
                     std::to_string(spec_.tokens.size()));
  }
  WINNOW_RETURN_IF_ERROR(CheckIds());
  tokenizer_.model_ = spec_.model;
  tokenizer_.ignore_merges_ = spec_.ignore_merges;
  tokenizer_.byte_fallback_ = spec_.byte_fallback;
  tokenizer_.fuse_unknown_ = spec_.fuse_unknown;
  tokenizer_.decode_drops_space_ = spec_.decode_drops_space;
  tokenizer_.unknown_id_ = spec_.unknown_id.value_or(-1);
  tokenizer_.normalizer_ = spec_.normalizer;
  tokenizer_.special_ = spec_.special;
  tokenizer_.types_ = spec_.types;
  WINNOW_RETURN_IF_ERROR(AddTokens());
  WINNOW_RETURN_IF_ERROR(AddBytes());
  WINNOW_RETURN_IF_ERROR(AddModel());
  AddSpecials();
  AddWholePieces();
  return OkStatus();
}

Status TokenizerBuilder::CheckIds() const {
  const auto check = [&](const char* name, std::optional<int32_t> id) {
    if (!id || (*id >= 0 && size_t(*id) < spec_.tokens.size())) return OkStatus();
    return spec_.Bad(std::string(name) + ": expected an id below the vocabulary's " +
                     std::to_string(spec_.tokens.size()) + ", found " + std::to_string(*id));
  };
  WINNOW_RETURN_IF_ERROR(check("begin-of-text token", spec_.special.bos_id));
  WINNOW_RETURN_IF_ERROR(check("unknown token", spec_.unknown_id));
  for (const int32_t id : spec_.special.eos_ids) WINNOW_RETURN_IF_ERROR(check("end token", id));
  if (spec_.special.add_bos && !spec_.special.bos_id) {
    return spec_.Bad("the begin-of-text token is to be put in front of a text: expected to find which one, found none");
  }
  return OkStatus();
}

Result<std::string> TokenizerBuilder::BytesOf(size_t id) const {
  const std::string& spelling = spec_.tokens[id];
  const TokenType type = spec_.types[id];
  if (type == TokenType::kByte) {
    if (const std::optional<uint8_t> byte = ByteOfSpelling(spelling)) return std::string(1, char(*byte));
    return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected a byte as <0x00> to <0xFF>, found " +
                     QuotedToken(spelling));
  }
  if (type != TokenType::kNormal) return spelling;  // what they look like
  if (spec_.model == TokenizerModel::kByteLevelBpe) {
    if (std::optional<std::string> bytes = ByteLevelToBytes(spelling)) return *std::move(bytes);
    return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected a token in GPT-2's byte alphabet, found " +
                     QuotedToken(spelling));
  }
  if (FindInvalidUtf8(spelling)) {
    return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected UTF-8, found " + QuotedToken(spelling));
  }
  return SpacesOf(spelling);
}

Status TokenizerBuilder::AddTokens() {
  size_t num_bytes = 0;
  for (const std::string& token : spec_.tokens) num_bytes += token.size();
  tokenizer_.bytes_.reserve(num_bytes);
  tokenizer_.offsets_.reserve(spec_.tokens.size() + 1);
  tokenizer_.offsets_.push_back(0);
  id_of_spelling_.reserve(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string_view spelling = spec_.tokens[id];
    if (spelling.empty()) {
      return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected text, found an empty token");
    }
    const auto [entry, is_new] = id_of_spelling_.emplace(spelling, int32_t(id));
    if (!is_new) {
      return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected every token once, found " +
                       QuotedToken(spelling) + " also as token " + std::to_string(entry->second));
    }
    WINNOW_ASSIGN_OR_RETURN(const std::string bytes, BytesOf(id));
    tokenizer_.bytes_.insert(tokenizer_.bytes_.end(), bytes.begin(), bytes.end());
    tokenizer_.offsets_.push_back(tokenizer_.bytes_.size());
  }
  return OkStatus();
}

int32_t TokenizerBuilder::IdOfNormal(std::string_view spelling) const {
  const auto found = id_of_spelling_.find(spelling);
  return found != id_of_spelling_.end() && IsNormal(size_t(found->second)) ? found->second : -1;
}

Status TokenizerBuilder::AddBytes() {
  tokenizer_.byte_ids_.fill(-1);
  if (spec_.model == TokenizerModel::kByteLevelBpe) {
    for (size_t byte = 0; byte < 256; ++byte) {
      tokenizer_.byte_ids_[byte] = IdOfNormal(ByteLevelCharacter(uint8_t(byte)));
    }
    return OkStatus();
  }
  if (!spec_.byte_fallback) return OkStatus();
  for (size_t byte = 0; byte < 256; ++byte) {
    const auto found = id_of_spelling_.find(ByteSpelling(byte));
    if (found == id_of_spelling_.end() || spec_.types[size_t(found->second)] != TokenType::kByte) {
      return spec_.Bad(spec_.tokens_name + ": expected a token for every byte, found none for " + ByteSpelling(byte));
    }
    tokenizer_.byte_ids_[byte] = found->second;
  }
  return OkStatus();
}

void TokenizerBuilder::AddSpecials() {
  std::array<std::vector<SpecialTokenFinder::Token>, 2> tokens;
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (!IsSpecial(spec_.types[id])) continue;
    tokens[spec_.second_pass.contains(int32_t(id)) ? 1 : 0].push_back({spec_.tokens[id], int32_t(id)});
  }
  for (size_t pass = 0; pass < 2; ++pass) tokenizer_.finders_[pass] = SpecialTokenFinder(std::move(tokens[pass]));
}

Status TokenizerBuilder::AddModel() {
  if (!spec_.scores.empty() && spec_.scores.size() != spec_.tokens.size()) {
    return spec_.Bad(spec_.tokens_name + ": expected a score for each of " + std::to_string(spec_.tokens.size()) +
                     " tokens, found " + std::to_string(spec_.scores.size()));
  }
  for (size_t id = 0; id < spec_.scores.size(); ++id) {
    if (!std::isfinite(spec_.scores[id])) {
      return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected a finite score, found " +
                       std::to_string(spec_.scores[id]));
    }
  }
  if (spec_.model == TokenizerModel::kUnigram) {
    if (spec_.scores.empty()) return spec_.Bad("unigram: expected the scores of the tokens, found none");
    if (!spec_.unknown_id) return spec_.Bad("unigram: expected an unknown token, found none");
    return AddUnigram();
  }
  if (spec_.model == TokenizerModel::kSentencePieceBpe) AddCharacters();
  return spec_.merges ? AddMerges() : AddMergesByScore();
}

Status TokenizerBuilder::AddMerges() {
  if (spec_.merges->size() > size_t(std::numeric_limits<int32_t>::max())) {
    return spec_.Bad(spec_.merges_name + ": expected fewer than 2^31, found " + std::to_string(spec_.merges->size()));
  }
  tokenizer_.merges_.Reserve(spec_.merges->size());
  std::string merged;
  for (size_t rank = 0; rank < spec_.merges->size(); ++rank) {
    const auto& [left, right] = (*spec_.merges)[rank];
    merged = left;
    merged += right;
    std::array<int32_t, 3> ids{};
    bool all_normal = true;
    for (size_t i = 0; i < 3; ++i) {
      const std::string& text = i == 0 ? left : i == 1 ? right : merged;
      const auto found = id_of_spelling_.find(text);
      if (found == id_of_spelling_.end()) {
        return spec_.Bad(ElementName(spec_.merges_name, rank) + ": expected tokens of the vocabulary, found " +
                         QuotedToken(text));
      }
      ids[i] = found->second;
      all_normal = all_normal && IsNormal(size_t(ids[i]));
    }
    // Text never becomes a special token by merging: where its text counts, it was found before.
    if (!all_normal) continue;
    if (!tokenizer_.merges_.Add(ids[0], ids[1], int32_t(rank), ids[2])) {
      return spec_.Bad(ElementName(spec_.merges_name, rank) + ": expected every merge once, found " +
                       QuotedToken(left + " " + right) + " again");
    }
    if (spec_.model == TokenizerModel::kSentencePieceBpe) tokenizer_.cuts_.AddToken(merged);
  }
  return OkStatus();
}

Status TokenizerBuilder::CheckPiece(size_t id) const {
  const size_t size = spec_.tokens[id].size();
  if (size <= kMaxPieceBytes) return OkStatus();
  return spec_.Bad(ElementName(spec_.tokens_name, id) + ": expected at most " + std::to_string(kMaxPieceBytes) +
                   " bytes, found " + std::to_string(size));
}

Status TokenizerBuilder::AddMergesByScore() {
  if (spec_.scores.empty()) return spec_.Bad(spec_.tokens_name + ": expected merges or scores, found neither");
  std::vector<double> ranking = spec_.scores;
  std::sort(ranking.begin(), ranking.end(), std::greater<>());
  ranking.erase(std::unique(ranking.begin(), ranking.end()), ranking.end());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string_view token = spec_.tokens[id];
    if (!IsNormal(id)) continue;
    WINNOW_RETURN_IF_ERROR(CheckPiece(id));
    const auto place = std::lower_bound(ranking.begin(), ranking.end(), spec_.scores[id], std::greater<>());
    bool has_merge = false;
    for (size_t cut = 1; cut < token.size(); ++cut) {
      if ((uint8_t(token[cut]) & 0xc0) == 0x80) continue;  // inside a character
      const int32_t left = IdOfNormal(token.substr(0, cut)), right = IdOfNormal(token.substr(cut));
      if (left < 0 || right < 0) continue;
      tokenizer_.merges_.Add(left, right, int32_t(place - ranking.begin()), int32_t(id));
      has_merge = true;
    }
    if (has_merge) tokenizer_.cuts_.AddToken(token);
  }
  return OkStatus();
}

void TokenizerBuilder::AddCharacters() {
  tokenizer_.ascii_ids_.fill(-1);
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    const std::string& token = spec_.tokens[id];
    if (!IsNormal(id) || FirstUtf8Unit(token).num_bytes != token.size()) continue;
    if (token.size() == 1) {
      tokenizer_.ascii_ids_[uint8_t(token[0])] = int32_t(id);
    } else {
      tokenizer_.character_ids_.emplace(token, int32_t(id));
    }
  }
}

Status TokenizerBuilder::AddUnigram() {
  const double lowest = *std::min_element(spec_.scores.begin(), spec_.scores.end());
  tokenizer_.unigram_ = Unigram(lowest - kUnknownPenalty);
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (!IsNormal(id)) continue;
    WINNOW_RETURN_IF_ERROR(CheckPiece(id));
    tokenizer_.unigram_.Add(spec_.tokens[id], spec_.scores[id], int32_t(id));
  }
  return OkStatus();
}

void TokenizerBuilder::AddWholePieces() {
  if (!spec_.ignore_merges) return;
  tokenizer_.whole_pieces_.reserve(spec_.tokens.size());
  for (size_t id = 0; id < spec_.tokens.size(); ++id) {
    if (IsNormal(id)) tokenizer_.whole_pieces_.emplace(tokenizer_.TokenBytes(int32_t(id)), int32_t(id));
  }
}

}  // namespace winnow
