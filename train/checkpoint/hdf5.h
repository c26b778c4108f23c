#pragma once

#include <hdf5.h>

#include <string>
#include <utility>
#include <vector>

#include "core/dtype.h"
#include "core/error.h"

namespace trireme::train {

/// Why the last call of the library failed: its innermost message, or the system's word for the errno in it. Ask before
/// any other call.
std::string hdf5_reason();

/// An HDF5 identifier. `close` is checked; the destructor closes only what an exception left open.
class Hdf5 {
 public:
  using Close = herr_t (*)(hid_t);
  /// Throws Error(code): `WHAT: REASON` when id is negative.
  Hdf5(hid_t id, Close close, std::string what, core::ExitCode code = core::ExitCode::storage)
      : id_(id), close_(close), what_(std::move(what)), code_(code) {
    core::require(id >= 0, code, "{}: {}", what_, id < 0 ? hdf5_reason() : "");
  }
  ~Hdf5() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5(const Hdf5&) = delete;
  Hdf5& operator=(const Hdf5&) = delete;
  operator hid_t() const { return id_; }
  void close() {
    const bool closed = close_(std::exchange(id_, -1)) >= 0;
    core::require(closed, code_, "{}: close: {}", what_, closed ? "" : hdf5_reason());
  }

 private:
  hid_t id_;
  Close close_;
  std::string what_;
  core::ExitCode code_;
};

/// Before the first HDF5 call: environment that could load code or redirect files is taken out, error printing is off,
/// no clean-up at exit.
void prepare_hdf5();

/// Throws Error(storage) `PATH: OPERATION: REASON` when a call failed.
void succeed(herr_t result, const std::string& path, const char* operation);

/// In-memory type of values as they are stored: f32, f64 little endian, bf16 as a 16-bit float.
Hdf5 stored_type(core::DType dtype);
Hdf5 dataspace(const std::vector<std::int64_t>& extent);
std::vector<hsize_t> to_hsize(const std::vector<std::int64_t>& extents);
/// Dataset creation: contiguous, no filter, fill value NaN, so that a lost part never reads as zero.
Hdf5 dataset_creation();
/// Link creation that makes the groups on the way.
Hdf5 link_creation();

/// File access without locks; for writing the format of 1.10, whose superblock marks a file whose writer died.
Hdf5 file_access(bool writing);
/// Flushes, and closes a file of which no object may be open.
void close_file(Hdf5& file, const std::string& path);

void write_attribute(hid_t object, const char* name, std::int64_t value);
void write_attribute(hid_t object, const char* name, const std::string& value);
void write_attribute(hid_t object, const char* name, const std::vector<std::int64_t>& values);

}  // namespace trireme::train
