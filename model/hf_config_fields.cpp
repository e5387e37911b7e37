#include "model/hf_config_fields.h"

#include <cmath>

#include "model/tokenizer_text.h"

namespace winnow {
namespace {

std::string Shown(const nlohmann::json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list";
  if (value.is_string()) return QuotedToken(value.get_ref<const std::string&>());
  return value.dump();
}

bool IsId(const nlohmann::json& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t(INT32_MAX);
}

}  // namespace

Status HfFields::Expected(const std::string& key, const std::string& expected) const {
  const auto member = object_.value().find(key);
  const bool is_there = member != object_.value().end();
  return Bad(key, "expected " + expected + ", found " + (is_there ? Shown(*member) : "none"));
}

const nlohmann::json* HfFields::Take(const char* key) {
  known_.insert(key);
  const auto member = object_.value().find(key);
  return member == object_.value().end() || member->is_null() ? nullptr : &*member;
}

Result<std::optional<int>> HfFields::Int(const char* key, int lowest, int highest) {
  const nlohmann::json* value = Take(key);
  if (value == nullptr) return std::optional<int>();
  if (value->is_number_integer()) {
    const bool fits = value->is_number_unsigned() ? value->get<uint64_t>() <= uint64_t(INT64_MAX) : true;
    const int64_t number = fits ? value->get<int64_t>() : INT64_MAX;
    if (number >= lowest && number <= highest) return std::optional<int>(int(number));
  }
  return Expected(key, "a whole number from " + std::to_string(lowest) + " to " + std::to_string(highest));
}

Result<std::optional<double>> HfFields::Number(const char* key) {
  const nlohmann::json* value = Take(key);
  if (value == nullptr) return std::optional<double>();
  if (!value->is_number() || !std::isfinite(value->get<double>())) return Expected(key, "a number");
  return std::optional<double>(value->get<double>());
}

Result<std::optional<bool>> HfFields::Bool(const char* key) {
  const nlohmann::json* value = Take(key);
  if (value == nullptr) return std::optional<bool>();
  if (!value->is_boolean()) return Expected(key, "true or false");
  return std::optional<bool>(value->get<bool>());
}

Result<std::optional<std::string>> HfFields::Text(const char* key) {
  const nlohmann::json* value = Take(key);
  if (value == nullptr) return std::optional<std::string>();
  if (!value->is_string()) return Expected(key, "text");
  return std::optional<std::string>(value->get<std::string>());
}

Result<std::vector<int32_t>> HfFields::Ids(const char* key) {
  const nlohmann::json* value = Take(key);
  std::vector<int32_t> ids;
  if (value == nullptr) return ids;
  const nlohmann::json one = nlohmann::json::array({*value});
  for (const nlohmann::json& id : value->is_array() ? *value : one) {
    if (!IsId(id)) return Expected(key, "a token id or a list of them");
    ids.push_back(id.get<int32_t>());
  }
  return ids;
}

Result<int> HfFields::RequiredInt(const char* key, int lowest, int highest) {
  WINNOW_ASSIGN_OR_RETURN(const std::optional<int> value, Int(key, lowest, highest));
  if (!value) return Expected(key, "a whole number");
  return *value;
}

Status HfFields::MustBeFalse(const char* key, const std::string& why) {
  WINNOW_ASSIGN_OR_RETURN(const std::optional<bool> value, Bool(key));
  return value.value_or(false) ? Bad(key, "expected false, found true: " + why) : OkStatus();
}

void HfFields::Ignore(std::initializer_list<const char*> keys) {
  known_.insert(keys.begin(), keys.end());
}

Status HfFields::RefuseOthers() const {
  std::string unknown;
  for (const auto& [key, value] : object_.value().items()) {
    if (known_.contains(key) || value.is_null()) continue;
    unknown += (unknown.empty() ? "" : ", ") + QuotedToken(key);
  }
  if (unknown.empty()) return OkStatus();
  return object_.Bad("winnow does not know " + unknown + ", which might change what the model computes");
}

}  // namespace winnow
