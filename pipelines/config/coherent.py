"""What only models of the family `hierarchos` (coherent-v9) read; docs/coherent-v9.md."""
from __future__ import annotations

from dataclasses import dataclass

from pipelines.config.setting import setting

LOW_RANK = ["_router.", "_adapter.", "ltm.", "ltm_gate_logit", "rosa_gate_logit", ".w1", ".w2", ".a1", ".a2", ".g1", ".g2"]


@dataclass(frozen=True)
class CoherentConfig:
    """Training and chat of coherent-v9."""

    trained: list[str] = setting(LOW_RANK)
    """peft=lora, the default of `finetune`: tensors whose name contains one of these are trained. peft=none: all are."""

    max_ce_for_backward: float = setting(0.0, at_least=0)
    """A chunk whose loss lies above gives no gradient of it; 0: no limit."""

    normalization: str = setting("weighted-token", choices=("weighted-token", "microbatch"))
    """How batches of one step are weighed: by their label weights, or all alike."""

    persist_state: bool = setting(False)
    """Training: row n of a batch goes on from the state that row n of the batch before left; otherwise every batch starts from nothing."""

    length_buckets: int = setting(0, at_least=0)
    """Rows of so many batches are sorted by length before they become batches, which saves padding (data.pad_to=longest); 0: not."""

    repetition_penalty: float = setting(1.2, above=0)
    """Chat and generate: above 1, tokens of the answer become less likely to come again."""

    entropy_stop: float | None = setting(None, above=0)
    """Ends an answer where the next token's entropy (nats) reaches this, no token is likelier than 0.05 and three are written."""

    eos_stop: float | None = setting(None, above=0, at_most=1)
    """Ends an answer where the end token's probability reaches this, whatever was drawn."""

    carry_chat_state: bool = setting(False)
    """Chat: turns go on from the state of the turn before, instead of reading the history again."""

    chat_state_file: str | None = setting(None, path=True)
    """Chat: goes on from this file when it is there, and is written back after each turn (implies carry_chat_state)."""

    ltm_writes: str = setting("validated", choices=("off", "validated", "prompt", "prompt+response"))
    """Chat: what is learned into the fast memory. validated: only at /learn, /reject and /correct; prompt, prompt+response: also from each
    prompt, and from answers, after the turn; off: nothing."""

    ltm_overlay_file: str | None = setting(None, path=True)
    """Chat: what is learned is kept in this file, and added to the memory at the next start."""

    hebbian_writes: bool = setting(False)
    """The value of each token is written to the fast memory; needs a trained writer."""

    prompt_form: str = setting("alpaca", choices=("alpaca", "user"))
    """Chat: how a turn is written, with instruction headings or as User and Assistant lines."""

    system: str | None = setting(None)
    """Chat: put before every turn's text, in brackets."""
