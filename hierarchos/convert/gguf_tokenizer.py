"""tokenizer.json from a GGUF file: byte-level BPE (`gpt2`) and SentencePiece BPE (`llama`)."""
from __future__ import annotations

import json

from hierarchos.convert.gguf_file import GgufFile
from hierarchos.errors import UserError

QWEN2 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
LLAMA3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
CUTS = {                        # tokenizer.ggml.pre -> how text is cut before merging
    "default": [{**BYTES, "use_regex": True}], "gpt-2": [{**BYTES, "use_regex": True}],
    "smollm": [{"type": "Digits", "individual_digits": True}, {**BYTES, "use_regex": True}],
    "qwen2": [{"type": "Split", "pattern": {"Regex": QWEN2}, "behavior": "Isolated", "invert": False}, {**BYTES, "use_regex": False}],
    "llama-bpe": [{"type": "Split", "pattern": {"Regex": LLAMA3}, "behavior": "Isolated", "invert": False}, {**BYTES, "use_regex": False}],
}
UNKNOWN, CONTROL, DEFINED = 2, 3, 4         # token types


def tokenizer_files(file: GgufFile) -> dict[str, str]:
    """tokenizer.json and tokenizer_config.json; raises UserError for tokenizers that are not converted."""
    kind, where = file.value("tokenizer.ggml.model"), str(file.path)
    if kind not in ("gpt2", "llama"):
        raise UserError(f"tokenizer {kind!r} is not one that is converted", where=where, hint="gpt2 (byte-level BPE) and llama are",
                        outcome="nothing was written")
    tokens = list(file.value("tokenizer.ggml.tokens"))
    types = list(file.value("tokenizer.ggml.token_type") or [1] * len(tokens))
    made = byte_level(file, tokens) if kind == "gpt2" else sentence_piece(file, tokens, types)
    added = [{"id": index, "content": text, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False,
              "special": types[index] in (CONTROL, UNKNOWN)}
             for index, text in enumerate(tokens) if types[index] in (UNKNOWN, CONTROL, DEFINED)]
    whole = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": added, "post_processor": None, **made}
    names = {f"{which}_token": tokens[index] for which in ("bos", "eos", "unknown", "padding")
             if (index := file.value(f"tokenizer.ggml.{which}_token_id")) is not None and index < len(tokens)}
    names = {{"unknown_token": "unk_token", "padding_token": "pad_token"}.get(name, name): text for name, text in names.items()}
    settings = {**names, "add_bos_token": bool(file.value("tokenizer.ggml.add_bos_token", kind == "llama")),
                "tokenizer_class": "PreTrainedTokenizerFast", "clean_up_tokenization_spaces": False}
    if template := file.value("tokenizer.chat_template"):
        settings["chat_template"] = template
    return {"tokenizer.json": json.dumps(whole, ensure_ascii=False),
            "tokenizer_config.json": json.dumps(settings, ensure_ascii=False, indent=2)}


def byte_level(file: GgufFile, tokens: list[str]) -> dict:
    """BPE over bytes, with the merges of the file."""
    name = file.value("tokenizer.ggml.pre", "default")
    if name not in CUTS:
        raise UserError(f"tokenizer.ggml.pre={name!r} cuts text in a way that is not known", where=str(file.path),
                        hint=f"known are: {', '.join(CUTS)}", outcome="nothing was written")
    merges = [merge.split(" ", 1) for merge in file.value("tokenizer.ggml.merges")]
    model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": False, "byte_fallback": False, "ignore_merges": name == "llama-bpe",
             "vocab": {text: index for index, text in enumerate(tokens)}, "merges": merges}
    return {"normalizer": None, "pre_tokenizer": {"type": "Sequence", "pretokenizers": CUTS[name]}, "decoder": {**BYTES, "use_regex": True},
            "model": model}


def sentence_piece(file: GgufFile, tokens: list[str], types: list[int]) -> dict:
    """BPE over pieces with byte fallback; merges follow from the pieces' scores, the highest first."""
    scores, ids = file.value("tokenizer.ggml.scores"), {text: index for index, text in enumerate(tokens)}
    pairs = []
    for text, index in ids.items():
        if types[index] == 1:
            halves = [(text[:cut], text[cut:]) for cut in range(1, len(text)) if text[:cut] in ids and text[cut:] in ids]
            pairs += [(scores[index], ids[first], ids[second], first, second) for first, second in halves]
    pairs.sort(key=lambda pair: (-pair[0], pair[1], pair[2]))
    unknown = next((tokens[index] for index in range(len(tokens)) if types[index] == UNKNOWN), None)
    model = {"type": "BPE", "dropout": None, "unk_token": unknown, "continuing_subword_prefix": None, "end_of_word_suffix": None,
             "fuse_unk": True, "byte_fallback": True, "ignore_merges": False, "vocab": ids,
             "merges": [[first, second] for *_, first, second in pairs]}
    prefix = bool(file.value("tokenizer.ggml.add_space_prefix", True))
    space = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    normalizer = {"type": "Sequence", "normalizers": [{"type": "Prepend", "prepend": "▁"}] * prefix + [space]}
    back = [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}]
    back += [{"type": "Strip", "content": " ", "start": 1, "stop": 0}] * prefix
    return {"normalizer": normalizer, "pre_tokenizer": None, "decoder": {"type": "Sequence", "decoders": back}, "model": model}
