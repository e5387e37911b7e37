#include "model/utf8_stream.h"

#include "model/utf8.h"

namespace winnow {
namespace {

constexpr std::string_view kReplacement = "\xef\xbf\xbd";  // U+FFFD

}  // namespace

std::string Utf8Stream::Push(std::string_view bytes) {
  held_back_ += bytes;
  std::string text;
  size_t position = 0;
  while (position < held_back_.size()) {
    const std::string_view rest = std::string_view(held_back_).substr(position);
    const Utf8Unit unit = FirstUtf8Unit(rest);
    if (unit.kind == Utf8Kind::kIncomplete) break;
    text += unit.kind == Utf8Kind::kValid ? rest.substr(0, unit.num_bytes) : kReplacement;
    position += unit.num_bytes;
  }
  held_back_.erase(0, position);
  return text;
}

std::string Utf8Stream::Finish() {
  if (held_back_.empty()) return {};
  held_back_.clear();
  return std::string(kReplacement);
}

}  // namespace winnow
