#include "launch/generate_command.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>

#include "base/progress_bar.h"
#include "engine/leader.h"
#include "engine/worker.h"
#include "launch/generate_report.h"
#include "launch/generate_requests.h"
#include "launch/kv_memory.h"
#include "launch/prompt_progress.h"
#include "launch/resumed_request.h"
#include "model/gguf_fingerprint.h"
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

void Note(const std::string& line) {
  fmt::print(stderr, "winnow: {}\n", line);
}

// To standard output at once; Report looks whether all of it went through.
void PrintOut(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

// One verdict for all ranks. The file that a rank cannot read is named with its rank and host; a wrong argument is
// wrong everywhere, so that its message goes without.
Status Agree(Communicator& communicator, const Status& mine) {
  const Status agreed = AgreeOnStatus(communicator, mine);
  return agreed.code() == StatusCode::kInvalidArgument && mine.code() == agreed.code() ? mine : agreed;
}

// Ranks with different models would wait for collectives that the others never call, or mix two texts. Collective.
Status CheckSameFile(Communicator& communicator, const GgufFile& file) {
  const uint64_t mine = FingerprintOf(file);
  uint64_t first;
  const auto all = communicator.AllGather(std::as_bytes(std::span(&mine, 1)));
  std::memcpy(&first, all.data(), sizeof(first));
  if (mine == first) return OkStatus();
  return BadFile(file.path() + " is not the model that rank 0 opened: metadata or tensor table differ (fingerprint " +
                 Hex(mine) + ", rank 0 has " + Hex(first) + ")");
}

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
  return {config.head_dim, options.kv_cache_dtype == "bf16" ? DType::kBF16 : DType::kF32};
}

Status PrepareFront(const GenerateOptions& options, const GgufFile& file, const ModelConfig& config,
                    const ShardPlan& plan, Front* front) {
  WINNOW_ASSIGN_OR_RETURN(Tokenizer tokenizer, Tokenizer::FromGguf(file));
  if (tokenizer.vocab_size() > config.vocab_size) {
    return BadFile(options.model_path + ": the tokenizer has " + std::to_string(tokenizer.vocab_size()) +
                   " tokens, the model " + std::to_string(config.vocab_size) + " vocabulary rows");
  }
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

// The text of an answer: without the stop token and other control tokens.
std::string TextOf(const Tokenizer& tokenizer, const std::vector<int32_t>& ids) {
  Utf8Stream stream;
  std::string text;
  for (int32_t id : ids) {
    if (!tokenizer.IsControl(id)) text += stream.Push(tokenizer.TokenBytes(id));
  }
  return text + stream.Finish();
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
                           TextOf(tokenizer_, completion.token_ids)));
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
      const std::string text = TextOf(*front.tokenizer, front.completions[i].token_ids);
      PrintOut(CompletionJson(requests[i], front.completions[i], text, run).dump() + "\n");
    }
  } else {
    PrintOut("\n" + SummaryTable(requests, front.completions, run));
  }
  // A full disk must not pass for a finished run.
  if (std::ferror(stdout) != 0) return InternalError("standard output could not be written");
  return OkStatus();
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

EngineOptions ToEngineOptions(const GenerateOptions& options, DType kv_cache_dtype, int threads, int64_t pool_slots,
                              bool observe) {
  return {.backend = options.backend,
          .cpu_kernels = options.cpu_kernels,
          .num_threads = threads,
          .numerics = options.numerics == "exact" ? Numerics::kExact : Numerics::kFast,
          .kv_cache_dtype = kv_cache_dtype,
          .pool_slots = pool_slots,
          .observe_attention = observe,
          .check_ranks = options.check_ranks};
}

}  // namespace

Status RunGenerate(const Status& arguments, const GenerateOptions& options, Communicator& communicator) {
  const bool is_front = communicator.rank() == 0;
  const auto agree = [&](const Status& mine) { return Agree(communicator, mine); };
  WINNOW_RETURN_IF_ERROR(agree(arguments.ok() ? CheckGenerateOptions(options, communicator.size()) : arguments));

  auto file = GgufFile::Open(options.model_path);
  WINNOW_RETURN_IF_ERROR(agree(file.status()));
  WINNOW_RETURN_IF_ERROR(agree(CheckSameFile(communicator, *file)));
  auto config = ReadModelConfig(*file);
  WINNOW_RETURN_IF_ERROR(agree(config.status()));
  const auto plan = MakeShardPlan(ShardDimsOf(*config), communicator.size());
  WINNOW_RETURN_IF_ERROR(agree(plan.status()));

  Front front;
  front.file_model = SequenceFileModelOf(options, *config, FingerprintOf(*file));
  WINNOW_RETURN_IF_ERROR(agree(is_front ? PrepareFront(options, *file, *config, *plan, &front) : OkStatus()));
  // What the other ranks' pools need to know of the requests: slots, and whether attention is observed.
  int64_t pool_needs[2] = {0, 0};
  if (is_front) {
    pool_needs[0] = front.memory.pool_slots;
    pool_needs[1] = ObservesAttention(front.prepared.requests);
  }
  communicator.AllReduce(std::span<int64_t>(pool_needs), ReduceOp::kMax);
  const int64_t pool_slots = pool_needs[0];
  if (is_front) fmt::print(stderr, "{}\n", KvBill(front.memory, LayoutOf(options, *config), pool_needs[1] != 0));

  std::string warning;
  const int threads = ResolveThreads(options.threads, &warning);
  if (is_front && !warning.empty()) Note(warning);
  std::unique_ptr<ProgressBar> bar;
  if (is_front) {
    uint64_t total = 0;
    for (const GgufTensor& tensor : file->tensors()) total += uint64_t(tensor.num_bytes);
    bar = std::make_unique<ProgressBar>(
        ForStandardError({.label = "loading weights", .total = total, .unit = ProgressOptions::Unit::kBytes}));
  }
  auto engine = RankEngine::Make(
      *file, *config,
      ToEngineOptions(options, LayoutOf(options, *config).dtype, threads, pool_slots, pool_needs[1] != 0), communicator,
      [&](int64_t done, int64_t) {
        if (bar) bar->Update(uint64_t(done));
      });
  WINNOW_RETURN_IF_ERROR(agree(engine.status()));
  if (bar) bar->Finish();

  const Status status = is_front ? RunLeader(options, &front, **engine, communicator, pool_slots)
                                 : RunWorker((*engine)->runner(), communicator);
  if (!status.ok()) communicator.Abort(status);  // others may be inside a collective: nobody can go on

  RunSummary run{.config = *config,
                 .num_ranks = communicator.size(),
                 .threads_per_rank = threads,
                 .backend = (*engine)->backend().name() + ", " + (*engine)->backend().kernels(),
                 .numerics = options.numerics,
                 .kv_cache_dtype = options.kv_cache_dtype,
                 .communicator = communicator.name(),
                 .work = (*engine)->GatherWork()};
  Status answered = OkStatus();
  if (is_front) {
    answered = Report(options, front, run);
    if (answered.ok()) answered = FirstError(front);
    if (answered.ok() && options.save_kv) answered = Save(*options.save_kv, front);
  }
  return agree(answered);
}

}  // namespace winnow
