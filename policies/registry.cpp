#include <array>
#include <string>

#include "base/check.h"
#include "policies/builtin_policies.h"
#include "policies/eviction_policy.h"

namespace winnow {
namespace {

struct Entry {
  std::string_view name;
  std::unique_ptr<EvictionPolicy> (*make)();
};

constexpr Entry kPolicies[] = {
    {"full", MakeFullPolicy},
    {"streaming-llm", MakeStreamingLlmPolicy},
    {"streaming-llm-compacted", MakeStreamingLlmCompactedPolicy},
    {"random", MakeRandomPolicy},
    {"h2o", MakeH2oPolicy},
    {"snapkv", MakeSnapKvPolicy},
    {"snapkv-prefill", MakeSnapKvPrefillPolicy},
    {"keydiff", MakeKeyDiffPolicy},
    {"knorm", MakeKnormPolicy},
    {"tova", MakeTovaPolicy},
    {"r-kv", MakeRKvPolicy},
    {"pyramidkv", MakePyramidKvPolicy},
    {"pyramidkv-prefill", MakePyramidKvPrefillPolicy},
    {"ada-snapkv", MakeAdaSnapKvPolicy},
    {"ada-snapkv-prefill", MakeAdaSnapKvPrefillPolicy},
    {"kvzip", MakeKvZipPolicy},
    {"kvzip-plus", MakeKvZipPlusPolicy},
    {"expected-attention", MakeExpectedAttentionPolicy},
    {"expected-attention-prefill", MakeExpectedAttentionPrefillPolicy},
    {"golden", MakeGoldenPolicy},
};

constexpr std::array<std::string_view, 3> kScopeNames = {"head", "layer", "sequence"};

constexpr std::array<std::string_view, 3> kAllocationNames = {"head", "layer", "sequence"};

constexpr std::array<std::string_view, 2> kTimingNames = {"chunked", "after_prefill"};

}  // namespace

std::string_view Name(EvictionTiming timing) {
  return kTimingNames[size_t(timing)];
}

std::string_view Name(EvictionScope scope) {
  return kScopeNames[size_t(scope)];
}

std::string_view Name(BudgetAllocation allocation) {
  return kAllocationNames[size_t(allocation)];
}

Result<BudgetAllocation> ParseBudgetAllocation(std::string_view name) {
  for (size_t i = 0; i < kAllocationNames.size(); ++i) {
    if (kAllocationNames[i] == name) return BudgetAllocation(i);
  }
  return InvalidArgument("KV budget allocation: expected head, layer or sequence, found \"" + std::string(name) + "\"");
}

Result<EvictionScope> ParseEvictionScope(std::string_view name) {
  for (size_t i = 0; i < kScopeNames.size(); ++i) {
    if (kScopeNames[i] == name) return EvictionScope(i);
  }
  return InvalidArgument("KV eviction scope: expected head, layer or sequence, found \"" + std::string(name) + "\"");
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.emplace_back(entry.name);
  return names;
}

Result<std::unique_ptr<EvictionPolicy>> MakePolicy(const std::string& name) {
  std::string known;
  for (const Entry& entry : kPolicies) {
    if (entry.name == name) return entry.make();
    known += (known.empty() ? "" : ", ") + std::string(entry.name);
  }
  return InvalidArgument("KV eviction policy: expected one of " + known + ", found \"" + name + "\"");
}

}  // namespace winnow
