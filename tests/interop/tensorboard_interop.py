"""The event files of a run that was stopped and resumed, read by TensorBoard: every number of metrics.jsonl, and the samples."""
import argparse
import json
import pathlib
import subprocess

import numpy
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

TAGS = {"train/loss": ("train", "loss"), "train/grad_norm": ("train", "grad_norm"), "train/lr": ("train", "lr"),
        "speed/tokens_per_second": ("train", "tokens_per_second"), "speed/mfu": ("train", "mfu"),
        "eval/loss": ("eval", "loss")}
CONFIG = """
[run]
directory = "run"
steps = 6
[device]
kind = "cpu"
threads = 1
[precision]
compute = "fp32"
[model]
layers = 1
hidden = 16
heads = 2
vocab_size = 32
sequence_length = 16
[batch]
global = 2
[data]
train = [{ path = "corpus" }]
valid = 0.1
tokenizer = "tokenizer.json"
[schedule]
kind = "linear"
warmup_steps = 2
[eval]
every_steps = 3
sample_prompts = ["the "]
[log]
every_steps = 1
"""


def expect(condition, message):
    if not condition:
        raise SystemExit(f"tensorboard interop: {message}")


def call(trireme, *arguments):
    done = subprocess.run([trireme, *map(str, arguments)], capture_output=True, text=True, timeout=120)
    expect(done.returncode == 0, f"{arguments[0]} ended with {done.returncode}: {done.stderr.strip()}")


def train_twice(trireme, work):
    """Six steps, then two more in a second process: two event files."""
    text = work / "text.txt"
    text.write_text("the quick brown fox jumps over a lazy dog\n" * 60)
    call(trireme, "tokenizer", "train", text, "--kind", "characters", "--output", work / "tokenizer.json")
    call(trireme, "tokenize", text, "--tokenizer", work / "tokenizer.json", "--no-eod", "--output", work / "corpus")
    config = work / "config.toml"
    config.write_text(CONFIG)
    call(trireme, "train", config)
    call(trireme, "train", config, "--run.steps=8")
    return work / "run"


def read_metrics(run):
    """{tag: {step: value}} as metrics.jsonl has it."""
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return {tag: {line["step"]: line[key] for line in lines if line["kind"] == kind}
            for tag, (kind, key) in TAGS.items()}


def check_scalars(events, metrics):
    expect(sorted(events.Tags()["scalars"]) == sorted(TAGS), f"tags are {events.Tags()['scalars']}")
    for tag, expected in metrics.items():
        found = {event.step: event.value for event in events.Scalars(tag)}
        expect(sorted(found) == sorted(expected), f"{tag}: steps {sorted(found)} instead of {sorted(expected)}")
        for step, value in expected.items():
            # Event files hold single precision.
            expect(numpy.float32(found[step]) == numpy.float32(value), f"{tag} at {step}: {found[step]} is not {value}")
    expect(sorted(metrics["train/loss"]) == list(range(1, 9)), "a step is missing")
    expect(len(set(metrics["train/loss"].values())) == 8, "losses that are all equal compare nothing")


def check_samples(events, metrics):
    samples = events.Tensors("sample")
    expect([sample.step for sample in samples] == sorted(metrics["eval/loss"]), "samples at other steps than evaluations")
    for sample in samples:
        text = sample.tensor_proto.string_val[0].decode()
        expect(text.startswith("the ") and len(text) > len("the "), f"sample is {text!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trireme", required=True, help="the program")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for files")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    run = train_twice(arguments.trireme, arguments.work)
    files = list((run / "tensorboard").glob("events.out.tfevents.*"))
    expect(len(files) == 2, f"{len(files)} event files, not one a start")
    events = EventAccumulator(str(run / "tensorboard"), size_guidance={"scalars": 0, "tensors": 0})
    events.Reload()
    metrics = read_metrics(run)
    check_scalars(events, metrics)
    check_samples(events, metrics)
    print(f"  {sum(map(len, metrics.values()))} scalars and {len(events.Tensors('sample'))} samples equal")


if __name__ == "__main__":
    main()
