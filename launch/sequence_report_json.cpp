#include "launch/sequence_report_json.h"

#include <array>
#include <string>
#include <utility>
#include <vector>

namespace winnow {
namespace {

using Json = nlohmann::ordered_json;

struct Count {
  const char* name;
  int64_t SequenceReport::*member;
};
constexpr Count kCounts[] = {
    {"tokens_seen", &SequenceReport::tokens_seen},         {"evictions", &SequenceReport::evictions},
    {"kept_entries", &SequenceReport::kept_entries},       {"pinned_entries", &SequenceReport::pinned_entries},
    {"evicted_entries", &SequenceReport::evicted_entries}, {"full_entries", &SequenceReport::full_entries},
    {"pages_freed", &SequenceReport::pages_freed}};

// Lists with a number for each rank, of a const report or another.
template <class Report>
auto RankNumbers(Report& report) {
  return std::array{std::pair("peak_bytes_per_rank", &report.peak_bytes_per_rank),
                    std::pair("end_entries_per_rank", &report.load.end_entries),
                    std::pair("peak_entries_per_rank", &report.load.peak_entries)};
}

}  // namespace

void SetSequenceReport(const SequenceReport& report, Json* to) {
  for (const auto& [name, member] : kCounts) (*to)[name] = report.*member;
  for (const auto& [name, numbers] : RankNumbers(report)) (*to)[name] = *numbers;
}

Result<SequenceReport> ParseSequenceReport(const Json& from) {
  const auto expected = [](const std::string& name) { return BadFile("a unit's value: expected \"" + name + "\""); };
  SequenceReport report;
  for (const auto& [name, member] : kCounts) {
    if (!from.is_object() || !from.contains(name) || !from[name].is_number_integer()) return expected(name);
    report.*member = from[name].get<int64_t>();
  }
  for (auto [name, numbers] : RankNumbers(report)) {
    if (!from.contains(name) || !from[name].is_array()) return expected(name);
    for (const Json& number : from[name]) {
      if (!number.is_number_integer()) return expected(name);
      numbers->push_back(number.get<int64_t>());
    }
  }
  return report;
}

}  // namespace winnow
