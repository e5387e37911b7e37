#include "launch/eval_needle_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <span>

#include "eval/needle.h"
#include "eval/text_scores.h"
#include "launch/eval_list_flags.h"
#include "launch/eval_prompt_text.h"
#include "launch/eval_task_rows.h"
#include "launch/eval_task_run.h"

namespace winnow {
namespace {

Status CheckOptions(const EvalNeedleOptions& options) {
  for (int64_t length : options.lengths) {
    if (length < 1) return InvalidArgument("--lengths: expected 1 or more, found " + std::to_string(length));
  }
  for (int64_t depth : options.depths) {
    if (depth < 0 || depth > 100) {
      return InvalidArgument("--depths: expected 0 to 100, found " + std::to_string(depth));
    }
  }
  if (options.samples < 1) {
    return InvalidArgument("--samples: expected 1 or more, found " + std::to_string(options.samples));
  }
  WINNOW_RETURN_IF_ERROR(CheckListedOnce("--lengths", options.lengths));
  return CheckListedOnce("--depths", options.depths);
}

// Samples of all cells, length by length, depth by depth within.
Result<std::vector<EvalPrompt>> Prepare(const EvalNeedleOptions& options, const Tokenizer& tokenizer,
                                        const ModelConfig& config, std::vector<NeedleSample>* samples) {
  WINNOW_ASSIGN_OR_RETURN(const Haystack haystack, ReadHaystack(options.haystack_path));
  const auto encode = [&](const NeedleSample& made) {
    return EncodeParts(tokenizer, {made.context, made.question}, options.query_aware ? 2 : 1);
  };
  std::vector<EvalPrompt> prompts;
  for (int64_t length : options.lengths) {
    if (length > config.max_context) {
      return InvalidArgument("--lengths " + std::to_string(length) + ": the model's context has " +
                             std::to_string(config.max_context) + " tokens");
    }
    for (int64_t depth : options.depths) {
      for (int64_t i = 0; i < options.samples; ++i) {
        WINNOW_ASSIGN_OR_RETURN(
            NeedleSample sample,
            FitNeedleSample(haystack, options.seed, i, depth, length, [&](const NeedleSample& made) -> Result<int64_t> {
              WINNOW_ASSIGN_OR_RETURN(const EvalPrompt prompt, encode(made));
              return int64_t(prompt.tokens.size());
            }));
        WINNOW_ASSIGN_OR_RETURN(EvalPrompt prompt, encode(sample));
        prompt.where = fmt::format("length {}, depth {}, sample {}", length, depth, i);
        prompt.max_new_tokens = std::min(options.max_new_tokens.value_or(kNeedleAnswerTokens), kNeedleAnswerTokens);
        prompt.sampling.seed = options.seed;
        prompts.push_back(std::move(prompt));
        samples->push_back(std::move(sample));
      }
    }
  }
  return prompts;
}

// Mean scores of a length and depth.
struct CellScore {
  double found = 0, rouge = 0;
  bool is_refused = false;
};

// A cell of the map: 0 to 100 in five shades, and as a number.
std::string CellText(const CellScore& cell) {
  if (cell.is_refused) return fmt::format("{:>7}", "-");
  constexpr const char* kShades[] = {" ", "░", "▒", "▓", "█"};
  const std::string shade = kShades[std::min(4, int(cell.found / 20))];
  return shade + shade + fmt::format("{:>5.0f}", cell.found);
}

std::string Map(const EvalNeedleOptions& options, const EvalCase& asked, const std::vector<CellScore>& cells) {
  std::string text = "\n" + asked.policy + (asked.policy == "full" ? "" : ", budget " + asked.BudgetText()) + "\n" +
                     fmt::format("{:>7}", "depth");
  for (int64_t length : options.lengths) text += fmt::format(" {:>8}", length);
  for (size_t depth = 0; depth < options.depths.size(); ++depth) {
    text += fmt::format("\n{:>5} %", options.depths[depth]);
    for (size_t length = 0; length < options.lengths.size(); ++length) {
      text += "  " + CellText(cells[length * options.depths.size() + depth]);
    }
  }
  return text + "\n";
}

EvalTask::Outcome Summarise(const EvalNeedleOptions& options, const std::vector<NeedleSample>& samples,
                            const std::vector<CaseAnswers>& cases) {
  EvalTask::Outcome outcome;
  const size_t per_cell = size_t(options.samples);
  for (const CaseAnswers& one : cases) {
    std::vector<CellScore> cells;
    for (size_t begin = 0; begin < samples.size(); begin += per_cell) {
      CellScore& cell = cells.emplace_back();
      for (size_t i = begin; i < begin + per_cell; ++i) {
        const std::string& answer = one.answers[i].text;
        cell.found += 100 * StringMatchAll(answer, std::span(&samples[i].number, 1)) / double(per_cell);
        cell.rouge += 100 * Rouge1Recall(answer, samples[i].needle) / double(per_cell);
      }
      const size_t index = cells.size() - 1;
      const int64_t length = options.lengths[index / options.depths.size()];
      const int64_t depth = options.depths[index % options.depths.size()];
      const auto answers = std::span(one.answers).subspan(begin, per_cell);
      if (const auto reason = ReasonToRefuse(one.asked, answers)) {
        outcome.refused.push_back(RefusalJson(one.asked, fmt::format("length {}, depth {}", length, depth), *reason));
        cell.is_refused = true;
        continue;
      }
      ResultJson row = CaseJson(one);
      row.update({{"length", length},
                  {"depth", depth},
                  {"samples", options.samples},
                  {"score", cell.found},
                  {"rouge1_recall", cell.rouge}});
      row.update(CacheJson(answers));
      outcome.rows.push_back(std::move(row));
    }
    outcome.table += Map(options, one.asked, cells);
  }
  outcome.settings = {{"lengths", options.lengths},
                      {"depths", options.depths},
                      {"samples", options.samples},
                      {"haystack", options.haystack_path ? *options.haystack_path : "generated"},
                      {"template", "base"}};
  return outcome;
}

}  // namespace

void AddEvalNeedleFlags(CLI::App& command, EvalNeedleOptions* o) {
  AddEvalTaskFlags(command, o);
  command.add_option("--lengths", o->lengths, "tokens of a prompt with its answer, with commas between")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--depths", o->depths, "where the needle stands, in percent, with commas between")
      ->delimiter(',')
      ->capture_default_str();
  command.add_option("--samples", o->samples, "prompts of each length and depth")->capture_default_str();
  command.add_flag("--query-aware", o->query_aware, "compress the question together with the context");
  command.add_option("--haystack", o->haystack_path, "a text to hide the needle in, instead of generated prose");
  RefuseOddIntegers(command);
}

Status RunEvalNeedle(const Status& arguments, const EvalNeedleOptions& options, Communicator& communicator) {
  std::vector<NeedleSample> samples;
  const EvalTask task{
      .kind = "needle",
      .prepare = [&](const Tokenizer& tokenizer,
                     const ModelConfig& config) { return Prepare(options, tokenizer, config, &samples); },
      .summarise = [&](const std::vector<CaseAnswers>& cases) { return Summarise(options, samples, cases); }};
  return RunEvalTask(arguments.ok() ? CheckOptions(options) : arguments, options, task, communicator);
}

}  // namespace winnow
