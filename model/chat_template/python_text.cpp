#include "model/chat_template/python_text.h"

#include <cstring>

#include "model/utf8.h"

namespace winnow::jinja {
namespace {

bool IsSpace(uint32_t c) {
  return (c >= 0x09 && c <= 0x0d) || (c >= 0x1c && c <= 0x20) || c == 0x85 || c == 0xa0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200a) || c == 0x2028 || c == 0x2029 || c == 0x202f || c == 0x205f || c == 0x3000;
}

bool IsLineBreak(uint32_t c) {
  return (c >= 0x0a && c <= 0x0d) || (c >= 0x1c && c <= 0x1e) || c == 0x85 || c == 0x2028 || c == 0x2029;
}

size_t BytesAt(std::string_view text, size_t offset) {
  return FirstUtf8Unit(text.substr(offset, 4)).num_bytes;
}

// The offset of the character that ends before `end`, which is not 0.
size_t CharacterBefore(std::string_view text, size_t end) {
  size_t begin = end - 1;
  while (begin > 0 && (uint8_t(text[begin]) & 0xc0) == 0x80) --begin;
  return begin;
}

char LowerByte(char c) {
  return c >= 'A' && c <= 'Z' ? char(c - 'A' + 'a') : c;
}
char UpperByte(char c) {
  return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c;
}
bool IsLetter(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || uint8_t(c) >= 0x80;
}

template <class F>
MarkedText MapBytes(const MarkedText& text, F&& map) {
  std::string bytes(text.view());
  for (char& c : bytes) c = map(c);
  return text.WithBytes(std::move(bytes));
}

Status CheckParts(size_t num_parts) {
  if (int64_t(num_parts) < kMaxValueSize) return OkStatus();
  return InvalidArgument("split: expected at most " + std::to_string(kMaxValueSize) + " parts");
}

Result<std::vector<MarkedText>> SplitAtSpace(const MarkedText& text, int64_t max_splits) {
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.view();
  size_t at = 0;
  while (true) {
    while (size_t space = SpaceAt(bytes, at)) at += space;
    if (at == bytes.size()) return parts;
    WINNOW_RETURN_IF_ERROR(CheckParts(parts.size()));
    if (max_splits >= 0 && int64_t(parts.size()) == max_splits) {
      parts.push_back(Strip(text.Part(at, bytes.size()), std::nullopt, {.left = false}));
      return parts;
    }
    const size_t begin = at;
    while (at < bytes.size() && SpaceAt(bytes, at) == 0) at += BytesAt(bytes, at);
    parts.push_back(text.Part(begin, at));
  }
}

Result<std::vector<MarkedText>> SplitAtSpaceFromRight(const MarkedText& text, int64_t max_splits) {
  std::vector<MarkedText> parts;
  const std::string_view bytes = text.view();
  size_t at = bytes.size();
  while (true) {
    while (size_t space = SpaceBefore(bytes, at)) at -= space;
    if (at == 0) break;
    WINNOW_RETURN_IF_ERROR(CheckParts(parts.size()));
    if (max_splits >= 0 && int64_t(parts.size()) == max_splits) {
      parts.push_back(text.Part(0, at));
      break;
    }
    const size_t end = at;
    while (at > 0 && SpaceBefore(bytes, at) == 0) at = CharacterBefore(bytes, at);
    parts.push_back(text.Part(at, end));
  }
  return std::vector<MarkedText>(parts.rbegin(), parts.rend());
}

}  // namespace

bool IsUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    const Utf8Unit unit = FirstUtf8Unit(text.substr(at, 4));
    if (unit.kind != Utf8Kind::kValid) return false;
    at += unit.num_bytes;
  }
  return true;
}

std::vector<TextSpan> Characters(std::string_view text) {
  std::vector<TextSpan> characters;
  for (size_t at = 0; at < text.size();) {
    const size_t num_bytes = BytesAt(text, at);
    characters.push_back({at, at + num_bytes});
    at += num_bytes;
  }
  return characters;
}

size_t CountCharacters(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += (uint8_t(byte) & 0xc0) != 0x80;
  return count;
}

