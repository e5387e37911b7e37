#include "model/sampling_params.h"

#include <string>

namespace winnow {

Status CheckSamplingParams(const SamplingParams& params) {
  const auto refuse = [](const char* what, const char* range, double found) {
    return InvalidArgument(std::string(what) + ": expected " + range + ", found " + std::to_string(found));
  };
  if (!(params.temperature >= 0.0f) || !(params.temperature <= 100.0f)) {
    return refuse("temperature", "0 (greedy) to 100", params.temperature);
  }
  // Below 1e-4 the scaled logits of close candidates leave float's useful range; greedy is meant then.
  if (params.temperature > 0.0f && params.temperature < 1e-4f) {
    return refuse("temperature", "0 (greedy) or at least 0.0001", params.temperature);
  }
  if (params.top_k < 0) return refuse("top_k", "0 (no limit) or more", params.top_k);
  if (!(params.top_p > 0.0f) || !(params.top_p <= 1.0f)) return refuse("top_p", "above 0, at most 1", params.top_p);
  if (!(params.min_p >= 0.0f) || !(params.min_p < 1.0f)) return refuse("min_p", "0 to below 1", params.min_p);
  return OkStatus();
}

}  // namespace winnow
