#pragma once

#include <hdf5.h>

#include <string>
#include <utility>

#include "core/dtype.h"
#include "core/error.h"

namespace trireme::train {

/// An HDF5 identifier. `close` is checked; the destructor closes only what an exception left open.
class Hdf5 {
 public:
  using Close = herr_t (*)(hid_t);
  /// Throws Error(code): `PATH: OPERATION failed` when id is negative.
  Hdf5(hid_t id, Close close, std::string what, core::ExitCode code = core::ExitCode::storage)
      : id_(id), close_(close), what_(std::move(what)), code_(code) {
    core::require(id >= 0, code, "{}: failed", what_);
  }
  ~Hdf5() {
    if (id_ >= 0) close_(id_);
  }
  Hdf5(const Hdf5&) = delete;
  Hdf5& operator=(const Hdf5&) = delete;
  operator hid_t() const { return id_; }
  void close() { core::require(close_(std::exchange(id_, -1)) >= 0, code_, "{}: close failed", what_); }

 private:
  hid_t id_;
  Close close_;
  std::string what_;
  core::ExitCode code_;
};

/// Before the first HDF5 call: environment that could load code or redirect files is taken out, error printing is off,
/// no clean-up at exit.
void prepare_hdf5();

/// In-memory type of values as they are stored: f32, f64 little endian, bf16 as a 16-bit float.
Hdf5 stored_type(core::DType dtype);

}  // namespace trireme::train
