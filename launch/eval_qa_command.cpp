#include "launch/eval_qa_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <cmath>
#include <span>

#include "base/printable_text.h"
#include "eval/qa_data.h"
#include "eval/qa_problem.h"
#include "eval/sample_scores.h"
#include "launch/console.h"
#include "launch/eval_prompt_text.h"
#include "launch/eval_task_rows.h"
#include "launch/eval_task_run.h"
#include "launch/text_file.h"

namespace winnow {
namespace {

Status CheckOptions(const EvalQaOptions& options) {
  WINNOW_RETURN_IF_ERROR(ParseQaFormat(options.format).status());
  WINNOW_RETURN_IF_ERROR(CheckSamplingParams(options.sampling));
  const auto at_least = [](const char* flag, int64_t least, int64_t value) {
    return value >= least ? OkStatus()
                          : InvalidArgument(fmt::format("{}: expected {} or more, found {}", flag, least, value));
  };
  WINNOW_RETURN_IF_ERROR(at_least("--samples", 1, options.samples));
  WINNOW_RETURN_IF_ERROR(at_least("--max-problems", 1, options.max_problems.value_or(1)));
  WINNOW_RETURN_IF_ERROR(at_least("--shots", 0, options.shots));
  if (options.samples > 1 && options.sampling.temperature == 0) {
    return InvalidArgument("--samples " + std::to_string(options.samples) +
                           " with --temperature 0 would give every answer as many times: give a temperature");
  }
  if ((options.shots > 0) != options.shots_path.has_value()) {
    return InvalidArgument("--shots and --shots-data: expected both or none");
  }
  return OkStatus();
}

// The prompt of a problem. One that is too long loses the middle of its context, as in LongBench.
Result<EvalPrompt> ToPrompt(const EvalQaOptions& options, const Tokenizer& tokenizer, int64_t max_context,
                            const QaProblem& problem) {
  const bool has_context = !problem.context.empty();
  std::vector<std::string> parts = {problem.context, problem.question};
  if (!has_context) parts.erase(parts.begin());
  WINNOW_ASSIGN_OR_RETURN(EvalPrompt prompt, EncodeParts(tokenizer, parts, 1));
  const int64_t asked = options.max_new_tokens.value_or(problem.max_new_tokens);
  int64_t room = max_context - int64_t(prompt.tokens.size());
  if (has_context && room < asked) {
    const int64_t too_many = std::min(asked - room, std::max<int64_t>(prompt.compressed_tokens - 2, 0));
    const int64_t head = (prompt.compressed_tokens - too_many) / 2;
    prompt.tokens.erase(prompt.tokens.begin() + head, prompt.tokens.begin() + head + too_many);
    prompt.compressed_tokens -= too_many;
    room += too_many;
  }
  if (room < 1) {
    return InvalidArgument(problem.where + ": the prompt has " + std::to_string(prompt.tokens.size()) +
                           " tokens, the model's context " + std::to_string(max_context));
  }
  if (options.query_aware) prompt.compressed_tokens = int64_t(prompt.tokens.size());
  prompt.where = problem.where;
  prompt.max_new_tokens = std::min(asked, room);
  prompt.sampling = options.sampling;
  prompt.sampling.seed = options.seed;
  return prompt;
}

// Prompts problem by problem, samples within.
Result<std::vector<EvalPrompt>> Prepare(const EvalQaOptions& options, const Tokenizer& tokenizer,
                                        const ModelConfig& config, std::vector<QaProblem>* problems) {
  WINNOW_ASSIGN_OR_RETURN(const QaFormat format, ParseQaFormat(options.format));
  WINNOW_ASSIGN_OR_RETURN(const std::string content, ReadTextFile(options.data_path, "problem file"));
  WINNOW_ASSIGN_OR_RETURN(*problems, ReadQaProblems(options.data_path, content, format, options.seed));
  if (options.max_problems && *options.max_problems < int64_t(problems->size())) {
    problems->resize(size_t(*options.max_problems));
  }
  // Tasks in the order of their first problem, each in one piece.
  std::vector<std::string> order;
  for (const QaProblem& problem : *problems) {
    if (std::find(order.begin(), order.end(), problem.task) == order.end()) order.push_back(problem.task);
  }
  const auto place = [&](const QaProblem& problem) { return std::find(order.begin(), order.end(), problem.task); };
  std::stable_sort(problems->begin(), problems->end(),
                   [&](const QaProblem& a, const QaProblem& b) { return place(a) < place(b); });
  std::string examples;
  if (options.shots_path) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*options.shots_path, "example file"));
    WINNOW_ASSIGN_OR_RETURN(examples, ReadQaExamples(*options.shots_path, text, format, options.shots));
  }
  std::vector<EvalPrompt> prompts;
  int64_t shortened = 0;
  for (QaProblem& problem : *problems) {
    problem.context.insert(0, examples);
    WINNOW_ASSIGN_OR_RETURN(EvalPrompt prompt, ToPrompt(options, tokenizer, config.max_context, problem));
    shortened += prompt.max_new_tokens < options.max_new_tokens.value_or(problem.max_new_tokens);
    for (int64_t i = 0; i < options.samples; ++i) {
      prompt.choice_index = i;
      prompts.push_back(prompt);
    }
  }
  if (shortened > 0) {
    Note(fmt::format("{} of {} problems: answers end where the model's context of {} tokens is full", shortened,
                     problems->size(), config.max_context));
  }
  return prompts;
}

