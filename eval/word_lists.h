// English words for generated tasks, written for winnow: lower case, no word twice over all lists. Any thread.
#pragma once

#include <span>
#include <string_view>

namespace winnow {

std::span<const std::string_view> Adjectives();
std::span<const std::string_view> Nouns();
std::span<const std::string_view> Verbs();

}  // namespace winnow
