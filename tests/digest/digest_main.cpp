// digest [--float-sums]: runs tiny random models and prints one line a request: kernels, case, and digests of every
// logit, token, log-probability and kept set. compare.py runs several builds of this program: another compiler or
// optimisation level must print the same lines, and so must every set of kernels.
// --float-sums: two ranks with float sums (--numerics fast), whose bits are known to differ: the control.
#include <cstdio>
#include <cstring>
#include <sstream>

#include "compute/cpu/kernels.h"
#include "tests/e2e/requests.h"
#include "tests/support/group_run.h"
#include "tests/support/tiny_model.h"

namespace winnow {
namespace {

constexpr int64_t kMaxTokens = 16;

// Prompts of 5 to 153 tokens, greedy and sampled, evicted in prefill and decode; then every policy under every scope.
std::vector<Request> Requests(const ModelConfig& config, bool all_policies) {
  std::vector<Request> requests = MixedRequests(5, config.vocab_size, kMaxTokens);
  if (!all_policies) return requests;
  for (const std::string& policy : PoliciesOfAnyText()) {
    if (policy == "full") continue;  // is among the five, and takes no budget
    for (EvictionScope scope : {EvictionScope::kHead, EvictionScope::kLayer, EvictionScope::kSequence}) {
      Request request = MixedRequest(3, config.vocab_size, kMaxTokens);
      request.id = int64_t(requests.size());
      request.eviction.policy = policy;
      request.eviction.scope = scope;
      requests.push_back(request);
    }
  }
  return requests;
}

bool Print(const char* kernels, const std::string& name, const TinyModel& model, const RunSettings& settings,
           int num_ranks, const std::vector<Request>& requests) {
  const RunOutcome outcome = RunOnThreads(num_ranks, model.file, model.config, settings, requests);
  if (!outcome.status.ok()) {
    std::fprintf(stderr, "digest: %s %s: %s\n", kernels, name.c_str(), outcome.status.message().c_str());
    return false;
  }
  std::istringstream lines(Describe(outcome));
  for (std::string line; std::getline(lines, line);) std::printf("%s %s %s\n", kernels, name.c_str(), line.c_str());
  return true;
}

int Main(bool float_sums) {
  struct Case {
    DType weights, cache;
    int64_t chunk;
    int num_threads;
    bool all_policies;
  };
  static constexpr Case kCases[] = {
      {DType::kQ4_1, DType::kBF16, 512, 2, true}, {DType::kQ4_0, DType::kF32, 7, 1, false},
      {DType::kQ8_0, DType::kBF16, 64, 2, false}, {DType::kBF16, DType::kF32, 64, 1, false},
      {DType::kF32, DType::kBF16, 7, 1, false},
  };
  for (const cpu::KernelSet& set : cpu::KernelSets()) {
    if (!set.runs_here) continue;
    for (const Case& c : kCases) {
      // Small: at -O1 the plain kernels are slow.
      const TinyModel model(
          TinyModelSpec{.num_query_heads = 6, .num_kv_heads = 2, .ffn_size = 384, .weights = c.weights});
      RunSettings settings{.engine = {.cpu_kernels = set.name,
                                      .num_threads = c.num_threads,
                                      .kv_cache_dtype = c.cache,
                                      .pool_slots = 8192},
                           .limits = {.max_num_batched_tokens = c.chunk}};
      if (float_sums) settings.engine.numerics = Numerics::kFast;
      const std::string name =
          std::string(Name(c.weights)) + " " + std::string(Name(c.cache)) + " chunk " + std::to_string(c.chunk);
      if (!Print(set.name, name, model, settings, float_sums ? 2 : 1, Requests(model.config, c.all_policies))) return 1;
    }
  }
  return 0;
}

}  // namespace
}  // namespace winnow

int main(int argc, char** argv) {
  return winnow::Main(argc == 2 && std::strcmp(argv[1], "--float-sums") == 0);
}
