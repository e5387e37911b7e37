#include "launch/plot_helper.h"

#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

extern char** environ;

namespace winnow {
namespace {

constexpr int kGnuplotIsMissing = 4;  // bench/plot's exit code

}  // namespace

std::optional<std::string> FindPlotHelper() {
  const auto is_program = [](const std::filesystem::path& path) { return access(path.c_str(), X_OK) == 0; };
  if (const char* named = std::getenv("WINNOW_PLOT")) {
    return is_program(named) ? std::optional<std::string>(named) : std::nullopt;
  }
  std::error_code error;
  const std::filesystem::path self = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return std::nullopt;
  for (std::filesystem::path folder = self.parent_path(); folder.has_relative_path(); folder = folder.parent_path()) {
    for (const char* place : {"../libexec/winnow/plot", "bench/plot"}) {
      if (is_program(folder / place)) return (folder / place).string();
    }
  }
  return std::nullopt;
}

Result<bool> DrawFigure(const std::string& helper, const std::string& figure_path,
                        const std::vector<std::string>& outs) {
  std::vector<std::string> words = {helper, figure_path};
  words.insert(words.end(), outs.begin(), outs.end());
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  pid_t child = 0;
  if (const int error = posix_spawn(&child, helper.c_str(), nullptr, nullptr, arguments.data(), environ); error != 0) {
    return InternalError("plot helper '" + helper + "' cannot be started: " + std::strerror(error));
  }
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
  if (WIFEXITED(status) && WEXITSTATUS(status) == kGnuplotIsMissing) return false;
  return InternalError("plot helper '" + helper + "' could not draw " + figure_path + " (its own message is above)");
}

}  // namespace winnow
