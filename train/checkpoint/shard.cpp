#include "train/checkpoint/shard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <map>
#include <mutex>
#include <set>

#include "core/file.h"
#include "core/log.h"
#include "train/checkpoint/checksum.h"
#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/names.h"

namespace trireme::train {

using core::ExitCode;

void prepare_hdf5() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const char* name :
         {"HDF5_PLUGIN_PATH", "HDF5_VDS_PREFIX", "HDF5_EXT_PREFIX", "HDF5_EXTFILE_PREFIX", "HDF5_DRIVER"})
      if (std::getenv(name)) {
        core::warning(fmt::format("{} is set in the environment and ignored", name));
        ::unsetenv(name);
      }
    // Fails when something has called HDF5 before; then its clean-up at exit stays.
    if (H5dont_atexit() < 0) core::warning("HDF5 was in use before; it cleans up at exit");
    core::check(H5open() >= 0, "HDF5 cannot be initialised");
    core::check(H5PLset_loading_state(0) >= 0, "HDF5 plugins cannot be switched off");
    core::check(H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr) >= 0, "HDF5 error printing cannot be switched off");
  });
}

Hdf5 stored_type(core::DType dtype) {
  const hid_t base = dtype == core::DType::f64 ? H5T_IEEE_F64LE : H5T_IEEE_F32LE;
  const hid_t type = H5Tcopy(base);
  if (dtype == core::DType::bf16)
    core::check(H5Tset_fields(type, 15, 7, 8, 0, 7) >= 0 && H5Tset_size(type, 2) >= 0 && H5Tset_ebias(type, 127) >= 0,
                "HDF5 has no 16-bit float");
  return {type, H5Tclose, "HDF5 type"};
}

std::string dataset_path(const std::string& state, const std::string& tensor, std::size_t chunk) {
  return fmt::format("/{}/{}/{}", state, tensor, chunk);
}

namespace {

void succeed(herr_t result, const std::string& path, const char* operation) {
  core::require(result >= 0, ExitCode::storage, "{}: {} failed: {}", path, operation, std::strerror(errno));
}

std::vector<hsize_t> to_hsize(const std::vector<std::int64_t>& extents) { return {extents.begin(), extents.end()}; }

Hdf5 dataspace(const std::vector<std::int64_t>& extent) {
  const std::vector<hsize_t> dims = to_hsize(extent);
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose, "dataspace"};
}

void write_attribute(hid_t object, const char* name, hid_t type, std::vector<hsize_t> dims, const void* value) {
  Hdf5 space(
      dims.empty() ? H5Screate(H5S_SCALAR) : H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr),
      H5Sclose, name);
  Hdf5 attribute(H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT), H5Aclose, name);
  succeed(H5Awrite(attribute, type, value), name, "H5Awrite");
  attribute.close();
  space.close();
}

void write_number(hid_t object, const char* name, std::int64_t value) {
  write_attribute(object, name, H5T_NATIVE_INT64, {}, &value);
}

void write_text(hid_t object, const char* name, const std::string& value) {
  Hdf5 type(H5Tcopy(H5T_C_S1), H5Tclose, name);
  succeed(H5Tset_size(type, std::max<std::size_t>(value.size(), 1)), name, "H5Tset_size");
  write_attribute(object, name, type, {}, value.empty() ? " " : value.data());
  type.close();
}

void write_dataset(hid_t file, const std::string& path, const StateChunk& chunk, std::size_t index) {
  const std::string name = dataset_path(chunk.state, chunk.tensor, index);
  Hdf5 type = stored_type(chunk.dtype);
  Hdf5 space = dataspace(chunk.extent);
  Hdf5 links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "property list");
  succeed(H5Pset_create_intermediate_group(links, 1), path, "H5Pset_create_intermediate_group");
  Hdf5 create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "property list");
  const float missing = std::numeric_limits<float>::quiet_NaN();
  succeed(H5Pset_fill_value(create, H5T_NATIVE_FLOAT, &missing), path, "H5Pset_fill_value");
  Hdf5 dataset(H5Dcreate2(file, name.c_str(), type, space, links, create, H5P_DEFAULT), H5Dclose,
               fmt::format("{}: H5Dcreate {}", path, name));
  succeed(H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, chunk.data), path, "H5Dwrite");
  std::vector<std::int64_t> shape;
  for (int axis = 0; axis < chunk.shape.rank(); ++axis) shape.push_back(chunk.shape[axis]);
  if (!shape.empty()) {
    write_attribute(dataset, "offset", H5T_NATIVE_INT64, {chunk.offset.size()}, chunk.offset.data());
    write_attribute(dataset, "shape", H5T_NATIVE_INT64, {shape.size()}, shape.data());
  }
  dataset.close();
  create.close();
  links.close();
  space.close();
  type.close();
}

