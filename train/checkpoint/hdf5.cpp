#include "train/checkpoint/hdf5.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include "core/log.h"

namespace trireme::train {

namespace {

constexpr std::size_t kReasonBytes = 120;

herr_t keep_innermost(unsigned position, const H5E_error2_t* error, void* data) {
  if (position == 0 && error->desc) *static_cast<std::string*>(data) = error->desc;
  return 0;
}

void write_value(hid_t object, const char* name, hid_t type, hid_t space, const void* value) {
  Hdf5 attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, name);
  succeed(H5Awrite(attribute, type, value), name, "H5Awrite");
  attribute.close();
}

}  // namespace

std::string hdf5_reason() {
  std::string text;
  if (H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text) < 0 || text.empty()) return "failed";
  constexpr std::string_view key = "errno = ";
  const std::size_t at = text.find(key);
  const int number = at == std::string::npos ? 0 : std::atoi(text.c_str() + at + key.size());
  return number > 0 ? std::strerror(number) : core::escaped(text.substr(0, kReasonBytes));
}

void prepare_hdf5() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name :
         {"HDF5_PLUGIN_PATH", "HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX", "HDF5_EXTFILE_PREFIX", "HDF5_DRIVER"})
      if (std::getenv(name)) {
        core::warning(fmt::format("{} is set in the environment and ignored", name));
        core::check(::unsetenv(name) == 0, "{} cannot be taken out of the environment", name);
      }
    if (std::getenv("HDF5_USE_FILE_LOCKING"))
      core::warning("HDF5_USE_FILE_LOCKING is set in the environment and decides on locks; checkpoints need none");
    // Fails when something has called HDF5 before; then its clean-up at exit stays.
    if (H5dont_atexit() < 0) core::warning("HDF5 was in use before; it cleans up at exit");
    core::check(H5open() >= 0, "HDF5 cannot be initialised");
    core::check(H5PLset_loading_state(0) >= 0, "HDF5 plugins cannot be switched off");
    core::check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0, "HDF5 error printing cannot be switched off");
  });
}

void succeed(herr_t result, const std::string& path, const char* operation) {
  core::require(result >= 0, core::ExitCode::storage, "{}: {}: {}", path, operation, result < 0 ? hdf5_reason() : "");
}

Hdf5 stored_type(core::DType dtype) {
  const hid_t base = dtype == core::DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  const hid_t type = H5Tcopy(base);
  if (dtype == core::DType::bf16)
    core::check(H5Tset_fields(type, 15, 7, 8, 0, 7) >= 0 && H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, 127) >= 0,
                "HDF5 has no 16-bit float");
  return {type, H5Tclose, "HDF5 type"};
}

std::vector<hsize_t> to_hsize(const std::vector<std::int64_t>& extents) { return {extents.begin(), extents.end()}; }

Hdf5 dataspace(const std::vector<std::int64_t>& extent) {
  const std::vector<hsize_t> dims = to_hsize(extent);
  const hid_t id =
      dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr);
  return {id, H5Sclose, "HDF5 dataspace"};
}

Hdf5 dataset_creation() {
  const hid_t id = H5Pcreate(H5P_DATASET_CREATE);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  succeed(H5Pset_fill_value(id, H5T_NATIVE_FLOAT, &missing), "HDF5", "H5Pset_fill_value");
  return {id, H5Pclose, "HDF5 dataset creation"};
}

Hdf5 link_creation() {
  const hid_t id = H5Pcreate(H5P_LINK_CREATE);
  succeed(H5Pset_create_intermediate_group(id, 1), "HDF5", "H5Pset_create_intermediate_group");
  return {id, H5Pclose, "HDF5 link creation"};
}

Hdf5 file_access(bool writing) {
  const hid_t id = H5Pcreate(H5P_FILE_ACCESS);
  succeed(H5Pset_fclose_degree(id, H5F_CLOSE_SEMI), "HDF5", "H5Pset_fclose_degree");
  succeed(H5Pset_file_locking(id, false, true), "HDF5", "H5Pset_file_locking");
  if (writing) succeed(H5Pset_libver_bounds(id, H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5", "H5Pset_libver_bounds");
  return {id, H5Pclose, "HDF5 file access"};
}

void close_file(Hdf5& file, const std::string& path) {
  succeed(H5Fflush(file, H5F_SCOPE_LOCAL), path, "H5Fflush");
  core::require(H5Fget_obj_count(file, H5F_OBJ_ALL) == 1, core::ExitCode::storage, "{}: HDF5 objects left open", path);
  file.close();
}

void write_attribute(hid_t object, const char* name, std::int64_t value) {
  Hdf5 space = dataspace({});
  write_value(object, name, H5T_STD_I64LE, space, &value);
  space.close();
}

void write_attribute(hid_t object, const char* name, const std::string& value) {
  Hdf5 space = dataspace({});
  Hdf5 type(H5Tcopy(H5T_C_S1), H5Tclose, name);
  succeed(H5Tset_size(type, value.size() + 1), name, "H5Tset_size");
  write_value(object, name, type, space, value.c_str());
  type.close();
  space.close();
}

void write_attribute(hid_t object, const char* name, const std::vector<std::int64_t>& values) {
  Hdf5 space = dataspace({static_cast<std::int64_t>(values.size())});
  write_value(object, name, H5T_STD_I64LE, space, values.data());
  space.close();
}

}  // namespace trireme::train
