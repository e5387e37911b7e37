// Text of which every byte knows whether it came from the conversation or from the template. What the template does to
// a message (cut, join, replace, quote) keeps the marks, so that the special tokens which a message spells out can be
// told from those that the template writes. A value; one thread at a time.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "model/chat_template/limits.h"
#include "model/text_span.h"

namespace winnow::jinja {

class MarkedText {
 public:
  MarkedText() = default;
  MarkedText(std::string_view text, bool from_conversation = false) { Append(text, from_conversation); }  // NOLINT

  std::string_view view() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // The bytes of the conversation: ascending, not empty, not touching.
  const std::vector<TextSpan>& conversation() const { return conversation_; }
  bool IsFromConversation(size_t offset) const;
  // A text holds kMaxTextBytes at most. What would make it longer is left out, and from then on it is cut: whoever
  // evaluates makes an error of that.
  bool is_cut() const { return is_cut_; }

  void Append(std::string_view text, bool from_conversation = false);
  void Append(const MarkedText& other) { AppendPart(other, 0, other.size()); }
  // The bytes from `begin` to before `end`.
  void AppendPart(const MarkedText& other, size_t begin, size_t end);
  MarkedText Part(size_t begin, size_t end) const;
  // The same marks over other bytes, as many.
  MarkedText WithBytes(std::string bytes) const;

 private:
  bool HasRoom(size_t num_bytes);
  void Mark(size_t begin, size_t end);

  std::string bytes_;
  std::vector<TextSpan> conversation_;
  bool is_cut_ = false;
};

}  // namespace winnow::jinja