void AppendCodePoint(uint32_t c, std::string* text) {
  if (c < 0x80) {
    *text += char(c);
  } else if (c < 0x800) {
    *text += {char(0xc0 | c >> 6), char(0x80 | (c & 0x3f))};
  } else if (c < 0x10000) {
    *text += {char(0xe0 | c >> 12), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  } else {
    *text +=
        {char(0xf0 | c >> 18), char(0x80 | (c >> 12 & 0x3f)), char(0x80 | (c >> 6 & 0x3f)), char(0x80 | (c & 0x3f))};
  }
}

uint32_t CodePointAt(std::string_view text, size_t offset) {
  const size_t num_bytes = BytesAt(text, offset);
  const auto byte = [&](size_t i) { return uint32_t(uint8_t(text[offset + i])); };
  if (num_bytes == 1) return byte(0);
  uint32_t c = byte(0) & (0x7fu >> num_bytes);
  for (size_t i = 1; i < num_bytes; ++i) c = c << 6 | (byte(i) & 0x3f);
  return c;
}

size_t SpaceAt(std::string_view text, size_t offset) {
  if (offset >= text.size()) return 0;
  return IsSpace(CodePointAt(text, offset)) ? BytesAt(text, offset) : 0;
}

size_t SpaceBefore(std::string_view text, size_t end) {
  if (end == 0) return 0;
  const size_t begin = CharacterBefore(text, end);
  return IsSpace(CodePointAt(text, begin)) ? end - begin : 0;
}

size_t FindText(std::string_view text, std::string_view wanted, size_t begin) {
  if (begin > text.size()) return std::string_view::npos;
  if (wanted.empty()) return begin;
  const void* found = memmem(text.data() + begin, text.size() - begin, wanted.data(), wanted.size());
  return found ? size_t(static_cast<const char*>(found) - text.data()) : std::string_view::npos;
}

MarkedText Strip(const MarkedText& text, std::optional<std::string_view> characters, Sides sides) {
  const std::string_view bytes = text.view();
  const auto goes = [&](size_t begin, size_t end) {
    return characters ? FindText(*characters, bytes.substr(begin, end - begin)) != std::string_view::npos
                      : SpaceAt(bytes, begin) != 0;
  };
  size_t begin = 0, end = bytes.size();
  while (sides.left && begin < end && goes(begin, begin + BytesAt(bytes, begin))) begin += BytesAt(bytes, begin);
  while (sides.right && end > begin && goes(CharacterBefore(bytes, end), end)) end = CharacterBefore(bytes, end);
  return text.Part(begin, end);
}

Result<std::vector<MarkedText>> Split(const MarkedText& text, const MarkedText* separator, int64_t max_splits) {
  if (separator == nullptr) return SplitAtSpace(text, max_splits);
  if (separator->empty()) return InvalidArgument("empty separator");
  std::vector<MarkedText> parts;
  size_t begin = 0;
  while (max_splits < 0 || int64_t(parts.size()) < max_splits) {
    const size_t end = FindText(text.view(), separator->view(), begin);
    if (end == std::string_view::npos) break;
    WINNOW_RETURN_IF_ERROR(CheckParts(parts.size()));
    parts.push_back(text.Part(begin, end));
    begin = end + separator->size();
  }
  parts.push_back(text.Part(begin, text.size()));
  return parts;
}

Result<std::vector<MarkedText>> SplitFromRight(const MarkedText& text, const MarkedText* separator,
                                               int64_t max_splits) {
  if (separator == nullptr) return SplitAtSpaceFromRight(text, max_splits);
  if (separator->empty()) return InvalidArgument("empty separator");
  // Searching backwards takes the product of both lengths in the worst case.
  constexpr size_t kMaxSeparatorBytes = 256;
  if (separator->size() > kMaxSeparatorBytes)
    return InvalidArgument("rsplit: expected a separator of 256 bytes or less");
  std::vector<MarkedText> parts;
  size_t end = text.size();
  while (max_splits < 0 || int64_t(parts.size()) < max_splits) {
    const size_t begin = text.view().substr(0, end).rfind(separator->view());
    if (begin == std::string_view::npos) break;
    WINNOW_RETURN_IF_ERROR(CheckParts(parts.size()));
    parts.push_back(text.Part(begin + separator->size(), end));
    end = begin;
  }
  parts.push_back(text.Part(0, end));
  return std::vector<MarkedText>(parts.rbegin(), parts.rend());
}

std::vector<MarkedText> SplitLines(const MarkedText& text) {
  std::vector<MarkedText> lines;
  const std::string_view bytes = text.view();
  size_t begin = 0;
  for (size_t at = 0; at < bytes.size();) {
    const size_t num_bytes = BytesAt(bytes, at);
    if (!IsLineBreak(CodePointAt(bytes, at))) {
      at += num_bytes;
      continue;
    }
    lines.push_back(text.Part(begin, at));
    at += bytes.substr(at, 2) == "\r\n" ? 2 : num_bytes;
    begin = at;
  }
  if (begin < bytes.size()) lines.push_back(text.Part(begin, bytes.size()));
  return lines;
}

MarkedText Replace(const MarkedText& text, std::string_view old, const MarkedText& replacement, int64_t max_count) {
  MarkedText replaced;
  const std::string_view bytes = text.view();
  size_t done = 0, at = 0;
  for (int64_t count = 0; (max_count < 0 || count < max_count) && !replaced.is_cut(); ++count) {
    const size_t found = FindText(bytes, old, at);
    if (found == std::string_view::npos) break;
    replaced.AppendPart(text, done, found);
    replaced.Append(replacement);
    done = found + old.size();
    // Nothing is found before each character and at the end.
    at = !old.empty() ? done : found < bytes.size() ? found + BytesAt(bytes, found) : bytes.size() + 1;
  }
  replaced.AppendPart(text, done, text.size());
  return replaced;
}

MarkedText Repeat(const MarkedText& text, int64_t count) {
  MarkedText repeated;
  for (int64_t i = 0; i < count && !text.empty() && !repeated.is_cut(); ++i) repeated.Append(text);
  return repeated;
}

MarkedText Join(const MarkedText& separator, const std::vector<MarkedText>& parts) {
  MarkedText joined;
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) joined.Append(separator);
    joined.Append(parts[i]);
  }
  return joined;
}

