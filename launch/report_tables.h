// Results put side by side for `winnow eval report`: which rows may stand in one table, and the table as Markdown.
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "launch/result_file.h"

namespace winnow {

// Rows of results that measured the same thing: one kind, one model, one set of texts or tasks and, but for policies
// and budgets, one set of settings. Nothing is averaged: every row is one of a file.
struct ReportTable {
  std::string kind;  // "loss", "needle", ...
  ResultJson model, settings;
  std::vector<std::string> files;
  std::vector<ResultJson> rows;     // each once, in the order of the files
  std::vector<ResultJson> refused;  // likewise
};

// Results of other models, texts or settings get tables of their own, in order of appearance. InvalidArgument naming
// both files if two of one table hold the same row with other numbers: one of them was not measured as it says.
Result<std::vector<ReportTable>> GroupResults(const std::vector<std::string>& paths,
                                              const std::vector<ResultJson>& results);

// How many groups of rows a table has (kinds of texts, tasks), in order: "all", "prose". A table without them has one,
// named "".
std::vector<std::string> GroupsOf(const ReportTable& table);
// The group of a row.
std::string GroupOf(const ReportTable& table, const ResultJson& row);

// "256", "0.25", or "none" for the full cache: what was asked for.
std::string AskedBudget(const ResultJson& row);

// A heading, what all rows have in common, the rows and what was refused. figures: file names relative to the page.
std::string MarkdownOf(const ReportTable& table, const std::vector<std::string>& figures);

}  // namespace winnow
