// The finished units of a long evaluation, kept in a file, so that a run that was killed goes on where it stopped and
// ends with the bytes of one that was not. Rank 0; any thread.
//
// One JSON object a line: first {"format": {"name": "winnow-journal", "version": 1}, "identity": ...}, then
// {"unit": name, "value": ...} for each finished unit, in the order in which they were finished. A line that has no
// end was being written when the run died: it is cut off, and its unit is run again. Numbers are written with the
// digits that give the same bits back.
#pragma once

#include <cstdio>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "base/status.h"

namespace winnow {

class EvalJournal {
 public:
  using Json = nlohmann::ordered_json;

  // identity: an object with everything that decides what a unit's value is. `resume` with a file that is there takes
  // over its units; without a file it begins one. InvalidArgument if the file is there and `resume` was not asked for,
  // if its identity is another (naming the first difference), or if another run writes it; BadFile for what is no
  // journal; InternalError if it cannot be written.
  static Result<EvalJournal> Open(const std::string& path, const Json& identity, bool resume);

  const std::map<std::string, Json>& finished() const { return finished_; }

  // On disk when it returns. InternalError if it cannot be written.
  Status Append(const std::string& unit, const Json& value);

  // The evaluation is complete: the file goes.
  void Remove();

 private:
  struct CloseFile {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  EvalJournal() = default;
  Status Lock();
  Status TakeLines(const std::string& text, const Json& identity, bool resume);
  Status WriteLine(const Json& line);

  std::string path_;
  std::unique_ptr<std::FILE, CloseFile> file_;
  std::map<std::string, Json> finished_;
};

// The first place where two JSON values differ, as "settings/seed: the journal has 1, this run 2"; empty if they are
// equal.
std::string FirstDifference(const nlohmann::ordered_json& journal, const nlohmann::ordered_json& mine,
                            const std::string& where = "");

}  // namespace winnow
