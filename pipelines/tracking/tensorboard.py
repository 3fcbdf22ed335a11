"""Event files of TensorBoard: FOLDER/PIPELINE/RUN/events.out.tfevents...; look with `tensorboard --logdir FOLDER`."""
from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import yaml

if TYPE_CHECKING:
    from pipelines.config import Config
    from pipelines.run_directory import RunDirectory


def start(config: Config, run: RunDirectory, folder: Path) -> Events:
    """A new event file in the run's own folder, with the settings as text."""
    from pipelines.settings.resolve import as_dict

    events = Events(folder / config.pipeline.name / run.path.name)
    text = yaml.safe_dump(as_dict(config), sort_keys=False, allow_unicode=True)
    events.text("settings", "\n".join(f"    {line}" for line in text.splitlines()))
    return events


class Events:
    """One event file."""

    def __init__(self, folder: Path):
        from tensorboard.summary.writer.event_file_writer import EventFileWriter

        self.writer, self.step = EventFileWriter(str(folder)), 0

    def add(self, step: int, summary: object) -> None:
        from tensorboard.compat.proto.event_pb2 import Event

        self.writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def text(self, name: str, text: str) -> None:
        """Shown by the text plugin."""
        from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
        from tensorboard.compat.proto.tensor_pb2 import TensorProto
        from tensorboard.compat.proto.tensor_shape_pb2 import TensorShapeProto
        from tensorboard.compat.proto.types_pb2 import DT_STRING

        shape = TensorShapeProto(dim=[TensorShapeProto.Dim(size=1)])
        value = TensorProto(dtype=DT_STRING, string_val=[text.encode()], tensor_shape=shape)
        kind = SummaryMetadata(plugin_data=SummaryMetadata.PluginData(plugin_name="text"))
        self.add(0, Summary(value=[Summary.Value(tag=name, metadata=kind, tensor=value)]))

    def log(self, step: int, figures: Mapping[str, float]) -> None:
        from tensorboard.compat.proto.summary_pb2 import Summary

        self.step = max(self.step, step)
        self.add(step, Summary(value=[Summary.Value(tag=name, simple_value=value) for name, value in figures.items()]))

    def end(self, status: str, results: Mapping[str, float]) -> None:
        self.log(self.step, results)
        self.text("status", status)
        self.writer.close()
