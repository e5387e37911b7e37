// What became of a sequence's cache, as JSON: for journals, and on its way between ranks. Any thread.
#pragma once

#include <nlohmann/json.hpp>

#include "base/status.h"
#include "engine/sequence.h"

namespace winnow {

// Sets the counters and the lists with a number for each rank, which is what sums and reports of evaluations need;
// request_id, kept_hash and saved are left out.
void SetSequenceReport(const SequenceReport& report, nlohmann::ordered_json* to);

// The other way. BadFile naming the field that is missing or of another type.
Result<SequenceReport> ParseSequenceReport(const nlohmann::ordered_json& from);

}  // namespace winnow
