#include "launch/eval_task_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/printable_text.h"
#include "engine/context_replay.h"
#include "launch/answer_text.h"
#include "launch/console.h"
#include "launch/eval_resume.h"
#include "launch/eval_task_answers.h"
#include "launch/eval_task_rows.h"
#include "launch/kv_memory.h"
#include "launch/model_session.h"
#include "launch/number_text.h"
#include "launch/replay_prompt.h"
#include "launch/same_arguments.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

// What rank 0 alone holds.
struct Front {
  std::unique_ptr<Tokenizer> tokenizer;
  std::vector<EvalPrompt> prompts;
  std::vector<CaseAnswers> cases;
  std::vector<Request> requests;  // of each prompt: one a case, in the order of the cases
  KvMemory memory;
  Status failed;  // the first answer that ended in an error; the others have been given
};

Result<Request> ToRequest(const EvalTaskOptions& options, const ModelConfig& config, const Tokenizer& tokenizer,
                          const EvalPrompt& prompt, const EvalCase& asked) {
  Request request;
  request.prompt = prompt.tokens;
  request.original_prompt_tokens = prompt.compressed_tokens;
  request.max_tokens = prompt.max_new_tokens;
  request.stop_token_ids = tokenizer.eos_ids();
  request.sampling = prompt.sampling;
  request.choice_index = prompt.choice_index;
  const KvShape shape{config.num_layers, config.num_kv_heads, BytesOf(options.kv_dtype(), 2 * config.head_dim)};
  auto eviction =
      ResolveEviction(asked.Asked(options.eviction),
                      {.prompt_tokens = prompt.compressed_tokens, .max_tokens = config.max_context, .shape = shape});
  if (!eviction.ok()) {
    return InvalidArgument(prompt.where + ", policy " + asked.policy + ": " + eviction.status().message());
  }
  request.eviction = std::move(eviction).value();
  if (Replays(request.eviction)) {
    WINNOW_ASSIGN_OR_RETURN(request.eviction.replay_prompt, MakeReplayPrompt(tokenizer));
  }
  return request;
}

Status PrepareFront(const EvalTaskOptions& options, const EvalTask& task, const Checkpoint& model,
                    const ShardPlan& plan, Front* front) {
  const ModelConfig& config = model.config();
  if (options.answers_path) WINNOW_RETURN_IF_ERROR(CheckCanWrite(*options.answers_path));
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, model.LoadTokenizer());
  front->tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  WINNOW_ASSIGN_OR_RETURN(front->prompts, task.prepare(*front->tokenizer, config));
  for (const EvalCase& asked : CasesOf(options))
    front->cases.push_back({.asked = asked, .settings = {}, .answers = {}});
  for (const EvalPrompt& prompt : front->prompts) {
    const int64_t total = int64_t(prompt.tokens.size()) + prompt.max_new_tokens;
    if (total > config.max_context) {
      return InvalidArgument(prompt.where + ": prompt and answer take " + std::to_string(total) +
                             " tokens, the model's context has " + std::to_string(config.max_context));
    }
    for (CaseAnswers& one : front->cases) {
      WINNOW_ASSIGN_OR_RETURN(Request request, ToRequest(options, config, *front->tokenizer, prompt, one.asked));
      request.id = int64_t(front->requests.size());
      if (&prompt == &front->prompts.front()) one.settings = request.eviction;
      front->requests.push_back(std::move(request));
    }
  }
  WINNOW_ASSIGN_OR_RETURN(front->memory, PlanKvMemory({.requests = &front->requests,
                                                       .max_num_seqs = options.max_num_seqs,
                                                       .context = config.max_context,
                                                       .bytes_per_rank = std::nullopt},
                                                      {config.head_dim, options.kv_dtype()}, config.num_layers, plan));
  return OkStatus();
}

bool ObservesAttention(const EvalTaskOptions& options) {
  return std::any_of(options.policies.begin(), options.policies.end(), [](const std::string& name) {
    return MakePolicy(name).value()->observations().mass != ObservedMass::kNone;
  });
}

