#include "launch/report_rows.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace winnow {
namespace {

struct Kind {
  std::string_view name;
  std::vector<const char*> numbers;  // keys that every row has
};

const std::vector<Kind>& Kinds() {
  static const std::vector<Kind> kKinds = {
      {"loss", {"loss", "full_loss", "loss_ratio", "kl", "top1_agreement", "kept_ratio_average"}},
      {"ruler", {"score", "full_score", "kept_ratio"}},
      {"qa", {"score", "full_score", "kept_ratio"}},
      {"needle", {"length", "depth", "score", "kept_ratio"}},
      {"patterns", {}},
  };
  return kKinds;
}

bool IsInterval(const ResultJson& value) {
  return value.is_array() && value.size() == 2 && value[0].is_number() && value[1].is_number();
}

}  // namespace

Status CheckReportRows(const std::string& path, const ResultJson& result) {
  const std::string name = result.at("format").at("rows").get<std::string>();
  const auto kind = std::find_if(Kinds().begin(), Kinds().end(), [&](const Kind& one) { return one.name == name; });
  const std::string file = "result file '" + path + "': ";
  if (kind == Kinds().end()) {
    return BadFile(file + "\"format/rows\": expected loss, ruler, needle, qa or patterns, found " + name);
  }
  const ResultJson& rows = result.at("rows");
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto bad = [&](const std::string& key, const std::string& expected) {
      return BadFile(file + "\"rows/" + std::to_string(i) + "/" + key + "\": expected " + expected + ", found " +
                     (rows[i].contains(key) ? Shown(rows[i].at(key)) : "nothing"));
    };
    for (const char* key : kind->numbers) {
      if (!rows[i].contains(key) || !rows[i].at(key).is_number()) return bad(key, "a number");
    }
    if (rows[i].contains("ci95") && !IsInterval(rows[i].at("ci95"))) return bad("ci95", "two numbers");
  }
  return OkStatus();
}

}  // namespace winnow