// Of some problems under one case.
struct QaCounts {
  std::array<int64_t, 5> verdicts{};
  double tokens = 0;             // of an answer, mean
  double sampling_variance = 0;  // of the mean over problems, by the draw of the answers alone
};

// Problems [begin, end) of all, with the judgement of every answer.
QaCounts Count(std::span<const Judgement> judgements, std::span<const EvalAnswer> answers, int64_t samples) {
  QaCounts counts;
  for (size_t i = 0; i < judgements.size(); ++i) {
    ++counts.verdicts[size_t(judgements[i].verdict)];
    counts.tokens += double(answers[i].token_ids.size()) / double(answers.size());
  }
  const double problems = double(judgements.size()) / double(samples);
  for (size_t begin = 0; samples > 1 && begin < judgements.size(); begin += size_t(samples)) {
    double mean = 0, squares = 0;
    for (size_t i = begin; i < begin + size_t(samples); ++i) mean += judgements[i].score / double(samples);
    for (size_t i = begin; i < begin + size_t(samples); ++i) {
      squares += (judgements[i].score - mean) * (judgements[i].score - mean);
    }
    counts.sampling_variance += squares / double(samples - 1) / double(samples) / (problems * problems);
  }
  return counts;
}

std::vector<Judgement> JudgeAll(const EvalQaOptions& options, const std::vector<QaProblem>& problems,
                                const std::vector<EvalAnswer>& answers) {
  std::vector<Judgement> judgements;
  for (size_t i = 0; i < answers.size(); ++i) {
    judgements.push_back(Judge(problems[i / size_t(options.samples)], answers[i].text, answers[i].token_ids,
                               answers[i].finish_reason == FinishReason::kLength));
  }
  return judgements;
}

// Mean scores of problems.
std::vector<double> ProblemScores(std::span<const Judgement> judgements, int64_t samples) {
  std::vector<double> scores(judgements.size() / size_t(samples), 0.0);
  for (size_t i = 0; i < judgements.size(); ++i) {
    scores[i / size_t(samples)] += judgements[i].score / double(samples);
  }
  return scores;
}

struct RowSpan {
  std::string task, metric;
  size_t begin, end;  // of problems
};

std::vector<RowSpan> RowSpans(const std::vector<QaProblem>& problems) {
  std::vector<RowSpan> spans;
  for (size_t i = 0; i < problems.size(); ++i) {
    if (spans.empty() || spans.back().task != problems[i].task) {
      spans.push_back({problems[i].task, std::string(Name(problems[i].metric)), i, i});
    }
    spans.back().end = i + 1;
  }
  if (spans.size() > 1) spans.insert(spans.begin(), {"all", "mean", 0, problems.size()});
  return spans;
}

