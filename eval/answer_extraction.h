// Finding the answer in what a model wrote. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace winnow {

// The content of the last \boxed{...} that is closed, braces matched (\{ and \} are no braces); none if there is none.
std::optional<std::string> LastBoxed(std::string_view text);

// A number as GSM8K writes them, in one form: "$1,234.50." and "1234.5" are the same. The one after the last "####", or
// the last one in a closed \boxed{}, or the last one of the text. None if there is none.
std::optional<std::string> FinalNumber(std::string_view text);

// The choice among the first num_choices letters from A on (at most 26): in the last \boxed{}, or after the last
// "answer" (": B", " is (B)"), or the last letter in brackets, or a text that is nothing but the letter or begins with
// it and a full stop, bracket or colon. None if there is none.
std::optional<char> LetterChoice(std::string_view text, int64_t num_choices);

// What follows the last "answer is" (or, without it, the last "answer:"), up to the line's end, without its full stop;
// none if there is no such phrase. For BBH.
std::optional<std::string> StatedAnswer(std::string_view text);

// LaTeX in one form for comparison: spaces, \left, \right, \!, $, degree and percent signs, units in \text{} left out;
// \dfrac, \tfrac and a/b become \frac{a}{b}; leading zeros of whole numbers go, and what stands before "=".
std::string NormaliseMath(std::string_view text);

}  // namespace winnow
