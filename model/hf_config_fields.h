// The members of one JSON object of a Hugging Face file: each is taken by name, and what nobody took can be refused at
// the end. null counts as missing, as there. Internal to the readers of those files; one thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/strict_json.h"

namespace winnow {

class HfFields {
 public:
  explicit HfFields(const JsonView& object) : object_(object) {}

  Status Bad(const std::string& key, const std::string& message) const { return object_.Bad(key + ": " + message); }
  Status Expected(const std::string& key, const std::string& expected) const;

  // Marks the key as known; nullptr if it is missing or null.
  const nlohmann::json* Take(const char* key);
  // Whether the key is there, be it null.
  bool IsGiven(const char* key) const { return object_.value().contains(key); }
  // The member as a view, for those inside of it. Taken before.
  Result<JsonView> View(const char* key) const { return object_.Get(key); }

  // Of the right kind and range, or BadFile; none if missing.
  Result<std::optional<int>> Int(const char* key, int lowest, int highest);
  Result<std::optional<double>> Number(const char* key);
  Result<std::optional<bool>> Bool(const char* key);
  Result<std::optional<std::string>> Text(const char* key);
  // A number or a list of numbers that are token ids.
  Result<std::vector<int32_t>> Ids(const char* key);

  // BadFile if missing.
  Result<int> RequiredInt(const char* key, int lowest, int highest);
  // BadFile if it is there with another value.
  Status MustBeFalse(const char* key, const std::string& why);

  void Ignore(std::initializer_list<const char*> keys);
  // BadFile naming every member that was neither taken nor ignored and is not null.
  Status RefuseOthers() const;

 private:
  JsonView object_;
  std::set<std::string, std::less<>> known_;
};

}  // namespace winnow
