// What `winnow eval report` needs of the rows of a result file before it prints them: a kind it knows, and numbers
// where numbers belong. Any thread.
#pragma once

#include <string>

#include "base/status.h"
#include "launch/result_file.h"

namespace winnow {

// BadFile naming the path, the row (from 0) and the key, with what was expected and found. `result` has passed
// CheckResult.
Status CheckReportRows(const std::string& path, const ResultJson& result);

}  // namespace winnow