Hdf5 open_access(bool writing) {
  Hdf5 access(H5Pcreate(H5P_FILE_ACCESS), H5Pclose, "property list");
  succeed(H5Pset_fclose_degree(access, H5F_CLOSE_SEMI), "HDF5", "H5Pset_fclose_degree");
  succeed(H5Pset_file_locking(access, false, true), "HDF5", "H5Pset_file_locking");
  if (writing) succeed(H5Pset_libver_bounds(access, H5F_LIBVER_V110, H5F_LIBVER_V110), "HDF5", "H5Pset_libver_bounds");
  hid_t id = H5Pcopy(access);
  access.close();
  return {id, H5Pclose, "property list"};
}

void close_file(Hdf5& file, const std::string& path) {
  succeed(H5Fflush(file, H5F_SCOPE_LOCAL), path, "H5Fflush");
  core::require(H5Fget_obj_count(file, H5F_OBJ_ALL) == 1, ExitCode::storage, "{}: HDF5 objects left open", path);
  file.close();
}

/// K of each chunk: its number among those of the same tensor and state.
std::vector<std::size_t> numbers_of(std::span<const StateChunk> chunks) {
  std::map<std::pair<std::string, std::string>, std::size_t> counts;
  std::vector<std::size_t> out;
  for (const StateChunk& chunk : chunks) out.push_back(counts[{chunk.tensor, chunk.state}]++);
  return out;
}

void write_file(const std::string& path, const ShardIdentity& identity, std::span<const StateChunk> chunks,
                const std::vector<std::size_t>& numbers) {
  Hdf5 access = open_access(true);
  Hdf5 file(H5Fcreate(path.c_str(), H5F_ACC_EXCL, H5P_DEFAULT, access), H5Fclose, path + ": H5Fcreate");
  write_number(file, "format_version", 1);
  write_text(file, "run_id", identity.run_id);
  write_text(file, "nonce", identity.nonce);
  write_number(file, "step", identity.step);
  write_number(file, "shard", identity.shard);
  write_number(file, "shards", identity.shards);
  for (std::size_t i = 0; i < chunks.size(); ++i) write_dataset(file, path, chunks[i], numbers[i]);
  close_file(file, path);
  access.close();
}

std::size_t bytes_of(const StateChunk& chunk) {
  std::size_t bytes = core::size_of(chunk.dtype);
  for (const std::int64_t extent : chunk.extent) bytes *= static_cast<std::size_t>(extent);
  return bytes;
}

void sync_file(const std::string& path) {
  const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  core::require(descriptor >= 0, ExitCode::storage, "{}: cannot be opened: {}", path, std::strerror(errno));
  const bool synced = ::fsync(descriptor) == 0;
  const int error = errno;
  if (synced) ::posix_fadvise(descriptor, 0, 0, POSIX_FADV_DONTNEED);
  const bool closed = ::close(descriptor) == 0;
  core::require(synced && closed, ExitCode::storage, "{}: fsync: {}", path, std::strerror(error));
}

std::uint64_t offset_in_file(hid_t file, const std::string& name, const std::string& path, ExitCode code) {
  Hdf5 dataset(H5Dopen2(file, name.c_str(), H5P_DEFAULT), H5Dclose, fmt::format("{}: H5Dopen {}", path, name), code);
  const haddr_t at = H5Dget_offset(dataset);
  core::require(at != HADDR_UNDEF, code, "{}: {} has no contiguous data", path, name);
  dataset.close();
  return at;
}

}  // namespace

std::vector<StoredChunk> write_shard(const std::filesystem::path& path, const ShardIdentity& identity,
                                     std::span<const StateChunk> chunks) {
  prepare_hdf5();
  const std::string name = path.string();
  const std::vector<std::size_t> numbers = numbers_of(chunks);
  std::vector<StoredChunk> stored;
  for (const StateChunk& chunk : chunks) {
    const auto* values = static_cast<const std::byte*>(chunk.data);
    stored.push_back({identity.shard, chunk.offset, chunk.extent, 0, crc32c(std::span(values, bytes_of(chunk)))});
  }
  write_file(name, identity, chunks, numbers);
  sync_file(name);
  std::vector<ExpectedDataset> expected;
  {
    Hdf5 access = open_access(false);
    Hdf5 file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access), H5Fclose, name + ": H5Fopen");
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      const std::string dataset = dataset_path(chunks[i].state, chunks[i].tensor, numbers[i]);
      stored[i].at = offset_in_file(file, dataset, name, ExitCode::storage);
      expected.push_back({dataset, chunks[i].dtype, chunks[i].extent, stored[i].at});
    }
  }
  for (std::size_t i = 0; i < chunks.size(); ++i)
    core::require(crc32c_of_file(path, stored[i].at, bytes_of(chunks[i])) == stored[i].crc32c, ExitCode::storage,
                  "{}: {} reads back differently", name, expected[i].path);
  check_structure(path, expected, ExitCode::storage);
  return stored;
}

