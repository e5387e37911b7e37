#include "launch/resumed_request.h"

#include <algorithm>
#include <utility>

#include "launch/text_file.h"

namespace winnow {
namespace {

Status Contradiction(const GenerateOptions& options, const std::string& flag, const std::string& saved,
                     const std::string& asked) {
  if (saved == asked) return OkStatus();
  return InvalidArgument(flag + " " + asked + ": expected " + saved + ", with which " + *options.load_kv +
                         " was saved, or no such flag");
}

// A cache goes on as it began: flags may repeat what the file says, and say nothing else.
Status CheckFlags(const GenerateOptions& options, const EvictionSettings& saved) {
  const EvictionSettings& asked = options.eviction;
  if (options.kv_eviction_given) {
    WINNOW_RETURN_IF_ERROR(Contradiction(options, "--kv-eviction", saved.policy, asked.policy));
  }
  const auto policy = MakePolicy(saved.policy).value();
  const auto number = [](int64_t value) { return std::to_string(value); };
  const auto name = [](const auto& choice) { return choice ? std::string(Name(*choice)) : "none"; };
  for (const std::string& flag : options.eviction_flags) {
    const auto same = [&](const std::string& of_file, const std::string& of_flag) {
      return Contradiction(options, flag, of_file, of_flag);
    };
    Status status;
    if (flag == "--kv-budget") {
      status = same(number(saved.budget), number(asked.budget));
    } else if (flag == "--kv-interval") {
      status = same(number(saved.interval), number(asked.interval));
    } else if (flag == "--kv-sink-tokens") {
      status = same(number(saved.sink_tokens), number(asked.sink_tokens));
    } else if (flag == "--kv-recent-tokens") {
      // The policy may have raised it.
      const int64_t recent = policy->RecentTokens(saved.budget, asked.recent_tokens);
      status = same(number(saved.recent_tokens), number(recent == saved.recent_tokens ? recent : asked.recent_tokens));
    } else if (flag == "--kv-scope") {
      status = same(name(saved.scope), name(asked.scope));
    } else if (flag == "--kv-allocation") {
      status = same(name(saved.allocation), name(asked.allocation));
    } else if (flag == "--kv-protect-prompt") {
      if (!saved.protect_prompt) {
        status = InvalidArgument(flag + ": " + *options.load_kv + " was saved without it");
      }
    } else {
      status = InvalidArgument(flag + ": the budget is the one that " + *options.load_kv + " was saved with, " +
                               number(saved.budget) + " tokens per KV head: leave the flag out");
    }
    WINNOW_RETURN_IF_ERROR(status);
  }
  return OkStatus();
}

// The text to append, or none.
Result<std::optional<std::string>> AppendedText(const GenerateOptions& options) {
  if (options.prompt) return options.prompt;
  if (!options.prompt_file) return std::optional<std::string>();
  WINNOW_ASSIGN_OR_RETURN(std::string text, ReadTextFile(*options.prompt_file, "prompt file"));
  return std::optional<std::string>(std::move(text));
}

}  // namespace

SequenceFileModel SequenceFileModelOf(const GenerateOptions& options, const ModelConfig& config, uint64_t fingerprint) {
  return {.config = config,
          .fingerprint = fingerprint,
          .kv_cache_dtype = options.kv_dtype(),
          .numerics = options.numerics_mode()};
}

Result<PreparedRequests> PrepareResumedRequest(const GenerateOptions& options, const SequenceFileModel& model,
                                               const Tokenizer& tokenizer) {
  if (options.kv_cache_dtype_given) {
    WINNOW_ASSIGN_OR_RETURN(const std::string dtype, SavedCacheDType(*options.load_kv));
    WINNOW_RETURN_IF_ERROR(Contradiction(options, "--kv-cache-dtype", dtype, options.kv_cache_dtype));
  }
  WINNOW_ASSIGN_OR_RETURN(SavedSequence saved, LoadSequence(*options.load_kv, model));
  WINNOW_RETURN_IF_ERROR(CheckFlags(options, saved.eviction));
  PreparedRequests prepared;
  prepared.context = options.max_model_len.value_or(model.config.max_context);

  Request request;
  request.prompt = std::move(saved.tokens);
  request.original_prompt_tokens = saved.prompt_tokens;
  WINNOW_ASSIGN_OR_RETURN(const auto text, AppendedText(options));
  if (text) {
    const auto refuse = [&](const std::string& message) {
      return InvalidArgument(options.prompt_file.value_or("--prompt") + ": " + message);
    };
    if (text->empty()) return refuse("the prompt is empty");
    const auto policy = MakePolicy(saved.eviction.policy).value();
    if (policy->HasLayerBudgets() && policy->timing() == EvictionTiming::kAfterPrefill) {
      return refuse("policy " + saved.eviction.policy + " has cut the layers of " + *options.load_kv +
                    " for the prompt it was saved with: nothing can be appended, only continued");
    }
    const auto more = tokenizer.Encode(*text, {.add_bos = false});
    if (!more.ok()) return refuse(more.status().message());
    if (more->empty()) return refuse("the prompt has no token in this model's vocabulary");
    request.prompt.insert(request.prompt.end(), more->begin(), more->end());
    request.original_prompt_tokens = 0;
  }
  const int64_t length = int64_t(request.prompt.size());
  if (length >= prepared.context) {
    return InvalidArgument(*options.load_kv + ": the text so far has " + std::to_string(length) +
                           " tokens, the context " + std::to_string(prepared.context) + ": raise --max-model-len");
  }
  request.max_tokens = std::min(options.max_tokens, prepared.context - length);
  if (request.max_tokens < options.max_tokens) {
    prepared.notes.push_back(*options.load_kv + ": the answer ends after " + std::to_string(request.max_tokens) +
                             " tokens, where the context of " + std::to_string(prepared.context) + " is full");
  }
  // A longer prompt may be too long to be protected.
  WINNOW_ASSIGN_OR_RETURN(
      request.eviction,
      ResolveEviction(saved.eviction, {.prompt_tokens = request.prompt_tokens(),
                                       .pinned_slots = int64_t(saved.resume->cache.pinned_positions.size()),
                                       .max_tokens = prepared.context}));
  if (!options.ignore_eos) request.stop_token_ids = tokenizer.eos_ids();
  request.sampling = options.sampling;
  request.sampling.seed = options.seed.value_or(saved.seed);
  request.choice_index = saved.choice_index;
  request.resume = std::move(saved.resume);
  prepared.requests.push_back(std::move(request));
  return prepared;
}

}  // namespace winnow
