#include "model/sharded_safetensors.h"

#include <filesystem>
#include <set>
#include <system_error>
#include <utility>

#include "base/printable_text.h"
#include "model/strict_json.h"
#include "model/tokenizer_text.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

constexpr const char* kSingle = "model.safetensors";
constexpr const char* kIndex = "model.safetensors.index.json";

bool Exists(const std::string& path) {
  std::error_code error;  // what cannot be asked for is reported by whoever opens it
  return fs::exists(path, error);
}

// A file name that stays inside the directory.
bool IsPlainName(std::string_view name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string_view::npos &&
         name.find('\0') == std::string_view::npos;
}

std::string Joined(const std::vector<std::string>& names) {
  constexpr size_t kMaxShown = 20;
  std::string text;
  for (size_t i = 0; i < std::min(names.size(), kMaxShown); ++i) text += (i == 0 ? "" : ", ") + Printable(names[i]);
  if (names.size() > kMaxShown) text += " and " + std::to_string(names.size() - kMaxShown) + " more";
  return text;
}

// What the index says: the shard of every tensor.
struct Index {
  std::map<std::string, std::string> shard_of;
  std::optional<double> total_bytes;
};

Result<Index> ReadIndex(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(const nlohmann::json document, ReadStrictJson(path));
  const JsonView view(document, path);
  WINNOW_RETURN_IF_ERROR(view.OnlyMembers({"metadata", "weight_map"}));
  Index index;
  if (view.Has("metadata")) {
    WINNOW_ASSIGN_OR_RETURN(const JsonView metadata, view.Get("metadata"));
    WINNOW_RETURN_IF_ERROR(metadata.CheckObject());
    if (metadata.Has("total_size")) {
      WINNOW_ASSIGN_OR_RETURN(const JsonView total, metadata.Get("total_size"));
      WINNOW_ASSIGN_OR_RETURN(index.total_bytes, total.Number());
    }
  }
  WINNOW_ASSIGN_OR_RETURN(const JsonView weights, view.Get("weight_map"));
  WINNOW_RETURN_IF_ERROR(weights.CheckObject());
  if (weights.value().empty()) return weights.Bad("expected the shard of every tensor, found none");
  for (const auto& [tensor, value] : weights.value().items()) {
    if (!value.is_string() || !IsPlainName(value.get_ref<const std::string&>())) {
      return weights.Bad(QuotedToken(tensor) + ": expected the name of a file in this directory");
    }
    index.shard_of[tensor] = value.get_ref<const std::string&>();
  }
  return index;
}

}  // namespace

Result<ShardedSafetensors> ShardedSafetensors::Open(const std::string& directory) {
  const std::string single = directory + "/" + kSingle, index = directory + "/" + kIndex;
  const bool has_single = Exists(single), has_index = Exists(index);
  if (has_single && has_index) {
    return BadFile(directory + ": expected " + kSingle + " or " + kIndex +
                   ", found both: remove the one that is not meant");
  }
  ShardedSafetensors opened;
  if (has_single) {
    WINNOW_RETURN_IF_ERROR(opened.OpenSingle(single));
    return opened;
  }
  if (has_index) {
    WINNOW_RETURN_IF_ERROR(opened.OpenIndexed(directory, index));
    return opened;
  }
  std::string hint;
  for (const char* other : {"pytorch_model.bin", "pytorch_model.bin.index.json"}) {
    if (Exists(directory + "/" + other)) {
      hint = std::string("; ") + other + " is a pickle, which runs code on loading: save it as safetensors";
      break;
    }
  }
  return BadFile(directory + ": expected weights in " + kSingle + " or " + kIndex + ", found neither" + hint);
}

uint64_t ShardedSafetensors::num_file_bytes() const {
  uint64_t sum = 0;
  for (const SafetensorsFile& file : files_) sum += file.num_file_bytes();
  return sum;
}

Status ShardedSafetensors::OpenSingle(const std::string& path) {
  WINNOW_ASSIGN_OR_RETURN(SafetensorsFile file, SafetensorsFile::Open(path));
  files_.push_back(std::move(file));
  for (const auto& [name, tensor] : files_[0].tensors()) tensors_[name] = {&files_[0], &tensor};
  return OkStatus();
}

Status ShardedSafetensors::OpenIndexed(const std::string& directory, const std::string& index_path) {
  WINNOW_ASSIGN_OR_RETURN(const Index index, ReadIndex(index_path));
  const auto bad = [&](const std::string& message) { return BadFile(index_path + ": " + message); };
  std::set<std::string> shards;
  for (const auto& [tensor, shard] : index.shard_of) shards.insert(shard);
  std::vector<std::string> missing;
  for (const std::string& shard : shards) {
    if (!Exists(directory + "/" + shard)) missing.push_back(shard);
  }
  if (!missing.empty()) {
    return bad("expected " + std::to_string(shards.size()) + " shards, missing " + Joined(missing));
  }

  files_.reserve(shards.size());  // so that pointers to files stay good
  uint64_t total_bytes = 0;
  for (const std::string& shard : shards) {
    WINNOW_ASSIGN_OR_RETURN(SafetensorsFile opened, SafetensorsFile::Open(directory + "/" + shard));
    files_.push_back(std::move(opened));
    const SafetensorsFile& file = files_.back();
    for (const auto& [name, tensor] : file.tensors()) {
      const auto listed = index.shard_of.find(name);
      if (listed == index.shard_of.end()) {
        return bad("expected every tensor of the shards, " + Printable(name) + " of " + shard + " is not listed");
      }
      if (const auto [at, is_new] = tensors_.try_emplace(name, Tensor{&file, &tensor}); !is_new) {
        return bad("expected every tensor in one shard, found " + Printable(name) + " in " + at->second.file->path() +
                   " and " + file.path());
      }
      if (listed->second != shard) {
        return bad("expected tensor " + Printable(name) + " in " + Printable(listed->second) + ", found it in " +
                   shard);
      }
      total_bytes += tensor.bytes.size();
    }
  }
  for (const auto& [name, shard] : index.shard_of) {
    if (!tensors_.contains(name)) missing.push_back(name);
  }
  if (!missing.empty()) return bad("expected every listed tensor in its shard, missing " + Joined(missing));
  if (index.total_bytes && *index.total_bytes != double(total_bytes)) {
    return bad("metadata.total_size: expected the " + std::to_string(total_bytes) + " bytes of the tensors, found " +
               nlohmann::json(*index.total_bytes).dump());
  }
  return OkStatus();
}

}  // namespace winnow
