#include "launch/report_tables.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <set>
#include <utility>

#include "base/printable_text.h"
#include "launch/number_text.h"

namespace winnow {
namespace {

// A column of a table: its heading, where its value stands in a row (a JSON pointer), and how many digits follow the
// point.
struct Column {
  std::string heading, pointer;
  int digits;

  // Null if the row has none.
  ResultJson ValueOf(const ResultJson& row) const {
    const ResultJson::json_pointer at(pointer);
    return row.contains(at) ? row.at(at) : ResultJson(nullptr);
  }
};

const Column kLossColumns[] = {{"texts", "/texts", 0},
                               {"loss", "/loss", 4},
                               {"full", "/full_loss", 4},
                               {"ratio", "/loss_ratio", 4},
                               {"low-H", "/loss_ratio_low_entropy", 4},
                               {"high-H", "/loss_ratio_high_entropy", 4},
                               {"KL", "/kl", 5},
                               {"top-1", "/top1_agreement", 4},
                               {"kept", "/kept_ratio_average", 4},
                               {"evictions", "/evictions_per_text", 1},
                               {"95 % of loss − full", "/ci95", 5}};
const Column kTaskColumns[] = {{"task", "/task", 0},
                               {"score", "/score", 4},
                               {"standard error", "/standard_error", 4},
                               {"full", "/full_score", 4},
                               {"retained", "/retained", 4},
                               {"kept", "/kept_ratio", 4},
                               {"95 % of score − full", "/ci95", 4}};
const Column kNeedleColumns[] = {
    {"length", "/length", 0}, {"depth, %", "/depth", 0}, {"score", "/score", 4}, {"kept", "/kept_ratio", 4}};

// One column for each part of the object `key`: "held/global".
std::vector<Column> PartsOf(const std::vector<ResultJson>& rows, const std::string& key) {
  std::vector<Column> columns;
  std::set<std::string> seen;
  for (const ResultJson& row : rows) {
    if (!row.contains(key) || !row.at(key).is_object()) continue;
    for (const auto& [part, value] : row.at(key).items()) {
      if (seen.insert(part).second) columns.push_back({key + ": " + part, "/" + key + "/" + part, 4});
    }
  }
  return columns;
}

// Those of the kind that a row has.
std::vector<Column> ColumnsOf(const ReportTable& table) {
  std::vector<Column> all;
  if (table.kind == "loss") {
    all.assign(std::begin(kLossColumns), std::end(kLossColumns));
  } else if (table.kind == "needle") {
    all.assign(std::begin(kNeedleColumns), std::end(kNeedleColumns));
  } else if (table.kind == "patterns") {
    for (const char* key : {"shares", "held"}) {
      for (Column& column : PartsOf(table.rows, key)) all.push_back(std::move(column));
    }
  } else {
    all.assign(std::begin(kTaskColumns), std::end(kTaskColumns));
  }
  std::erase_if(all, [&](const Column& column) {
    return std::all_of(table.rows.begin(), table.rows.end(),
                       [&](const ResultJson& row) { return column.ValueOf(row).is_null(); });
  });
  return all;
}

// Text from a file must neither end its cell nor begin another line.
std::string Cell(const std::string& text) {
  std::string cell;
  for (char c : Printable(text)) {
    if (c == '|' || c == '\\' || c == '<' || c == '`') cell += '\\';
    cell += c;
  }
  return cell;
}

std::string ValueText(const ResultJson& value, int digits) {
  if (value.is_number_float()) return fmt::format("{:.{}f}", value.get<double>(), digits);
  if (value.is_number_integer()) return Grouped(value.get<int64_t>());
  if (value.is_string()) return Cell(value.get<std::string>());
  if (value.is_array()) {
    std::string text;
    for (const ResultJson& part : value) text += (text.empty() ? "" : " to ") + ValueText(part, digits);
    return text;
  }
  return "";
}

// Settings that rows of one table need not share: what is compared, and where the same texts were found.
constexpr const char* kCompared[] = {"policies", "budgets", "ratios", "text_files"};

ResultJson SharedSettings(const ResultJson& result) {
  ResultJson settings = result.at("settings");
  for (const char* key : kCompared) settings.erase(key);
  return settings;
}

// What makes a row one of its own in a table.
std::string NameOf(const ResultJson& row) {
  ResultJson name;
  for (const char* key :
       {"policy", "scope", "allocation", "budget", "ratio", "interval", "texts", "task", "length", "depth"}) {
    name[key] = row.contains(key) ? row.at(key) : ResultJson(nullptr);
  }
  return name.dump(-1, ' ', false, ResultJson::error_handler_t::replace);
}

// The numbers of a row; how a cache lies on ranks is no number of the policy's.
ResultJson NumbersOf(ResultJson row) {
  row.erase("peak_bytes_per_rank");
  row.erase("load_per_rank");
  row.erase("peak_bytes");  // of tasks: the sum of what each rank held at most, at times of its own
  return row;
}

std::string SettingsText(const ResultJson& settings) {
  std::string text;
  for (const auto& [key, value] : settings.items()) {
    const std::string shown =
        value.is_string() ? value.get<std::string>() : value.dump(-1, ' ', false, ResultJson::error_handler_t::replace);
    text += (text.empty() ? "" : ", ") + key + " " + Cell(shown);
  }
  return text;
}

}  // namespace

std::string AskedBudget(const ResultJson& row) {
  const auto has = [&](const char* key) { return row.contains(key) && row.at(key).is_number(); };
  if (has("budget")) return std::to_string(row.at("budget").get<int64_t>());
  if (has("ratio")) return fmt::format("{:.4g}", row.at("ratio").get<double>());
  return "none";
}

Result<std::vector<ReportTable>> GroupResults(const std::vector<std::string>& paths,
                                              const std::vector<ResultJson>& results) {
  std::vector<ReportTable> tables;
  std::vector<std::map<std::string, std::pair<ResultJson, std::string>>> seen;  // [table] row's name: row, file
  for (size_t i = 0; i < results.size(); ++i) {
    const ResultJson& result = results[i];
    const std::string kind = result.at("format").at("rows").get<std::string>();
    const ResultJson settings = SharedSettings(result);
    size_t at = 0;
    while (at < tables.size() && (tables[at].kind != kind || tables[at].settings != settings ||
                                  tables[at].model.at("fingerprint") != result.at("model").at("fingerprint"))) {
      ++at;
    }
    if (at == tables.size()) {
      tables.push_back(
          {.kind = kind, .model = result.at("model"), .settings = settings, .files = {}, .rows = {}, .refused = {}});
      seen.emplace_back();
    }
    tables[at].files.push_back(paths[i]);
    for (const ResultJson& row : result.at("rows")) {
      const auto [found, is_new] = seen[at].try_emplace(NameOf(row), row, paths[i]);
      if (is_new) {
        tables[at].rows.push_back(row);
      } else if (NumbersOf(found->second.first) != NumbersOf(row)) {
        return InvalidArgument("'" + found->second.second + "' and '" + paths[i] +
                               "' have other numbers for the same row " + NameOf(row) +
                               ", model, texts and settings: expected equal ones");
      }
    }
    for (const ResultJson& refusal : result.at("refused")) {
      auto& refused = tables[at].refused;
      if (std::find(refused.begin(), refused.end(), refusal) == refused.end()) refused.push_back(refusal);
    }
  }
  return tables;
}

std::string GroupOf(const ReportTable& table, const ResultJson& row) {
  const char* key = table.kind == "loss" ? "texts" : "task";
  return row.contains(key) && row.at(key).is_string() ? row.at(key).get<std::string>() : "";
}

std::vector<std::string> GroupsOf(const ReportTable& table) {
  std::vector<std::string> groups;
  for (const ResultJson& row : table.rows) {
    const std::string group = GroupOf(table, row);
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) groups.push_back(group);
  }
  return groups;
}