// What the journal calls each request.
std::vector<std::string> UnitNames(const Front& front) {
  std::vector<std::string> names;
  for (const EvalPrompt& prompt : front.prompts) {
    for (size_t i = 0; i < front.cases.size(); ++i) {
      const EvalCase& asked = front.cases[i].asked;
      names.push_back("answer " + std::to_string(names.size()) + ", " + prompt.where + ", policy " + asked.policy +
                      ", budget " + asked.BudgetText());
    }
  }
  return names;
}

// What was asked, for the journal: a task's own settings show in its requests.
ResultJson AskedJson(const EvalTaskOptions& options, const EvalTask& task, const Front& front) {
  ResultJson asked = TaskSettingsJson(options);
  asked["task"] = task.kind;
  asked["prompts"] = PromptsJson(front.prompts);
  asked["requests"] = Hex(HashOf(front.requests));
  return asked;
}

// Every case's answers, and the first that ended in an error.
void TakeAnswers(const AnswerWork& work, Front* front) {
  for (CaseAnswers& one : front->cases) one.answers.resize(front->prompts.size());
  for (size_t i = 0; i < work.answers.size(); ++i) {
    const size_t prompt = i / front->cases.size();
    CaseAnswers& one = front->cases[i % front->cases.size()];
    const GivenAnswer& given = work.answers[i];
    one.answers[prompt] = {.text = AnswerText(*front->tokenizer, given.token_ids),
                           .token_ids = given.token_ids,
                           .finish_reason = given.finish_reason,
                           .kv = given.kv};
    if (front->failed.ok() && !given.error.ok()) {
      front->failed = Status(given.error.code(), front->prompts[prompt].where + ", policy " + one.asked.policy + ": " +
                                                     given.error.message());
    }
  }
}

Status Report(const EvalTaskOptions& options, const EvalTask& task, const Checkpoint& model,
              const RunEnvironment& environment, const Front& front, const AnswerWork& work, double seconds) {
  if (options.answers_path) {
    WINNOW_RETURN_IF_ERROR(WriteAnswers(*options.answers_path, front.prompts, front.cases));
  }
  EvalTask::Outcome outcome = task.summarise(front.cases);
  for (const ResultJson& refusal : outcome.refused) {
    Note("no row for " + refusal["policy"].get<std::string>() + " at budget " + refusal["budget"].get<std::string>() +
         ", " + refusal["of"].get<std::string>() + ": " + refusal["reason"].get<std::string>());
  }
  const auto is_of_policy = [](const ResultJson& row) { return row["policy"] != "full"; };
  if (std::none_of(outcome.rows.begin(), outcome.rows.end(), is_of_policy)) {
    return InvalidArgument("every row was refused; the first reason: " +
                           outcome.refused[0]["reason"].get<std::string>());
  }
  const double tokens_per_second = seconds > 0 ? double(work.generated_tokens) / seconds : 0;
  if (options.json || options.out_path) {
    ResultJson settings = TaskSettingsJson(options);
    settings.update(outcome.settings);
    settings["prompts"] = PromptsJson(front.prompts);
    const ResultJson result = MakeResult({.kind = task.kind,
                                          .command = options.command_line,
                                          .settings = std::move(settings),
                                          .rows = std::move(outcome.rows),
                                          .refused = std::move(outcome.refused),
                                          .timing = {{"seconds", seconds},
                                                     {"generated_tokens", work.generated_tokens},
                                                     {"generated_tokens_per_second", tokens_per_second},
                                                     {"answers", work.answers.size()},
                                                     {"resumed_answers", work.resumed}}},
                                         model, environment);
    if (options.out_path) WINNOW_RETURN_IF_ERROR(WriteResultFile(*options.out_path, result));
    if (options.json) {
      PrintOut(result.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n");
      return CheckOutput();
    }
  }
  PrintOut(outcome.table);
  PrintOut(
      fmt::format("{}, {}, {}, {} rank(s) x {} thread(s), {}, KV cache {}: {} prompts, {:.0f} s, {:.1f} generated "
                  "tokens/s\n",
                  Printable(model.config().name), environment.backend, environment.kernels,
                  environment.tensor_parallel * environment.data_parallel, environment.threads_per_rank,
                  options.numerics, options.kv_cache_dtype, front.prompts.size(), seconds, tokens_per_second));
  return CheckOutput();
}

}  // namespace

