// Inputs and results of eviction policies as tests/golden/policy_oracle.py has them (tests/golden/README.md describes
// the files). For tests of policies; one thread.
#pragma once

#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "base/check.h"
#include "tests/model/golden_files.h"

namespace winnow {

class GoldenCase {
 public:
  // "policies_gqa2": the .json and the .bin file of this name.
  explicit GoldenCase(const std::string& name)
      : json_(nlohmann::json::parse(ReadGolden(name + ".json"))), bytes_(ReadGolden(name + ".bin")) {}

  int64_t Size(const std::string& name) const { return json_.at("case").at(name).get<int64_t>(); }
  double Number(const std::string& name) const { return json_.at("case").at(name).get<double>(); }
  int64_t group() const { return Size("query_heads") / Size("kv_heads"); }
  const nlohmann::json& results() const { return json_.at("results"); }
  const nlohmann::json& Result(const std::string& policy, const std::string& form) const {
    for (const nlohmann::json& result : results()) {
      if (result.at("policy") == policy && result.at("form") == form) return result;
    }
    WINNOW_CHECK(false && "no such result");
    return results();
  }

  // KVzip's chunks, in order: start, end, tokens of the replay.
  const nlohmann::json& replays() const { return json_.at("replays"); }

  bool Has(const std::string& array) const { return json_.at("arrays").contains(array); }
  // All numbers of a bf16 or f32 array, last index fastest.
  std::vector<float> Floats(const std::string& array) const {
    const nlohmann::json& entry = json_.at("arrays").at(array);
    if (entry.at("dtype") == "f32") return Take<float>(entry);
    WINNOW_CHECK(entry.at("dtype") == "bf16");
    std::vector<float> floats;
    for (uint16_t upper : Take<uint16_t>(entry)) {
      const uint32_t bits = uint32_t(upper) << 16;
      std::memcpy(&floats.emplace_back(), &bits, sizeof(bits));
    }
    return floats;
  }
  // Of a u8 array.
  std::vector<int32_t> Integers(const std::string& array) const {
    const nlohmann::json& entry = json_.at("arrays").at(array);
    WINNOW_CHECK(entry.at("dtype") == "u8");
    const std::vector<uint8_t> bytes = Take<uint8_t>(entry);
    return {bytes.begin(), bytes.end()};
  }

 private:
  template <class T>
  std::vector<T> Take(const nlohmann::json& entry) const {
    size_t count = 1;
    for (const auto& extent : entry.at("shape")) count *= extent.get<size_t>();
    const size_t offset = entry.at("offset").get<size_t>();
    WINNOW_CHECK(offset + count * sizeof(T) <= bytes_.size());
    std::vector<T> numbers(count);
    std::memcpy(numbers.data(), bytes_.data() + offset, count * sizeof(T));
    return numbers;
  }

  nlohmann::json json_;
  std::string bytes_;
};

// One eviction of one head, [layer * kv_heads + head] of a GoldenEviction.
struct GoldenHead {
  std::vector<int32_t> held;    // positions before it, ascending
  std::vector<float> scores;    // [held]
  std::vector<int32_t> scored;  // [held] 0: the method has no score here
  std::vector<int32_t> kept;    // positions, ascending
};
using GoldenEviction = std::vector<GoldenHead>;

// Every eviction of a result, in order; one of them unless the form is periodic.
inline std::vector<GoldenEviction> Evictions(const GoldenCase& golden, const nlohmann::json& result) {
  const std::string form = result.at("form"), prefix = std::string(result.at("policy")) + "/" + form + "/";
  const bool is_periodic = form == "periodic";
  const size_t num_evictions = is_periodic ? result.at("evictions").get<size_t>() : 1;
  const size_t heads = size_t(golden.Size("layers") * golden.Size("kv_heads"));
  const std::vector<float> scores = golden.Floats(prefix + "scores");
  const std::vector<int32_t> kept = golden.Integers(prefix + "kept");
  const std::vector<int32_t> scored =
      golden.Has(prefix + "scored") ? golden.Integers(prefix + "scored") : std::vector<int32_t>(scores.size(), 1);
  const std::vector<int32_t> counts =
      is_periodic ? std::vector<int32_t>(num_evictions * heads, result.at("budget").get<int32_t>())
                  : golden.Integers(prefix + "counts");
  const size_t length = scores.size() / (num_evictions * heads);
  std::vector<GoldenEviction> evictions(num_evictions, GoldenEviction(heads));
  size_t next_kept = 0;
  for (size_t i = 0; i < num_evictions * heads; ++i) {
    GoldenHead& head = evictions[i / heads][i % heads];
    if (i >= heads) head.held = evictions[i / heads - 1][i % heads].kept;
    const size_t kept_before = head.held.size();
    // The tokens since then.
    const size_t next = i < heads ? 0 : length + (i / heads - 1) * (length - kept_before);
    head.held.resize(length);
    std::iota(head.held.begin() + int64_t(kept_before), head.held.end(), int32_t(next));
    const auto part = [&](const auto& all) {
      return std::vector(all.begin() + int64_t(i * length), all.begin() + int64_t((i + 1) * length));
    };
    head.scores = part(scores);
    head.scored = part(scored);
    const size_t count = size_t(counts[i]);
    head.kept.assign(kept.begin() + int64_t(next_kept), kept.begin() + int64_t(next_kept + count));
    next_kept += count;
  }
  WINNOW_CHECK(next_kept == kept.size());
  return evictions;
}

}  // namespace winnow
