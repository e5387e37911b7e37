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
    {"random", MakeRandomPolicy},
};

}  // namespace

std::string_view Name(EvictionScope scope) {
  constexpr std::array<std::string_view, 3> kNames = {"head", "layer", "sequence"};
  return kNames[size_t(scope)];
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
