"""Other model types that compute a family's graph: text models under another name, and the text part of models that also see or hear.

Where text alone goes in, the sections of a rotation (in time, height and width) all have the same position, and the towers for images
and sound do nothing: their tensors stay in the package and are written out again unchanged."""

from __future__ import annotations

from dataclasses import dataclass, field

from hierarchos.errors import UserError


@dataclass(frozen=True)
class Alias:
    """A model_type that `family` computes. assume: its own defaults. harmless: fields that text does not reach. only: field -> the one
    value that is implemented. module: of a variant of the family that has a file of its own."""

    family: str
    assume: dict = field(default_factory=dict)
    harmless: tuple[str, ...] = ()
    only: dict = field(default_factory=dict)
    module: str | None = None


GLM4V = {"head_dim": None, "rms_norm_eps": 1e-5, "partial_rotary_factor": 1.0}      # None: hidden_size / num_attention_heads
QWEN2_VL = {"vocab_size": 152064, "hidden_size": 8192, "intermediate_size": 29568, "num_hidden_layers": 80, "num_attention_heads": 64,
            "num_key_value_heads": 8, "rms_norm_eps": 1e-5, "max_window_layers": 80, "rope_theta": 1e6}

TEXTS = {
    "code_llama": Alias("llama"),
    "exaone4_5_text": Alias("exaone4"),
    "glm4v_text": Alias("glm4", {**GLM4V, "max_position_embeddings": 32768, "attention_bias": True}, only={"attention_bias": True}),
    "glm_ocr_text": Alias("glm4", {
        **GLM4V, "vocab_size": 59392, "hidden_size": 1024, "intermediate_size": 4096, "num_hidden_layers": 16, "num_attention_heads": 16,
        "num_key_value_heads": 8, "attention_bias": False}, only={"attention_bias": False}),
    "granite4_vision_text": Alias("granite"),
    "hunyuan_vl_text": Alias("hunyuan_v1_dense", {"tie_word_embeddings": True}),
    "mllama_text_model": Alias("llama", module="mllama"),
    "paddleocr_vl_text": Alias("llama", {
        "vocab_size": 103424, "hidden_size": 1024, "intermediate_size": 3072, "num_hidden_layers": 18, "num_attention_heads": 16,
        "num_key_value_heads": 2, "head_dim": 128, "max_position_embeddings": 131072, "rms_norm_eps": 1e-5, "rope_theta": 5e5,
        "tie_word_embeddings": True}, only={"use_bias": False}),
    "phi4_multimodal": Alias("phi3", {"vocab_size": 200064, "num_key_value_heads": 8, "max_position_embeddings": 131072}, (
        "embd_layer", "img_processor", "audio_processor", "vision_lora", "speech_lora")),
    "qwen2_5_omni_text": Alias("qwen2", {
        "vocab_size": 152064, "hidden_size": 3584, "intermediate_size": 18944, "num_hidden_layers": 28, "num_attention_heads": 28,
        "num_key_value_heads": 4, "sliding_window": 32768, "rope_theta": 1e6, "tie_word_embeddings": True}),
    "qwen2_5_vl_text": Alias("qwen2", QWEN2_VL),
    "qwen2_vl_text": Alias("qwen2", QWEN2_VL),
    "qwen3_vl_text": Alias("qwen3", {"max_position_embeddings": 128000, "rope_theta": 5e5}),
}


@dataclass(frozen=True)
class Wrapper:
    """A model around a text model. text: its model_type where text_config does not say. prefix: of its tensors, in place of "model.".

    tied: the default of tie_word_embeddings beside text_config; None: the text model's own. flat: older config.json have the text
    model's fields beside the others. images: fields of text_config that say how images are seen. names: what stands outside the
    prefix, here and in packages."""

    text: str
    tied: bool | None = False
    prefix: str = "model.language_model."
    flat: bool = False
    images: tuple[str, ...] = ()
    names: tuple[tuple[str, str], ...] = ()