MarkedText Lower(const MarkedText& text) {
  return MapBytes(text, LowerByte);
}

MarkedText Upper(const MarkedText& text) {
  return MapBytes(text, UpperByte);
}

MarkedText Title(const MarkedText& text) {
  bool in_word = false;
  return MapBytes(text, [&](char c) {
    const char mapped = in_word ? LowerByte(c) : UpperByte(c);
    in_word = IsLetter(c);
    return mapped;
  });
}

MarkedText TitleWords(const MarkedText& text) {
  bool in_word = false;
  return MapBytes(text, [&](char c) {
    const bool separates = std::strchr("-({[< \t\n\v\f\r\x1c\x1d\x1e\x1f", c) != nullptr && c != 0;
    const char mapped = in_word ? LowerByte(c) : UpperByte(c);
    in_word = !separates;
    return mapped;
  });
}

MarkedText Capitalize(const MarkedText& text) {
  bool first = true;
  return MapBytes(text, [&](char c) { return std::exchange(first, false) ? UpperByte(c) : LowerByte(c); });
}

MarkedText EscapeHtml(const MarkedText& text) {
  MarkedText escaped;
  const std::string_view bytes = text.view();
  for (size_t i = 0; i < bytes.size(); ++i) {
    const bool marked = text.IsFromConversation(i);
    switch (bytes[i]) {
      case '&':
        escaped.Append("&amp;", marked);
        break;
      case '<':
        escaped.Append("&lt;", marked);
        break;
      case '>':
        escaped.Append("&gt;", marked);
        break;
      case '"':
        escaped.Append("&#34;", marked);
        break;
      case '\'':
        escaped.Append("&#39;", marked);
        break;
      default:
        escaped.AppendPart(text, i, i + 1);
    }
  }
  return escaped;
}

}  // namespace winnow::jinja
