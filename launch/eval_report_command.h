// `winnow eval report`: results of other `winnow eval` commands as Markdown tables and plots. One process; no model.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

struct EvalReportOptions {
  std::vector<std::string> paths;  // result files
  std::optional<std::string> out;  // folder for report.md and the figures; none: the tables go to standard output
};

// BadFile for a file that is no result of this version, InvalidArgument for results that contradict each other.
// Without gnuplot the report has tables only, which a line on standard error says.
Status RunEvalReport(const EvalReportOptions& options);

}  // namespace winnow
