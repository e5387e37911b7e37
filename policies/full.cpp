// Keeps everything: the full cache, which every other policy is compared with.
#include "base/check.h"
#include "policies/builtin_policies.h"

namespace winnow {
namespace {

class FullPolicy : public EvictionPolicy {
 public:
  std::string_view name() const override { return "full"; }
  bool evicts() const override { return false; }
  // The interface rules the call out, so that no eviction can ever be reported under this name.
  void Score(const HeadView&, std::span<float>) const override { WINNOW_CHECK(evicts()); }
};

}  // namespace

std::unique_ptr<EvictionPolicy> MakeFullPolicy() {
  return std::make_unique<FullPolicy>();
}

}  // namespace winnow
