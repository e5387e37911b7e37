#include "launch/eval_task_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <utility>

#include "base/printable_text.h"
#include "base/progress_bar.h"
#include "engine/context_replay.h"
#include "engine/worker.h"
#include "launch/answer_text.h"
#include "launch/console.h"
#include "launch/eval_task_rows.h"
#include "launch/kv_memory.h"
#include "launch/model_session.h"
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

// Answers every request. Collective with RunWorker on the other ranks.
Status AnswerAll(const EvalTaskOptions& options, RankEngine& engine, Communicator& communicator, Front* front) {
  Leader leader(engine.runner(), communicator,
                {options.max_num_seqs, options.max_num_batched_tokens, front->memory.pool_slots});
  for (const Request& request : front->requests) WINNOW_RETURN_IF_ERROR(leader.Submit(request));
  const size_t num_cases = front->cases.size();
  for (CaseAnswers& one : front->cases) one.answers.resize(front->prompts.size());
  front->requests.clear();  // the leader has them
  ProgressBar bar(
      ForStandardError({.label = "answering", .total = num_cases * front->prompts.size(), .step_name = "answers"}));
  uint64_t answered = 0;
  WINNOW_RETURN_IF_ERROR(
      leader.Run({.on_step = [&](const StepPlan&) { bar.Update(answered); },
                  .on_token = nullptr,
                  .on_completion =
                      [&](const Completion& completion) {
                        const size_t prompt = size_t(completion.request_id) / num_cases;
                        CaseAnswers& one = front->cases[size_t(completion.request_id) % num_cases];
                        one.answers[prompt] = {.text = AnswerText(*front->tokenizer, completion.token_ids),
                                               .token_ids = completion.token_ids,
                                               .finish_reason = completion.finish_reason,
                                               .kv = completion.kv};
                        if (front->failed.ok() && !completion.error.ok()) {
                          front->failed =
                              Status(completion.error.code(), front->prompts[prompt].where + ", policy " +
                                                                  one.asked.policy + ": " + completion.error.message());
                        }
                        bar.Update(++answered);
                      }}));
  bar.Finish();
  return OkStatus();
}

Status Report(const EvalTaskOptions& options, const EvalTask& task, const Checkpoint& model,
              const RunEnvironment& environment, const Front& front, double seconds) {
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
  int64_t generated = 0;
  for (const CaseAnswers& one : front.cases) {
    for (const EvalAnswer& answer : one.answers) generated += int64_t(answer.token_ids.size());
  }
  if (!options.json) {
    PrintOut(outcome.table);
    PrintOut(
        fmt::format("{}, {}, {}, {} rank(s) x {} thread(s), {}, KV cache {}: {} prompts, {:.0f} s, {:.1f} generated "
                    "tokens/s\n",
                    Printable(model.config().name), environment.backend, environment.kernels,
                    environment.tensor_parallel, environment.threads_per_rank, options.numerics, options.kv_cache_dtype,
                    front.prompts.size(), seconds, double(generated) / seconds));
    return CheckOutput();
  }
  ResultJson settings = TaskSettingsJson(options);
  settings.update(outcome.settings);
  settings["prompts"] = PromptsJson(front.prompts);
  const ResultJson result = MakeResult({.kind = task.kind,
                                        .command = options.command_line,
                                        .settings = std::move(settings),
                                        .rows = std::move(outcome.rows),
                                        .refused = std::move(outcome.refused),
                                        .timing = {{"seconds", seconds},
                                                   {"generated_tokens", generated},
                                                   {"generated_tokens_per_second", double(generated) / seconds}}},
                                       model, environment);
  PrintOut(result.dump(-1, ' ', false, ResultJson::error_handler_t::replace) + "\n");
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
      fmt::format("--policies {} --numerics {} --kv-cache-dtype {} --check-ranks {}", fmt::join(options.policies, ","),
                  options.numerics, options.kv_cache_dtype, options.check_ranks))));
  WINNOW_ASSIGN_OR_RETURN(const auto opened, OpenModel(options.model_path, communicator));
  const Checkpoint& model = *opened;
  const auto plan = MakeShardPlan(ShardDimsOf(model.config()), communicator.size());
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
  WINNOW_ASSIGN_OR_RETURN(const auto engine,
                          LoadEngine(model, ToEngineOptions(options, threads, pool_slots[0], observes), communicator));
  const RunEnvironment environment = GatherEnvironment(communicator, engine->backend(), communicator.size(), threads);

  const auto begin = std::chrono::steady_clock::now();
  const Status status =
      is_front ? AnswerAll(options, *engine, communicator, &front) : RunWorker(engine->runner(), communicator);
  if (!status.ok()) communicator.Abort(status);  // others may be inside a collective: nobody can go on
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  Status reported = front.failed;
  if (is_front && reported.ok()) reported = Report(options, task, model, environment, front, seconds);
  return agree(reported);
}

}  // namespace winnow
