#include "model/safetensors_header.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "base/printable_text.h"

namespace winnow {
namespace {

using Json = nlohmann::json;

// Takes the parser's events and builds no tree. The format has three levels: the header, a tensor or __metadata__, and
// shape or data_offsets; anything deeper is refused where it begins.
class HeaderReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return Unexpected("null"); }
  bool boolean(bool) override { return Unexpected("true or false"); }
  bool number_integer(int64_t value) override { return Unexpected(std::to_string(value)); }
  bool number_float(double, const std::string& text) override { return Unexpected(text); }
  bool binary(Json::binary_t&) override { return Unexpected("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (numbers_ == nullptr) return Unexpected(std::to_string(value));
    numbers_->push_back(value);
    return true;
  }

  bool string(std::string& value) override {
    if (level_ != 2 || numbers_ != nullptr) return Unexpected("text");
    if (in_metadata_) {
      header_.metadata[field_] = std::move(value);
      return true;
    }
    if (field_ != "dtype") return Unexpected("text");
    entry_->dtype = std::move(value);
    return true;
  }

  bool start_object(size_t) override {
    if (level_ > 1 || numbers_ != nullptr) return Unexpected("an object");
    ++level_;
    return true;
  }

  bool key(std::string& name) override {
    if (level_ == 1) {
      name_ = std::move(name);
      if (!names_.insert(name_).second) return Refuse(Quoted(name_) + ": given twice");
      in_metadata_ = name_ == "__metadata__";
      entry_ = in_metadata_ ? nullptr : &header_.entries[name_];
      fields_.clear();
      return true;
    }
    field_ = std::move(name);
    if (!fields_.insert(field_).second) return Refuse(Where() + ": given twice");
    if (in_metadata_ || field_ == "dtype" || field_ == "shape" || field_ == "data_offsets") return true;
    return Refuse(Where() + ": expected the fields dtype, shape and data_offsets");
  }

  bool end_object() override {
    if (level_ == 2 && !in_metadata_ && fields_.size() != 3) {
      return Refuse(Quoted(name_) + ": expected the fields dtype, shape and data_offsets, found " +
                    std::to_string(fields_.size()) + " of them");
    }
    --level_;
    return true;
  }

  bool start_array(size_t) override {
    if (level_ != 2 || in_metadata_ || numbers_ != nullptr || field_ == "dtype") return Unexpected("an array");
    numbers_ = field_ == "shape" ? &entry_->shape : &entry_->data_offsets;
    return true;
  }

  bool end_array() override {
    numbers_ = nullptr;
    if (field_ != "data_offsets" || entry_->data_offsets.size() == 2) return true;
    return Refuse(Where() + ": expected two numbers, found " + std::to_string(entry_->data_offsets.size()));
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) override {
    return Refuse("no valid JSON at byte " + std::to_string(position));
  }

  Status status() const { return status_; }
  SafetensorsHeader Take() { return std::move(header_); }

 private:
  static std::string Quoted(const std::string& name) {
    constexpr size_t kMaxBytes = 60;
    if (name.size() <= kMaxBytes) return "'" + Printable(name) + "'";
    size_t end = kMaxBytes;
    while ((uint8_t(name[end]) & 0xc0) == 0x80) --end;  // not inside a character
    return "'" + Printable(name.substr(0, end)) + "...'";
  }
  std::string Where() const {
    if (level_ < 2) return level_ == 0 ? "the header" : Quoted(name_);
    return Quoted(name_) + " field " + Quoted(field_);
  }
  bool Refuse(const std::string& message) {
    status_ = BadFile("header: " + message);
    return false;
  }
  bool Unexpected(const std::string& found) {
    const char* expected = level_ < 2            ? "an object"
                           : numbers_ != nullptr ? "whole numbers from 0"
                           : in_metadata_        ? "text"
                           : field_ == "dtype"   ? "the name of a type"
                                                 : "a list of whole numbers";
    return Refuse(Where() + ": expected " + expected + ", found " + found);
  }

  SafetensorsHeader header_;
  Status status_ = BadFile("header: expected a JSON object");
  int level_ = 0;  // of objects
  bool in_metadata_ = false;
  std::vector<uint64_t>* numbers_ = nullptr;  // inside an array
  SafetensorsEntry* entry_ = nullptr;         // of name_
  std::string name_, field_;
  std::set<std::string> names_, fields_;
};

}  // namespace

Result<SafetensorsHeader> ParseSafetensorsHeader(std::string_view json) {
  // The parser would skip a byte order mark and white space; the format has none in front.
  if (json.empty() || json.front() != '{') return BadFile("header: expected a JSON object");
  HeaderReader reader;
  if (!Json::sax_parse(json.begin(), json.end(), &reader)) return reader.status();
  return reader.Take();
}

}  // namespace winnow
