#include "model/strict_json.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "model/file_bytes.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxDepth = 64;
constexpr size_t kMaxFileBytes = size_t(256) << 20;

// Builds the document from the parser's events.
class DocumentBuilder : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Put(nullptr); }
  bool boolean(bool value) override { return Put(value); }
  bool number_integer(int64_t value) override { return Put(value); }
  bool number_unsigned(uint64_t value) override { return Put(value); }
  bool number_float(double value, const std::string&) override { return Put(value); }
  bool string(std::string& value) override { return Put(std::move(value)); }
  bool binary(Json::binary_t&) override { return Refuse("binary data"); }
  bool start_object(size_t) override { return Open(Json::object()); }
  bool start_array(size_t) override { return Open(Json::array()); }
  bool end_object() override { return Close(); }
  bool end_array() override { return Close(); }

  bool key(std::string& name) override {
    const auto [member, is_new] = open_.back()->get_ref<Json::object_t&>().try_emplace(name);
    if (!is_new) return Refuse("expected every key once in an object, found " + QuotedToken(name) + " twice");
    member_ = &member->second;
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    return Refuse("expected JSON, found an error at byte " + std::to_string(position) + " (" + error.what() + ")");
  }

  Json TakeDocument() { return std::move(document_); }
  const std::string& error() const { return error_; }

 private:
  bool Refuse(const std::string& error) {
    error_ = error;
    return false;
  }

  Json* Place(Json value) {
    if (open_.empty()) return &(document_ = std::move(value));
    if (open_.back()->is_object()) return &(*member_ = std::move(value));
    return &open_.back()->get_ref<Json::array_t&>().emplace_back(std::move(value));
  }

  bool Put(Json value) {
    Place(std::move(value));
    return true;
  }

  bool Open(Json value) {
    if (open_.size() == kMaxDepth) return Refuse("expected at most 64 levels of arrays and objects, found more");
    open_.push_back(Place(std::move(value)));
    return true;
  }

  bool Close() {
    open_.pop_back();
    return true;
  }

  Json document_;
  std::vector<Json*>
      open_;  // an element of an array is final only when the array's next one begins: none moves while open
  Json* member_ = nullptr;  // of the innermost object, waiting for its value
  std::string error_;
};

std::string Shown(const Json& value) {
  if (value.is_string()) return QuotedToken(value.get_ref<const std::string&>());
  if (value.is_object()) return "an object";
  if (value.is_array()) return "an array";
  return value.dump();
}

}  // namespace

Result<Json> ParseStrictJson(std::string_view text) {
  DocumentBuilder builder;
  if (!Json::sax_parse(text.begin(), text.end(), &builder)) return InvalidArgument(builder.error());
  return builder.TakeDocument();
}

Result<Json> ReadStrictJson(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(const FileBytes file, FileBytes::Map(path));
  if (file.bytes().size() > kMaxFileBytes) {
    return BadFile(path + ": expected at most " + std::to_string(kMaxFileBytes) + " bytes, found " +
                   std::to_string(file.bytes().size()));
  }
  auto document = ParseStrictJson({reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size()});
  if (!document.ok()) return BadFile(path + ": " + document.status().message());
  return document;
}

Status JsonView::Bad(const std::string& message) const {
  return BadFile(*source_ + ": " + (where_.empty() ? "" : where_ + ": ") + message);
}

Status JsonView::Unexpected(const std::string& expected) const {
  return Bad("expected " + expected + ", found " + Shown(*value_));
}

bool JsonView::Has(const char* name) const {
  if (!value_->is_object()) return false;
  const auto member = value_->find(name);
  return member != value_->end() && !member->is_null();
}

Result<JsonView> JsonView::Get(const char* name) const {
  WINNOW_RETURN_IF_ERROR(CheckObject());
  const auto member = value_->find(name);
  if (member == value_->end()) return Bad(std::string("expected \"") + name + "\", found none");
  return JsonView(*member, *source_, where_.empty() ? name : where_ + "." + name);
}

JsonView JsonView::At(size_t index) const {
  return JsonView((*value_)[index], *source_, ElementName(where_, index));
}

Result<size_t> JsonView::ArraySize() const {
  if (!value_->is_array()) return Unexpected("an array");
  return value_->size();
}

Status JsonView::CheckObject() const {
  return value_->is_object() ? OkStatus() : Unexpected("an object");
}

Result<std::string_view> JsonView::Text() const {
  if (!value_->is_string()) return Unexpected("text");
  return std::string_view(value_->get_ref<const std::string&>());
}

Result<bool> JsonView::Bool() const {
  if (!value_->is_boolean()) return Unexpected("true or false");
  return value_->get<bool>();
}

Result<double> JsonView::Number() const {
  if (!value_->is_number()) return Unexpected("a number");
  return value_->get<double>();
}

Result<int32_t> JsonView::Id() const {
  if (!value_->is_number_unsigned() || value_->get<uint64_t>() > uint64_t(INT32_MAX)) {
    return Unexpected("a token id, 0 to 2^31 - 1");
  }
  return value_->get<int32_t>();
}

Result<bool> JsonView::BoolOr(const char* name, bool otherwise) const {
  if (!Has(name)) return otherwise;
  WINNOW_ASSIGN_OR_RETURN(const JsonView member, Get(name));
  return member.Bool();
}

Status JsonView::OnlyMembers(std::initializer_list<std::string_view> names) const {
  WINNOW_RETURN_IF_ERROR(CheckObject());
  for (const auto& [name, value] : value_->items()) {
    if (std::find(names.begin(), names.end(), name) == names.end()) {
      return Bad("expected nothing that winnow does not know, found " + QuotedToken(name));
    }
  }
  return OkStatus();
}

}  // namespace winnow
