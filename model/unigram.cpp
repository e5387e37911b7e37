#include "model/unigram.h"

#include <algorithm>

#include "base/check.h"

namespace winnow {
namespace {

constexpr size_t kNoPath = SIZE_MAX;

// The best path to a place between two bytes.
struct Best {
  double score = 0;
  size_t begin = kNoPath;  // of its last piece
  int32_t id = Unigram::kUnknown;
};

size_t CharacterBytes(std::string_view text, size_t begin) {
  size_t end = begin + 1;
  while (end < text.size() && (uint8_t(text[end]) & 0xc0) == 0x80) ++end;
  return end - begin;
}

}  // namespace

void Unigram::Add(std::string_view token, double score, int32_t id) {
  uint32_t node = 0;
  for (const char byte : token) {
    const auto [child, is_new] = children_.try_emplace(Edge(node, byte), uint32_t(nodes_.size()));
    if (is_new) nodes_.emplace_back();
    node = child->second;
  }
  nodes_[node] = {id, score};
}

std::vector<Unigram::Piece> Unigram::Split(std::string_view text, bool fuse_unknown) const {
  std::vector<Best> best(text.size() + 1);
  const auto offer = [&](size_t end, double score, size_t begin, int32_t id) {
    if (best[end].begin == kNoPath || score > best[end].score) best[end] = {score, begin, id};
  };
  for (size_t begin = 0; begin < text.size();) {
    const size_t character_end = begin + CharacterBytes(text, begin);
    const double score = best[begin].score;
    bool has_character = false;
    uint32_t node = 0;
    for (size_t end = begin; end < text.size(); ++end) {
      const auto child = children_.find(Edge(node, text[end]));
      if (child == children_.end()) break;
      node = child->second;
      if (nodes_[node].id == kUnknown) continue;
      offer(end + 1, nodes_[node].score + score, begin, nodes_[node].id);
      has_character = has_character || end + 1 == character_end;
    }
    if (!has_character) offer(character_end, unknown_score_ + score, begin, kUnknown);
    begin = character_end;
  }
  std::vector<Piece> pieces;
  for (size_t end = text.size(); end > 0; end = best[end].begin) {
    WINNOW_CHECK(best[end].begin < end);  // the text is UTF-8, and every character has a path
    if (fuse_unknown && best[end].id == kUnknown && !pieces.empty() && pieces.back().id == kUnknown) {
      pieces.back().begin = best[end].begin;
    } else {
      pieces.push_back({best[end].begin, end, best[end].id});
    }
  }
  std::reverse(pieces.begin(), pieces.end());
  return pieces;
}

}  // namespace winnow
