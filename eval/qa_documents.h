// Questions with the paragraphs that answer them, among others that do not: the user's SQuAD or HotpotQA file, for
// RULER's qa_1 and qa_2. Immutable once read; any thread.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

struct QaDocuments {
  struct Question {
    std::string text;
    std::vector<std::string> answers;  // different ones; one suffices
    std::vector<int64_t> documents;    // that answer it, indices
    std::vector<int64_t> distractors;  // of the same article, or chosen to mislead
  };
  std::vector<std::string> documents;  // different ones, sorted
  std::vector<Question> questions;     // that have an answer
};

// SQuAD 1.1 or 2.0: {"data": [{"paragraphs": [{"context", "qas": [{"question", "answers": [{"text"}]}]}]}]}; questions
// without an answer are left out. `where` names the file in messages. InvalidArgument.
Result<QaDocuments> ParseSquad(const std::string& where, const std::string& json);

// HotpotQA, distractor setting: [{"question", "answer", "context": [[title, [sentence, ...]], ...]}]. InvalidArgument.
Result<QaDocuments> ParseHotpotQa(const std::string& where, const std::string& json);

}  // namespace winnow