namespace {

/// Walks a file and finds every dataset's path; anything but groups and datasets by hard links is refused.
struct Walk {
  std::set<std::string> found;
  std::string problem;
};

herr_t visit_link(hid_t group, const char* name, const H5L_info_t* info, void* data) {
  auto* walk = static_cast<Walk*>(data);
  if (info->type != H5L_TYPE_HARD) {
    walk->problem = fmt::format("{} is not a hard link", core::escaped(name));
    return -1;
  }
  H5O_info_t object;
  if (H5Oget_info_by_name2(group, name, &object, H5O_INFO_BASIC, H5P_DEFAULT) < 0) return -1;
  if (object.type == H5O_TYPE_DATASET) {
    walk->found.insert(std::string("/") + name);
  } else if (object.type != H5O_TYPE_GROUP) {
    walk->problem = fmt::format("{} is neither group nor dataset", core::escaped(name));
    return -1;
  }
  return 0;
}

std::string dataset_problem(hid_t dataset, const ExpectedDataset& expected) {
  Hdf5 create(H5Dget_create_plist(dataset), H5Pclose, "property list");
  if (H5Pget_layout(create) != H5D_CONTIGUOUS) return "not contiguous";
  if (H5Pget_external_count(create) != 0) return "external storage";
  Hdf5 type(H5Dget_type(dataset), H5Tclose, "type");
  Hdf5 wanted = stored_type(expected.dtype);
  if (H5Tequal(type, wanted) <= 0) return fmt::format("not of type {}", core::name_of(expected.dtype));
  Hdf5 space(H5Dget_space(dataset), H5Sclose, "dataspace");
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank != static_cast<int>(expected.extent.size())) return fmt::format("rank {}", rank);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0) return "extent unreadable";
  if (dims != to_hsize(expected.extent)) return fmt::format("extent [{}]", fmt::join(dims, ", "));
  const haddr_t at = H5Dget_offset(dataset);
  return at == expected.at ? "" : fmt::format("data at byte {}, not {}", at, expected.at);
}

}  // namespace

void check_structure(const std::filesystem::path& path, std::span<const ExpectedDataset> expected, ExitCode code) {
  prepare_hdf5();
  const std::string name = path.string();
  Hdf5 access = open_access(false);
  Hdf5 file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access), H5Fclose, name + ": H5Fopen", code);
  Walk walk;
  const herr_t walked = H5Lvisit(file, H5_INDEX_NAME, H5_ITER_INC, visit_link, &walk);
  core::require(walked >= 0, code, "{}: {}", name, walk.problem.empty() ? "structure unreadable" : walk.problem);
  for (const ExpectedDataset& one : expected) {
    core::require(walk.found.erase(one.path) == 1, code, "{}: no dataset {}", name, one.path);
    Hdf5 dataset(H5Dopen2(file, one.path.c_str(), H5P_DEFAULT), H5Dclose, fmt::format("{}: {}", name, one.path), code);
    const std::string problem = dataset_problem(dataset, one);
    core::require(problem.empty(), code, "{}: {}: {}", name, one.path, problem);
  }
  core::require(walk.found.empty(), code, "{}: unexpected dataset {}", name,
                walk.found.empty() ? "" : core::escaped(*walk.found.begin()));
}

void write_view(const std::filesystem::path& directory, const Manifest& manifest) {
  prepare_hdf5();
  const std::string path = (directory / kViewName).string(), temporary = path + ".tmp";
  ::unlink(temporary.c_str());
  Hdf5 access = open_access(true);
  Hdf5 file(H5Fcreate(temporary.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, temporary);
  write_number(file, "step", manifest.meta.step);
  write_text(file, "run_id", manifest.meta.run_id);
  const float missing = std::numeric_limits<float>::quiet_NaN();
  for (const StoredTensor& tensor : manifest.tensors) {
    Hdf5 type = stored_type(tensor.dtype);
    Hdf5 space = dataspace(tensor.shape);
    Hdf5 create(H5Pcreate(H5P_DATASET_CREATE), H5Pclose, "property list");
    succeed(H5Pset_fill_value(create, H5T_NATIVE_FLOAT, &missing), path, "H5Pset_fill_value");
    for (std::size_t k = 0; k < tensor.chunks.size(); ++k) {
      const StoredChunk& chunk = tensor.chunks[k];
      Hdf5 source = dataspace(chunk.extent);
      const std::vector<hsize_t> start = to_hsize(chunk.offset), count = to_hsize(chunk.extent);
      succeed(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path,
              "H5Sselect_hyperslab");
      succeed(H5Pset_virtual(create, space, shard_name(chunk.shard).c_str(),
                             dataset_path(tensor.state, tensor.name, k).c_str(), source),
              path, "H5Pset_virtual");
    }
    succeed(H5Sselect_all(space), path, "H5Sselect_all");
    Hdf5 links(H5Pcreate(H5P_LINK_CREATE), H5Pclose, "property list");
    succeed(H5Pset_create_intermediate_group(links, 1), path, "H5Pset_create_intermediate_group");
    const std::string name = fmt::format("/{}/{}", tensor.state, tensor.name);
    Hdf5 dataset(H5Dcreate2(file, name.c_str(), type, space, links, create, H5P_DEFAULT), H5Dclose, name);
    dataset.close();
  }
  close_file(file, temporary);
  core::require(::rename(temporary.c_str(), path.c_str()) == 0, ExitCode::storage, "{}: rename: {}", path,
                std::strerror(errno));
}

}  // namespace trireme::train
