#include "launch/eval_ruler_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>
#include <span>

#include "base/printable_text.h"
#include "eval/ruler_tasks.h"
#include "eval/sample_scores.h"
#include "eval/text_scores.h"
#include "launch/console.h"
#include "launch/eval_list_flags.h"
#include "launch/eval_prompt_text.h"
#include "launch/eval_task_rows.h"
#include "launch/eval_task_run.h"
#include "launch/text_file.h"

namespace winnow {
namespace {

// Rank 0: what the samples are made of, and their answers.
struct RulerRun {
  std::vector<const RulerTask*> tasks;
  Haystack haystack;
  QaDocuments squad, hotpotqa;
  std::vector<RulerSample> samples;  // of each task, options.samples
};

Status CheckOptions(const EvalRulerOptions& options) {
  if (options.samples < 1) {
    return InvalidArgument("--samples: expected 1 or more, found " + std::to_string(options.samples));
  }
  if (options.length < 1) {
    return InvalidArgument("--length: expected 1 or more, found " + std::to_string(options.length));
  }
  for (const std::string& name : options.tasks) {
    WINNOW_RETURN_IF_ERROR(FindRulerTask(name).status());
    if (name == "qa_1" && !options.squad_path) return InvalidArgument("--tasks qa_1 needs --squad FILE");
    if (name == "qa_2" && !options.hotpotqa_path) return InvalidArgument("--tasks qa_2 needs --hotpotqa FILE");
  }
  return CheckListedOnce("--tasks", options.tasks);
}

std::vector<const RulerTask*> TasksOf(const EvalRulerOptions& options) {
  std::vector<const RulerTask*> tasks;
  for (const RulerTask& task : RulerTasks()) {
    const bool is_asked =
        options.tasks.empty() || std::count(options.tasks.begin(), options.tasks.end(), task.name) > 0;
    const bool has_file = task.name == "qa_1"   ? options.squad_path.has_value()
                          : task.name == "qa_2" ? options.hotpotqa_path.has_value()
                                                : true;
    if (is_asked && has_file) tasks.push_back(&task);
    if (is_asked && !has_file) {
      Note("task " + std::string(task.name) + " is left out: it needs " +
           (task.name == "qa_1" ? "--squad" : "--hotpotqa") + " FILE");
    }
  }
  return tasks;
}

Status ReadFiles(const EvalRulerOptions& options, RulerRun* run) {
  WINNOW_ASSIGN_OR_RETURN(run->haystack, ReadHaystack(options.haystack_path));
  if (options.squad_path) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*options.squad_path, "SQuAD file"));
    WINNOW_ASSIGN_OR_RETURN(run->squad, ParseSquad(*options.squad_path, text));
  }
  if (options.hotpotqa_path) {
    WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(*options.hotpotqa_path, "HotpotQA file"));
    WINNOW_ASSIGN_OR_RETURN(run->hotpotqa, ParseHotpotQa(*options.hotpotqa_path, text));
  }
  return OkStatus();
}

Result<EvalPrompt> ToPrompt(const EvalRulerOptions& options, const Tokenizer& tokenizer, const RulerSample& sample) {
  return EncodeParts(tokenizer, {sample.context, sample.question, sample.answer_prefix}, options.query_aware ? 2 : 1);
}

Result<std::vector<EvalPrompt>> Prepare(const EvalRulerOptions& options, const Tokenizer& tokenizer,
                                        const ModelConfig& config, RulerRun* run) {
  WINNOW_RETURN_IF_ERROR(ReadFiles(options, run));
  if (options.length > config.max_context) {
    return InvalidArgument("--length " + std::to_string(options.length) + ": the model's context has " +
                           std::to_string(config.max_context) + " tokens");
  }
  run->tasks = TasksOf(options);
  std::vector<EvalPrompt> prompts;
  for (const RulerTask* task : run->tasks) {
    const RulerInput input{.seed = options.seed,
                           .length = options.length,
                           .haystack = &run->haystack,
                           .qa = task->name == "qa_1" ? &run->squad : &run->hotpotqa};
    for (int64_t i = 0; i < options.samples; ++i) {
      WINNOW_ASSIGN_OR_RETURN(RulerSample sample,
                              FitRulerSample(*task, input, i, [&](const RulerSample& made) -> Result<int64_t> {
                                WINNOW_ASSIGN_OR_RETURN(const EvalPrompt prompt, ToPrompt(options, tokenizer, made));
                                return int64_t(prompt.tokens.size());
                              }));
      WINNOW_ASSIGN_OR_RETURN(EvalPrompt prompt, ToPrompt(options, tokenizer, sample));
      prompt.where = std::string(task->name) + ", sample " + std::to_string(i);
      prompt.max_new_tokens = std::min(options.max_new_tokens.value_or(task->max_new_tokens), task->max_new_tokens);
      prompt.sampling.seed = options.seed;
      prompts.push_back(std::move(prompt));
      run->samples.push_back(std::move(sample));
    }
  }
  return prompts;
}

