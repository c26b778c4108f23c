#include "tools/version.h"

#include <fmt/format.h>
#include <hdf5.h>

#include <oneapi/dnnl/dnnl.hpp>

namespace trireme::tools {

std::string version_text() {
  unsigned major = 0, minor = 0, release = 0;
  if (H5get_libversion(&major, &minor, &release) < 0) major = minor = release = 0;
  const dnnl_version_t* dnnl = dnnl_version();
  return fmt::format("trireme {}\ncompiler {}\noneDNN {}.{}.{}\nHDF5 {}.{}.{}\nCUDA, MPI: not in this version",
                     TRIREME_VERSION, __VERSION__, dnnl->major, dnnl->minor, dnnl->patch, major, minor, release);
}

}  // namespace trireme::tools
