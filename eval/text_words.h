// Pieces of texts that scores and extractions are made of. Texts are UTF-8. Letters of ASCII, Latin-1, Greek and
// Cyrillic have case; ASCII white space alone is white space. Pure functions; any thread.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace winnow {

// Without white space at both ends.
std::string_view Trim(std::string_view text);
std::string Lower(std::string_view text);
// Between white space; none of them is empty.
std::vector<std::string_view> Words(std::string_view text);
// Up to the first line end.
std::string_view FirstLine(std::string_view text);
// Code points; an ill-formed byte sequence is one.
std::vector<std::string_view> Characters(std::string_view text);

}  // namespace winnow
