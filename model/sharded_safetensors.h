// The weights of a directory as Hugging Face writes it: model.safetensors alone, or shards that
// model.safetensors.index.json lists. All files are mapped and checked against each other on opening, before any weight
// is read. Owned by the checkpoint; immutable, so any thread may read.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/safetensors.h"

namespace winnow {

class ShardedSafetensors {
 public:
  struct Tensor {
    const SafetensorsFile* file;
    const SafetensorsTensor* tensor;
  };

  // BadFile as SafetensorsFile::Open for each file, and with every shard that the index names and the directory lacks,
  // for a tensor that stands in two shards, in another one than the index says, in none or not in the index, and for a
  // metadata.total_size that is not the sum of the tensors.
  static Result<ShardedSafetensors> Open(const std::string& directory);

  // By name.
  const std::map<std::string, Tensor>& tensors() const { return tensors_; }
  // In the order of their names; they stay where they are when this object is moved.
  const std::vector<SafetensorsFile>& files() const { return files_; }
  // The whole of all files.
  uint64_t num_file_bytes() const;

 private:
  Status OpenSingle(const std::string& path);
  Status OpenIndexed(const std::string& directory, const std::string& index_path);

  std::vector<SafetensorsFile> files_;
  std::map<std::string, Tensor> tensors_;
};

}  // namespace winnow
