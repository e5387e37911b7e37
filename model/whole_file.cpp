#include "model/whole_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <utility>

namespace winnow {
namespace {

// A temporary file beside its target; removed unless it took the target's place.
class Draft {
 public:
  static Result<Draft> Make(const std::string& path) {
    std::error_code error;
    std::string target = path;
    if (const auto real = std::filesystem::canonical(path, error); !error) target = real.string();
    struct stat info {};
    if (stat(target.c_str(), &info) == 0 && !S_ISREG(info.st_mode)) {
      return BadFile(path + ": cannot write: expected a regular file or none, found a directory or a device");
    }
    Draft draft(path, target);
    // Left by a process of the same number that was killed while it wrote.
    unlink(draft.name_.c_str());
    draft.file_ = open(draft.name_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (draft.file_ < 0) return draft.CannotWrite();
    return draft;
  }
  Draft(Draft&& other) noexcept
      : path_(std::move(other.path_)),
        target_(std::move(other.target_)),
        name_(std::move(other.name_)),
        file_(std::exchange(other.file_, -1)) {}
  Draft& operator=(Draft&&) = delete;
  ~Draft() {
    if (file_ < 0) return;
    close(file_);
    unlink(name_.c_str());
  }

  Status Write(std::span<const uint8_t> bytes) {
    while (!bytes.empty()) {
      constexpr size_t kMostBytes = size_t(1) << 30;  // one call writes less than 2 GiB
      const ssize_t written = write(file_, bytes.data(), std::min(bytes.size(), kMostBytes));
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) return CannotWrite();
      bytes = bytes.subspan(size_t(written));
    }
    return OkStatus();
  }

  Status TakePlace() {
    if (fsync(file_) != 0 || rename(name_.c_str(), target_.c_str()) != 0) return CannotWrite();
    const int file = std::exchange(file_, -1);
    if (close(file) != 0) return CannotWrite();
    // The new name is on the disk once its folder is. Some file systems cannot do that, and need not.
    std::string folder = std::filesystem::path(target_).parent_path().string();
    if (folder.empty()) folder = ".";
    if (const int opened = open(folder.c_str(), O_RDONLY | O_CLOEXEC); opened >= 0) {
      (void)fsync(opened);
      close(opened);
    }
    return OkStatus();
  }

 private:
  Draft(const std::string& path, const std::string& target)
      : path_(path), target_(target), name_(target + ".tmp" + std::to_string(getpid())) {}
  Status CannotWrite() const { return BadFile(path_ + ": cannot write: " + std::strerror(errno)); }

  std::string path_, target_, name_;
  int file_ = -1;
};

}  // namespace

Status WriteWholeFile(const std::string& path, std::span<const std::span<const uint8_t>> pieces) {
  WINNOW_ASSIGN_OR_RETURN(Draft draft, Draft::Make(path));
  for (const auto piece : pieces) WINNOW_RETURN_IF_ERROR(draft.Write(piece));
  return draft.TakePlace();
}

Status CheckCanWrite(const std::string& path) {
  return Draft::Make(path).status();
}

}  // namespace winnow
