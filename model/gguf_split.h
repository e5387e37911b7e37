// A GGUF model in several files, as llama.cpp's gguf-split writes it: NAME-00001-of-00003.gguf and so on, metadata in
// the first, tensors in any. Internal to model/gguf; any thread.
#pragma once

#include <string>

#include "model/gguf.h"

namespace winnow {

class GgufSplit {
 public:
  // Whether a file says that it is a part of several.
  static bool IsPart(const GgufFile& file) { return file.Has("split.count"); }

  // `part`: any of the files, opened. All of them, as one file with the path of the first. BadFile with every part that
  // is missing, and for parts whose number, count or name contradict each other, that hold metadata of their own or a
  // tensor that another one holds, or that have another number of tensors in all than split.tensors.count says.
  static Result<GgufFile> Join(GgufFile part);

 private:
  static Result<uint64_t> Number(const GgufFile& part, const std::string& key);
  static Status CheckPart(const GgufFile& part, uint64_t index, uint64_t count);
  static Status AddPart(GgufFile part, GgufFile* whole);
};

}  // namespace winnow
