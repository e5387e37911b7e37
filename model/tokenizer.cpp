#include "model/tokenizer.h"

#include <algorithm>

#include "model/utf8.h"

namespace winnow {
namespace {

constexpr size_t kMaxTextBytes = Normalizer::kMaxTextBytes;

size_t CharacterBytes(std::string_view text) {
  size_t size = 1;
  while (size < text.size() && (uint8_t(text[size]) & 0xc0) == 0x80) ++size;
  return size;
}

}  // namespace

Result<std::vector<int32_t>> Tokenizer::Encode(std::string_view text, const EncodeOptions& options) const {
  if (text.size() > kMaxTextBytes) {
    return InvalidArgument("text: expected at most " + std::to_string(kMaxTextBytes) + " bytes, found " +
                           std::to_string(text.size()));
  }
  if (const std::optional<size_t> offset = FindInvalidUtf8(text)) {
    return InvalidArgument("text: expected UTF-8, found an invalid sequence at byte " + std::to_string(*offset));
  }
  std::vector<int32_t> ids;
  const bool add_bos = options.add_bos.value_or(special_.add_bos);
  if (add_bos) {
    if (!special_.bos_id) {
      return InvalidArgument("add_bos: expected a model with a begin-of-text token, found none in its file");
    }
    ids.push_back(*special_.bos_id);
  }
  const size_t first_pass = options.parse_special ? 0 : finders_.size();
  WINNOW_RETURN_IF_ERROR(EncodeRange(text, 0, text.size(), options.plain, first_pass, &ids));
  if (add_bos && ids.size() > 1 && ids[1] == *special_.bos_id) ids.erase(ids.begin());
  return ids;
}

Status Tokenizer::EncodeRange(std::string_view text, size_t begin, size_t end, std::span<const TextSpan> plain,
                              size_t pass, std::vector<int32_t>* ids) const {
  while (pass < finders_.size() && finders_[pass].empty()) ++pass;
  if (pass == finders_.size()) return EncodeText(text.substr(begin, end - begin), begin == 0, ids);
  while (const auto match = finders_[pass].FindNext(text, begin, end, plain)) {
    WINNOW_RETURN_IF_ERROR(EncodeRange(text, begin, match->begin, plain, pass + 1, ids));
    ids->push_back(match->id);
    begin = match->end;
  }
  return EncodeRange(text, begin, end, plain, pass + 1, ids);
}

Status Tokenizer::EncodeText(std::string_view text, bool at_start, std::vector<int32_t>* ids) const {
  if (text.empty()) return OkStatus();
  std::string normalized;
  WINNOW_ASSIGN_OR_RETURN(text, normalizer_.Apply(text, at_start, &normalized));
  std::vector<int32_t> symbols;
  // Texts repeat their words. The views point into `text`, so the cache ends with the call and needs no lock.
  struct Range {
    size_t begin, end;
  };
  std::unordered_map<std::string_view, Range> seen;
  constexpr size_t kMaxCachedBytes = 64;
  const auto encode = [&](std::string_view piece) {
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
  };
  // Without byte fallback, unknown characters fuse over what would be a cut.
  if (model_ != TokenizerModel::kSentencePieceBpe || !byte_fallback_) return pre_tokenizer_.Split(text, encode);
  return pre_tokenizer_.Split(text, [&](std::string_view piece) {
    while (!piece.empty()) {
      const size_t size = cuts_.FirstPiece(piece);
      encode(piece.substr(0, size));
      piece.remove_prefix(size);
    }
  });
}

void Tokenizer::EncodePiece(std::string_view piece, std::vector<int32_t>* symbols, std::vector<int32_t>* ids) const {
  if (model_ == TokenizerModel::kUnigram) {
    AppendUnigram(piece, ids);
    return;
  }
  if (ignore_merges_) {
    if (const auto found = whole_pieces_.find(piece); found != whole_pieces_.end()) {
      ids->push_back(found->second);
      return;
    }
  }
  symbols->clear();
  if (model_ == TokenizerModel::kByteLevelBpe) {
    AppendBytes(piece, symbols);
  } else {
    AppendCharacters(piece, symbols);
  }
  merges_.Apply(*symbols, ids);
}

void Tokenizer::AppendBytes(std::string_view piece, std::vector<int32_t>* symbols) const {
  bool after_unknown = false;
  for (const char byte : piece) {
    const int32_t id = byte_ids_[uint8_t(byte)];
    if (id >= 0) {
      symbols->push_back(id);
    } else if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) {
      symbols->push_back(unknown_id_);
    }
    after_unknown = id < 0;
  }
}

int32_t Tokenizer::IdOfCharacter(std::string_view character) const {
  if (character.size() == 1) return ascii_ids_[uint8_t(character[0])];
  const auto found = character_ids_.find(std::string(character));  // no allocation: at most 4 bytes
  return found == character_ids_.end() ? -1 : found->second;
}

void Tokenizer::AppendCharacters(std::string_view piece, std::vector<int32_t>* symbols) const {
  bool after_unknown = false;
  while (!piece.empty()) {
    const std::string_view character = piece.substr(0, CharacterBytes(piece));
    piece.remove_prefix(character.size());
    const int32_t id = IdOfCharacter(character);
    if (id >= 0) {
      symbols->push_back(id);
    } else if (byte_fallback_) {
      for (const char byte : character) symbols->push_back(byte_ids_[uint8_t(byte)]);
    } else if (unknown_id_ >= 0 && !(fuse_unknown_ && after_unknown)) {
      symbols->push_back(unknown_id_);
    }
    after_unknown = id < 0;
  }
}

void Tokenizer::AppendUnigram(std::string_view piece, std::vector<int32_t>* ids) const {
  for (const Unigram::Piece& part : unigram_.Split(piece, fuse_unknown_)) {
    if (part.id != Unigram::kUnknown) {
      ids->push_back(part.id);
    } else if (byte_fallback_) {
      for (size_t i = part.begin; i < part.end; ++i) ids->push_back(byte_ids_[uint8_t(piece[i])]);
    } else {
      ids->push_back(unknown_id_);
    }
  }
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
  if (decode_drops_space_ && bytes.starts_with(' ')) bytes.erase(0, 1);
  return bytes;
}

std::string_view Tokenizer::TokenBytes(int32_t id) const {
  WINNOW_CHECK(id >= 0 && id < vocab_size());
  const size_t begin = offsets_[size_t(id)];
  return {bytes_.data() + begin, offsets_[size_t(id) + 1] - begin};
}

void Tokenizer::AddEosIds(std::span<const int32_t> ids) {
  std::vector<int32_t>& all = special_.eos_ids;
  all.insert(all.end(), ids.begin(), ids.end());
  std::sort(all.begin(), all.end());
  all.erase(std::unique(all.begin(), all.end()), all.end());
}

TokenType Tokenizer::TypeOf(int32_t id) const {
  WINNOW_CHECK(id >= 0 && id < vocab_size());
  return types_[size_t(id)];
}

std::optional<int32_t> Tokenizer::FindSpecial(std::string_view text) const {
  for (const SpecialTokenFinder& finder : finders_) {
    if (const auto id = finder.Find(text)) return id;
  }
  return std::nullopt;
}

}  // namespace winnow