EvalTask::Outcome Summarise(const EvalQaOptions& options, const std::vector<QaProblem>& problems,
                            const std::vector<CaseAnswers>& cases) {
  EvalTask::Outcome outcome;
  outcome.table = fmt::format("{:<19} {:>7} {:<20} {:>8} {:>6} {:>5} {:>8} {:>6} {:>6} {:>6} {:>5} {:>5} {:>7} {:>6}\n",
                              "policy", "budget", "task", "problems", "score", "s.e.", "retained", "right", "wrong",
                              "loops", "cut", "none", "tokens", "kept");
  const int64_t samples = options.samples;
  const std::vector<Judgement> full = JudgeAll(options, problems, cases.front().answers);
  for (const CaseAnswers& one : cases) {
    const std::vector<Judgement> judgements = JudgeAll(options, problems, one.answers);
    for (const RowSpan& span : RowSpans(problems)) {
      const auto part = [&](const auto& all) {
        return std::span(all).subspan(span.begin * size_t(samples), (span.end - span.begin) * size_t(samples));
      };
      if (const auto reason = ReasonToRefuse(one.asked, part(one.answers))) {
        outcome.refused.push_back(RefusalJson(one.asked, "task " + span.task, *reason));
        continue;
      }
      const SampleSummary summary =
          SummariseSamples(ProblemScores(part(judgements), samples), ProblemScores(part(full), samples), options.seed);
      const QaCounts counts = Count(part(judgements), part(one.answers), samples);
      ResultJson row = CaseJson(one);
      row.update({{"task", span.task},
                  {"metric", span.metric},
                  {"problems", summary.samples},
                  {"samples_per_problem", samples},
                  {"score", summary.score},
                  {"standard_error", summary.standard_error},
                  {"sampling_error",
                   samples > 1 ? ResultJson(100 * std::sqrt(counts.sampling_variance)) : ResultJson(nullptr)},
                  {"full_score", summary.full_score},
                  {"retained", summary.retained ? ResultJson(*summary.retained) : ResultJson(nullptr)},
                  {"ci95", {summary.ci95.first, summary.ci95.second}}});
      for (size_t i = 0; i < counts.verdicts.size(); ++i) row[std::string(Name(Verdict(i)))] = counts.verdicts[i];
      row["tokens_per_answer"] = counts.tokens;
      row.update(CacheJson(part(one.answers)));
      outcome.rows.push_back(std::move(row));
      outcome.table += fmt::format(
          "{:<19} {:>7} {:<20} {:>8} {:>6.1f} {:>5.1f} {:>8} {:>6} {:>6} {:>6} {:>5} {:>5} {:>7.1f} {:>6.4f}\n",
          one.asked.policy, one.asked.BudgetText(), Printable(span.task), summary.samples, summary.score,
          summary.standard_error, summary.retained ? fmt::format("{:.3f}", *summary.retained) : "-", counts.verdicts[0],
          counts.verdicts[1], counts.verdicts[2], counts.verdicts[3], counts.verdicts[4], counts.tokens,
          KeptRatio(part(one.answers)));
    }
  }
  outcome.settings = {{"data", options.data_path},       {"format", options.format},
                      {"problems", problems.size()},     {"samples", samples},
                      {"shots", options.shots},          {"temperature", options.sampling.temperature},
                      {"top_k", options.sampling.top_k}, {"top_p", options.sampling.top_p},
                      {"min_p", options.sampling.min_p}, {"template", "base"}};
  return outcome;
}

}  // namespace

void AddEvalQaFlags(CLI::App& command, EvalQaOptions* o) {
  AddEvalTaskFlags(command, o);
  command.add_option("--data", o->data_path, "problems, one JSON object a line")->required();
  command.add_option("--format", o->format, "gsm8k, aime, gpqa, bbh, longbench or auto")->capture_default_str();
  command.add_option("--samples", o->samples, "answers to each problem, for pass@1")->capture_default_str();
  command.add_option("--max-problems", o->max_problems, "only the first ones");
  command.add_option("--shots", o->shots, "solved examples before each problem (gsm8k, bbh)")->capture_default_str();
  command.add_option("--shots-data", o->shots_path, "where the examples are taken from, the first ones");
  command.add_flag("--query-aware", o->query_aware, "compress the question together with examples or documents");
  command.add_option("--temperature", o->sampling.temperature, "0: greedy")->capture_default_str();
  command.add_option("--top-k", o->sampling.top_k, "0: no limit")->capture_default_str();
  command.add_option("--top-p", o->sampling.top_p, "probability mass to sample from")->capture_default_str();
  command.add_option("--min-p", o->sampling.min_p, "share of the highest probability a token needs")
      ->capture_default_str();
  RefuseOddIntegers(command);
}

Status RunEvalQa(const Status& arguments, const EvalQaOptions& options, Communicator& communicator) {
  std::vector<QaProblem> problems;
  const EvalTask task{
      .kind = "qa",
      .prepare = [&](const Tokenizer& tokenizer,
                     const ModelConfig& config) { return Prepare(options, tokenizer, config, &problems); },
      .summarise = [&](const std::vector<CaseAnswers>& cases) { return Summarise(options, problems, cases); }};
  return RunEvalTask(arguments.ok() ? CheckOptions(options) : arguments, options, task, communicator);
}

}  // namespace winnow