std::string MarkdownOf(const ReportTable& table, const std::vector<std::string>& figures) {
  std::string page = "## " + Cell(table.kind) + ": " + Cell(table.model.at("name").get<std::string>()) + "\n\n";
  page +=
      "Model " + Cell(table.model.at("fingerprint").get<std::string>()) + "; " + SettingsText(table.settings) + ".\n\n";
  const std::vector<Column> columns = ColumnsOf(table);
  std::string head = "| policy | budget |", line = "|---|---|";
  for (const Column& column : columns) {
    head += " " + Cell(column.heading) + " |";
    line += "---|";
  }
  page += head + "\n" + line + "\n";
  for (const std::string& group : GroupsOf(table)) {
    for (const ResultJson& row : table.rows) {
      if (GroupOf(table, row) != group) continue;
      page += "| " + Cell(row.at("policy").get<std::string>()) + " | " + AskedBudget(row) + " |";
      for (const Column& column : columns) {
        page += " " + ValueText(column.ValueOf(row), column.digits) + " |";
      }
      page += "\n";
    }
  }
  for (const std::string& figure : figures) page += "\n![" + figure + "](" + figure + ")\n";
  if (!table.refused.empty()) page += "\nRefused:\n\n";
  for (const ResultJson& refusal : table.refused) {
    const auto text = [&](const char* key) {
      return refusal.contains(key) && refusal.at(key).is_string() ? Cell(refusal.at(key).get<std::string>())
                                                                  : std::string("?");
    };
    page += "- " + text("policy") + " at budget " + text("budget") + ": " + text("reason") + "\n";
  }
  page += "\nFrom:";
  for (const std::string& file : table.files) page += " " + Cell(file);
  return page + "\n";
}

}  // namespace winnow
