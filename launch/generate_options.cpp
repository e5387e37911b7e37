#include "launch/generate_options.h"

#include <sched.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <limits>
#include <thread>

namespace winnow {
namespace {

// Cores that this process may run on.
int CoresAllowed() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return std::max(1, CPU_COUNT(&set));
}

// Ranks of this job on this host, as the launcher says.
int RanksOnThisHost() {
  for (const char* name : {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_NTASKS_PER_NODE"}) {
    if (const char* value = std::getenv(name)) return std::max(1, std::atoi(value));
  }
  return 1;
}

// CLI11 wraps a negative number, clamps one that is too large and reads 010 as 8: two seeds would silently be the same.
std::string CheckSeedText(const std::string& text) {
  uint64_t seed = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), seed);
  if (parsed.ec == std::errc() && text == std::to_string(seed)) return "";
  return "expected a whole number from 0 to " + std::to_string(std::numeric_limits<uint64_t>::max()) + ", found '" +
         text + "'";
}

// The same for all other whole numbers: a clamped or octal count of tokens would silently be another one.
std::string CheckIntegerText(const std::string& text) {
  int64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  if (parsed.ec == std::errc() && text == std::to_string(value)) return "";
  return "expected a whole number, found '" + text + "'";
}

std::string Joined(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

void AddGenerateFlags(CLI::App& command, GenerateOptions* o) {
  command.add_option("-m,--model,model", o->model_path, "model file (GGUF)")->required();
  auto* prompt = command.add_option_group("prompt", "what to continue");
  prompt->add_option("--prompt", o->prompt, "the text itself");
  prompt->add_option("--prompt-file", o->prompt_file, "a file with the text (UTF-8)");
  prompt->add_option("--prompts", o->prompts_file,
                     "a JSON Lines file: one object a line with \"prompt\" and, if they differ from the flags, "
                     "max_tokens, temperature, top_k, top_p, min_p, seed, ignore_eos, kv_eviction, kv_budget, "
                     "kv_ratio, kv_budget_bytes, kv_interval, kv_scope, kv_sink_tokens, kv_recent_tokens, "
                     "kv_protect_prompt");
  prompt->require_option(0, 1);  // CheckGenerateOptions says when none will do
  command.add_option("--max-tokens", o->max_tokens, "tokens to generate at most")->capture_default_str();
  command.add_option("--temperature", o->sampling.temperature, "0: greedy")->capture_default_str();
  command.add_option("--top-k", o->sampling.top_k, "0: no limit")->capture_default_str();
  command.add_option("--top-p", o->sampling.top_p, "probability mass to sample from")->capture_default_str();
  command.add_option("--min-p", o->sampling.min_p, "share of the highest probability a token needs")
      ->capture_default_str();
  command.add_option("--seed", o->seed, "of sampling and of random eviction; none: drawn and reported")
      ->check(CheckSeedText, "", "seed");
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
  command.add_option("--kv-interval", o->eviction.interval, "evict when a head holds budget + interval tokens")
      ->capture_default_str();
  command.add_option("--kv-sink-tokens", o->eviction.sink_tokens, "first tokens of the text, never evicted")
      ->capture_default_str();
  command
      .add_option("--kv-recent-tokens", o->eviction.recent_tokens,
                  "newest tokens, never evicted; h2o: at least half of the budget")
      ->capture_default_str();
  command.add_flag("--kv-protect-prompt", o->eviction.protect_prompt, "the whole prompt is never evicted");
  command
      .add_option_function<std::string>(
          "--kv-scope",
          [o](const std::string& name) {
            const auto scope = ParseEvictionScope(name);
            if (!scope.ok()) throw CLI::ValidationError(scope.status().message());
            o->eviction.scope = *scope;
          },
          "who shares a kept set: head, layer or sequence; default: the policy's own")
      ->type_name("TEXT");
  command.add_option("--kv-cache-dtype", o->kv_cache_dtype, "bf16 or f32")->capture_default_str();
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
  command.add_option("-t,--threads", o->threads, "threads per rank; default: the rank's share of its host's cores");
  command.add_option("--tp,--tensor-parallel-size,--tp-size", o->tensor_parallel_size,
                     "ranks; must equal the number that was launched");
  command
      .add_option("--numerics", o->numerics,
                  "exact: the same bits for any rank count, batch and chunking; fast: float sums")
      ->capture_default_str();
  command.add_option("--backend", o->backend, "cpu; for tests: guard, reference, reference-float")
      ->capture_default_str();
  command.add_option("--cpu-kernels", o->cpu_kernels, "auto, avx512, avx2 or plain; the bits are the same")
      ->capture_default_str();
  command.add_flag("--check-ranks", o->check_ranks,
                   "compare all ranks' tokens and cache lengths after every step, and the kept sets that ranks share "
                   "(scopes layer and sequence)");
  command.add_flag("--json", o->json, "one JSON object a request on standard output, nothing else");
  for (CLI::Option* option : command.get_options()) {
    if (option->get_type_name() == "INT") option->check(CheckIntegerText, "");
  }
  command.callback([o, &command] {
    o->kv_eviction_given = command.get_option("--kv-eviction")->count() > 0;
    o->kv_cache_dtype_given = command.get_option("--kv-cache-dtype")->count() > 0;
    for (const char* name : {"--kv-budget", "--kv-ratio", "--kv-budget-bytes", "--kv-interval", "--kv-scope",
                             "--kv-sink-tokens", "--kv-recent-tokens", "--kv-protect-prompt"}) {
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
  if (o.threads) WINNOW_RETURN_IF_ERROR(at_least_one("--threads", *o.threads));
  if (o.kv_cache_memory_bytes) {
    WINNOW_RETURN_IF_ERROR(at_least_one("--kv-cache-memory-bytes", *o.kv_cache_memory_bytes));
  }
  if (o.max_model_len) WINNOW_RETURN_IF_ERROR(at_least_one("--max-model-len", *o.max_model_len));
  if (o.max_model_len.value_or(1) > std::numeric_limits<int32_t>::max()) {
    return InvalidArgument("--max-model-len: expected at most " + std::to_string(std::numeric_limits<int32_t>::max()) +
                           ", found " + std::to_string(*o.max_model_len));
  }
  if (o.numerics != "exact" && o.numerics != "fast") {
    return InvalidArgument("--numerics: expected exact or fast, found '" + o.numerics + "'");
  }
  if (o.kv_cache_dtype != "bf16" && o.kv_cache_dtype != "f32") {
    return InvalidArgument("--kv-cache-dtype: expected bf16 or f32, found '" + o.kv_cache_dtype + "'");
  }
  if (o.tensor_parallel_size && *o.tensor_parallel_size != num_ranks) {
    return InvalidArgument("--tensor-parallel-size " + std::to_string(*o.tensor_parallel_size) + ", but " +
                           std::to_string(num_ranks) + (num_ranks == 1 ? " rank was" : " ranks were") +
                           " launched: start winnow with mpirun -np " + std::to_string(*o.tensor_parallel_size));
  }
  return CheckSamplingParams(o.sampling);
}

int ResolveThreads(const std::optional<int>& asked, std::string* warning) {
  const int allowed = CoresAllowed(), ranks = RanksOnThisHost();
  // Launchers that bind give every rank its own cores; without binding all ranks see the same ones.
  const bool bound = allowed * ranks <= int(std::thread::hardware_concurrency());
  const int share = std::max(1, bound ? allowed : allowed / ranks);
  if (!asked) return share;
  if (*asked > allowed) {
    *warning = std::to_string(*asked) + " threads on " + std::to_string(allowed) +
               " core(s): this rank may not run on more; give mpirun --bind-to none or fewer --threads";
  }
  return *asked;
}

}  // namespace winnow
