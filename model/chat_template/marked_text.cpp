#include "model/chat_template/marked_text.h"

#include <algorithm>

#include "base/check.h"

namespace winnow::jinja {
namespace {

// The first span that ends after `offset`.
std::vector<TextSpan>::const_iterator FirstAfter(const std::vector<TextSpan>& spans, size_t offset) {
  return std::upper_bound(spans.begin(), spans.end(), offset,
                          [](size_t wanted, const TextSpan& span) { return wanted < span.end; });
}

}  // namespace

bool MarkedText::IsFromConversation(size_t offset) const {
  const auto span = FirstAfter(conversation_, offset);
  return span != conversation_.end() && span->begin <= offset;
}

bool MarkedText::HasRoom(size_t num_bytes) {
  if (!is_cut_ && num_bytes <= kMaxTextBytes - bytes_.size()) return true;
  is_cut_ = true;
  return false;
}

void MarkedText::Mark(size_t begin, size_t end) {
  if (begin == end) return;
  if (!conversation_.empty() && conversation_.back().end == begin) {
    conversation_.back().end = end;
  } else {
    conversation_.push_back({begin, end});
  }
}

void MarkedText::Append(std::string_view text, bool from_conversation) {
  if (!HasRoom(text.size())) return;
  const size_t begin = size();
  bytes_ += text;
  if (from_conversation) Mark(begin, size());
}

void MarkedText::AppendPart(const MarkedText& other, size_t begin, size_t end) {
  WINNOW_CHECK(begin <= end && end <= other.size());
  WINNOW_CHECK(&other != this);
  is_cut_ |= other.is_cut_;
  if (!HasRoom(end - begin)) return;
  const size_t at = size();
  bytes_.append(other.bytes_, begin, end - begin);
  for (auto span = FirstAfter(other.conversation_, begin); span != other.conversation_.end() && span->begin < end;
       ++span) {
    Mark(at + std::max(span->begin, begin) - begin, at + std::min(span->end, end) - begin);
  }
}

MarkedText MarkedText::Part(size_t begin, size_t end) const {
  MarkedText part;
  part.AppendPart(*this, begin, end);
  return part;
}

MarkedText MarkedText::WithBytes(std::string bytes) const {
  WINNOW_CHECK(bytes.size() == size());
  MarkedText text = *this;
  text.bytes_ = std::move(bytes);
  return text;
}

}  // namespace winnow::jinja