WRAPPERS = {
    "audioflamingo3": Wrapper("qwen2", None), "aya_vision": Wrapper("cohere2", True), "cohere2_vision": Wrapper("cohere2", True),
    "cohere_compass": Wrapper("cohere_compass_text"), "cosmos3_omni": Wrapper("qwen3_vl_text"), "deepseek_vl": Wrapper("llama", True),
    "deepseek_vl_hybrid": Wrapper("llama", True), "emu3": Wrapper("emu3_text_model", prefix="model.text_model."),
    "exaone4_5": Wrapper("exaone4"), "fast_vlm": Wrapper("qwen2"), "fuyu": Wrapper("persimmon", flat=True),
    "gemma3": Wrapper("gemma3_text", True), "glm4v": Wrapper("glm4v_text"), "glm46v": Wrapper("glm4v_text"),
    "glm_ocr": Wrapper("glm_ocr_text"), "glmasr": Wrapper("llama", True), "got_ocr2": Wrapper("qwen2", True),
    "granite4_vision": Wrapper("granite4_vision_text"), "granite_speech": Wrapper("granite", True),
    "granite_speech_plus": Wrapper("granite", True), "hunyuan_vl": Wrapper("hunyuan_vl_text", True),
    "idefics2": Wrapper("mistral", prefix="model.text_model."), "idefics3": Wrapper("llama", prefix="model.text_model."),
    "internvl": Wrapper("qwen2", True), "janus": Wrapper("llama", True), "llava": Wrapper("llama"), "llava_next": Wrapper("llama"),
    "llava_next_video": Wrapper("llama"), "llava_onevision": Wrapper("qwen2"), "mistral3": Wrapper("mistral", True),
    "mllama": Wrapper("mllama_text_model", None),
    "modernvbert": Wrapper("modernbert", prefix="model.text_model.", names=(("head.", "projection_head."), ("decoder.", "lm_head."))),
    "musicflamingo": Wrapper("qwen2", None), "ovis2": Wrapper("qwen2", True), "paddleocr_vl": Wrapper("paddleocr_vl_text", True),
    "paligemma": Wrapper("gemma", True, images=("num_image_tokens", "use_bidirectional_attention")),
    "qwen2_5_vl": Wrapper("qwen2_5_vl_text", flat=True), "qwen2_audio": Wrapper("qwen2", None),
    "qwen2_vl": Wrapper("qwen2_vl_text", flat=True), "qwen3_asr": Wrapper("qwen3", True), "qwen3_vl": Wrapper("qwen3_vl_text"),
    "phi4_multimodal": Wrapper("phi4_multimodal", None, "model.", flat=True),
    "smolvlm": Wrapper("llama", prefix="model.text_model."), "vibevoice_asr": Wrapper("qwen2", None),
    "video_llama_3": Wrapper("qwen2"), "video_llava": Wrapper("llama"), "vipllava": Wrapper("llama"), "voxtral": Wrapper("llama", None),
}

# Of packages before the reference's version 5.
OLDER_PREFIXES = ("language_model.model.", "language_model.", "model.text_model.", "text_model.", "model.")


def text_part(raw: dict, where: str) -> dict:
    """config.json of the text model inside a wrapper's; raises `UserError` where there is none."""
    wrapper, text = WRAPPERS[raw["model_type"]], raw.get("text_config")
    if text is None and wrapper.flat and "hidden_size" in raw:
        text = {name: value for name, value in raw.items()
                if name != "model_type" and not name.endswith(("_config", "_token_id", "_token_index"))}
    if not isinstance(text, dict):
        raise UserError(f"config.json of {raw['model_type']} has no text_config, so its text model is unknown", where=where)
    text = {name: value for name, value in text.items() if name not in wrapper.images}
    tied = raw.get("tie_word_embeddings", wrapper.tied)
    return {"model_type": wrapper.text, **text} | ({} if tied is None else {"tie_word_embeddings": tied})


def aliases_of(family: str) -> list[str]:
    """All model types beside its own that a family computes."""
    texts = [name for name, alias in TEXTS.items() if alias.family == family]
    return sorted({*texts, *(name for name, wrapper in WRAPPERS.items() if wrapper.text in (family, *texts))})


def wrapped_names(wrapper: Wrapper, name: str) -> list[str]:
    """How a wrapper's package may call the text model's parameter `name`; as the reference writes it first."""
    if name.startswith("model."):
        return [prefix + name.removeprefix("model.") for prefix in (wrapper.prefix, *OLDER_PREFIXES)]
    for own, other in wrapper.names:
        name = other + name.removeprefix(own) if name.startswith(own) else name
    return [name, f"language_model.{name}"]
