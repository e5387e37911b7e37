#include "launch/eval_list_flags.h"

#include "policies/eviction_policy.h"

namespace winnow {

Status CheckPoliciesAndBudgets(const std::vector<std::string>& policies, const std::vector<int64_t>& budgets,
                               const std::vector<double>& ratios) {
  for (int64_t budget : budgets) {
    if (budget < 1) return InvalidArgument(fmt::format("--kv-budget: expected 1 or more, found {}", budget));
  }
  for (double ratio : ratios) {
    if (!(ratio > 0 && ratio < 1)) {
      return InvalidArgument(fmt::format("--kv-ratio: expected above 0 and below 1, found {}", ratio));
    }
  }
  for (const std::string& name : policies) {
    WINNOW_ASSIGN_OR_RETURN(const auto policy, MakePolicy(name));
    if (!policy->evicts()) {
      return InvalidArgument("--policies: " + name + " never evicts; every row is compared with it");
    }
  }
  WINNOW_RETURN_IF_ERROR(CheckListedOnce("--kv-budget", budgets));
  WINNOW_RETURN_IF_ERROR(CheckListedOnce("--kv-ratio", ratios));
  return CheckListedOnce("--policies", policies);
}

}  // namespace winnow
