// The figures of a report, as bench/plot takes them: quality against what the cache keeps, and heat maps of needles.
// Any thread.
#pragma once

#include <string>
#include <vector>

#include "launch/report_tables.h"

namespace winnow {

struct ReportFigure {
  std::string name;    // of its files, without ending: letters, digits, "_" and "-"
  ResultJson content;  // bench/plot documents it
};

// For loss, ruler and qa: two figures a group of rows (texts or task), one against the kept ratio and one against
// bytes, with a line a policy and 95 % intervals; for needle: one a policy and budget. A figure of fewer than two
// points is left out, as is every figure of another kind. prefix: begins every name.
std::vector<ReportFigure> FiguresOf(const ReportTable& table, const std::string& prefix);

}  // namespace winnow
