"""All groups of settings, in the order in which a run needs them."""
from __future__ import annotations

from dataclasses import dataclass, field

from pipelines.config.coherent import CoherentConfig
from pipelines.config.data import DataConfig
from pipelines.config.device import DeviceConfig
from pipelines.config.launcher import LauncherConfig
from pipelines.config.model import ModelConfig
from pipelines.config.peft import PeftConfig
from pipelines.config.precision import PrecisionConfig
from pipelines.config.results import EvaluateConfig, ExportConfig, GenerateConfig
from pipelines.config.run import PipelineConfig, RunConfig, SweepConfig
from pipelines.config.search import SearchConfig
from pipelines.config.tokenizer import TokenizerConfig
from pipelines.config.tracker import TrackerConfig
from pipelines.config.train import TrainConfig

SHORT = {"prompt": "generate.prompt", "device": "device.select"}   # KEY=VALUE on the command line


@dataclass(frozen=True)
class Config:
    """Everything that a run can be told."""

    pipeline: PipelineConfig = field(default_factory=PipelineConfig)
    """The stages of a run, in order."""

    model: ModelConfig = field(default_factory=ModelConfig)
    """Which model is trained or run."""

    data: DataConfig = field(default_factory=DataConfig)
    """Training and validation rows."""

    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    """How text becomes token ids."""

    peft: PeftConfig = field(default_factory=PeftConfig)
    """Adapters: small trained matrices beside frozen weights."""

    train: TrainConfig = field(default_factory=TrainConfig)
    """The training loop."""

    export: ExportConfig = field(default_factory=ExportConfig)
    """The Hugging Face package that is written."""

    evaluate: EvaluateConfig = field(default_factory=EvaluateConfig)
    """Loss and perplexity on the validation rows."""

    generate: GenerateConfig = field(default_factory=GenerateConfig)
    """Text written by the model."""

    coherent: CoherentConfig = field(default_factory=CoherentConfig)
    """Training and chat of coherent-v9."""

    device: DeviceConfig = field(default_factory=DeviceConfig)
    """The Vulkan device."""

    precision: PrecisionConfig = field(default_factory=PrecisionConfig)
    """Number formats."""

    tracker: TrackerConfig = field(default_factory=TrackerConfig)
    """Where figures are also sent."""

    run: RunConfig = field(default_factory=RunConfig)
    """Seeds, folders and resuming."""

    sweep: SweepConfig = field(default_factory=SweepConfig)
    """Many runs from one command line."""

    launcher: LauncherConfig = field(default_factory=LauncherConfig)
    """What starts the jobs of a sweep."""

    search: SearchConfig = field(default_factory=SearchConfig)
    """How the values of a sweep are chosen."""
