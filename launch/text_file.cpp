#include "launch/text_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <vector>

namespace winnow {
namespace {

// The longest context holds 2^31 tokens, a text that runs far fewer.
constexpr size_t kMaxBytes = size_t(256) << 20;

}  // namespace

Result<std::string> ReadTextFile(const std::string& path, const std::string& what) {
  const auto refuse = [&](const std::string& why) { return InvalidArgument(what + " '" + path + "'" + why); };
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return refuse(" is a directory");
  std::ifstream file(path, std::ios::binary);
  if (!file) return refuse(std::string(" cannot be read: ") + std::strerror(errno));
  std::string text;
  std::vector<char> piece(1 << 16);
  while (file.read(piece.data(), std::streamsize(piece.size())) || file.gcount() > 0) {
    text.append(piece.data(), size_t(file.gcount()));
    if (text.size() > kMaxBytes) {
      return refuse(": expected at most " + std::to_string(kMaxBytes) + " bytes, found more");
    }
  }
  if (file.bad()) return refuse(" cannot be read to its end");
  return text;
}

}  // namespace winnow
