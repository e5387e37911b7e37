// GPT-2's spelling of bytes as printable characters, in which byte-level vocabularies are written: "Ġthe" is " the".
// Pure functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace winnow {

// The character (as UTF-8) that stands for `byte`.
std::string ByteLevelCharacter(uint8_t byte);

// The bytes a token is spelled for; nothing when `spelling` holds a character that stands for no byte.
std::optional<std::string> ByteLevelToBytes(std::string_view spelling);

}  // namespace winnow
