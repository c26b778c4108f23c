#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "train/checkpoint/hdf5.h"
#include "train/checkpoint/names.h"
#include "train/checkpoint/shard.h"

namespace trireme::train {

namespace {

constexpr std::size_t kMostMappings = 100'000;

void map_chunks(hid_t creation, hid_t space, const StoredTensor& tensor, const std::string& path) {
  for (std::size_t k = 0; k < tensor.chunks.size(); ++k) {
    const StoredChunk& chunk = tensor.chunks[k];
    Hdf5 source = dataspace(chunk.extent);
    const std::vector<hsize_t> start = to_hsize(chunk.offset), count = to_hsize(chunk.extent);
    succeed(H5Sselect_hyperslab(space, H5S_SELECT_SET, start.data(), nullptr, count.data(), nullptr), path,
            "H5Sselect_hyperslab");
    // A bare file name is looked for beside the view, so the directory can be moved.
    succeed(H5Pset_virtual(creation, space, shard_name(chunk.shard).c_str(),
                           dataset_path(tensor.state, tensor.name, static_cast<std::int64_t>(k)).c_str(), source),
            path, "H5Pset_virtual");
    source.close();
  }
  succeed(H5Sselect_all(space), path, "H5Sselect_all");
}

void write_tensor(hid_t file, const StoredTensor& tensor, const std::string& path) {
  if (tensor.shape.empty()) return;  // HDF5 has no virtual scalars
  Hdf5 type = stored_type(tensor.dtype);
  Hdf5 space = dataspace(tensor.shape);
  Hdf5 creation = dataset_creation();
  map_chunks(creation, space, tensor, path);
  Hdf5 links = link_creation();
  const std::string name = fmt::format("/{}/{}", tensor.state, tensor.name);
  Hdf5 dataset(H5Dcreate2(file, name.c_str(), type, space, links, creation, H5P_DEFAULT), H5Dclose,
               fmt::format("{}: {}", path, name));
  dataset.close();
  links.close();
  creation.close();
  space.close();
  type.close();
}

void write_file(const std::string& path, const Manifest& manifest) {
  Hdf5 access = file_access(true);
  Hdf5 file(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, H5P_DEFAULT, access), H5Fclose, path);
  write_attribute(file, "step", manifest.meta.step);
  write_attribute(file, "run_id", manifest.meta.run_id);
  for (const StoredTensor& tensor : manifest.tensors) write_tensor(file, tensor, path);
  close_file(file, path);
  access.close();
}

}  // namespace

bool write_view(const std::filesystem::path& directory, const Manifest& manifest) {
  std::size_t mappings = 0;
  for (const StoredTensor& tensor : manifest.tensors) mappings += tensor.chunks.size();
  if (mappings > kMostMappings) return false;
  prepare_hdf5();
  const std::string path = (directory / kViewName).string(), temporary = path + ".tmp";
  core::require(::unlink(temporary.c_str()) == 0 || errno == ENOENT, core::ExitCode::storage,
                "{}: cannot be removed: {}", temporary, std::strerror(errno));
  try {
    write_file(temporary, manifest);
    core::require(std::rename(temporary.c_str(), path.c_str()) == 0, core::ExitCode::storage, "{}: rename: {}", path,
                  std::strerror(errno));
  } catch (const core::Error&) {
    (void)::unlink(temporary.c_str());
    throw;
  }
  return true;
}

}  // namespace trireme::train
