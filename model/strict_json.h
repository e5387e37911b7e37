// JSON files of a model (tokenizer.json and the like), read strictly: a key twice in one object is refused, and so is
// nesting that no such file has. A JsonView is a value of such a file that knows where it stands, for messages. Views
// live as long as the document; any thread.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "base/status.h"

namespace winnow {

class JsonView {
 public:
  // `source`: the path, for messages. Both must outlive the view.
  JsonView(const nlohmann::json& value, const std::string& source) : value_(&value), source_(&source) {}

  const nlohmann::json& value() const { return *value_; }
  const std::string& source() const { return *source_; }

  // BadFile(source: where: message).
  Status Bad(const std::string& message) const;
  // BadFile: what was expected here, and what is here.
  Status Unexpected(const std::string& expected) const;

  bool IsNull() const { return value_->is_null(); }
  // An object with this member, which is not null.
  bool Has(const char* name) const;
  // BadFile if this is no object or has no such member.
  Result<JsonView> Get(const char* name) const;
  // The element of an array. index < size().
  JsonView At(size_t index) const;
  // BadFile unless this is an array or object.
  Result<size_t> ArraySize() const;
  Status CheckObject() const;

  Result<std::string_view> Text() const;
  Result<bool> Bool() const;
  Result<double> Number() const;
  // 0 to 2^31 - 1.
  Result<int32_t> Id() const;
  // A member that may be missing or null.
  Result<bool> BoolOr(const char* name, bool otherwise) const;

  // BadFile naming the first member that is not among `names`.
  Status OnlyMembers(std::initializer_list<std::string_view> names) const;

 private:
  JsonView(const nlohmann::json& value, const std::string& source, std::string where)
      : value_(&value), source_(&source), where_(std::move(where)) {}

  const nlohmann::json* value_;
  const std::string* source_;
  std::string where_;  // "model.merges[3]"; empty: the document
};

// InvalidArgument for what is no JSON, for a key that comes twice and for more than 64 levels.
Result<nlohmann::json> ParseStrictJson(std::string_view text);

// The whole file, at most 256 MiB. BadFile, with the path in front.
Result<nlohmann::json> ReadStrictJson(const std::string& path);

}  // namespace winnow
