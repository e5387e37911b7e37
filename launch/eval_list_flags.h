// What the flags of evaluations that take lists have in common: which values may stand in them. Any thread.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

// InvalidArgument naming the first value that stands twice: its rows would be counted or shown twice.
template <class T>
Status CheckListedOnce(const char* flag, const std::vector<T>& values) {
  for (const T& value : values) {
    if (std::count(values.begin(), values.end(), value) > 1) {
      return InvalidArgument(fmt::format("{}: {} is given twice", flag, value));
    }
  }
  return OkStatus();
}

// --policies, --kv-budget and --kv-ratio: known policies that evict, budgets of 1 or more, ratios between 0 and 1, each
// once. InvalidArgument.
Status CheckPoliciesAndBudgets(const std::vector<std::string>& policies, const std::vector<int64_t>& budgets,
                               const std::vector<double>& ratios);

}  // namespace winnow
