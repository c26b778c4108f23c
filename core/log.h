#pragma once

#include <string>
#include <string_view>

namespace trireme::core {

/// Lines for people. `info` goes to stdout, `warning` to stderr as `trireme: warning: ...`; both are copied to the
/// run's log.txt once `log_to_file` was called. Thread-safe; a line is written in one call.
void info(std::string_view line);
void warning(std::string_view line);

/// Appends every further line to `path` too. Throws Error(run_directory) when it cannot be opened. "" ends it.
void log_to_file(const std::string& path);

/// Replaces control characters, so that text from a file cannot drive the terminal.
std::string escaped(std::string_view text);

}  // namespace trireme::core
