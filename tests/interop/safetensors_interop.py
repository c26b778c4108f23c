"""Import and export against the safetensors library: its files read by us, ours by it, tensors equal bit for bit."""
import argparse
import json
import pathlib
import subprocess
import sys

import numpy
import safetensors

STORED = {"float32": 4, "bfloat16": 2, "float16": 2}
DTYPE_NAMES = {"float32": "F32", "bfloat16": "BF16", "float16": "F16"}


def values(shape, dtype, random):
    """Random elements as bytes; bfloat16 is made by cutting float32."""
    array = random.standard_normal(shape).astype(numpy.float32)
    if dtype == "float16":
        return array.astype(numpy.float16).tobytes()
    if dtype == "bfloat16":
        return (array.view(numpy.uint32) >> 16).astype(numpy.uint16).tobytes()
    return array.tobytes()


def gpt2(layers=2, h=32, v=61, s=16, tied=True):
    config = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": layers, "n_embd": h, "n_head": 2,
              "n_inner": None, "vocab_size": v, "n_positions": s, "n_ctx": s, "activation_function": "gelu_new",
              "layer_norm_epsilon": 1e-5, "resid_pdrop": 0.1, "tie_word_embeddings": tied, "bos_token_id": 3}
    shapes = {"transformer.wte.weight": [v, h], "transformer.wpe.weight": [s, h],
              "transformer.ln_f.weight": [h], "transformer.ln_f.bias": [h]}
    for n in range(layers):
        block = f"transformer.h.{n}."
        for norm in ("ln_1", "ln_2"):
            shapes[block + norm + ".weight"] = [h]
            shapes[block + norm + ".bias"] = [h]
        for name, rows, columns in (("attn.c_attn", h, 3 * h), ("attn.c_proj", h, h), ("mlp.c_fc", h, 4 * h),
                                    ("mlp.c_proj", 4 * h, h)):
            shapes[block + name + ".weight"] = [rows, columns]
            shapes[block + name + ".bias"] = [columns]
    if not tied:
        shapes["lm_head.weight"] = [v, h]
    return config, shapes


def llama(kind, layers=2, h=32, heads=4, groups=2, d=24, f=88, v=97, s=24, tied=False):
    config = {"model_type": kind, "num_hidden_layers": layers, "hidden_size": h, "num_attention_heads": heads,
              "num_key_value_heads": groups, "head_dim": d, "intermediate_size": f, "vocab_size": v,
              "max_position_embeddings": s, "rms_norm_eps": 1e-6, "hidden_act": "silu", "tie_word_embeddings": tied,
              "rope_parameters": {"rope_type": "default", "rope_theta": 1000000.0}, "eos_token_id": [1, 2]}
    shapes = {"model.embed_tokens.weight": [v, h], "model.norm.weight": [h]}
    for n in range(layers):
        layer = f"model.layers.{n}."
        for name, rows, columns in (("self_attn.q_proj", heads * d, h), ("self_attn.k_proj", groups * d, h),
                                    ("self_attn.v_proj", groups * d, h), ("self_attn.o_proj", h, heads * d),
                                    ("mlp.gate_proj", f, h), ("mlp.up_proj", f, h), ("mlp.down_proj", h, f)):
            shapes[layer + name + ".weight"] = [rows, columns]
        for norm in ("input_layernorm", "post_attention_layernorm"):
            shapes[layer + norm + ".weight"] = [h]
        if kind == "qwen3":
            for norm in ("self_attn.q_norm", "self_attn.k_norm"):
                shapes[layer + norm + ".weight"] = [d]
    if not tied:
        shapes["lm_head.weight"] = [v, h]
    return config, shapes


def save(path, tensors, dtype):
    """Written by the library; versions from 0.8 take addresses in place of bytes."""
    buffers = {name: numpy.frombuffer(data, numpy.uint8) for name, (_, data) in tensors.items()}
    described = {}
    for name, (shape, data) in tensors.items():
        if hasattr(safetensors, "TensorSpec"):
            described[name] = safetensors.TensorSpec(dtype=dtype, shape=shape, data_len=len(data),
                                                     data_ptr=buffers[name].ctypes.data)
        else:
            described[name] = {"dtype": dtype, "shape": shape, "data": data}
    path.write_bytes(safetensors.serialize(described, {"format": "pt"}))


def load(path):
    """Read by the library: name -> (dtype, shape, bytes)."""
    return {name: (tensor["dtype"], list(tensor["shape"]), bytes(tensor["data"]))
            for name, tensor in safetensors.deserialize(path.read_bytes())}


def load_directory(folder):
    index = folder / "model.safetensors.index.json"
    if not index.exists():
        return load(folder / "model.safetensors")
    weight_map = json.loads(index.read_text())["weight_map"]
    tensors = {}
    for file in sorted(set(weight_map.values())):
        for name, tensor in load(folder / file).items():
            assert weight_map[name] == file and name not in tensors, name
            tensors[name] = tensor
    assert set(tensors) == set(weight_map)
    return tensors


