#include "eval/qa_data.h"

#include <algorithm>
#include <array>
#include <functional>
#include <nlohmann/json.hpp>

#include "eval/answer_extraction.h"
#include "eval/longbench_tasks.h"
#include "eval/random_stream.h"
#include "eval/text_words.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 6> kFormatNames = {"auto", "gsm8k", "aime", "gpqa", "bbh", "longbench"};
constexpr uint32_t kChoiceStream = 101;  // RULER's tasks have 0 to 13, needles 100
constexpr int kMaxDepth = 8;             // a line of a million brackets must not become a tree
constexpr int64_t kShortTokens = 512, kReasoningTokens = 8192;

constexpr std::string_view kBoxedRequest =
    "\n\nPlease reason step by step, and put your final answer within \\boxed{}.\n";

// One line, read.
class Line {
 public:
  static Result<Line> Parse(const std::string& text) {
    bool too_deep = false;
    const auto keep = [&](int depth, Json::parse_event_t, Json&) {
      too_deep |= depth > kMaxDepth;
      return depth <= kMaxDepth;
    };
    Line line;
    line.json_ = Json::parse(text, keep, /*allow_exceptions=*/false);
    if (line.json_.is_discarded()) return InvalidArgument("not valid JSON");
    if (too_deep) return InvalidArgument("nested more than " + std::to_string(kMaxDepth) + " levels deep");
    if (!line.json_.is_object()) return InvalidArgument("expected a JSON object");
    return line;
  }

  bool Has(const char* name) const { return json_.contains(name); }
  const Json* Find(const char* name) const { return Has(name) ? &json_.at(name) : nullptr; }

  // The first of these fields that is there: a text that is not empty, or a number as text.
  Result<std::string> Text(std::initializer_list<const char*> names) const {
    for (const char* name : names) {
      const Json* value = Find(name);
      if (value == nullptr) continue;
      if (value->is_number_integer()) return value->dump();
      if (value->is_string() && !Trim(value->get_ref<const std::string&>()).empty()) return value->get<std::string>();
      return InvalidArgument("field \"" + std::string(name) + "\": expected text, found " +
                             (value->is_string() ? "none in it" : value->type_name()));
    }
    return InvalidArgument("expected the field \"" + std::string(*names.begin()) + "\"");
  }

  // An array of texts.
  Result<std::vector<std::string>> Texts(const char* name) const {
    const Json* value = Find(name);
    const auto is_text = [](const Json& item) { return item.is_string(); };
    if (value == nullptr || !value->is_array() || !std::all_of(value->begin(), value->end(), is_text)) {
      return InvalidArgument("field \"" + std::string(name) + "\": expected an array of texts");
    }
    return value->get<std::vector<std::string>>();
  }

 private:
  Json json_;
};

QaProblem NewProblem(std::string task, QaMetric metric, int64_t max_new_tokens) {
  QaProblem problem;
  problem.task = std::move(task);
  problem.metric = metric;
  problem.max_new_tokens = max_new_tokens;
  return problem;
}

Result<QaProblem> Gsm8k(const Line& line) {
  QaProblem problem = NewProblem("gsm8k", QaMetric::kNumber, kShortTokens);
  WINNOW_ASSIGN_OR_RETURN(const std::string question, line.Text({"question"}));
  WINNOW_ASSIGN_OR_RETURN(const std::string answer, line.Text({"answer"}));
  if (!FinalNumber(answer)) return InvalidArgument("field \"answer\": expected a number at its end, found none");
  problem.question = "Question: " + question + "\nAnswer:";
  problem.references = {answer};
  return problem;
}

Result<QaProblem> Aime(const Line& line) {
  QaProblem problem = NewProblem("aime", QaMetric::kMath, kReasoningTokens);
  WINNOW_ASSIGN_OR_RETURN(const std::string question, line.Text({"problem", "question"}));
  WINNOW_ASSIGN_OR_RETURN(const std::string answer, line.Text({"answer"}));
  problem.question = question + std::string(kBoxedRequest);
  problem.references = {answer};
  return problem;
}

std::string AskChoice(const std::string& question, const std::vector<std::string>& choices) {
  std::string text = question + "\n";
  for (size_t i = 0; i < choices.size(); ++i) text += "\n(" + std::string(1, char('A' + i)) + ") " + choices[i];
  return text + "\n\nPlease reason step by step, and put the letter of your choice within \\boxed{}.\n";
}

