"""Shards and model.h5 of checkpoints read by h5py: every value, type and place as the manifest says.

Without --checkpoint a model is imported and then trained for a few steps: both checkpoints are read, and the exported
weights must be those in the shards. With it any checkpoint directory is read.
"""
import argparse
import json
import pathlib
import shutil
import struct
import subprocess

import h5py
import numpy

WIDTHS = {"f32": 4, "f64": 8, "bf16": 2}
G = 0x9E3779B97F4A7C15


def stored_bits(values, dtype):
    """Bits of the stored elements, zero-extended; h5py shows bf16 as float32."""
    if dtype == "f64":
        return values.astype("<f8").view("<u8")
    bits = values.astype("<f4").view("<u4").astype(numpy.uint64)
    return bits >> numpy.uint64(16) if dtype == "bf16" else bits


def fingerprint(values, dtype):
    index = numpy.arange(values.size, dtype=numpy.uint64)
    with numpy.errstate(over="ignore"):
        z = index * numpy.uint64(G) + stored_bits(values.reshape(-1), dtype)
        z = (z ^ (z >> numpy.uint64(30))) * numpy.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> numpy.uint64(27))) * numpy.uint64(0x94D049BB133111EB)
        z = z ^ (z >> numpy.uint64(31))
        return int(z.sum(dtype=numpy.uint64))


def chunk_slice(chunk):
    return tuple(slice(o, o + e) for o, e in zip(chunk["offset"], chunk["extent"]))


def tensor_from_shards(directory, tensor):
    values = numpy.full(tensor["shape"], numpy.nan, "<f8" if tensor["dtype"] == "f64" else "<f4")
    for number, chunk in enumerate(tensor["chunks"]):
        shard = directory / f"shard-{chunk['shard']:05}.h5"
        with h5py.File(shard, "r") as file:
            data = file[f"/{tensor['state']}/{tensor['name']}/{number}"]
            assert data.id.get_offset() == chunk["at"], (shard, data.name)
            assert data.id.get_type().get_size() == WIDTHS[tensor["dtype"]]
            assert list(data.attrs["offset"]) == chunk["offset"] and list(data.attrs["shape"]) == tensor["shape"]
            assert data.compression is None and data.chunks is None and not data.external
            values[chunk_slice(chunk)] = data[...]
    return values


def check_shards(directory, manifest):
    numbers = [f["name"] for f in manifest["files"] if f["name"].startswith("shard-")]
    for number, name in enumerate(sorted(numbers)):
        with h5py.File(directory / name, "r") as file:
            found = dict(file.attrs)
            assert found["format_version"] == 1 and found["step"] == manifest["step"], found
            assert (found["shard"], found["shards"]) == (number, len(numbers)), found
            assert found["run_id"].decode() == manifest["run"]["id"], found
            assert found["nonce"].decode() == manifest["run"]["nonce"], found


def check_tensors(directory, manifest):
    count = 0
    with h5py.File(directory / "model.h5", "r") as view:
        assert view.attrs["step"] == manifest["step"]
        for tensor in manifest["tensors"]:
            if "tied_to" in tensor:
                continue
            values = tensor_from_shards(directory, tensor)
            assert f"{fingerprint(values, tensor['dtype']):016x}" == tensor["fingerprint"], tensor["name"]
            norm = float(numpy.sqrt(numpy.sum(values.astype("f8") ** 2)))
            assert abs(norm - tensor["l2"]) <= 1e-10 * max(norm, 1e-300), tensor["name"]
            shown = view[f"/{tensor['state']}/{tensor['name']}"]
            assert shown.is_virtual and numpy.array_equal(shown[...], values), tensor["name"]
            count += 1
    assert count == manifest["totals"]["tensors"] > 0
    return count


def check_lost_shard(directory, manifest):
    """In a copy without a shard the view shows NaN, never zeros."""
    lost = manifest["tensors"][0]["chunks"][0]["shard"]
    (directory / f"shard-{lost:05}.h5").unlink()
    with h5py.File(directory / "model.h5", "r") as view:
        for tensor in manifest["tensors"]:
            values = view[f"/{tensor['state']}/{tensor['name']}"][...] if "state" in tensor else None
            for chunk in tensor.get("chunks", []):
                assert numpy.isnan(values[chunk_slice(chunk)]).all() == (chunk["shard"] == lost), tensor["name"]


