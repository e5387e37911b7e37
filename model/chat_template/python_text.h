// What Python's str does, on UTF-8 whose bytes keep their marks. A character is a code point. Texts must be valid
// UTF-8. Letter case is that of ASCII letters: others stay as they are. Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "model/chat_template/marked_text.h"

namespace winnow::jinja {

bool IsUtf8(std::string_view text);
std::vector<TextSpan> Characters(std::string_view text);
size_t CountCharacters(std::string_view text);
void AppendCodePoint(uint32_t code_point, std::string* text);  // below 0x110000
// The code point that begins at `offset`.
uint32_t CodePointAt(std::string_view text, size_t offset);

// The bytes of the whitespace character (str.isspace) at `offset`, or that ends before `end`. 0: none there.
size_t SpaceAt(std::string_view text, size_t offset);
size_t SpaceBefore(std::string_view text, size_t end);

// The first place of `wanted` at or after `begin`, in linear time; npos.
size_t FindText(std::string_view text, std::string_view wanted, size_t begin = 0);

struct Sides {
  bool left = true, right = true;
};
// characters: those to take away; none: whitespace.
MarkedText Strip(const MarkedText& text, std::optional<std::string_view> characters, Sides sides);
// The separator may be null: runs of whitespace. max_splits < 0: no limit. InvalidArgument for an empty separator and
// for more than kMaxValueSize parts.
Result<std::vector<MarkedText>> Split(const MarkedText& text, const MarkedText* separator, int64_t max_splits);
Result<std::vector<MarkedText>> SplitFromRight(const MarkedText& text, const MarkedText* separator, int64_t max_splits);
std::vector<MarkedText> SplitLines(const MarkedText& text);
// max_count < 0: all.
MarkedText Replace(const MarkedText& text, std::string_view old, const MarkedText& replacement, int64_t max_count);
MarkedText Repeat(const MarkedText& text, int64_t count);
MarkedText Join(const MarkedText& separator, const std::vector<MarkedText>& parts);

MarkedText Lower(const MarkedText& text);
MarkedText Upper(const MarkedText& text);
MarkedText Title(const MarkedText& text);  // the first letter of each word
// As Jinja's filter title: words begin after white space and - ( { [ < only, so that "it's" stays one.
MarkedText TitleWords(const MarkedText& text);
MarkedText Capitalize(const MarkedText& text);

// &, <, >, " and ' as HTML.
MarkedText EscapeHtml(const MarkedText& text);

}  // namespace winnow::jinja
