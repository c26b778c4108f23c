#include <set>

#include "core/log.h"
#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/shard.h"

namespace trireme::train {

using core::ExitCode;

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

std::string creation_problem(hid_t dataset) {
  Hdf5 creation(H5Dget_create_plist(dataset), H5Pclose, "HDF5 property list");
  if (H5Pget_layout(creation) != H5D_CONTIGUOUS) return "not contiguous";
  if (H5Pget_external_count(creation) != 0) return "external storage";
  if (H5Pget_nfilters(creation) != 0) return "filters";
  return "";
}

std::string dataset_problem(hid_t dataset, const ExpectedDataset& expected) {
  if (const std::string problem = creation_problem(dataset); !problem.empty()) return problem;
  Hdf5 type(H5Dget_type(dataset), H5Tclose, "HDF5 type");
  Hdf5 wanted = stored_type(expected.dtype);
  if (H5Tequal(type, wanted) <= 0) return fmt::format("not of type {}", core::name_of(expected.dtype));
  Hdf5 space(H5Dget_space(dataset), H5Sclose, "HDF5 dataspace");
  const int rank = H5Sget_simple_extent_ndims(space);
  if (rank != static_cast<int>(expected.extent.size())) return fmt::format("rank {}", rank);
  std::vector<hsize_t> dims(static_cast<std::size_t>(rank));
  if (rank > 0 && H5Sget_simple_extent_dims(space, dims.data(), nullptr) < 0) return "extent unreadable";
  if (dims != to_hsize(expected.extent)) return fmt::format("extent [{}]", fmt::join(dims, ", "));
  const haddr_t at = H5Dget_offset(dataset);
  return at == expected.at ? "" : fmt::format("data at byte {}, not {}", at, expected.at);
}

void compare(hid_t file, const std::string& name, std::span<const ExpectedDataset> expected, ExitCode code) {
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

}  // namespace

void check_structure(const std::filesystem::path& path, std::span<const ExpectedDataset> expected, ExitCode code) {
  prepare_hdf5();
  const std::string name = path.string();
  try {
    Hdf5 access = file_access(false);
    Hdf5 file(H5Fopen(name.c_str(), H5F_ACC_RDONLY, access), H5Fclose, name, code);
    compare(file, name, expected, code);
    file.close();
    access.close();
  } catch (const core::Error& error) {
    core::fail(code, "{}", error.what());
  }
}

}  // namespace trireme::train
