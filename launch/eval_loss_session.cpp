#include "launch/eval_loss_session.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "engine/context_replay.h"
#include "launch/console.h"
#include "launch/eval_loss_cases.h"
#include "launch/replay_prompt.h"
#include "launch/same_arguments.h"

namespace winnow {
namespace {

// Every rank makes its own plans from its own arguments: other ones would part the ranks, or mix two evaluations.
std::string SharedArguments(const EvalLossOptions& options) {
  const EvictionSettings& eviction = options.eviction;
  const auto name = [](const auto& choice) { return choice ? std::string(Name(*choice)) : "none"; };
  return fmt::format(
      "--policies {} --kv-budget {} --kv-ratio {} --kv-interval {} --kv-sink-tokens {} --kv-recent-tokens {} "
      "--kv-protect-prompt {} --kv-scope {} --kv-allocation {} --seed {} --numerics {} --kv-cache-dtype {} "
      "--check-ranks {} --prompt-tokens {} --dp {}",
      fmt::join(options.policies, ","), fmt::join(options.budgets, ","), fmt::join(options.ratios, ","),
      eviction.interval, eviction.sink_tokens, eviction.recent_tokens, eviction.protect_prompt, name(eviction.scope),
      name(eviction.allocation), options.seed, options.numerics, options.kv_cache_dtype, options.check_ranks,
      options.prompt_tokens.value_or(0), options.data_parallel_size);
}

// Of the cases that repeat their context; the same on all ranks, as the model's file is.
Result<ReplayPrompt> WordsOf(const EvalLossOptions& options, const Checkpoint& model) {
  const bool replays = std::any_of(options.policies.begin(), options.policies.end(),
                                   [](const std::string& policy) { return Replays({.policy = policy}); });
  if (!replays) return ReplayPrompt();
  WINNOW_ASSIGN_OR_RETURN(const Tokenizer tokenizer, model.LoadTokenizer());
  return MakeReplayPrompt(tokenizer);
}

}  // namespace

Result<EvalLossSession> OpenEvalLoss(const Status& arguments, EvalLossOptions* options_in, Communicator& communicator) {
  const EvalLossOptions& options = *options_in;
  const bool is_first = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckEvalLossOptions(options, communicator.size()) : arguments));
  WINNOW_RETURN_IF_ERROR(agree(CheckSameArguments(communicator, SharedArguments(options))));
  const int tensor_parallel = options.tensor_parallel(communicator.size());
  WINNOW_ASSIGN_OR_RETURN(auto model, OpenModel(options, communicator, tensor_parallel));

  const auto words = WordsOf(options, *model);
  WINNOW_RETURN_IF_ERROR(agree(words.status()));
  options_in->eviction.replay_prompt = *words;
  const int64_t max_tokens = options.max_text_tokens.value_or(model->config().max_context);
  std::vector<EvalText> texts;
  Status read = OkStatus();
  if (is_first) {
    const auto read_texts = [&]() -> Result<std::vector<EvalText>> {
      WINNOW_ASSIGN_OR_RETURN(const Tokenizer tokenizer, model->LoadTokenizer());
      return ReadEvalTexts(options.text_paths, {options.split, options.max_texts, max_tokens, options.prompt_tokens},
                           tokenizer);
    };
    auto mine = read_texts();
    read = mine.status();
    if (read.ok()) texts = std::move(mine).value();
  }
  WINNOW_RETURN_IF_ERROR(agree(read));
  BroadcastEvalTexts(communicator, texts);
  const auto plan = MakeShardPlan(ShardDimsOf(model->config()), tensor_parallel);
  WINNOW_CHECK(plan.ok());  // OpenModel has made one
  const auto pool_slots = PoolSlots(options, texts, MakeKvShards(model->config().num_layers, *plan));
  WINNOW_RETURN_IF_ERROR(agree(pool_slots.status()));

  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_first && !warning.empty()) Note(warning);
  std::unique_ptr<Communicator> part;
  if (options.data_parallel_size > 1) part = communicator.Split(communicator.rank() / tensor_parallel);
  Communicator& group = part ? *part : communicator;
  WINNOW_ASSIGN_OR_RETURN(
      auto engine, LoadEngine(*model, ToEngineOptions(options, threads, *pool_slots, /*observe_attention=*/true), group,
                              communicator));
  return EvalLossSession{.model = std::move(model),
                         .texts = std::move(texts),
                         .max_text_tokens = max_tokens,
                         .threads = threads,
                         .part = std::move(part),
                         .engine = std::move(engine)};
}

}  // namespace winnow