Result<QaProblem> Gpqa(const Line& line, uint64_t seed, int64_t number) {
  QaProblem problem = NewProblem("gpqa", QaMetric::kLetter, kReasoningTokens);
  WINNOW_ASSIGN_OR_RETURN(const std::string question, line.Text({"Question", "question", "problem"}));
  std::vector<std::string> choices;
  if (line.Has("Correct Answer")) {
    std::vector<std::pair<std::string, bool>> shuffled;
    for (const char* name : {"Correct Answer", "Incorrect Answer 1", "Incorrect Answer 2", "Incorrect Answer 3"}) {
      WINNOW_ASSIGN_OR_RETURN(std::string choice, line.Text({name}));
      shuffled.emplace_back(std::move(choice), shuffled.empty());
    }
    RandomStream(seed, kChoiceStream, uint32_t(number), 0).Shuffle(&shuffled);
    for (size_t i = 0; i < shuffled.size(); ++i) {
      if (shuffled[i].second) problem.references = {std::string(1, char('A' + i))};
      choices.push_back(shuffled[i].first);
    }
    problem.question = AskChoice(question, choices);
    return problem;
  }
  WINNOW_ASSIGN_OR_RETURN(std::string answer, line.Text({"answer"}));
  answer = Trim(answer);
  if (line.Has("choices")) {
    WINNOW_ASSIGN_OR_RETURN(choices, line.Texts("choices"));
    if (choices.size() < 2 || choices.size() > 26) {
      return InvalidArgument("field \"choices\": expected 2 to 26 of them, found " + std::to_string(choices.size()));
    }
    problem.num_choices = int64_t(choices.size());
    const auto same = std::find(choices.begin(), choices.end(), answer);
    const bool is_number = answer.size() == 1 && answer[0] >= '0' && answer[0] <= '9';
    if (same != choices.end()) answer = std::string(1, char('A' + (same - choices.begin())));
    if (same == choices.end() && is_number) answer = std::string(1, char('A' + (answer[0] - '0')));
  }
  const auto letter = LetterChoice(answer, problem.num_choices);
  if (!letter) {
    return InvalidArgument("field \"answer\": expected one of " + std::to_string(problem.num_choices) +
                           " choices, found none");
  }
  problem.references = {std::string(1, *letter)};
  problem.question = AskChoice(question, choices);
  return problem;
}

Result<QaProblem> Bbh(const Line& line) {
  QaProblem problem = NewProblem("bbh", QaMetric::kStated, kShortTokens);
  WINNOW_ASSIGN_OR_RETURN(const std::string input, line.Text({"input"}));
  WINNOW_ASSIGN_OR_RETURN(const std::string target, line.Text({"target"}));
  problem.question = "Q: " + input + "\nA: Let's think step by step.";
  problem.references = {target};
  return problem;
}

Result<QaProblem> LongBench(const Line& line) {
  WINNOW_ASSIGN_OR_RETURN(const std::string dataset, line.Text({"dataset"}));
  WINNOW_ASSIGN_OR_RETURN(const LongBenchTask* task, FindLongBenchTask(dataset));
  QaProblem problem = NewProblem(dataset, task->metric, task->max_new_tokens);
  WINNOW_ASSIGN_OR_RETURN(const std::string context, line.Text({"context"}));
  // Summaries have no question.
  const auto input = line.Text({"input"});
  WINNOW_ASSIGN_OR_RETURN(problem.references, line.Texts("answers"));
  if (problem.references.empty()) return InvalidArgument("field \"answers\": expected one or more, found none");
  if (task->metric == QaMetric::kFirstLineClassName) {
    WINNOW_ASSIGN_OR_RETURN(problem.classes, line.Texts("all_classes"));
  }
  // Code goes on where it ends.
  problem.context = std::string(task->before) + context + (task->metric == QaMetric::kEdit ? "" : "\n\n");
  problem.question =
      std::string(task->instruction) + (input.ok() ? std::string(task->ask) + *input : "") + std::string(task->cue);
  return problem;
}

