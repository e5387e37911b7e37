// SentencePiece's unigram model (Kudo 2018, arXiv 1804.10959): the most probable way to write a text with pieces of a
// vocabulary. Filled once by its owner, the Tokenizer, and then immutable: any thread.
#pragma once

#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "base/hash.h"

namespace winnow {

class Unigram {
 public:
  struct Piece {
    size_t begin, end;  // bytes
    int32_t id;         // kUnknown: no token covers it
  };
  static constexpr int32_t kUnknown = -1;

  // unknown_score: of a character that no token is.
  explicit Unigram(double unknown_score = 0) : unknown_score_(unknown_score) {}

  // `token` (not empty) has this log-probability.
  void Add(std::string_view token, double score, int32_t id);

  // The pieces of `text` (valid UTF-8), which together are the text; unknown neighbours are one piece when
  // `fuse_unknown`. Sums are of double, from the left, and the first of equals stays: as in Hugging Face's tokenizers.
  // O(bytes * bytes of the longest token).
  std::vector<Piece> Split(std::string_view text, bool fuse_unknown) const;

 private:
  struct Node {
    int32_t id = kUnknown;
    double score = 0;
  };
  struct EdgeHash {
    size_t operator()(uint64_t edge) const { return Mix64(edge); }
  };
  static uint64_t Edge(uint32_t node, char byte) { return uint64_t(node) << 8 | uint8_t(byte); }

  std::vector<Node> nodes_{Node{}};                            // of a trie; 0 is the root
  std::unordered_map<uint64_t, uint32_t, EdgeHash> children_;  // by node and byte
  double unknown_score_;
};

}  // namespace winnow
