#include "launch/eval_report_command.h"

#include <filesystem>
#include <span>

#include "launch/console.h"
#include "launch/plot_helper.h"
#include "launch/report_figures.h"
#include "launch/report_rows.h"
#include "launch/report_tables.h"
#include "model/whole_file.h"

namespace winnow {
namespace {

namespace fs = std::filesystem;

Status WriteFile(const fs::path& path, const std::string& content) {
  const std::span<const uint8_t> bytes(reinterpret_cast<const uint8_t*>(content.data()), content.size());
  return WriteWholeFile(path.string(), std::span(&bytes, 1));
}

// The figure as SVG, which the page shows, and as PNG. False: not without gnuplot.
Result<bool> Draw(const std::string& helper, const fs::path& folder, const ReportFigure& figure) {
  const fs::path content = folder / (figure.name + ".json");
  WINNOW_RETURN_IF_ERROR(
      WriteFile(content, figure.content.dump(1, ' ', false, ResultJson::error_handler_t::replace) + "\n"));
  auto drawn = DrawFigure(helper, content.string(),
                          {(folder / (figure.name + ".svg")).string(), (folder / (figure.name + ".png")).string()});
  std::error_code ignored;
  if (drawn.ok()) fs::remove(content, ignored);  // kept where it explains an error
  return drawn;
}

// Names of the files that were drawn for the page. `helper` is reset where it turns out that gnuplot is missing.
Result<std::vector<std::string>> DrawAll(const fs::path& folder, const std::vector<ReportFigure>& figures,
                                         std::optional<std::string>* helper) {
  std::vector<std::string> names;
  for (const ReportFigure& figure : figures) {
    if (!*helper) break;
    WINNOW_ASSIGN_OR_RETURN(const bool is_drawn, Draw(**helper, folder, figure));
    if (is_drawn) {
      names.push_back(figure.name + ".svg");
    } else {
      helper->reset();
    }
  }
  return names;
}

}  // namespace

Status RunEvalReport(const EvalReportOptions& options) {
  std::vector<ResultJson> results;
  for (const std::string& path : options.paths) {
    WINNOW_ASSIGN_OR_RETURN(ResultJson result, ReadResultFile(path));
    WINNOW_RETURN_IF_ERROR(CheckReportRows(path, result));
    results.push_back(std::move(result));
  }
  WINNOW_ASSIGN_OR_RETURN(const std::vector<ReportTable> tables, GroupResults(options.paths, results));

  std::optional<std::string> helper;
  if (options.out) {
    std::error_code error;
    fs::create_directories(*options.out, error);
    if (error) return InvalidArgument("--out: folder '" + *options.out + "' cannot be made: " + error.message());
    helper = FindPlotHelper();
  }
  std::string page = "# winnow eval report\n";
  Status plotted = OkStatus();  // a plot that fails takes no table along
  for (size_t i = 0; i < tables.size(); ++i) {
    std::vector<std::string> drawn;
    if (options.out) {
      const std::vector<ReportFigure> figures = FiguresOf(tables[i], tables[i].kind + std::to_string(i + 1) + "-");
      if (plotted.ok()) {
        auto names = DrawAll(*options.out, figures, &helper);
        plotted = names.status();
        if (names.ok()) drawn = std::move(names).value();
      }
    }
    page += "\n" + MarkdownOf(tables[i], drawn);
  }
  if (!options.out) {
    PrintOut(page);
    return CheckOutput();
  }
  if (!helper)
    Note("no plots: they need bench/plot with gnuplot (Debian package gnuplot-nox); the tables are complete");
  WINNOW_RETURN_IF_ERROR(WriteFile(fs::path(*options.out) / "report.md", page));
  return plotted;
}

}  // namespace winnow
