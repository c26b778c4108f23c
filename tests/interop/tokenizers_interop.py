"""Compares tokenizer files, ids and training with Hugging Face's `tokenizers`."""

import argparse
import json
import pathlib
import random
import subprocess
import sys
import unicodedata

import numpy
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

LLAMA = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
    r"|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA.replace(r"\p{N}{1,3}", r"\p{N}")
DTYPES = {4: "<i4", 8: "<u2"}
ALPHABET = pre_tokenizers.ByteLevel.alphabet()

PHRASES = [
    "Hello world! It's 2024, isn't it? We'll see; they've said I'm DON'T SHOUT'LL 'S 'Tis 'ſ",
    "def f(x):\n    if x > 10:\n\t\treturn {'a': [1, 2.5e-3]}\n\n\n    # done  \r\n\r\nint main() { return 0; }\n",
    "Größe, naïve café, Ångström, œuvre; e\u0301 A\u030a \u1e9b\u0323 \u0344 \u212b \u2126",
    "Съешь ещё этих мягких французских булок. Ξεσκεπάζω την ψυχοφθόρα βδελυγμία.",
    "敏捷的棕色狐狸跳过了懒狗。いろはにほへと ちりぬるを　カタカナ 한국어 \u1112\u1161\u11ab\u1100\u116e\u11a8",
    "نص حكيم له سر قاطع ١٢٣٤٥ עברית नमस्ते दुनिया १२३ สวัสดี ทดสอบ",
    "👩‍👩‍👧‍👦 😀😀🏳️‍🌈 ❤️ 🇩🇪 ½ Ⅷ ² ① 一二三",
    "1 22 333 4444 55555 1234567 3.14159 1,000,000 0x1F",
    " leading", "trailing ", "   ", "\n", "\r", " \n", "\n ", "a  b", "a   b", "a \n b", "a\n\n  b\r\nc", "\t\tx\t \ty",
    "a\u00a0b\u2003c\u3000d\u0085e\u2028f\u200bg\u180eh\u001ci\ufeffj",
    "_x-y __init__ ... !!! --- ?! $$ %^&*() <|endoftext|> <|endoftext|><|endoftext|> x<|endoftext|>y",
    "<|pad|> <|pad|>  <|left|>  z  <|left|>  word wordy myword word. naïve \u0065\u0301 <é> <e\u0301>",
]


def fail(message):
    sys.exit(f"tokenizers_interop: {message}")


def expect(condition, message):
    if not condition:
        fail(message)


def assigned_code_points():
    """What Unicode 3.2 knew already and has not been classified anew since: the same for every library."""
    old = unicodedata.ucd_3_2_0
    return [
        code
        for code in range(0x110000)
        if not 0xD800 <= code < 0xE000
        and old.category(chr(code)) == unicodedata.category(chr(code)) != "Cn"
    ]


def random_texts(seed, count):
    generator = random.Random(seed)
    points = assigned_code_points()
    common = [" ", "  ", "\n", "\r\n", "\t", "'", "'s", "'LL", "a", "Ab", "word", "7", "1234", "-", "...", "é", "中", "e\u0301"]
    texts = []
    for _ in range(count):
        parts = []
        for _ in range(generator.randrange(1, 40)):
            rare = generator.random() < 0.3
            parts.append(chr(generator.choice(points)) if rare else generator.choice(common))
        texts.append("".join(parts))
    return texts


def training_text():
    folder = pathlib.Path(json.__file__).parents[1]
    names = ["argparse.py", "typing.py", "tarfile.py", "inspect.py", "json/decoder.py", "this.py", "turtle.py"]
    sources = [(folder / name).read_text(encoding="utf-8") for name in names if (folder / name).exists()]
    expect(sources, "no text to train with")
    return "\n".join(sources + PHRASES * 20)


def pre_tokenizer(style, prefix=False):
    if style == "gpt2":
        return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=True)
    pattern = LLAMA if style == "llama3" else QWEN
    split = pre_tokenizers.Split(Regex(pattern), behavior="isolated", invert=False)
    return pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=False)])


