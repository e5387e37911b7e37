#include "launch/eval_journal.h"

#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "launch/result_file.h"
#include "launch/text_file.h"

namespace winnow {
namespace {

using Json = EvalJournal::Json;

constexpr const char* kFormat = "winnow-journal";
constexpr int kVersion = 1;

Json Header(const Json& identity) {
  return {{"format", {{"name", kFormat}, {"version", kVersion}}}, {"identity", identity}};
}

std::string Under(const std::string& where, const std::string& key) {
  return where.empty() ? key : where + "/" + key;
}

}  // namespace

std::string FirstDifference(const Json& journal, const Json& mine, const std::string& where) {
  if (journal == mine) return "";
  const auto differ = [](const std::string& at, const std::string& theirs, const std::string& ours) {
    return at + ": the journal has " + theirs + ", this run " + ours;
  };
  if (journal.is_object() && mine.is_object()) {
    for (const auto& [key, value] : mine.items()) {
      if (!journal.contains(key)) return differ(Under(where, key), "nothing", Shown(value));
      if (std::string found = FirstDifference(journal[key], value, Under(where, key)); !found.empty()) return found;
    }
    for (const auto& [key, value] : journal.items()) {
      if (!mine.contains(key)) return differ(Under(where, key), Shown(value), "nothing");
    }
    return "";  // only the order of the keys
  }
  if (journal.is_array() && mine.is_array() && journal.size() == mine.size()) {
    for (size_t i = 0; i < mine.size(); ++i) {
      if (std::string found = FirstDifference(journal[i], mine[i], Under(where, std::to_string(i))); !found.empty()) {
        return found;
      }
    }
  }
  return differ(where, Shown(journal), Shown(mine));
}

Result<EvalJournal> EvalJournal::Open(const std::string& path, const Json& identity, bool resume) {
  EvalJournal journal;
  journal.path_ = path;
  journal.file_.reset(std::fopen(path.c_str(), "ab"));
  if (!journal.file_) {
    return BadFile("journal '" + path + "' cannot be written: " + std::strerror(errno));
  }
  WINNOW_RETURN_IF_ERROR(journal.Lock());
  WINNOW_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path, "journal"));
  WINNOW_RETURN_IF_ERROR(journal.TakeLines(text, identity, resume));
  return journal;
}

// Two runs that add to one journal would each do the other's work again.
Status EvalJournal::Lock() {
  if (flock(fileno(file_.get()), LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK) return OkStatus();
  return InvalidArgument("journal '" + path_ + "' is being written by another run");
}

Status EvalJournal::TakeLines(const std::string& text, const Json& identity, bool resume) {
  const size_t whole = text.rfind('\n') + 1;  // npos + 1 is 0
  if (whole != text.size() && ftruncate(fileno(file_.get()), off_t(whole)) != 0) {
    return BadFile("journal '" + path_ + "': its unfinished last line cannot be cut off");
  }
  if (whole == 0) return WriteLine(Header(identity));
  if (!resume) {
    return InvalidArgument("journal '" + path_ +
                           "' of an unfinished run is there: give --resume to go on with it, or remove it");
  }
  size_t number = 0;
  for (size_t begin = 0; begin < whole;) {
    const size_t end = text.find('\n', begin);
    const Json line = Json::parse(text.begin() + std::ptrdiff_t(begin), text.begin() + std::ptrdiff_t(end), nullptr,
                                  /*allow_exceptions=*/false);
    begin = end + 1;
    const std::string where = "journal '" + path_ + "' line " + std::to_string(++number);
    if (line.is_discarded() || !line.is_object()) return BadFile(where + ": expected a JSON object");
    if (number == 1) {
      const Json want = Header(identity);
      if (!line.contains("format") || line["format"] != want["format"] || !line.contains("identity")) {
        return BadFile(where + ": expected format " + want["format"].dump() + ", found " + Shown(line));
      }
      if (const std::string found = FirstDifference(line["identity"], identity); !found.empty()) {
        return InvalidArgument("journal '" + path_ + "' is of another evaluation: " + found);
      }
      continue;
    }
    if (!line.contains("unit") || !line["unit"].is_string() || !line.contains("value")) {
      return BadFile(where + ": expected \"unit\" and \"value\", found " + Shown(line));
    }
    finished_[line["unit"].get<std::string>()] = line["value"];
  }
  return OkStatus();
}

Status EvalJournal::WriteLine(const Json& line) {
  const std::string text = line.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n";
  const bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size() &&
                       std::fflush(file_.get()) == 0 && fdatasync(fileno(file_.get())) == 0;
  return written ? OkStatus() : BadFile("journal '" + path_ + "' could not be written");
}

Status EvalJournal::Append(const std::string& unit, const Json& value) {
  WINNOW_RETURN_IF_ERROR(WriteLine({{"unit", unit}, {"value", value}}));
  finished_[unit] = value;
  return OkStatus();
}

void EvalJournal::Remove() {
  std::remove(path_.c_str());
}

}  // namespace winnow
