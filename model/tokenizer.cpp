#include "model/tokenizer.h"

#include <algorithm>

#include "model/utf8.h"

namespace winnow {

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return InvalidArgument("text: expected UTF-8, found an invalid sequence at byte " + std::to_string(*offset));
  }
  std::vector<int32_t> ids;
  if (options.add_bos.value_or(special_.add_bos)) {
    if (!special_.bos_id) {
      return InvalidArgument("add_bos: expected a model with a begin-of-text token, found none in its file");
    }
    ids.push_back(*special_.bos_id);
  }
  if (!options.parse_special) {
    WINNOW_RETURN_IF_ERROR(EncodeText(text, &ids));
    return ids;
  }
  size_t done = 0;
  while (const std::optional<SpecialMatch> match = FindNextSpecial(text, done, options.plain)) {
    WINNOW_RETURN_IF_ERROR(EncodeText(text.substr(done, match->begin - done), &ids));
    ids.push_back(match->id);
    done = match->begin + match->num_bytes;
  }
  WINNOW_RETURN_IF_ERROR(EncodeText(text.substr(done), &ids));
  return ids;
}

std::optional<Tokenizer::SpecialMatch> Tokenizer::FindNextSpecial(std::string_view text, size_t begin,
                                                                  std::span<const TextSpan> plain) const {
  // The first plain span that ends after `begin`.
  auto span = std::upper_bound(plain.begin(), plain.end(), begin,
                               [](size_t offset, const TextSpan& other) { return offset < other.end; });
  for (; begin < text.size(); ++begin) {
    if (span != plain.end() && begin >= span->begin) {
      begin = span->end;
      ++span;
      if (begin >= text.size()) break;
    }
    for (const int32_t id : specials_by_first_byte_[uint8_t(text[begin])]) {
      const std::string_view token = TokenBytes(id);
      if (span != plain.end() && begin + token.size() > span->begin) continue;
      if (text.substr(begin, token.size()) == token) return SpecialMatch{begin, token.size(), id};
    }
  }
  return std::nullopt;
}

Status Tokenizer::EncodeText(std::string_view text, std::vector<int32_t>* ids) const {
  std::vector<int32_t> symbols;
  // Texts repeat their words. The views point into `text`, so the cache ends with the call and needs no lock.
  struct Range {
    size_t begin, end;
  };
  std::unordered_map<std::string_view, Range> seen;
  constexpr size_t kMaxCachedBytes = 64;
  return pre_tokenizer_.Split(text, [&](std::string_view piece) {
    if (piece.size() > kMaxCachedBytes) {
      EncodePiece(piece, &symbols, ids);
      return;
    }
    const auto [entry, is_new] = seen.try_emplace(piece);
    if (!is_new) {
      for (size_t i = entry->second.begin; i < entry->second.end; ++i) ids->push_back((*ids)[i]);
      return;
    }
    const size_t begin = ids->size();
    EncodePiece(piece, &symbols, ids);
    entry->second = {begin, ids->size()};
  });
}

void Tokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* symbols, std::vector<int32_t>* ids) const {
  if (ignore_merges_) {
    if (const auto found = whole_pieces_.find(piece); found != whole_pieces_.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  symbols->clear();
  for (const char byte : piece) {
    if (const int32_t id = byte_ids_[uint8_t(byte)]; id >= 0) symbols->push_back(id);
  }
  merges_.Apply(*symbols, ids);
}

Result<std::string> Tokenizer::Decode(std::span<const int32_t> ids) const {
  std::string bytes;
  for (const int32_t id : ids) {
    if (id < 0 || id >= vocab_size()) {
      return InvalidArgument("token id: expected 0 to " + std::to_string(vocab_size() - 1) + ", found " +
                             std::to_string(id));
    }
    bytes += TokenBytes(id);
  }
  return bytes;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  WINNOW_CHECK(id >= 0 && id < vocab_size());
  const size_t begin = offsets_[size_t(id)];
  return {bytes_.data() + begin, offsets_[size_t(id) + 1] - begin};
}

bool Tokenizer::IsControl(int32_t id) const {
  WINNOW_CHECK(id >= 0 && id < vocab_size());
  return types_[size_t(id)] == TokenType::kControl;
}

std::optional<int32_t> Tokenizer::FindSpecial(std::string_view text) const {
  if (text.empty()) return std::nullopt;
  for (const int32_t id : specials_by_first_byte_[uint8_t(text[0])]) {
    if (TokenBytes(id) == text) return id;
  }
  return std::nullopt;
}

}  // namespace winnow