// One row's samples: [begin, end) of all.
struct RowSpan {
  std::string task;
  size_t begin, end;
};

EvalTask::Outcome Summarise(const EvalRulerOptions& options, const RulerRun& run,
                            const std::vector<CaseAnswers>& cases) {
  std::vector<std::vector<double>> scores;  // of each case, of each sample
  for (const CaseAnswers& one : cases) {
    std::vector<double>& own = scores.emplace_back();
    for (size_t i = 0; i < run.samples.size(); ++i) {
      const bool any = run.tasks[i / size_t(options.samples)]->any_reference;
      own.push_back((any ? StringMatchPart : StringMatchAll)(one.answers[i].text, run.samples[i].answers));
    }
  }
  // Tasks have the same number of samples, so that the mean over all samples is the mean over tasks.
  std::vector<RowSpan> spans = {{"all", 0, run.samples.size()}};
  for (size_t i = 0; i < run.tasks.size(); ++i) {
    const size_t begin = i * size_t(options.samples);
    spans.push_back({std::string(run.tasks[i]->name), begin, begin + size_t(options.samples)});
  }
  EvalTask::Outcome outcome;
  outcome.table = fmt::format("{:<19} {:>7} {:<16} {:>7} {:>6} {:>6} {:>8} {:>7} {:>17}\n", "policy", "budget", "task",
                              "samples", "score", "s.e.", "retained", "kept", "95 % of - full");
  for (size_t i = 0; i < cases.size(); ++i) {
    for (const RowSpan& span : spans) {
      const auto part = [&](const auto& all) { return std::span(all).subspan(span.begin, span.end - span.begin); };
      if (const auto reason = ReasonToRefuse(cases[i].asked, part(cases[i].answers))) {
        outcome.refused.push_back(RefusalJson(cases[i].asked, "task " + span.task, *reason));
        continue;
      }
      const SampleSummary summary = SummariseSamples(part(scores[i]), part(scores[0]), options.seed);
      const std::optional<double> retained = summary.retained;
      ResultJson row = CaseJson(cases[i]);
      row.update({{"task", span.task},
                  {"samples", summary.samples},
                  {"score", summary.score},
                  {"standard_error", summary.standard_error},
                  {"full_score", summary.full_score},
                  {"retained", retained ? ResultJson(*retained) : ResultJson(nullptr)},
                  {"ci95", {summary.ci95.first, summary.ci95.second}}});
      row.update(CacheJson(part(cases[i].answers)));
      outcome.rows.push_back(std::move(row));
      outcome.table +=
          fmt::format("{:<19} {:>7} {:<16} {:>7} {:>6.1f} {:>6.1f} {:>8} {:>7.4f} {:>8.1f} {:>8.1f}\n",
                      cases[i].asked.policy, cases[i].asked.BudgetText(), span.task, summary.samples, summary.score,
                      summary.standard_error, retained ? fmt::format("{:.3f}", *retained) : "-",
                      KeptRatio(part(cases[i].answers)), summary.ci95.first, summary.ci95.second);
    }
  }
  outcome.settings = {{"length", options.length},
                      {"samples", options.samples},
                      {"haystack", options.haystack_path ? *options.haystack_path : "generated"},
                      {"template", "base"}};
  ResultJson names = ResultJson::array();
  for (const RulerTask* task : run.tasks) names.push_back(task->name);
  outcome.settings["tasks"] = std::move(names);
  return outcome;
}

}  // namespace

void AddEvalRulerFlags(CLI::App& command, EvalRulerOptions* o) {
  AddEvalTaskFlags(command, o);
  command
      .add_option("--tasks", o->tasks,
                  "tasks, with commas between; default: all that need no file, and those whose file is given")
      ->delimiter(',');
  command.add_option("--length", o->length, "tokens of a prompt with its answer")->capture_default_str();
  command.add_option("--samples", o->samples, "prompts of each task")->capture_default_str();
  command.add_flag("--query-aware", o->query_aware, "compress the question together with the context");
  command.add_option("--haystack", o->haystack_path, "a text to hide needles in, instead of generated prose");
  command.add_option("--squad", o->squad_path, "SQuAD file (JSON), for qa_1");
  command.add_option("--hotpotqa", o->hotpotqa_path, "HotpotQA file (JSON), for qa_2");
  RefuseOddIntegers(command);
}

Status RunEvalRuler(const Status& arguments, const EvalRulerOptions& options, Communicator& communicator) {
  RulerRun run;
  const EvalTask task{
      .kind = "ruler",
      .prepare = [&](const Tokenizer& tokenizer,
                     const ModelConfig& config) { return Prepare(options, tokenizer, config, &run); },
      .summarise = [&](const std::vector<CaseAnswers>& cases) { return Summarise(options, run, cases); }};
  return RunEvalTask(arguments.ok() ? CheckOptions(options) : arguments, options, task, communicator);
}

}  // namespace winnow
