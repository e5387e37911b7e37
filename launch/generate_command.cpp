#include "launch/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/check.h"
#include "engine/leader.h"
#include "engine/worker.h"
#include "launch/answer_text.h"
#include "launch/console.h"
#include "launch/generate_report.h"
#include "launch/generate_requests.h"
#include "launch/kv_memory.h"
#include "launch/model_session.h"
#include "launch/prompt_progress.h"
#include "launch/resumed_request.h"

#include "model/utf8_stream.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

// What rank 0 alone holds: prompts, and what becomes of them.
struct Front {
  SequenceFileModel file_model;
  std::unique_ptr<Tokenizer> tokenizer;
  PreparedRequests prepared;
  KvMemory memory;
  std::vector<Completion> completions;  // by request id
};

// Before any work, so that no answer is lost to a wrong name.
Status PrepareSave(const std::string& path, std::vector<Request>* requests) {
  if (requests->size() != 1) {
    return InvalidArgument("--save-kv saves one text: expected one prompt, found " + std::to_string(requests->size()));
  }
  requests->front().save_cache = true;
  return CheckCanWrite(path);
}

Status Save(const std::string& path, const Front& front) {
  const Request& request = front.prepared.requests.front();
  const Completion& completion = front.completions.front();
  SavedSequence saved{.tokens = request.prompt,
                      .prompt_tokens = request.prompt_tokens(),
                      .eviction = request.eviction,
                      .seed = request.sampling.seed,
                      .choice_index = request.choice_index,
                      .resume = completion.kv.saved};
  saved.tokens.insert(saved.tokens.end(), completion.token_ids.begin(), completion.token_ids.end());
  WINNOW_RETURN_IF_ERROR(SaveSequence(path, front.file_model, saved));
  Note(fmt::format("{} tokens and their KV cache saved to {}", saved.tokens.size(), path));
  return OkStatus();
}

KvLayout LayoutOf(const GenerateOptions& options, const ModelConfig& config) {
  return {config.head_dim, options.kv_dtype()};
}

Status PrepareFront(const GenerateOptions& asked, const Checkpoint& model, const ShardPlan& plan, Front* front) {
  const ModelConfig& config = model.config();
  GenerateOptions options = asked;
  for (const std::string& note :
       TakeSamplingDefaults(model.generation_defaults(), options.sampling_given, &options.sampling)) {
    Note(note);
  }
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, model.LoadTokenizer());
  if (options.load_kv) {
    WINNOW_ASSIGN_OR_RETURN(front->prepared, PrepareResumedRequest(options, front->file_model, tokenizer));
  } else {
    WINNOW_ASSIGN_OR_RETURN(front->prepared, PrepareRequests(options, config, tokenizer));
  }
  if (options.save_kv) WINNOW_RETURN_IF_ERROR(PrepareSave(*options.save_kv, &front->prepared.requests));
  front->tokenizer = std::make_unique<Tokenizer>(std::move(tokenizer));
  for (const std::string& note : front->prepared.notes) Note(note);
  WINNOW_ASSIGN_OR_RETURN(front->memory, PlanKvMemory({.requests = &front->prepared.requests,
                                                       .max_num_seqs = options.max_num_seqs,
                                                       .context = front->prepared.context,
                                                       .bytes_per_rank = options.kv_cache_memory_bytes},
                                                      LayoutOf(options, config), config.num_layers, plan));
  return OkStatus();
}

// Whether any request's policy scores by attention mass.
bool ObservesAttention(const std::vector<Request>& requests) {
  return std::any_of(requests.begin(), requests.end(), [](const Request& request) {
    return MakePolicy(request.eviction.policy).value()->observations().mass != ObservedMass::kNone;
  });
}

// Streams the tokens of a single request; several requests are printed whole, one after the other.
class TextPrinter {
 public:
  TextPrinter(const Front& front, bool enabled)
      : tokenizer_(*front.tokenizer), enabled_(enabled), streaming_(front.prepared.requests.size() == 1) {}

  void Token(int32_t id) {
    if (enabled_ && streaming_ && !tokenizer_.IsControl(id)) PrintOut(stream_.Push(tokenizer_.TokenBytes(id)));
  }
  void Finished(const Completion& completion) {
    if (!enabled_) return;
    if (streaming_) {
      PrintOut(stream_.Finish() + "\n");
    } else {
      PrintOut(fmt::format("--- request {} ({})\n{}\n", completion.request_id, Name(completion.finish_reason),
                           AnswerText(tokenizer_, completion.token_ids)));
    }
  }

