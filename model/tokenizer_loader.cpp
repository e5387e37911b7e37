#include "model/tokenizer_loader.h"

#include <algorithm>
#include <limits>

#include "model/byte_level.h"
#include "model/utf8.h"

namespace winnow {
namespace {

constexpr std::string_view kTokensKey = "tokenizer.ggml.tokens";
constexpr std::string_view kTypesKey = "tokenizer.ggml.token_type";
constexpr std::string_view kMergesKey = "tokenizer.ggml.merges";

// For messages: the bytes of a file may be anything.
std::string Quote(std::string_view text) {
  constexpr size_t kMaxShown = 60;
  std::string shown(text.substr(0, kMaxShown));
  for (char& character : shown) {
    if (uint8_t(character) < 0x20 || character == 0x7f) character = '?';
  }
  if (FindInvalidUtf8(shown)) {
    for (char& character : shown) {
      if (uint8_t(character) >= 0x80) character = '?';
    }
  }
  return "\"" + shown + (text.size() > kMaxShown ? "...\"" : "\"");
}

std::string Element(std::string_view key, size_t index) {
  return std::string(key) + "[" + std::to_string(index) + "]";
}

bool IsSpecial(TokenType type) {
  return type == TokenType::kControl || type == TokenType::kUserDefined;
}

}  // namespace

Result<Tokenizer> Tokenizer::FromGguf(const GgufFile& file) {
  return TokenizerLoader::Load(file);
}

Result<Tokenizer> TokenizerLoader::Load(const GgufFile& file) {
  WINNOW_ASSIGN_OR_RETURN(const std::string_view model, file.GetString("tokenizer.ggml.model"));
  if (model != "gpt2") {
    return file.Bad("tokenizer.ggml.model: expected gpt2 (byte-level BPE), found " + Quote(model));
  }
  WINNOW_ASSIGN_OR_RETURN(const std::string_view name, file.GetString("tokenizer.ggml.pre"));
  const PreTokenizerRule* rule = FindPreTokenizerRule(name);
  if (rule == nullptr) {
    return file.Bad("tokenizer.ggml.pre: expected one of " + KnownPreTokenizerNames() + "; found " + Quote(name));
  }
  TokenizerLoader loader(file, *rule);
  WINNOW_RETURN_IF_ERROR(loader.LoadAll());
  return std::move(loader.tokenizer_);
}

Status TokenizerLoader::LoadAll() {
  WINNOW_ASSIGN_OR_RETURN(spellings_, file_.GetStringArray(kTokensKey));
  if (spellings_.empty() || spellings_.size() > size_t(std::numeric_limits<int32_t>::max())) {
    return file_.Bad(std::string(kTokensKey) + ": expected 1 to 2^31 - 1 tokens, found " +
                     std::to_string(spellings_.size()));
  }
  WINNOW_RETURN_IF_ERROR(LoadTypes());
  WINNOW_RETURN_IF_ERROR(LoadTokens());
  WINNOW_RETURN_IF_ERROR(LoadMerges());
  WINNOW_ASSIGN_OR_RETURN(tokenizer_.special_, ReadSpecialTokens(file_));
  IndexBytes();
  IndexSpecials();
  IndexWholePieces();
  return OkStatus();
}

Status TokenizerLoader::LoadTypes() {
  tokenizer_.types_.assign(spellings_.size(), TokenType::kNormal);
  if (!file_.Has(kTypesKey)) return OkStatus();
  WINNOW_ASSIGN_OR_RETURN(const std::vector<int64_t> types, file_.GetIntArray(kTypesKey));
  if (types.size() != spellings_.size()) {
    return file_.Bad(std::string(kTypesKey) + ": expected one for each of the " + std::to_string(spellings_.size()) +
                     " tokens, found " + std::to_string(types.size()));
  }
  for (size_t id = 0; id < types.size(); ++id) {
    if (types[id] < int64_t(TokenType::kNormal) || types[id] > int64_t(TokenType::kUnused)) {
      return file_.Bad(Element(kTypesKey, id) + ": expected a token type of 1 to 5, found " +
                       std::to_string(types[id]));
    }
    tokenizer_.types_[id] = TokenType(types[id]);
  }
  return OkStatus();
}

Status TokenizerLoader::LoadTokens() {
  tokenizer_.offsets_.push_back(0);
  id_of_spelling_.reserve(spellings_.size());
  for (size_t id = 0; id < spellings_.size(); ++id) {
    const std::string_view spelling = spellings_[id];
    if (spelling.empty()) return file_.Bad(Element(kTokensKey, id) + ": expected text, found an empty token");
    const auto [entry, is_new] = id_of_spelling_.emplace(spelling, int32_t(id));
    if (!is_new) {
      return file_.Bad(Element(kTokensKey, id) + ": expected every token once, found " + Quote(spelling) +
                       " also as token " + std::to_string(entry->second));
    }
    // Only normal tokens are written in the byte-level alphabet; the others are what they look like.
    std::string bytes(spelling);
    if (tokenizer_.types_[id] == TokenType::kNormal) {
      std::optional<std::string> spelled = ByteLevelToBytes(spelling);
      if (!spelled) {
        return file_.Bad(Element(kTokensKey, id) + ": expected a token in GPT-2's byte alphabet, found " +
                         Quote(spelling));
      }
      bytes = std::move(*spelled);
    }
    tokenizer_.bytes_.insert(tokenizer_.bytes_.end(), bytes.begin(), bytes.end());
    tokenizer_.offsets_.push_back(tokenizer_.bytes_.size());
  }
  return OkStatus();
}

Status TokenizerLoader::LoadMerges() {
  WINNOW_ASSIGN_OR_RETURN(const std::vector<std::string_view> merges, file_.GetStringArray(kMergesKey));
  if (merges.size() > size_t(std::numeric_limits<int32_t>::max())) {
    return file_.Bad(std::string(kMergesKey) + ": expected fewer than 2^31, found " + std::to_string(merges.size()));
  }
  for (size_t rank = 0; rank < merges.size(); ++rank) {
    const std::string_view merge = merges[rank];
    const size_t space = merge.find(' ');
    if (space == std::string_view::npos || space == 0 || space + 1 == merge.size()) {
      return file_.Bad(Element(kMergesKey, rank) + ": expected two tokens with a space between, found " + Quote(merge));
    }
    const std::string_view left = merge.substr(0, space), right = merge.substr(space + 1);
    const std::string merged = std::string(left) + std::string(right);
    const auto left_id = id_of_spelling_.find(left), right_id = id_of_spelling_.find(right);
    const auto merged_id = id_of_spelling_.find(merged);
    for (const auto& [id, text] :
         {std::pair(left_id, left), {right_id, right}, {merged_id, std::string_view(merged)}}) {
      if (id == id_of_spelling_.end() || tokenizer_.types_[size_t(id->second)] != TokenType::kNormal) {
        return file_.Bad(Element(kMergesKey, rank) + ": expected normal tokens of the vocabulary, found " +
                         Quote(text));
      }
    }
    if (!tokenizer_.merges_.Add(left_id->second, right_id->second, int32_t(rank), merged_id->second)) {
      return file_.Bad(Element(kMergesKey, rank) + ": expected every merge once, found " + Quote(merge) + " again");
    }
  }
  return OkStatus();
}

void TokenizerLoader::IndexBytes() {
  for (int byte = 0; byte < 256; ++byte) {
    const auto found = id_of_spelling_.find(ByteLevelCharacter(uint8_t(byte)));
    const bool usable =
        found != id_of_spelling_.end() && tokenizer_.types_[size_t(found->second)] == TokenType::kNormal;
    tokenizer_.byte_ids_[size_t(byte)] = usable ? found->second : -1;
  }
}

void TokenizerLoader::IndexSpecials() {
  for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
    if (!IsSpecial(tokenizer_.types_[size_t(id)])) continue;
    tokenizer_.specials_by_first_byte_[uint8_t(tokenizer_.TokenBytes(id)[0])].push_back(id);
  }
  for (std::vector<int32_t>& ids : tokenizer_.specials_by_first_byte_) {
    std::stable_sort(ids.begin(), ids.end(), [this](int32_t a, int32_t b) {
      return tokenizer_.TokenBytes(a).size() > tokenizer_.TokenBytes(b).size();
    });
  }
}

void TokenizerLoader::IndexWholePieces() {
  if (!tokenizer_.ignore_merges_) return;
  for (int32_t id = 0; id < tokenizer_.vocab_size(); ++id) {
    if (tokenizer_.types_[size_t(id)] == TokenType::kNormal) {
      tokenizer_.whole_pieces_.emplace(tokenizer_.TokenBytes(id), id);
    }
  }
}

}  // namespace winnow