def train_with_package(style, text, size, special=(), prefix=False, **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer(style, prefix)
    if style == "qwen":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.train_from_iterator(
        [text],
        trainers.BpeTrainer(
            vocab_size=size, min_frequency=2, initial_alphabet=ALPHABET, special_tokens=list(special), show_progress=False
        ),
    )
    return tokenizer


def merges_of(path):
    merges = json.loads(path.read_text(encoding="utf-8"))["model"]["merges"]
    return [tuple(merge.split(" ")) if isinstance(merge, str) else tuple(merge) for merge in merges]


class Checks:
    def __init__(self, trireme, work):
        self.trireme = trireme
        self.work = work
        self.texts = PHRASES + random_texts(7, 1500) + ["".join(PHRASES), training_text()]

    def call(self, *arguments):
        done = subprocess.run([self.trireme, *map(str, arguments)], capture_output=True, text=True)
        expect(done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stderr}")
        return done.stdout

    def read_corpus(self, prefix):
        index = pathlib.Path(f"{prefix}.idx").read_bytes()
        kind, count = index[17], int.from_bytes(index[18:26], "little")
        lengths = numpy.frombuffer(index, "<i4", count, 34)
        tokens = numpy.fromfile(f"{prefix}.bin", DTYPES[kind])
        return [part.tolist() for part in numpy.split(tokens, numpy.cumsum(lengths)[:-1])]

    def tokenize(self, tokenizer, texts, *options):
        source = self.work / "texts.jsonl"
        source.write_text("".join(json.dumps({"text": text}) + "\n" for text in texts), encoding="utf-8")
        self.call("tokenize", source, "--tokenizer", tokenizer, "--output", self.work / "corpus", "--force", *options)
        return self.read_corpus(self.work / "corpus")

    def compare(self, name, package, path, special="parse"):
        ours = self.tokenize(path, self.texts, "--no-eod", "--special", special)
        package.encode_special_tokens = special == "text"
        theirs = [package.encode(text, add_special_tokens=False).ids for text in self.texts]
        expect(len(ours) == len(theirs), f"{name}: {len(ours)} documents, {len(theirs)} texts")
        for text, mine, other in zip(self.texts, ours, theirs):
            expect(mine == other, f"{name}: {text[:200]!r}:\n  trireme {mine[:60]}\n  package {other[:60]}")
        print(f"  {name}: {sum(map(len, ours))} ids of {len(ours)} texts agree")

    def check_ids(self, text):
        for style in ("gpt2", "llama3", "qwen"):
            for prefix in (False, True):
                name = f"{style}{'-prefix' if prefix else ''}"
                package = train_with_package(style, text, 3000, ["<|endoftext|>"], prefix)
                path = self.work / f"{name}.json"
                package.save(str(path))
                self.compare(name, package, path)
                self.compare(name + ", special tokens as text", package, path, "text")
            self.check_added_tokens(style, path)
            self.check_ignored_merges(style, path)
        package = Tokenizer.from_file(str(self.work / "qwen.json"))
        ours = self.tokenize(self.work / "llama3.json", self.texts, "--no-eod")
        theirs = [package.encode(text, add_special_tokens=False).ids for text in self.texts]
        expect(ours != theirs, "two different tokenizers give the same ids: the comparison sees nothing")

    def check_added_tokens(self, style, path):
        package = Tokenizer.from_file(str(path))
        package.add_special_tokens([AddedToken("<|pad|>", rstrip=True), AddedToken("<|left|>", lstrip=True)])
        package.add_tokens([AddedToken("word", single_word=True, normalized=False), AddedToken("<é>", normalized=True)])
        package.add_tokens([AddedToken("naïve", normalized=True), AddedToken("<|pad|>!", normalized=False)])
        path = self.work / f"{style}-added.json"
        package.save(str(path))
        self.compare(f"{style}, added tokens", package, path)
        self.compare(f"{style}, added tokens, special as text", package, path, "text")

    def check_ignored_merges(self, style, path):
        content = json.loads(path.read_text(encoding="utf-8"))
        content["model"]["ignore_merges"] = True
        vocabulary = content["model"]["vocab"]
        for word in ("Ġreturn", "Hello", "ĠShouting", "isolated"):
            vocabulary.setdefault(word, max(vocabulary.values()) + 1)
        path = self.work / f"{style}-ignore.json"
        path.write_text(json.dumps(content), encoding="utf-8")
        self.compare(f"{style}, ignore_merges", Tokenizer.from_file(str(path)), path)

    def check_file_forms(self):
        path = self.work / "gpt2.json"
        package = Tokenizer.from_file(str(path))
        content = json.loads(path.read_text(encoding="utf-8"))
        content["model"]["merges"] = [" ".join(merge) for merge in merges_of(path)]
        strings = self.work / "gpt2-strings.json"
        strings.write_text(json.dumps(content), encoding="utf-8")
        self.compare("merges as strings", package, strings)
        folder = self.work / "pair"
        folder.mkdir(exist_ok=True)
        package.model.save(str(folder))
        self.compare("vocab.json and merges.txt", package, folder)
        merges = folder / "merges.txt"
        merges.write_text(merges.read_text(encoding="utf-8").split("\n", 1)[1], encoding="utf-8")
        self.compare("merges.txt without a version line", package, folder)
        imported = self.work / "imported.json"
        self.call("tokenizer", "import", folder, "--output", imported, "--force")
        self.compare("imported", Tokenizer.from_file(str(imported)), imported)

    def check_training(self, text):
        source = self.work / "train.txt"
        source.write_bytes(text.encode("utf-8"))
        for style in ("gpt2", "llama3", "qwen"):
            path = self.work / f"trained-{style}.json"
            options = ["--vocab", 4257, "--pattern", style, "--output", path, "--force"]
            self.call("tokenizer", "train", source, *options)
            package = train_with_package(style, text, 4256)
            reference = self.work / "reference.json"
            package.save(str(reference))
            ours, theirs = merges_of(path), merges_of(reference)
            for rank, (mine, other) in enumerate(zip(ours, theirs)):
                expect(mine == other, f"training, {style}: merge {rank} is {mine}, the package's {other}")
            expect(len(ours) == len(theirs), f"training, {style}: {len(ours)} merges, the package's {len(theirs)}")
            loaded = Tokenizer.from_file(str(path))
            expect(loaded.get_vocab_size() == 4257, f"training, {style}: {loaded.get_vocab_size()} ids")
            expect(loaded.token_to_id("<|endoftext|>") == 4256, "the end of a document has not the last id")
            self.compare(f"trained here, {style}, {len(ours)} equal merges", loaded, path)
            ends = self.tokenize(path, self.texts)
            expect(all(document[-1] == 4256 for document in ends), "a document does not end in its token")

    def check_characters(self, text):
        source = self.work / "train.txt"
        path = self.work / "characters.json"
        self.call("tokenizer", "train", source, "--kind", "characters", "--output", path, "--force")
        package = Tokenizer.from_file(str(path))
        ids = {character: id for id, character in enumerate(sorted(set(text)))}
        expect(package.get_vocab_size() == len(ids), f"characters: {package.get_vocab_size()} ids, {len(ids)} expected")
        ours = self.tokenize(path, [text], "--no-eod")
        expect(ours == [[ids[character] for character in text]], "characters: other ids than by code point")
        expect(ours == [package.encode(text).ids], "characters: the package gives other ids")
        print(f"  characters: {len(ids)} ids agree")

    def check_invalid_utf8(self):
        generator = random.Random(11)
        pool = [b"word ", b"\xe2\x82", b"\xe2\x82\xac", b"\xf0\x9f\x98", b"\xc0\xaf", b"\xed\xa0\x80", b"\xff", b"\n"]
        data = b"".join(
            generator.choice(pool) if generator.random() < 0.7 else bytes([generator.randrange(256)]) for _ in range(20000)
        )
        source = self.work / "broken.txt"
        source.write_bytes(b"\xef\xbb\xbf" + data)
        path = self.work / "gpt2.json"
        package = Tokenizer.from_file(str(path))
        byte_of = dict(zip(sorted(ALPHABET), sorted(range(256), key=name_of_byte)))
        for policy in ("keep", "replace"):
            options = ["--no-eod", "--invalid-utf8", policy, "--force", "--output", self.work / "corpus"]
            self.call("tokenize", source, "--tokenizer", path, *options)
            (ids,) = self.read_corpus(self.work / "corpus")
            if policy == "keep":
                names = "".join(package.id_to_token(id) for id in ids)
                expect(bytes(byte_of[name] for name in names) == data, "bytes that are not UTF-8 are not kept")
            else:
                replaced = data.decode("utf-8", "replace")
                expect(ids == package.encode(replaced).ids, "U+FFFD stands elsewhere than in Python")
        print(f"  {len(data)} bytes that are not UTF-8: kept, and replaced as Python does")


def name_of_byte(byte):
    """The code point that stands for a byte: itself, or for the 68 others U+0100 onwards in their order."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    if byte in printable:
        return byte
    return 256 + [other for other in range(256) if other not in printable].index(byte)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--trireme", required=True, help="the program")
    parser.add_argument("--work", required=True, type=pathlib.Path, help="folder for files")
    arguments = parser.parse_args()
    arguments.work.mkdir(parents=True, exist_ok=True)
    checks = Checks(arguments.trireme, arguments.work)
    text = training_text()
    checks.check_ids(text)
    checks.check_file_forms()
    checks.check_training(text)
    checks.check_characters(text)
    checks.check_invalid_utf8()


if __name__ == "__main__":
    main()
