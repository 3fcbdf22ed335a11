"""An own byte-level BPE tokenizer, trained on the rows; the same texts give the same tokenizer."""

from __future__ import annotations

from collections.abc import Iterable

from hierarchos.data.tokenizer import CHATML_TOKENS, TextTokenizer
from hierarchos.errors import UserError

END = "<|endoftext|>"
PAD = "<|pad|>"
BOS = "<|startoftext|>"
MASK = "<|mask|>"
BYTES = 256  # every byte is a token, so that any text can be encoded


def train_tokenizer(
    texts: Iterable[str], vocab_size: int, *, min_frequency: int = 2, bos: bool = False, chat: bool = False, pad: bool = True,
    mask: bool = False
) -> TextTokenizer:
    """Trains on `texts`. Special tokens come first: end, then pad, BOS, ChatML's and the mask where wanted, then the 256
    bytes.

    Fewer tokens than `vocab_size` come out when the texts have no more pairs that occur `min_frequency` times.
    """
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    special = [END, *([PAD] if pad else []), *([BOS] if bos else []), *(CHATML_TOKENS if chat else ()), *([MASK] if mask else [])]
    if vocab_size < BYTES + len(special):
        hint = f"{BYTES} bytes and {len(special)} special tokens ({', '.join(special)}) are the least"
        command = f"tokenizer.vocab_size={BYTES + len(special)}"
        raise UserError(f"tokenizer.vocab_size={vocab_size} is too small", hint=hint, command=command)
    core = Tokenizer(models.BPE())
    core.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    core.decoder = decoders.ByteLevel()
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size,
        min_frequency=min_frequency,
        special_tokens=special,
        initial_alphabet=sorted(pre_tokenizers.ByteLevel.alphabet()),
        show_progress=False,
    )
    core.train_from_iterator(texts, trainer)
    if bos:
        core.post_processor = processors.TemplateProcessing(single=f"{BOS} $A", special_tokens=[(BOS, core.token_to_id(BOS))])
    return TextTokenizer(core, eos=END, pad=PAD if pad else None, bos=BOS if bos else None, place="tokenizer.source=train")