Status RunEvalTask(const Status& arguments, const EvalTaskOptions& options, const EvalTask& task,
                   Communicator& communicator) {
  const bool is_front = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckEvalTaskOptions(options, communicator.size()) : arguments));
  // Of the requests rank 0's arguments alone count, of the engine each rank's own.
  WINNOW_RETURN_IF_ERROR(agree(CheckSameArguments(
      communicator,
      fmt::format("--policies {} --numerics {} --kv-cache-dtype {} --check-ranks {} --max-num-seqs {} "
                  "--max-num-batched-tokens {} --dp {}",
                  fmt::join(options.policies, ","), options.numerics, options.kv_cache_dtype, options.check_ranks,
                  options.max_num_seqs, options.max_num_batched_tokens, options.data_parallel_size))));
  const int tensor_parallel = options.tensor_parallel(communicator.size());
  WINNOW_ASSIGN_OR_RETURN(const auto opened, OpenModel(options, communicator, tensor_parallel));
  const Checkpoint& model = *opened;
  const auto plan = MakeShardPlan(ShardDimsOf(model.config()), tensor_parallel);
  WINNOW_CHECK(plan.ok());  // OpenModel has made one

  Front front;
  WINNOW_RETURN_IF_ERROR(agree(is_front ? PrepareFront(options, task, model, *plan, &front) : OkStatus()));
  int64_t pool_slots[1] = {front.memory.pool_slots};
  communicator.AllReduce(std::span<int64_t>(pool_slots), ReduceOp::kMax);
  const bool observes = ObservesAttention(options);
  if (is_front) {
    fmt::print(stderr, "{}\n", KvBill(front.memory, {model.config().head_dim, options.kv_dtype()}, observes));
  }
  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_front && !warning.empty()) Note(warning);
  std::optional<EvalJournal> journal;
  const ResultJson identity =
      is_front ? JournalIdentity(AskedJson(options, task, front), options, {model, tensor_parallel, threads})
               : ResultJson();
  WINNOW_RETURN_IF_ERROR(OpenJournal(options, identity, communicator, &journal));
  std::unique_ptr<Communicator> part;
  if (options.data_parallel_size > 1) part = communicator.Split(communicator.rank() / tensor_parallel);
  Communicator& group = part ? *part : communicator;
  WINNOW_ASSIGN_OR_RETURN(
      const auto engine,
      LoadEngine(model, ToEngineOptions(options, threads, pool_slots[0], observes), group, communicator));
  const RunEnvironment environment = GatherEnvironment(communicator, engine->backend(), tensor_parallel, threads);

  const auto begin = std::chrono::steady_clock::now();
  WINNOW_ASSIGN_OR_RETURN(
      const AnswerWork work,
      AnswerRequests({.world = communicator,
                      .group = group,
                      .num_groups = options.data_parallel_size,
                      .engine = *engine,
                      .limits = {options.max_num_seqs, options.max_num_batched_tokens, pool_slots[0]},
                      .journal = journal ? &*journal : nullptr},
                     front.requests, is_front ? UnitNames(front) : std::vector<std::string>()));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  if (is_front) TakeAnswers(work, &front);
  Status reported = front.failed;
  if (is_front && reported.ok()) {
    reported = Report(options, task, model, environment, front, work, seconds);
    if (journal && reported.ok()) journal->Remove();
  }
  return agree(reported);
}

}  // namespace winnow
