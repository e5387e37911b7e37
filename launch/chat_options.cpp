#include "launch/chat_options.h"

#include <CLI/CLI.hpp>
#include <limits>

#include "launch/eviction_flags.h"
#include "launch/generate_options.h"

namespace winnow {

void AddChatFlags(CLI::App& command, ChatOptions* o) {
  AddEngineFlags(command, o);
  command.add_option("--system", o->system, "a system message in front of the conversation");
  command.add_option("--chat-template", o->template_path, "a file with a Jinja template; default: the model file's");
  command.add_option("--max-tokens", o->max_tokens, "tokens of an answer at most")->capture_default_str();
  AddSamplingFlags(command, &o->sampling);
  command.add_option("--seed", o->seed, "of sampling and of random eviction; none: drawn and said");
  command.add_option("--kv-eviction", o->eviction.policy, "policy (see winnow generate --help)")->capture_default_str();
  auto* budget =
      command.add_option("--kv-budget", o->eviction.budget, "tokens that every KV head keeps after an eviction");
  auto* ratio =
      command.add_option("--kv-ratio", o->eviction.budget_ratio, "refused in a chat, which grows with every line");
  auto* bytes = command.add_option("--kv-budget-bytes", o->eviction.budget_bytes,
                                   "the same in bytes of keys and values, over all ranks");
  budget->excludes(ratio)->excludes(bytes);
  ratio->excludes(bytes);
  AddEvictionFlags(command, &o->eviction);
  command.add_option(
      "--max-model-len,--context-length,-c,--ctx-size", o->max_model_len,
      "tokens of the conversation; default: the model's context, " + std::to_string(kDefaultChatContext) + " at most");
  command
      .add_option("--max-num-batched-tokens,--chunked-prefill-size", o->max_num_batched_tokens,
                  "token rows of one step, at most " + std::to_string(kMaxBatchedTokens))
      ->capture_default_str();
  RefuseOddIntegers(command);
  command.callback([o, &command] { o->sampling_given = FindGivenSampling(command); });
}

Status CheckChatOptions(const ChatOptions& o, int num_ranks) {
  const auto in_range = [](const char* flag, int64_t value, int64_t highest) {
    if (value >= 1 && value <= highest) return OkStatus();
    return InvalidArgument(std::string(flag) + ": expected 1 to " + std::to_string(highest) + ", found " +
                           std::to_string(value));
  };
  constexpr int64_t kHighest = std::numeric_limits<int32_t>::max();
  WINNOW_RETURN_IF_ERROR(in_range("--max-tokens", o.max_tokens, kHighest));
  WINNOW_RETURN_IF_ERROR(in_range("--max-num-batched-tokens", o.max_num_batched_tokens, kMaxBatchedTokens));
  if (o.max_model_len) {
    // One token of the conversation and one of the answer.
    WINNOW_RETURN_IF_ERROR(in_range("--max-model-len", *o.max_model_len, kHighest));
    if (*o.max_model_len < 2) return InvalidArgument("--max-model-len: expected 2 or more, found 1");
  }
  if (o.eviction.protect_prompt) {
    return InvalidArgument(
        "--kv-protect-prompt: every earlier line of a chat is its prompt, so nothing could be evicted");
  }
  if (o.eviction.budget_ratio) {
    return InvalidArgument("--kv-ratio: a chat grows with every line; give --kv-budget or --kv-budget-bytes");
  }
  WINNOW_RETURN_IF_ERROR(CheckEngineFlags(o, num_ranks));
  return CheckSamplingParams(o.sampling);
}

}  // namespace winnow