QaFormat Guess(const Line& line) {
  if (line.Has("dataset") && line.Has("context")) return QaFormat::kLongBench;
  if (line.Has("input") && line.Has("target")) return QaFormat::kBbh;
  if (line.Has("Correct Answer") || line.Has("choices")) return QaFormat::kGpqa;
  const auto answer = line.Text({"answer"});
  if (answer.ok() && answer->find("####") != std::string::npos) return QaFormat::kGsm8k;
  if (answer.ok() && line.Has("problem")) {
    const bool is_letter = answer->size() == 1 && (*answer)[0] >= 'A' && (*answer)[0] <= 'Z';
    return is_letter ? QaFormat::kGpqa : QaFormat::kAime;
  }
  return QaFormat::kAuto;
}

Result<QaProblem> ToProblem(const Line& line, QaFormat format, uint64_t seed, int64_t number) {
  switch (format) {
    case QaFormat::kGsm8k:
      return Gsm8k(line);
    case QaFormat::kAime:
      return Aime(line);
    case QaFormat::kGpqa:
      return Gpqa(line, seed, number);
    case QaFormat::kBbh:
      return Bbh(line);
    case QaFormat::kLongBench:
      return LongBench(line);
    case QaFormat::kAuto:
      break;
  }
  return InvalidArgument("the fields are those of no known format: give --format gsm8k, aime, gpqa, bbh or longbench");
}

// Calls take(line, number) for every line that is not blank until it says false.
Status ForEachLine(const std::string& path, const std::string& content,
                   const std::function<Result<bool>(const Line&, int64_t number)>& take) {
  int64_t number = 0;
  for (size_t begin = 0; begin < content.size();) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string text = content.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (Trim(text).empty()) continue;
    const auto line = Line::Parse(text);
    const auto more = line.ok() ? take(*line, number) : Result<bool>(line.status());
    if (!more.ok()) {
      return InvalidArgument(path + " line " + std::to_string(number) + ": " + more.status().message());
    }
    if (!*more) break;
  }
  return OkStatus();
}

}  // namespace

std::string_view Name(QaFormat format) {
  return kFormatNames[size_t(format)];
}

Result<QaFormat> ParseQaFormat(std::string_view name) {
  for (size_t i = 0; i < kFormatNames.size(); ++i) {
    if (kFormatNames[i] == name) return QaFormat(i);
  }
  return InvalidArgument("--format: expected auto, gsm8k, aime, gpqa, bbh or longbench, found \"" + std::string(name) +
                         "\"");
}

Result<std::vector<QaProblem>> ReadQaProblems(const std::string& path, const std::string& content, QaFormat format,
                                              uint64_t seed) {
  std::vector<QaProblem> problems;
  WINNOW_RETURN_IF_ERROR(ForEachLine(path, content, [&](const Line& line, int64_t number) -> Result<bool> {
    if (format == QaFormat::kAuto) format = Guess(line);
    WINNOW_ASSIGN_OR_RETURN(QaProblem problem, ToProblem(line, format, seed, number));
    problem.where = path + " line " + std::to_string(number);
    problems.push_back(std::move(problem));
    return true;
  }));
  if (problems.empty()) return InvalidArgument(path + ": expected a problem a line, found none");
  return problems;
}

Result<std::string> ReadQaExamples(const std::string& path, const std::string& content, QaFormat format,
                                   int64_t shots) {
  std::string examples;
  int64_t found = 0;
  WINNOW_RETURN_IF_ERROR(ForEachLine(path, content, [&](const Line& line, int64_t) -> Result<bool> {
    if (format == QaFormat::kAuto) format = Guess(line);
    if (format == QaFormat::kGsm8k) {
      WINNOW_ASSIGN_OR_RETURN(const QaProblem problem, Gsm8k(line));
      examples += problem.question + " " + problem.references.front() + "\n\n";
    } else if (format == QaFormat::kBbh) {
      WINNOW_ASSIGN_OR_RETURN(const QaProblem problem, Bbh(line));
      const auto solution = line.Text({"solution"});
      examples += problem.question + " " +
                  (solution.ok() ? *solution : "So the answer is " + problem.references.front() + ".") + "\n\n";
    } else {
      return InvalidArgument("examples are for the formats gsm8k and bbh");
    }
    return ++found < shots;
  }));
  if (found == shots) return examples;
  return InvalidArgument(path + ": expected " + std::to_string(shots) + " examples, found " + std::to_string(found));
}

}  // namespace winnow
