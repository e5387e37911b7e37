#include "launch/report_figures.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <optional>
#include <set>
#include <utility>

namespace winnow {
namespace {

// 97.5 % of a normal distribution lie below mean + this many standard errors.
constexpr double kDeviations95 = 1.959964;

std::optional<double> NumberAt(const ResultJson& row, const char* key) {
  if (!row.contains(key) || !row.at(key).is_number()) return std::nullopt;
  const double value = row.at(key).get<double>();
  return std::isfinite(value) ? std::optional(value) : std::nullopt;
}

struct Point {
  double kept, mebibytes, y, low, high;
};

// What a cache of a text or an answer took at most, over all ranks.
std::optional<double> PeakBytes(const ResultJson& row) {
  if (const auto bytes = NumberAt(row, "peak_bytes")) return bytes;
  if (!row.contains("peak_bytes_per_rank") || !row.at("peak_bytes_per_rank").is_array()) return std::nullopt;
  double sum = 0;
  for (const ResultJson& bytes : row.at("peak_bytes_per_rank")) sum += bytes.is_number() ? bytes.get<double>() : 0;
  return sum;
}

// The interval of a loss row is of loss - full loss; both over the full loss give that of the ratio.
std::optional<Point> LossPoint(const ResultJson& row) {
  const auto ratio = NumberAt(row, "loss_ratio"), full = NumberAt(row, "full_loss"),
             kept = NumberAt(row, "kept_ratio_average"), bytes = PeakBytes(row);
  const bool has_interval = row.contains("ci95") && row.at("ci95").is_array() && row.at("ci95").size() == 2 &&
                            row.at("ci95")[0].is_number() && row.at("ci95")[1].is_number();
  if (!ratio || !full || !kept || !bytes || !has_interval || *full <= 0) return std::nullopt;
  return Point{*kept, *bytes / 1048576, *ratio, 1 + row.at("ci95")[0].get<double>() / *full,
               1 + row.at("ci95")[1].get<double>() / *full};
}

std::optional<Point> ScorePoint(const ResultJson& row) {
  const auto score = NumberAt(row, "score"), error = NumberAt(row, "standard_error"),
             kept = NumberAt(row, "kept_ratio"), bytes = PeakBytes(row);
  if (!score || !kept || !bytes) return std::nullopt;
  const double half = kDeviations95 * error.value_or(0);
  return Point{*kept, *bytes / 1048576, *score, *score - half, *score + half};
}

std::string FileName(const std::string& text) {
  std::string name;
  for (unsigned char c : text) name += std::isalnum(c) || c == '-' ? char(c) : '_';
  return name.empty() ? "rows" : name;
}

ResultJson Axis(const std::string& label, bool is_log) {
  return {{"label", label}, {"log", is_log}};
}

std::string ModelName(const ReportTable& table) {
  const std::string name = table.model.at("name").get<std::string>();
  return name.empty() ? "model " + table.model.at("fingerprint").get<std::string>() : name;
}

void AddLines(const ReportTable& table, const std::string& group, const std::string& prefix,
              std::vector<ReportFigure>* figures) {
  const bool is_loss = table.kind == "loss";
  ResultJson by_kept = ResultJson::array(), by_bytes = ResultJson::array();
  std::optional<double> reference;
  size_t points = 0;
  if (is_loss) reference = 1;
  std::vector<std::string> policies;
  for (const ResultJson& row : table.rows) {
    const std::string policy = row.at("policy").get<std::string>();
    if (GroupOf(table, row) != group) continue;
    if (!is_loss && policy == "full") reference = NumberAt(row, "score");
    if (policy != "full" && std::find(policies.begin(), policies.end(), policy) == policies.end())
      policies.push_back(policy);
  }
  for (const std::string& policy : policies) {
    ResultJson kept = {{"name", policy}}, bytes = {{"name", policy}};
    for (const ResultJson& row : table.rows) {
      if (GroupOf(table, row) != group || row.at("policy") != policy) continue;
      const auto point = is_loss ? LossPoint(row) : ScorePoint(row);
      if (!point) continue;
      ++points;
      for (auto [series, x] : {std::pair(&kept, point->kept), std::pair(&bytes, point->mebibytes)}) {
        (*series)["x"].push_back(x);
        (*series)["y"].push_back(point->y);
        (*series)["low"].push_back(point->low);
        (*series)["high"].push_back(point->high);
      }
    }
    if (!kept.contains("x")) continue;
    by_kept.push_back(kept);
    by_bytes.push_back(bytes);
  }
  if (points < 2) return;
  const std::string title = ModelName(table) + ", " + table.kind + (group.empty() ? "" : ", " + group);
  const ResultJson y = Axis(is_loss ? "loss / loss of the full cache, bars: 95 %" : "score, %, bars: 95 %", false);
  const auto add = [&](const std::string& name, const ResultJson& x, const ResultJson& series) {
    ResultJson content = {{"kind", "lines"}, {"title", title}, {"x", x}, {"y", y}};
    if (reference) content["reference"] = {{"y", *reference}, {"name", "full cache"}};
    content["series"] = series;
    figures->push_back({prefix + FileName(group.empty() ? "rows" : group) + name, std::move(content)});
  };
  add("-kept", Axis("entries kept / entries of a full cache", true), by_kept);
  add("-bytes", Axis("KV cache of a text at its largest, all ranks, MiB", true), by_bytes);
}

// Numbers of the rows in ascending order, as they stand at the ticks.
std::vector<double> ValuesOf(const std::vector<ResultJson>& rows, const char* key) {
  std::set<double> values;
  for (const ResultJson& row : rows) {
    if (const auto value = NumberAt(row, key)) values.insert(*value);
  }
  return {values.begin(), values.end()};
}

std::vector<std::string> TicksOf(const std::vector<double>& values) {
  std::vector<std::string> ticks;
  for (double value : values)
    ticks.push_back(ResultJson(std::round(value) == value ? ResultJson(int64_t(value)) : ResultJson(value)).dump());
  return ticks;
}

void AddHeatMaps(const ReportTable& table, const std::string& prefix, std::vector<ReportFigure>* figures) {
  const std::vector<double> lengths = ValuesOf(table.rows, "length"), depths = ValuesOf(table.rows, "depth");
  std::vector<std::pair<std::string, std::string>> cases;  // policy, budget
  for (const ResultJson& row : table.rows) {
    const std::pair one(row.at("policy").get<std::string>(), AskedBudget(row));
    if (std::find(cases.begin(), cases.end(), one) == cases.end()) cases.push_back(one);
  }
  for (const auto& [policy, budget] : cases) {
    ResultJson values(depths.size(), ResultJson(lengths.size(), ResultJson(nullptr)));
    bool has_value = false;
    for (const ResultJson& row : table.rows) {
      const auto length = NumberAt(row, "length"), depth = NumberAt(row, "depth"), score = NumberAt(row, "score");
      if (row.at("policy") != policy || AskedBudget(row) != budget || !length || !depth || !score) continue;
      const auto at = [](const std::vector<double>& all, double value) {
        return size_t(std::find(all.begin(), all.end(), value) - all.begin());
      };
      values[at(depths, *depth)][at(lengths, *length)] = *score;
      has_value = true;
    }
    if (!has_value) continue;
    const std::string name = policy + (policy == "full" ? "" : "-" + budget);
    figures->push_back(
        {prefix + FileName(name),
         {{"kind", "heat"},
          {"title", ModelName(table) + ", needle, " + policy + (policy == "full" ? "" : ", budget " + budget)},
          {"x", Axis("length of the context, tokens", false)},
          {"y", Axis("depth of the needle, % of the context", false)},
          {"value", {{"label", "score, %"}, {"low", 0}, {"high", 100}}},
          {"columns", TicksOf(lengths)},
          {"rows", TicksOf(depths)},
          {"values", values}}});
  }
}

}  // namespace

std::vector<ReportFigure> FiguresOf(const ReportTable& table, const std::string& prefix) {
  std::vector<ReportFigure> figures;
  if (table.kind == "needle") {
    AddHeatMaps(table, prefix, &figures);
  } else if (table.kind != "patterns") {
    for (const std::string& group : GroupsOf(table)) AddLines(table, group, prefix, &figures);
  }
  return figures;
}

}  // namespace winnow