def make_directory(folder, config, shapes, dtype, random, shards=1):
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(config, indent=2))
    (folder / "tokenizer.json").write_bytes(b'{"model": {"vocab": {"a": 0}}}\r\n')
    tensors = {name: (shape, values(shape, dtype, random)) for name, shape in shapes.items()}
    if shards == 1:
        save(folder / "model.safetensors", tensors, dtype)
    else:
        weight_map = {}
        names = list(tensors)
        for k in range(shards):
            file = f"model-{k + 1:05}-of-{shards:05}.safetensors"
            part = {name: tensors[name] for name in names[k::shards]}
            save(folder / file, part, dtype)
            weight_map.update({name: file for name in part})
        index = {"metadata": {"total_size": sum(len(data) for _, data in tensors.values())}, "weight_map": weight_map}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    return tensors


class Program:
    def __init__(self, binary):
        self.binary = binary

    def run(self, *arguments):
        subprocess.run([self.binary, *map(str, arguments)], check=True, stdout=subprocess.DEVNULL)

    def refuse(self, code, text, *arguments):
        done = subprocess.run([self.binary, *map(str, arguments)], capture_output=True, text=True)
        assert done.returncode == code, (done.returncode, done.stderr)
        assert text in done.stderr and done.stderr.startswith("trireme: error: "), done.stderr


def check_round_trip(program, work, name, model, dtype, random, shards=1):
    config, shapes = model
    source, checkpoint, out = work / name / "hf", work / name / "checkpoint", work / name / "out"
    tensors = make_directory(source, config, shapes, dtype, random, shards)
    program.run("import", source, "--output", checkpoint)
    narrow = dtype == "bfloat16"
    options = (["--dtype", "bf16"] if narrow else []) + (["--shard-size", "20KB"] if shards > 1 else [])
    program.run("export", checkpoint, "--output", out, *options)
    exported = load_directory(out)
    assert set(exported) == set(tensors), set(exported) ^ set(tensors)
    for tensor, (shape, data) in tensors.items():
        expected = data
        if dtype == "float16":
            expected = numpy.frombuffer(data, numpy.float16).astype(numpy.float32).tobytes()
        stored = "BF16" if narrow else "F32"
        assert exported[tensor] == (stored, shape, expected), tensor
    if shards == 1 and dtype != "float16":
        assert (out / "model.safetensors").read_bytes() == (source / "model.safetensors").read_bytes(), "file bytes"
    assert (out / "tokenizer.json").read_bytes() == (source / "tokenizer.json").read_bytes()
    written = json.loads((out / "config.json").read_text())
    for key, value in config.items():
        assert written[key] == value or key in ("architectures", "n_inner"), (key, written[key], value)
    assert written["torch_dtype"] == ("bfloat16" if narrow else "float32")
    if "rope_parameters" in config:
        assert written["rope_theta"] == config["rope_parameters"]["rope_theta"]
    return source, checkpoint, out


def check_tensors_differ(tensors, other):
    """The comparison above can fail."""
    name = next(iter(tensors))
    changed = dict(other)
    dtype, shape, data = changed[name]
    changed[name] = (dtype, shape, data[:-1] + bytes([data[-1] ^ 1]))
    assert changed != tensors and other == tensors


def check_transformers(exports):
    """Where it is installed: our directories load without a missing or unexpected tensor."""
    try:
        import torch
        import transformers
    except ImportError:
        print("transformers or torch is not installed: not compared")
        return
    for folder in exports:
        model, info = transformers.AutoModelForCausalLM.from_pretrained(folder, output_loading_info=True)
        assert not any(info[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys")), info
        assert torch.isfinite(model(torch.arange(5)[None]).logits).all()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--trireme", required=True)
    parser.add_argument("--work", required=True, type=pathlib.Path)
    options = parser.parse_args()
    program = Program(options.trireme)
    random = numpy.random.default_rng(7)
    exports = []
    models = {"gpt2": gpt2(), "gpt2-untied": gpt2(tied=False), "llama": llama("llama"),
              "llama-tied": llama("llama", tied=True), "qwen3": llama("qwen3")}
    for kind, model in models.items():
        for dtype in STORED:
            for shards in (1, 3):
                name = f"{kind}-{DTYPE_NAMES[dtype]}-{shards}"
                source, checkpoint, out = check_round_trip(program, options.work, name, model, dtype, random, shards)
                if dtype == "float32":
                    check_tensors_differ(load_directory(source), load_directory(out))
        exports.append(out)
    check_transformers(exports)
    program.refuse(73, "--force", "export", checkpoint, "--output", out)
    program.run("export", checkpoint, "--output", out, "--force")
    program.refuse(73, "--force", "import", source, "--output", checkpoint)
    program.run("import", source, "--output", checkpoint, "--force")
    program.refuse(73, "is no checkpoint", "import", source, "--output", out, "--force")
    assert (out / "config.json").exists()
    (source / "config.json").write_text('{"model_type": "mistral"}')
    program.refuse(65, 'model_type = "mistral" is not read', "import", source, "--output", options.work / "none")
    assert not (options.work / "none").exists()
    print(f"{len(models) * 6} directories came out as they went in")
    return 0


if __name__ == "__main__":
    sys.exit(main())
