// Questions among documents that do not answer them: RULER's qa.py.
#include <algorithm>

#include "base/check.h"
#include "eval/ruler_makers.h"

namespace winnow {
namespace {

constexpr std::string_view kInstruction =
    "Answer the question based on the given documents. Only give me the answer and do not output any other words.";

enum Part : uint32_t { kDocumentPart, kOrderPart };

// The indices of a file's documents, the question's own and its distractors left out, in random order.
std::vector<int64_t> Others(const QaDocuments& qa, const QaDocuments::Question& question, RandomStream& random) {
  std::vector<uint8_t> is_own(qa.documents.size(), 0);
  for (int64_t i : question.documents) is_own[size_t(i)] = 1;
  for (int64_t i : question.distractors) is_own[size_t(i)] = 1;
  std::vector<int64_t> others;
  for (size_t i = 0; i < is_own.size(); ++i) {
    if (!is_own[i]) others.push_back(int64_t(i));
  }
  random.Shuffle(&others);
  return others;
}

}  // namespace

RulerSample MakeQa(const RulerInput& input, uint32_t task, uint32_t sample, int64_t units) {
  WINNOW_CHECK(input.qa != nullptr);
  const QaDocuments& qa = *input.qa;
  // The file's own order; more samples than questions begin again, with other documents around them.
  const QaDocuments::Question& question = qa.questions[sample % qa.questions.size()];
  RandomStream random(input.seed, task, sample, kDocumentPart), order(input.seed, task, sample, kOrderPart);
  std::vector<int64_t> more = question.distractors;
  random.Shuffle(&more);
  const std::vector<int64_t> others = Others(qa, question, random);
  more.insert(more.end(), others.begin(), others.end());
  more.resize(size_t(std::min<int64_t>(units, int64_t(more.size()))));
  std::vector<int64_t> shown = question.documents;
  shown.insert(shown.end(), more.begin(), more.end());
  order.Shuffle(&shown);

  RulerSample made;
  made.context = std::string(kInstruction) + "\n\nThe following are given documents.\n\n";
  for (size_t i = 0; i < shown.size(); ++i) {
    made.context += "Document " + std::to_string(i + 1) + ":\n" + qa.documents[size_t(shown[i])] + "\n\n";
  }
  made.question = std::string(kInstruction) + "\n\nQuestion: " + question.text;
  made.answer_prefix = " Answer:";
  made.answers = question.answers;
  return made;
}

}  // namespace winnow