def write_model(directory):
    """A GPT-2 of two layers as a Hugging Face directory."""
    from safetensors.numpy import save_file

    h, v, s = 32, 61, 16
    config = {"model_type": "gpt2", "n_layer": 2, "n_embd": h, "n_head": 2, "vocab_size": v, "n_positions": s,
              "activation_function": "gelu_new", "layer_norm_epsilon": 1e-5, "tie_word_embeddings": True}
    shapes = {"wte.weight": [v, h], "wpe.weight": [s, h], "ln_f.weight": [h], "ln_f.bias": [h]}
    for n in range(2):
        for norm in ("ln_1", "ln_2"):
            shapes |= {f"h.{n}.{norm}.weight": [h], f"h.{n}.{norm}.bias": [h]}
        for name, rows, columns in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, 4 * h),
                                    ("mlp.c_proj", 4 * h, h)):
            shapes |= {f"h.{n}.{name}.weight": [rows, columns], f"h.{n}.{name}.bias": [columns]}
    random = numpy.random.default_rng(1)
    directory.mkdir()
    tensors = {"transformer." + name: random.standard_normal(shape).astype("f4") for name, shape in shapes.items()}
    save_file(tensors, directory / "model.safetensors")
    (directory / "config.json").write_text(json.dumps(config))


def train(trireme, work):
    """Goes on from the imported weights for three steps; the checkpoint, moments included."""
    ids = [(7 * i + 3) % 61 for i in range(400)]
    header = struct.pack("<256i", 20240520, 1, len(ids), *[0] * 253)
    (work / "corpus.bin").write_bytes(header + struct.pack(f"<{len(ids)}H", *ids))
    config = work / "run.toml"
    config.write_text("""[run]
directory = "run"
steps = 3
[model]
initial_weights = "checkpoint"
[batch]
global = 4
[precision]
compute = "fp32"
[data]
train = [{ path = "corpus.bin", format = "llmc" }]
[optimizer]
lr = 1e-3
[schedule]
kind = "constant"
""")
    subprocess.run([trireme, "train", config], check=True, stdout=subprocess.DEVNULL)
    return work / "run/checkpoints/step-000000003"


def exported_name(name):
    """Tensors of a checkpoint that make up one exported tensor: (names, whether rows and columns are exchanged)."""
    outer = {"wte.weight": "token_embedding.weight", "wpe.weight": "position_embedding.weight",
             "ln_f.weight": "final_norm.weight", "ln_f.bias": "final_norm.bias"}
    if name in outer:
        return [outer[name]], False
    _, block, rest = name.split(".", 2)
    module, kind = rest.rsplit(".", 1)
    parts = {"ln_1": ["attention_norm"], "ln_2": ["mlp_norm"], "attn.c_proj": ["attention.output"],
             "attn.c_attn": ["attention.query", "attention.key", "attention.value"],
             "mlp.c_fc": ["mlp.up"], "mlp.c_proj": ["mlp.down"]}[module]
    return [f"blocks.{block}.{part}.{kind}" for part in parts], kind == "weight" and not module.startswith("ln")


def check_export(trireme, checkpoint, manifest, output):
    """Every exported tensor, read by safetensors, equals the masters in the shards."""
    from safetensors.numpy import load_file

    subprocess.run([trireme, "export", checkpoint, "--output", output], check=True, stdout=subprocess.DEVNULL)
    masters = {t["name"]: tensor_from_shards(checkpoint, t) for t in manifest["tensors"] if t.get("state") == "master"}
    used = set()
    for name, values in load_file(output / "model.safetensors").items():
        parts, exchanged = exported_name(name.removeprefix("transformer."))
        joined = numpy.concatenate([masters[part] for part in parts])
        assert numpy.array_equal(values, joined.T if exchanged else joined), name
        used.update(parts)
    assert used == set(masters), used ^ set(masters)
    return masters


def check_checkpoint(trireme, checkpoint, moved):
    """Reads a checkpoint where it is and, with its view made again, in a copy elsewhere."""
    manifest = json.loads((checkpoint / "MANIFEST.json").read_text())
    shutil.copytree(checkpoint, moved)
    (moved / "model.h5").unlink()
    subprocess.run([trireme, "inspect", moved, "--view"], check=True, stdout=subprocess.DEVNULL)
    for directory in (checkpoint, moved):
        check_shards(directory, manifest)
        count = check_tensors(directory, manifest)
    check_lost_shard(moved, manifest)
    print(f"{checkpoint.name}: {count} tensors equal in shards, manifest and view")
    return manifest


def check_made_here(trireme, work):
    imported = work / "checkpoint"
    write_model(work / "hf")
    subprocess.run([trireme, "import", work / "hf", "--output", imported], check=True)
    before = check_export(trireme, imported, check_checkpoint(trireme, imported, work / "moved"), work / "out")
    trained = train(trireme, work)
    manifest = check_checkpoint(trireme, trained, work / "trained-moved")
    assert {t["state"] for t in manifest["tensors"] if "state" in t} == {"master", "adam_m", "adam_v"}
    after = check_export(trireme, trained, manifest, work / "trained-out")
    assert all(not numpy.array_equal(before[name], after[name]) for name in before if name.endswith(".weight"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--work", type=pathlib.Path, required=True)
    parser.add_argument("--checkpoint", type=pathlib.Path)
    options = parser.parse_args()
    if options.checkpoint:
        check_checkpoint(options.trireme, options.checkpoint, options.work / "moved")
    else:
        check_made_here(options.trireme, options.work)


if __name__ == "__main__":
    main()
