#include "launch/json_fields.h"

#include <algorithm>
#include <set>
#include <utility>

namespace winnow {
namespace {

using Json = nlohmann::json;

// Takes the parser's events and builds no tree: a tree a million levels deep would take as many stack frames to print
// or to destroy. The parser itself keeps a bit a level.
class FlatObject : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Scalar(nullptr); }
  bool boolean(bool value) override { return Scalar(value); }
  bool number_integer(int64_t value) override { return Scalar(value); }
  bool number_unsigned(uint64_t value) override { return Scalar(value); }
  bool number_float(double value, const std::string&) override { return Scalar(value); }
  bool string(std::string& value) override { return Scalar(std::move(value)); }
  bool binary(Json::binary_t&) override { return false; }  // not in text
  bool start_object(size_t) override {
    is_object_ |= depth_ == 0;
    return Open(Json::object());
  }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }
  bool key(std::string& name) override {
    if (depth_ != 1) return true;
    if (!names_.insert(name).second && duplicate_.is_null()) duplicate_ = name;
    fields_.push_back({std::move(name), nullptr});
    return true;
  }
  bool parse_error(size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

  Result<std::vector<JsonField>> Take() && {
    if (!is_object_) return InvalidArgument("expected a JSON object");
    if (!duplicate_.is_null()) return InvalidArgument("field " + Describe(duplicate_) + ": given twice");
    return std::move(fields_);
  }

 private:
  bool Scalar(Json value) {
    if (!is_object_) return true;
    if (depth_ == 1) {
      fields_.back().value = std::move(value);
    } else if (depth_ == 2 && fields_.back().value.is_array()) {
      fields_.back().value.push_back(std::move(value));  // an element of a field's list
    }
    return true;
  }
  bool Open(Json empty) {
    Scalar(std::move(empty));
    ++depth_;
    return true;
  }
  bool Close() {
    --depth_;
    return true;
  }

  int64_t depth_ = 0;
  bool is_object_ = false;
  std::set<std::string> names_;
  Json duplicate_;  // the first name that came again
  std::vector<JsonField> fields_;
};

}  // namespace

Result<std::vector<JsonField>> ParseJsonFields(const std::string& line) {
  FlatObject object;
  if (!Json::sax_parse(line, &object)) return InvalidArgument("not valid JSON");
  return std::move(object).Take();
}

Status ForEachJsonLine(const std::string& path, const std::string& content, const TakeJsonLine& take) {
  size_t begin = 0;
  for (int64_t number = 1; begin < content.size(); ++number) {
    const size_t end = std::min(content.find('\n', begin), content.size());
    const std::string line = content.substr(begin, end - begin);
    begin = end + 1;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const std::string where = path + " line " + std::to_string(number);
    const auto fields = ParseJsonFields(line);
    const Status status = fields.ok() ? take(where, *fields) : fields.status();
    if (!status.ok()) return Status(status.code(), where + ": " + status.message());
  }
  return OkStatus();
}

std::string Describe(const Json& value) {
  if (value.is_structured()) return value.is_array() ? "an array" : "an object";
  constexpr size_t kMaxBytes = 60;
  std::string text = value.dump();
  if (text.size() <= kMaxBytes) return text;
  size_t end = kMaxBytes;
  while ((uint8_t(text[end]) & 0xc0) == 0x80) --end;  // not inside a character
  return text.substr(0, end) + "...";
}

}  // namespace winnow
