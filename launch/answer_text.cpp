#include "launch/answer_text.h"

#include "model/utf8_stream.h"

namespace winnow {

std::string AnswerText(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Utf8Stream stream;
  std::string text;
  for (int32_t id : ids) {
    if (!tokenizer.IsControl(id)) text += stream.Push(tokenizer.TokenBytes(id));
  }
  return text + stream.Finish();
}

}  // namespace winnow
