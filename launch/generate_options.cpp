#include "launch/generate_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <limits>

#include "launch/eviction_flags.h"

namespace winnow {
namespace {

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void AddGenerateFlags(CLI::App& command, GenerateOptions* o) {
  AddEngineFlags(command, o);
  auto* prompt = command.add_option_group("prompt", "what to continue");
  prompt->add_option("--prompt", o->prompt, "the text itself");
  prompt->add_option("--prompt-file", o->prompt_file, "a file with the text (UTF-8)");
  prompt->add_option(
      "--prompts", o->prompts_file,
      "a JSON Lines file: one object a line with \"prompt\" (text or a list of token ids) and, if they differ from the "
      "flags, "
      "max_tokens, temperature, top_k, top_p, min_p, seed, ignore_eos, kv_eviction, kv_budget, "
      "kv_ratio, kv_budget_bytes, kv_interval, kv_scope, kv_allocation, kv_sink_tokens, kv_recent_tokens, "
      "kv_protect_prompt");
  prompt->require_option(0, 1);  // CheckGenerateOptions says when none will do
  command.add_option("--max-tokens", o->max_tokens, "tokens to generate at most")->capture_default_str();
  AddSamplingFlags(command, &o->sampling);
  command.add_option("--seed", o->seed, "of sampling and of random eviction; none: drawn and reported");
  command.add_flag("--ignore-eos", o->ignore_eos, "go on after an end-of-text token");
  command.add_option("--kv-eviction", o->eviction.policy, "policy: " + Joined(PolicyNames()))->capture_default_str();
  auto* budget =
      command.add_option("--kv-budget", o->eviction.budget, "tokens that every KV head keeps after an eviction");
  auto* ratio = command.add_option("--kv-ratio", o->eviction.budget_ratio,
                                   "the same as a share of a full cache of the prompt: more than 0, at most 1");
  auto* bytes = command.add_option("--kv-budget-bytes", o->eviction.budget_bytes,
                                   "the same in bytes of keys and values of a sequence, over all ranks");
  budget->excludes(ratio)->excludes(bytes);
  ratio->excludes(bytes);
  AddEvictionFlags(command, &o->eviction);
  command.add_option("--kv-cache-memory-bytes", o->kv_cache_memory_bytes,
                     "KV pages of each rank, in bytes; default: what the prompts need");
  command.add_option("--save-kv", o->save_kv,
                     "save the text and its KV cache here when the answer is over (one prompt)");
  command.add_option("--load-kv", o->load_kv,
                     "go on from a saved text, on any number of ranks; a prompt is appended to it");
  command.add_option("--max-model-len,--context-length,-c,--ctx-size", o->max_model_len,
                     "tokens of prompt and answer; default: the model's context");
  command
      .add_option("--max-num-seqs,--max-running-requests,--parallel", o->max_num_seqs,
                  "prompts worked on at the same time")
      ->capture_default_str();
  command
      .add_option("--max-num-batched-tokens,--chunked-prefill-size", o->max_num_batched_tokens,
                  "token rows of one step, at most " + std::to_string(kMaxBatchedTokens) +
                      "; longer prompts are read in chunks")
      ->capture_default_str();
  command.add_flag("--json", o->json, "one JSON object a request on standard output, nothing else");
  RefuseOddIntegers(command);
  command.callback([o, &command] {
    o->sampling_given = FindGivenSampling(command);
    o->kv_eviction_given = command.get_option("--kv-eviction")->count() > 0;
    o->kv_cache_dtype_given = command.get_option("--kv-cache-dtype")->count() > 0;
    for (const char* name : {"--kv-budget", "--kv-ratio", "--kv-budget-bytes", "--kv-interval", "--kv-scope",
                             "--kv-allocation", "--kv-sink-tokens", "--kv-recent-tokens", "--kv-protect-prompt"}) {
      if (command.get_option(name)->count() > 0) o->eviction_flags.push_back(name);
    }
  });
}

Status CheckGenerateOptions(const GenerateOptions& o, int num_ranks) {
  const auto at_least_one = [](const char* flag, int64_t value) {
    return value >= 1 ? OkStatus()
                      : InvalidArgument(std::string(flag) + ": expected 1 or more, found " + std::to_string(value));
  };
  if (!o.prompt && !o.prompt_file && !o.prompts_file && !o.load_kv) {
    return InvalidArgument("expected one of --prompt, --prompt-file, --prompts and --load-kv, found none");
  }
  if (o.prompts_file && o.load_kv) {
    return InvalidArgument("--load-kv: a saved text takes one prompt or none, found --prompts");
  }
  WINNOW_RETURN_IF_ERROR(at_least_one("--max-tokens", o.max_tokens));
  WINNOW_RETURN_IF_ERROR(at_least_one("--max-num-seqs", o.max_num_seqs));
  WINNOW_RETURN_IF_ERROR(at_least_one("--max-num-batched-tokens", o.max_num_batched_tokens));
  if (o.max_num_batched_tokens > kMaxBatchedTokens) {
    return InvalidArgument("--max-num-batched-tokens: expected at most " + std::to_string(kMaxBatchedTokens) +
                           ", found " + std::to_string(o.max_num_batched_tokens));
  }
  WINNOW_RETURN_IF_ERROR(CheckEngineFlags(o, num_ranks));
  if (o.kv_cache_memory_bytes) {
    WINNOW_RETURN_IF_ERROR(at_least_one("--kv-cache-memory-bytes", *o.kv_cache_memory_bytes));
  }
  if (o.max_model_len) WINNOW_RETURN_IF_ERROR(at_least_one("--max-model-len", *o.max_model_len));
  if (o.max_model_len.value_or(1) > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("--max-model-len: expected at most " + std::to_string(std::numeric_limits<int32_t>::max()) +
                           ", found " + std::to_string(*o.max_model_len));
  }
  return CheckSamplingParams(o.sampling);
}

}  // namespace winnow
