#include "launch/chat_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <iostream>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "base/check.h"
#include "engine/leader.h"
#include "engine/worker.h"
#include "launch/answer_text.h"
#include "launch/console.h"
#include "launch/conversation.h"
#include "launch/drawn_seed.h"
#include "launch/kv_memory.h"
#include "launch/model_session.h"
#include "launch/prompt_progress.h"
#include "model/utf8_stream.h"

namespace winnow {
namespace {

// What rank 0 alone holds.
struct Front {
  std::unique_ptr<Conversation> conversation;
  KvMemory memory;
  bool observes_attention = false;
  Status first_refusal;
};

Status PrepareFront(const ChatOptions& asked, const Checkpoint& model, const ShardPlan& plan, Front* front) {
  const ModelConfig& config = model.config();
  ChatOptions options = asked;
  for (const std::string& note :
       TakeSamplingDefaults(model.generation_defaults(), options.sampling_given, &options.sampling)) {
    Note(note);
  }
  const uint64_t seed = options.seed ? *options.seed : DrawSeed();
  WINNOW_ASSIGN_OR_RETURN(Conversation conversation, Conversation::Make(options, model, seed));
  front->conversation = std::make_unique<Conversation>(std::move(conversation));
  WINNOW_ASSIGN_OR_RETURN(Request longest, front->conversation->LongestRequest());
  front->observes_attention = MakePolicy(longest.eviction.policy).value()->observations().mass != ObservedMass::kNone;
  const std::vector<Request> requests{std::move(longest)};
  const KvLayout layout{config.head_dim, options.kv_dtype()};
  WINNOW_ASSIGN_OR_RETURN(front->memory, PlanKvMemory({.requests = &requests,
                                                       .max_num_seqs = 1,
                                                       .context = front->conversation->context(),
                                                       .bytes_per_rank = std::nullopt},
                                                      layout, config.num_layers, plan));
  Note(KvBill(front->memory, layout, front->observes_attention));
  if (!options.seed && options.sampling.temperature > 0) Note("seed " + std::to_string(seed));
  return OkStatus();
}

// The next request, none at the end of the input. What is refused is said, and the next line read.
std::optional<Request> NextRequest(Front* front) {
  const bool is_terminal = isatty(STDIN_FILENO) != 0;
  for (std::string line;;) {
    if (is_terminal) fmt::print(stderr, "> ");
    if (!std::getline(std::cin, line)) {
      if (is_terminal) fmt::print(stderr, "\n");
      return std::nullopt;
    }
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.find_first_not_of(" \t") == std::string::npos) continue;
    auto request = front->conversation->Ask(line);
    if (request.ok()) return std::move(request).value();
    Note(request.status().message());
    if (front->first_refusal.ok() && !is_terminal) front->first_refusal = request.status();
  }
}

// Answers one request; collective with RunWorker on the other ranks.
Status AnswerOne(const ChatOptions& options, const Request& request, RankEngine& engine, Communicator& communicator,
                 Front* front) {
  const Tokenizer& tokenizer = front->conversation->tokenizer();
  Leader leader(engine.runner(), communicator,
                {/*max_num_seqs=*/1, options.max_num_batched_tokens, front->memory.pool_slots});
  WINNOW_RETURN_IF_ERROR(leader.Submit(request));
  PromptProgress progress({request});
  Utf8Stream stream;
  Completion completion;
  WINNOW_RETURN_IF_ERROR(leader.Run({.on_step = [&](const StepPlan& plan) { progress.StepDone(plan); },
                                     .on_token =
                                         [&](int64_t, int32_t id) {
                                           if (!tokenizer.IsControl(id))
                                             PrintOut(stream.Push(tokenizer.TokenBytes(id)));
                                         },
                                     .on_completion = [&](const Completion& done) { completion = done; }}));
  PrintOut(stream.Finish() + "\n");
  if (!completion.error.ok()) {
    Note(completion.error.message());
    front->conversation->Forget();
    if (front->first_refusal.ok()) front->first_refusal = completion.error;
    return OkStatus();
  }
  if (completion.finish_reason == FinishReason::kLength) {
    const bool is_full = request.max_tokens < options.max_tokens;
    Note(is_full ? "the context of " + std::to_string(front->conversation->context()) + " tokens is full"
                 : "the answer was cut after " + std::to_string(options.max_tokens) + " tokens (--max-tokens)");
  }
  front->conversation->Answer(AnswerText(tokenizer, completion.token_ids));
  return OkStatus();
}

// Turn by turn until the input ends or nobody can read the answers, which rank 0 tells the others.
Status Converse(const ChatOptions& options, RankEngine& engine, Communicator& communicator, Front* front) {
  const bool is_front = communicator.rank() == 0;
  while (true) {
    const std::optional<Request> request = is_front && CheckOutput().ok() ? NextRequest(front) : std::nullopt;
    int64_t goes_on[1] = {request ? 1 : 0};
    communicator.AllReduce(std::span<int64_t>(goes_on), ReduceOp::kMax);
    if (goes_on[0] == 0) return OkStatus();
    WINNOW_RETURN_IF_ERROR(is_front ? AnswerOne(options, *request, engine, communicator, front)
                                    : RunWorker(engine.runner(), communicator));
  }
}

}  // namespace

Status RunChat(const Status& arguments, const ChatOptions& options, Communicator& communicator) {
  const bool is_front = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckChatOptions(options, communicator.size()) : arguments));
  WINNOW_ASSIGN_OR_RETURN(const auto opened, OpenModel(options, communicator));
  const Checkpoint& model = *opened;
  const auto plan = MakeShardPlan(ShardDimsOf(model.config()), communicator.size());
  WINNOW_CHECK(plan.ok());  // OpenModel has made one

  Front front;
  WINNOW_RETURN_IF_ERROR(agree(is_front ? PrepareFront(options, model, *plan, &front) : OkStatus()));
  // What the other ranks' pools need to know: slots, and whether attention is observed.
  int64_t pool_needs[2] = {front.memory.pool_slots, front.observes_attention ? 1 : 0};
  communicator.AllReduce(std::span<int64_t>(pool_needs), ReduceOp::kMax);
  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_front && !warning.empty()) Note(warning);
  WINNOW_ASSIGN_OR_RETURN(
      const auto engine,
      LoadEngine(model, ToEngineOptions(options, threads, pool_needs[0], pool_needs[1] != 0), communicator));

  const Status status = Converse(options, *engine, communicator, &front);
  if (!status.ok()) communicator.Abort(status);  // others may be inside a collective: nobody can go on
  const Status written = is_front ? CheckOutput() : OkStatus();
  return agree(written.ok() ? front.first_refusal : written);
}

}  // namespace winnow
