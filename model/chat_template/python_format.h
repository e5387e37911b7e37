// Python's two ways of putting values into a text. Pure functions.
#pragma once

#include "base/status.h"
#include "model/chat_template/arguments.h"

namespace winnow::jinja {

// format % values: %s %r %d %i %u %x %X %o %c %f %F %e %E %g %G %%, with flags, width, precision and %(name)s.
// InvalidArgument for others, and for values that do not fit.
Result<MarkedText> PercentFormat(const MarkedText& format, const Value& values);
// format.format(arguments): {}, {0}, {name}, !s and !r, and [[fill]align][sign][0][width][,][.precision][type] with
// the types s, d, x, X, o, b, f, F, e, E, g, G and %. InvalidArgument for others: fields of fields, nested fields.
Result<MarkedText> BraceFormat(const MarkedText& format, const Arguments& arguments);

}  // namespace winnow::jinja