 private:
  const Tokenizer& tokenizer_;
  const bool enabled_, streaming_;
  Utf8Stream stream_;
};

Status RunLeader(const GenerateOptions& options, Front* front, RankEngine& engine, Communicator& communicator,
                 int64_t pool_slots) {
  Leader leader(engine.runner(), communicator, {options.max_num_seqs, options.max_num_batched_tokens, pool_slots});
  for (const Request& request : front->prepared.requests) WINNOW_RETURN_IF_ERROR(leader.Submit(request));
  front->completions.resize(front->prepared.requests.size());
  TextPrinter printer(*front, !options.json);
  PromptProgress progress(front->prepared.requests);
  return leader.Run({.on_step = [&](const StepPlan& plan) { progress.StepDone(plan); },
                     .on_token = [&](int64_t, int32_t token) { printer.Token(token); },
                     .on_completion =
                         [&](const Completion& completion) {
                           printer.Finished(completion);
                           front->completions[size_t(completion.request_id)] = completion;
                         }});
}

Status Report(const GenerateOptions& options, const Front& front, const RunSummary& run) {
  const auto& requests = front.prepared.requests;
  if (options.json) {
    for (size_t i = 0; i < requests.size(); ++i) {
      const std::string text = AnswerText(*front.tokenizer, front.completions[i].token_ids);
      PrintOut(CompletionJson(requests[i], front.completions[i], text, run).dump() + "\n");
    }
  } else {
    PrintOut("\n" + SummaryTable(requests, front.completions, run));
  }
  return CheckOutput();
}

// The first request that failed; the others have been answered.
Status FirstError(const Front& front) {
  for (const Completion& completion : front.completions) {
    if (!completion.error.ok()) {
      return Status(completion.error.code(),
                    "request " + std::to_string(completion.request_id) + ": " + completion.error.message());
    }
  }
  return OkStatus();
}

}  // namespace

Status RunGenerate(const Status& arguments, const GenerateOptions& options, Communicator& communicator) {
  const bool is_front = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return AgreeOnVerdict(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckGenerateOptions(options, communicator.size()) : arguments));

  WINNOW_ASSIGN_OR_RETURN(const auto model, OpenModel(options, communicator));
  const ModelConfig& config = model->config();
  const auto plan = MakeShardPlan(ShardDimsOf(config), communicator.size());
  WINNOW_CHECK(plan.ok());  // OpenModel has made one

  Front front;
  front.file_model = SequenceFileModelOf(options, config, model->Fingerprint());
  WINNOW_RETURN_IF_ERROR(agree(is_front ? PrepareFront(options, *model, *plan, &front) : OkStatus()));
  // What the other ranks' pools need to know of the requests: slots, and whether attention is observed.
  int64_t pool_needs[2] = {0, 0};
  if (is_front) {
    pool_needs[0] = front.memory.pool_slots;
    pool_needs[1] = ObservesAttention(front.prepared.requests);
  }
  communicator.AllReduce(std::span<int64_t>(pool_needs), ReduceOp::kMax);
  const int64_t pool_slots = pool_needs[0];
  if (is_front) fmt::print(stderr, "{}\n", KvBill(front.memory, LayoutOf(options, config), pool_needs[1] != 0));

  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_front && !warning.empty()) Note(warning);
  WINNOW_ASSIGN_OR_RETURN(
      const auto engine,
      LoadEngine(*model, ToEngineOptions(options, threads, pool_slots, pool_needs[1] != 0), communicator));

  const Status status = is_front ? RunLeader(options, &front, *engine, communicator, pool_slots)
                                 : RunWorker(engine->runner(), communicator);
  if (!status.ok()) communicator.Abort(status);  // others may be inside a collective: nobody can go on

  RunSummary run{.config = config,
                 .num_ranks = communicator.size(),
                 .threads_per_rank = threads,
                 .backend = engine->backend().name() + ", " + engine->backend().kernels(),
                 .numerics = options.numerics,
                 .kv_cache_dtype = options.kv_cache_dtype,
                 .communicator = communicator.name(),
                 .work = engine->GatherWork()};
  Status answered = OkStatus();
  if (is_front) {
    answered = Report(options, front, run);
    if (answered.ok()) answered = FirstError(front);
    if (answered.ok() && options.save_kv) answered = Save(*options.save_kv, front);
  }
  return agree(answered);
}

}  // namespace winnow
