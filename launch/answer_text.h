// Generated tokens as text. Any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/tokenizer.h"

namespace winnow {

// Without the stop token and other control tokens; bytes that are no UTF-8 become U+FFFD.
std::string AnswerText(const Tokenizer& tokenizer, const std::vector<int32_t>& ids);

}  // namespace winnow
