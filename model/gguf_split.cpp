#include "model/gguf_split.h"

#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

namespace winnow {
namespace {

constexpr uint64_t kMaxParts = 99999;  // five digits

// "-00002-of-00003.gguf"
std::string Ending(uint64_t index, uint64_t count) {
  char text[40];
  std::snprintf(text, sizeof text, "-%05u-of-%05u.gguf", unsigned(index + 1), unsigned(count));
  return text;
}

}  // namespace

Result<uint64_t> GgufSplit::Number(const GgufFile& part, const std::string& key) {
  return part.GetUint(key);
}

Status GgufSplit::CheckPart(const GgufFile& part, uint64_t index, uint64_t count) {
  WINNOW_ASSIGN_OR_RETURN(const uint64_t own_index, Number(part, "split.no"));
  WINNOW_ASSIGN_OR_RETURN(const uint64_t own_count, Number(part, "split.count"));
  if (own_index != index || own_count != count) {
    return part.Bad("expected part " + std::to_string(index + 1) + " of " + std::to_string(count) +
                    " (split.no, split.count), found " + std::to_string(own_index + 1) + " of " +
                    std::to_string(own_count));
  }
  if (index == 0) return OkStatus();
  for (const auto& [key, value] : part.metadata()) {
    if (key.starts_with("split.") || key == "general.alignment") continue;
    return part.Bad("expected the metadata in the first part alone, found " + key);
  }
  return OkStatus();
}

Status GgufSplit::AddPart(GgufFile part, GgufFile* whole) {
  for (GgufTensor& tensor : part.tensors_) {
    if (!whole->tensor_index_.emplace(tensor.name, whole->tensors_.size()).second) {
      return part.Bad("expected every tensor in one part, found " + tensor.name + " in an earlier one too");
    }
    whole->tensors_.push_back(std::move(tensor));
  }
  whole->more_files_.push_back(std::move(part.file_));
  return OkStatus();
}

Result<GgufFile> GgufSplit::Join(GgufFile part) {
  WINNOW_ASSIGN_OR_RETURN(const uint64_t index, Number(part, "split.no"));
  WINNOW_ASSIGN_OR_RETURN(const uint64_t count, Number(part, "split.count"));
  if (count < 1 || count > kMaxParts || index >= count) {
    return part.Bad("expected a part (split.no) below split.count, at most " + std::to_string(kMaxParts) + ", found " +
                    std::to_string(index) + " of " + std::to_string(count));
  }
  const std::string ending = Ending(index, count);
  if (count > 1 && !part.path().ends_with(ending)) {
    return part.Bad("this is part " + std::to_string(index + 1) + " of " + std::to_string(count) +
                    ": expected a name that ends with " + ending + ", so that the other parts can be found");
  }
  const std::string prefix = part.path().substr(0, part.path().size() - (count > 1 ? ending.size() : 0));
  const auto path_of = [&](uint64_t i) { return count > 1 ? prefix + Ending(i, count) : prefix; };

  std::string missing;
  for (uint64_t i = 0; i < count; ++i) {
    std::error_code error;  // what cannot be asked for is reported by whoever opens it
    if (i == index || std::filesystem::exists(path_of(i), error) || error) continue;
    constexpr size_t kMaxShown = 2000;
    if (missing.size() < kMaxShown) {
      missing += (missing.empty() ? "" : ", ") + std::filesystem::path(path_of(i)).filename().string();
    } else if (!missing.ends_with("...")) {
      missing += ", ...";
    }
  }
  if (!missing.empty()) return part.Bad("expected " + std::to_string(count) + " parts, missing " + missing);

  std::vector<GgufFile> parts;
  for (uint64_t i = 0; i < count; ++i) {
    if (i == index) {
      parts.push_back(std::move(part));
    } else {
      WINNOW_ASSIGN_OR_RETURN(GgufFile other, GgufFile::OpenPart(path_of(i)));
      parts.push_back(std::move(other));
    }
    WINNOW_RETURN_IF_ERROR(CheckPart(parts.back(), i, count));
  }
  GgufFile whole = std::move(parts[0]);
  for (uint64_t i = 1; i < count; ++i) WINNOW_RETURN_IF_ERROR(AddPart(std::move(parts[i]), &whole));
  WINNOW_ASSIGN_OR_RETURN(const uint64_t num_tensors, Number(whole, "split.tensors.count"));
  if (num_tensors != whole.tensors_.size()) {
    return whole.Bad("split.tensors.count: expected the " + std::to_string(whole.tensors_.size()) +
                     " tensors of all parts, found " + std::to_string(num_tensors));
  }
  return whole;
}

}  // namespace winnow
