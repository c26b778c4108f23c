#pragma once

#include <filesystem>
#include <map>
#include <string>

namespace trireme::train {

/// Fields of an OWNER file: run, nonce, host, boot, namespace, pid, start, job, restarts, beat.
using OwnerRecord = std::map<std::string, std::string>;

OwnerRecord read_owner(const std::filesystem::path& path);
/// What this process would write, less run, nonce and beat.
OwnerRecord own_record();
/// The owner's process cannot be running any more: on this boot of this host no such process, or its Slurm job has been
/// restarted or is unknown to squeue.
bool provably_gone(const OwnerRecord& owner);
/// "host H, pid P, job J", for messages.
std::string describe_owner(const OwnerRecord& owner);

}  // namespace trireme::train
