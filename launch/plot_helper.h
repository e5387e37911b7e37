// bench/plot, the one program that draws, as a helper of winnow. Any thread.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"

namespace winnow {

// Where it is: the environment's WINNOW_PLOT; libexec/winnow/plot beside the folder of this program, as it is
// installed; bench/plot of a folder above it, as it is built. None: nowhere.
std::optional<std::string> FindPlotHelper();

// Draws the figure file into the files. False if the helper says that gnuplot is not installed; InternalError, with
// what it said, if it failed.
Result<bool> DrawFigure(const std::string& helper, const std::string& figure_path,
                        const std::vector<std::string>& outs);

}  // namespace winnow
