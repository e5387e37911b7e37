#include "eval/qa_problem.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "eval/answer_extraction.h"
#include "eval/text_scores.h"
#include "eval/text_words.h"

namespace winnow {
namespace {

constexpr std::array<std::string_view, 11> kMetricNames = {"number",
                                                           "math",
                                                           "letter",
                                                           "stated",
                                                           "f1",
                                                           "f1_first_line",
                                                           "rougeL",
                                                           "rougeL_first_line",
                                                           "class_first_line",
                                                           "number_share",
                                                           "edit_similarity"};
constexpr std::array<std::string_view, 5> kVerdictNames = {"right", "wrong", "looping", "truncated", "none"};

constexpr size_t kMaxPeriod = 128, kMinRepeats = 4, kMinTokens = 32;

// A base model that has answered goes on with the next question of its own.
std::string_view WithoutNextQuestion(std::string_view answer) {
  for (std::string_view next : {"\nQuestion:", "\nQ:"}) answer = answer.substr(0, answer.find(next));
  return answer;
}

// Without brackets around it, in lower case: "(B)" and "b" are the same.
std::string PlainAnswer(std::string_view text) {
  text = Trim(text);
  if (text.size() > 1 && text.front() == '(' && text.back() == ')') text = text.substr(1, text.size() - 2);
  if (text.ends_with('.')) text.remove_suffix(1);
  return Lower(text);
}

std::optional<std::string> Extract(const QaProblem& problem, std::string_view answer) {
  switch (problem.metric) {
    case QaMetric::kNumber:
      return FinalNumber(WithoutNextQuestion(answer));
    case QaMetric::kMath: {
      auto boxed = LastBoxed(answer);
      if (boxed) boxed = NormaliseMath(*boxed);
      return boxed;
    }
    case QaMetric::kLetter: {
      const auto letter = LetterChoice(answer, problem.num_choices);
      return letter ? std::optional(std::string(1, *letter)) : std::nullopt;
    }
    case QaMetric::kStated:
      return StatedAnswer(WithoutNextQuestion(answer));
    case QaMetric::kFirstLineF1:
    case QaMetric::kFirstLineRougeL:
    case QaMetric::kFirstLineClassName: {
      const size_t begin = answer.find_first_not_of('\n');
      if (begin == std::string_view::npos) return std::nullopt;
      return std::string(FirstLine(answer.substr(begin)));
    }
    case QaMetric::kEdit: {
      const std::string_view line = FirstCodeLine(answer);
      return line.empty() ? std::nullopt : std::optional(std::string(line));
    }
    case QaMetric::kTokenF1:
    case QaMetric::kRougeL:
    case QaMetric::kNumberShare:
      break;
  }
  return Trim(answer).empty() ? std::nullopt : std::optional(std::string(answer));
}

double Score(const QaProblem& problem, const std::string& found, const std::string& reference) {
  switch (problem.metric) {
    case QaMetric::kNumber:
      return found == FinalNumber(reference);
    case QaMetric::kMath:
      return found == NormaliseMath(reference);
    case QaMetric::kLetter:
      return found == reference;
    case QaMetric::kStated:
      return PlainAnswer(found) == PlainAnswer(reference);
    case QaMetric::kTokenF1:
    case QaMetric::kFirstLineF1:
      return TokenF1(found, reference);
    case QaMetric::kRougeL:
    case QaMetric::kFirstLineRougeL:
      return RougeL(found, reference);
    case QaMetric::kFirstLineClassName:
      return Classification(found, reference, problem.classes);
    case QaMetric::kNumberShare:
      return NumberShare(found, reference);
    case QaMetric::kEdit:
      return EditSimilarity(found, reference);
  }
  return 0;
}

bool IsAllOrNothing(QaMetric metric) {
  return metric <= QaMetric::kStated;
}

}  // namespace

std::string_view Name(QaMetric metric) {
  return kMetricNames[size_t(metric)];
}

std::string_view Name(Verdict verdict) {
  return kVerdictNames[size_t(verdict)];
}

bool IsLooping(const std::vector<int32_t>& ids) {
  for (size_t period = 1; period <= kMaxPeriod; ++period) {
    const size_t need = std::max(kMinTokens, kMinRepeats * period);
    if (need > ids.size()) return false;
    // Equal to what stood a period before, all the way back.
    if (std::equal(ids.end() - int64_t(need - period), ids.end(), ids.end() - int64_t(need))) return true;
  }
  return false;
}

Judgement Judge(const QaProblem& problem, std::string_view answer, const std::vector<int32_t>& token_ids, bool is_cut) {
  WINNOW_CHECK(!problem.references.empty());
  Judgement judgement;
  const bool must_finish = problem.metric == QaMetric::kMath || problem.metric == QaMetric::kLetter;
  judgement.extracted = Extract(problem, answer);
  const bool counts = judgement.extracted && !(must_finish && is_cut);
  for (const std::string& reference : problem.references) {
    if (counts) judgement.score = std::max(judgement.score, Score(problem, *judgement.extracted, reference));
  }
  if (counts && judgement.score >= (IsAllOrNothing(problem.metric) ? 1 : 0.5)) {
    judgement.verdict = Verdict::kRight;
  } else if (is_cut && IsLooping(token_ids)) {
    judgement.verdict = Verdict::kLooping;
  } else if (counts) {
    judgement.verdict = Verdict::kWrong;
  } else {
    judgement.verdict = is_cut ? Verdict::kTruncated : Verdict::kNone;
  }
  return judgement;
}

}  // namespace winnow
